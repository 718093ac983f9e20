//! What a run went through, so that a reader sees whether it went through anything.

use std::fmt;

macro_rules! counts {
    ($($(#[$doc:meta])* $name:ident, $text:literal;)*) => {
        /// What a run went through.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
        pub struct Counts {
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Counts {
            /// Adds another run's.
            pub fn add(&mut self, other: &Counts) {
                $(self.$name += other.$name;)*
            }
        }

        impl fmt::Display for Counts {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let all = [$(format!("{} {}", self.$name, $text)),*];
                f.write_str(&all.join(", "))
            }
        }
    };
}

counts! {
    /// Processes that died.
    deaths, "deaths";
    /// Terms that had a leader.
    terms, "terms with a leader";
    /// Entries committed.
    committed, "entries";
    /// Operations of clients.
    operations, "operations";
    /// Those among them that were answered.
    answered, "of them answered";
    /// Events that watchers were told of.
    told, "events told";
    /// Renewals.
    renewed, "renewals";
    /// Leases that ended for being due.
    expired, "leases expired";
    /// Databases that took the place of a member's own.
    snapshots, "databases adopted";
    /// Members that came or left.
    changes, "members came or left";
    /// Transfers of leadership that were asked of a leader.
    transfers, "transfers";
    /// Comparisons of two members.
    compared, "comparisons";
}
