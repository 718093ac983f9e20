//! What a member's consensus is told at its start.

use std::fmt;

use crate::changer::ConfChangeError;
use crate::conf_change::DecodeConfChange;
use crate::journal::Level;
use crate::types::{NO_LIMIT, NONE, is_local_target};

/// How a leader makes sure that it still is one before it answers a read index request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadOnlyOption {
    /// It asks a quorum.
    #[default]
    Safe,
    /// It trusts its lease: no quorum is asked, and a clock that jumps can make reads stale.
    LeaseBased,
}

/// The settings of one member. Time is counted in ticks, sizes in bytes.
#[derive(Clone, Debug)]
pub struct Config {
    /// This member's id; not 0, and not that of a local thread.
    pub id: u64,
    /// Ticks without a leader's message after which a follower campaigns; each election takes a
    /// random number of ticks in `election_ticks..2 * election_ticks`.
    pub election_ticks: u32,
    /// Ticks between a leader's heartbeats; fewer than `election_ticks`.
    pub heartbeat_ticks: u32,
    /// Determines the random parts of election timeouts; members should differ.
    pub seed: u64,
    /// Up to here the state machine has applied; entries behind it are handed out again.
    pub applied: u64,
    /// Encoded bytes of the entries of one append; 0 means one entry.
    pub max_size_per_message: u64,
    /// Encoded bytes of entries that are being applied; 0 takes `max_size_per_message`.
    pub max_committed_size: u64,
    /// Payload bytes of uncommitted entries beyond which a leader drops proposals; 0: no limit.
    pub max_uncommitted_size: u64,
    /// Appends on their way to one follower.
    pub max_inflight_messages: usize,
    /// Payload bytes on their way to one follower; 0: no limit.
    pub max_inflight_bytes: u64,
    /// A leader that has not heard of a quorum for `election_ticks` steps down, and a follower
    /// that hears of one ignores candidates.
    pub check_quorum: bool,
    /// Ask before an election whether it can be won, so that a member that was cut off does not
    /// depose a leader.
    pub pre_vote: bool,
    /// How reads are made linearizable. `LeaseBased` needs `check_quorum`.
    pub read_only: ReadOnlyOption,
    /// A follower drops proposals instead of forwarding them.
    pub disable_proposal_forwarding: bool,
    /// Do not look at conf changes when they are proposed; the caller orders and checks them.
    pub disable_conf_change_validation: bool,
    /// A leader that is removed or demoted steps down.
    pub step_down_on_removal: bool,
    /// Reads membership changes out of entries.
    pub decode_conf_change: DecodeConfChange,
    /// Lines below this level are not written to the journal.
    pub journal_floor: Level,
}

impl Config {
    /// Settings for `id` with no limits: 10 ticks to an election, 1 to a heartbeat.
    pub fn new(id: u64, decode_conf_change: DecodeConfChange) -> Config {
        Config {
            id,
            election_ticks: 10,
            heartbeat_ticks: 1,
            seed: id,
            applied: 0,
            max_size_per_message: NO_LIMIT,
            max_committed_size: 0,
            max_uncommitted_size: 0,
            max_inflight_messages: 256,
            max_inflight_bytes: 0,
            check_quorum: false,
            pre_vote: false,
            read_only: ReadOnlyOption::Safe,
            disable_proposal_forwarding: false,
            disable_conf_change_validation: false,
            step_down_on_removal: false,
            decode_conf_change,
            journal_floor: Level::Info,
        }
    }

    /// Checks the settings and puts values in the place of zeros that mean a default.
    pub(crate) fn normalize(mut self) -> Result<Config, ConfigError> {
        if self.id == NONE || is_local_target(self.id) {
            return Err(ConfigError::BadId(self.id));
        }
        if self.heartbeat_ticks == 0 {
            return Err(ConfigError::NoHeartbeat);
        }
        if self.election_ticks <= self.heartbeat_ticks || self.election_ticks > u32::MAX / 2 {
            return Err(ConfigError::ElectionTicks);
        }
        if self.max_uncommitted_size == 0 {
            self.max_uncommitted_size = NO_LIMIT;
        }
        if self.max_committed_size == 0 {
            self.max_committed_size = self.max_size_per_message.max(1);
        }
        if self.max_inflight_messages == 0 {
            return Err(ConfigError::NoInflights);
        }
        if self.max_inflight_bytes == 0 {
            self.max_inflight_bytes = NO_LIMIT;
        } else if self.max_inflight_bytes < self.max_size_per_message {
            return Err(ConfigError::InflightBytes);
        }
        if self.read_only == ReadOnlyOption::LeaseBased && !self.check_quorum {
            return Err(ConfigError::LeaseWithoutQuorumCheck);
        }
        Ok(self)
    }
}

/// Why a member cannot be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ConfigError {
    /// The id is 0 or that of a local thread.
    BadId(u64),
    /// There must be a tick between heartbeats.
    NoHeartbeat,
    /// An election must take longer than a heartbeat (and less than 2^31 ticks).
    ElectionTicks,
    /// At least one append must be allowed on its way.
    NoInflights,
    /// One message must fit into the inflight bytes.
    InflightBytes,
    /// Lease-based reads rely on the check of the quorum.
    LeaseWithoutQuorumCheck,
    /// The stored hard state commits what the log does not have.
    CommitOutOfRange {
        /// As stored.
        commit: u64,
        /// The lowest that would do.
        low: u64,
        /// The last index of the log.
        last_index: u64,
    },
    /// The applied index lies outside the committed log.
    AppliedOutOfRange {
        /// As configured.
        applied: u64,
        /// The lowest that would do.
        low: u64,
        /// The commit index.
        commit: u64,
    },
    /// The stored configuration contradicts itself.
    ConfState(ConfChangeError),
    /// A first configuration was to be made for a log that has entries, or for nobody.
    CannotBootstrap,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ConfigError::BadId(id) => write!(f, "cannot use {id:x} as id"),
            ConfigError::NoHeartbeat => f.write_str("heartbeat tick must be greater than 0"),
            ConfigError::ElectionTicks => {
                f.write_str("election tick must be greater than heartbeat tick")
            }
            ConfigError::NoInflights => f.write_str("max inflight messages must be greater than 0"),
            ConfigError::InflightBytes => {
                f.write_str("max inflight bytes must be >= max message size")
            }
            ConfigError::LeaseWithoutQuorumCheck => {
                f.write_str("CheckQuorum must be enabled when ReadOnlyOption is ReadOnlyLeaseBased")
            }
            ConfigError::CommitOutOfRange {
                commit,
                low,
                last_index,
            } => write!(
                f,
                "state.commit {commit} is out of range [{low}, {last_index}]"
            ),
            ConfigError::AppliedOutOfRange {
                applied,
                low,
                commit,
            } => write!(
                f,
                "applied({applied}) is out of range [prevApplied({low}), committed({commit})]"
            ),
            ConfigError::ConfState(error) => write!(f, "cannot restore conf state: {error}"),
            ConfigError::CannotBootstrap => {
                f.write_str("only an empty log, and at least one peer, can be bootstrapped")
            }
        }
    }
}

impl std::error::Error for ConfigError {}
