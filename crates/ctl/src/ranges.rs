//! Which keys a range is of.

/// The end of a range that reaches to the last key.
pub const OPEN_END: &[u8] = &[0];

/// The end of the range of all keys with this prefix.
pub fn prefix_end(prefix: &[u8]) -> Vec<u8> {
    quorate_client::prefix_end(prefix).to_vec()
}
