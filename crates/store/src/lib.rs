//! The replicated state machine: revisioned keys, leases, alarms, membership.
//!
//! [`Store`] is the writer: it applies entries in the order of the log and is the only one who
//! changes anything. Readers hold a [`View`]. [`commit`](mod@commit) takes what was applied to the
//! file. Knows no raft role beyond "I am the lease primary", no socket, no thread; time comes as an
//! argument.

pub mod alarm;
pub mod buckets;
pub mod commit;
pub mod compaction;
pub mod error;
pub mod hash;
pub mod ids;
pub mod index;
mod key_sort;
pub mod keyvalue;
pub mod lease;
pub mod legacy_tree;
pub mod membership;
pub mod mvcc;
pub mod open;
pub mod quota;
pub mod range;
pub mod revision;
pub mod rows;
pub mod store;
pub mod txn;
pub mod view;
pub mod watch;

pub use error::Error;
pub use open::{Config, open, open_read_only};
pub use store::{Answer, Applied, Outcome, Store};
pub use view::View;
