//! What a seed decides before a run begins: the cluster's size, its load, and what goes wrong.
//!
//! A seed takes some kinds of trouble and leaves others out, so that each kind also meets a cluster
//! that nothing else disturbs.

use crate::network::Weather;
use crate::random::Random;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Trouble {
    /// A member's process dies and comes back; the machine goes on.
    Kill,
    /// A machine loses its power, and what was not synced.
    PowerCut,
    /// A machine loses its power in the middle of a call to its disk.
    CutInCall,
    /// All machines lose their power together.
    Blackout,
    /// A process stops for a while, and time goes on.
    Pause,
    /// One member is cut off.
    Isolate,
    /// The members fall into two groups.
    Split,
    /// Some directions between members are cut.
    OneWay,
    /// Loss, delays, messages that come twice.
    Storm,
    /// A disk takes long.
    SlowDisk,
    /// A disk has no space left for a while.
    FullDisk,
    /// A disk fails to sync; the member ends, the machine is started anew.
    FailedSync,
    /// A clock jumps.
    ClockJump,
    /// A clock runs fast or slow.
    ClockDrift,
    /// An operator has a file tidied.
    Defragment,
    /// An operator changes the membership.
    Members,
    /// An operator makes another member lead.
    Transfer,
    /// An operator stops a member and starts it again.
    Stop,
}

impl Trouble {
    /// All of them.
    pub const ALL: [Trouble; 18] = [
        Trouble::Kill,
        Trouble::PowerCut,
        Trouble::CutInCall,
        Trouble::Blackout,
        Trouble::Pause,
        Trouble::Isolate,
        Trouble::Split,
        Trouble::OneWay,
        Trouble::Storm,
        Trouble::SlowDisk,
        Trouble::FullDisk,
        Trouble::FailedSync,
        Trouble::ClockJump,
        Trouble::ClockDrift,
        Trouble::Defragment,
        Trouble::Members,
        Trouble::Transfer,
        Trouble::Stop,
    ];
}

/// What a run is made of.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// Members.
    pub members: usize,
    /// Clients that read and write.
    pub clients: usize,
    /// Clients that keep leases alive.
    pub keepers: usize,
    /// Clients that watch.
    pub watchers: usize,
    /// Keys that they share.
    pub keys: u64,
    /// Mean pause of a client between two operations, in microseconds.
    pub think_us: u64,
    /// How long trouble lasts, in microseconds.
    pub trouble_us: u64,
    /// Kinds of trouble, with the mean time between two of a kind in microseconds.
    pub troubles: Vec<(Trouble, u64)>,
    /// A power cut right after a vote was cast, in so many cases of a thousand.
    pub cut_after_vote: u64,
    /// A power cut while a received snapshot is being stored, or right after it was, in so many cases
    /// of a thousand.
    pub cut_at_snapshot: u64,
    /// The network when it is not fair.
    pub storm: Weather,
    /// Entries between two snapshots of the log.
    pub snapshot_count: u64,
    /// Entries that are kept for slow followers.
    pub snapshot_catch_up: u64,
    /// Writes that make a commit due.
    pub commit_writes: usize,
    /// Time that makes a commit due, in milliseconds.
    pub commit_interval_ms: u64,
    /// Rows that a step of compaction looks at.
    pub compaction_rows: usize,
    /// Mean delay of a step of a member's loop, in microseconds.
    pub loop_us: u64,
    /// Mean time that an append takes, in microseconds.
    pub append_us: u64,
    /// Mean time that a commit takes, in microseconds.
    pub commit_us: u64,
    /// Messages that a watcher takes before it reads.
    pub outbox: usize,
    /// Whether elections ask before they begin.
    pub pre_vote: bool,
    /// Ticks to an election.
    pub election_ticks: u32,
    /// Whether changes of membership are refused that could cost the quorum.
    pub strict_reconfiguration: bool,
    /// Bytes of a segment of the log.
    pub segment_bytes: u64,
}

/// Length of a tick, in milliseconds.
pub const TICK_MS: u64 = 20;
/// Time after which a member gives a request up, in milliseconds.
pub const REQUEST_TIMEOUT_MS: u64 = 2_000;

impl Scenario {
    /// What a seed makes of it.
    pub fn draw(random: &mut Random) -> Scenario {
        let members = *random.pick(&[1, 2, 3, 3, 3, 3, 4, 5, 5]);
        let mut troubles = Vec::new();
        let appetite = *random.pick(&[100, 250, 400]);
        for trouble in Trouble::ALL {
            if random.chance(appetite) {
                let mean_us = random.between(500_000, 4_000_000);
                troubles.push((trouble, mean_us));
            }
        }
        Scenario {
            members,
            clients: random.between(2, 6) as usize,
            keepers: random.between(0, 4) as usize,
            watchers: random.between(0, 4) as usize,
            keys: random.between(2, 12),
            think_us: *random.pick(&[10_000, 30_000, 100_000]),
            trouble_us: random.between(8_000_000, 80_000_000),
            troubles,
            cut_after_vote: *random.pick(&[0, 0, 100, 500]),
            cut_at_snapshot: *random.pick(&[0, 100, 500]),
            storm: Weather {
                delay_us: *random.pick(&[1_000, 5_000, 30_000]),
                loss: random.below(250),
                doubled: random.below(100),
                stray: random.below(60),
            },
            snapshot_count: *random.pick(&[20, 100, 1_000]),
            snapshot_catch_up: *random.pick(&[2, 10, 50]),
            commit_writes: *random.pick(&[1, 7, 50]),
            commit_interval_ms: *random.pick(&[5, 50, 300]),
            compaction_rows: *random.pick(&[2, 10, 100]),
            loop_us: *random.pick(&[20, 100, 1_000]),
            append_us: *random.pick(&[100, 500, 3_000]),
            commit_us: *random.pick(&[300, 2_000, 20_000]),
            outbox: *random.pick(&[1, 4, 64]),
            pre_vote: random.chance(700),
            election_ticks: *random.pick(&[3, 5, 10, 10]),
            strict_reconfiguration: random.chance(300),
            segment_bytes: *random.pick(&[16 << 10, 64 << 10, 1 << 20]),
        }
    }
}
