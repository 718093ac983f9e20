//! etcd's feature gates, and which of them are on.

use crate::config::Config;
use crate::metrics::Feature;

/// Those of etcd 3.7: name, stage, default.
const FEATURES: &[(&str, &str, bool)] = &[
    ("AllAlpha", "ALPHA", false),
    ("AllBeta", "BETA", false),
    ("CompactHashCheck", "ALPHA", false),
    ("FastLeaseKeepAlive", "BETA", true),
    ("InitialCorruptCheck", "ALPHA", false),
    ("LeaseCheckpoint", "ALPHA", false),
    ("LeaseCheckpointPersist", "ALPHA", false),
    ("PriorityRequest", "ALPHA", false),
    ("SetMemberLocalAddr", "ALPHA", false),
    ("StopGRPCServiceOnDefrag", "ALPHA", false),
    ("TxnModeWriteWithSharedBuffer", "BETA", true),
];

/// Each gate as this server has it.
pub fn features(config: &Config) -> Vec<Feature> {
    FEATURES
        .iter()
        .map(|&(name, stage, default)| Feature {
            name,
            stage,
            on: config.feature(name, default),
        })
        .collect()
}
