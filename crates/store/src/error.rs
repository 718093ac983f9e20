//! What can go wrong in the store, and how.

use quorate_api as api;

/// An error of the store.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A request that etcd answers with this error.
    #[error("{0}")]
    Api(#[from] api::Error),
    /// Bytes in the database that are not what their bucket holds.
    #[error("bucket {bucket}, key {key}: {what}")]
    Corrupt {
        /// The bucket.
        bucket: &'static str,
        /// The key, in hex.
        key: String,
        /// What is wrong.
        what: String,
    },
    /// The database file.
    #[error(transparent)]
    Bolt(#[from] quorate_bolt::Error),
    /// A state that this version does not serve.
    #[error("{0}")]
    Unsupported(String),
}

impl Error {
    /// Bytes in a bucket that are not what they should be.
    pub fn corrupt(bucket: &'static str, key: &[u8], what: impl Into<String>) -> Error {
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Error::Corrupt {
            bucket,
            key,
            what: what.into(),
        }
    }
}
