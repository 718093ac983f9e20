//! The frame around a record: eight bytes of length, the record, zeros up to a multiple of eight.
//!
//! The length's lower 56 bits count the record's bytes. If padding follows, the top bit is set and
//! the three lowest bits of the top byte count it. Because every frame starts at a multiple of
//! eight, its length never straddles two sectors: a write that power loss cut short leaves it whole
//! or leaves it what it was before, zero.
//!
//! Source: etcd's `wal` encoder and decoder.

/// Bytes of the length in front of a record.
pub(crate) const LENGTH_BYTES: u64 = 8;

/// What a disk writes whole or not at all.
const SECTOR_BYTES: u64 = 512;

/// Bytes of padding behind a record of `len` bytes.
pub(crate) const fn padding(len: usize) -> usize {
    len.wrapping_neg() % 8
}

/// The length of a record of `len` bytes as it stands in the file.
pub(crate) fn length_field(len: usize) -> u64 {
    assert!((len as u64) < 1 << 56);
    match padding(len) {
        0 => len as u64,
        padding => len as u64 | (0x80 | padding as u64) << 56,
    }
}

/// Record bytes and padding bytes of a length field; `None` for one that no writer makes.
pub(crate) fn parse_length_field(field: u64) -> Option<(u64, u64)> {
    let len = field & ((1 << 56) - 1);
    let padding = len.wrapping_neg() % 8;
    let top = if padding == 0 { 0 } else { 0x80 | padding };
    (len > 0 && field >> 56 == top).then_some((len, padding))
}

/// Whether the frame content that begins at file offset `offset` looks like a write that power loss
/// cut short: one of the sectors that it covers, in whole or in part, was never written.
pub(crate) fn is_torn(content: &[u8], offset: u64) -> bool {
    let first = (SECTOR_BYTES - offset % SECTOR_BYTES) as usize;
    let (first, rest) = content.split_at(first.min(content.len()));
    let zero = |sector: &[u8]| sector.iter().all(|&byte| byte == 0);
    !first.is_empty() && zero(first) || rest.chunks(SECTOR_BYTES as usize).any(zero)
}

/// Whether the length of a frame and the beginning of its content lie in the same sector, so that
/// neither can have reached the disk without the other.
pub(crate) fn length_shares_sector(frame_offset: u64) -> bool {
    !(frame_offset + LENGTH_BYTES).is_multiple_of(SECTOR_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn length_fields_as_etcd_writes_them() {
        assert_eq!(length_field(16), 16);
        assert_eq!(length_field(17), 0x8700_0000_0000_0011);
        assert_eq!(length_field(23), 0x8100_0000_0000_0017);
    }

    #[test]
    fn length_fields_come_back_and_others_are_refused() {
        for len in 1..100 {
            let field = length_field(len);
            assert_eq!(
                parse_length_field(field),
                Some((len as u64, padding(len) as u64))
            );
            for bit in 56..64 {
                assert_eq!(parse_length_field(field ^ 1 << bit), None, "{len} {bit}");
            }
        }
        assert_eq!(parse_length_field(0), None);
    }

    #[test]
    fn a_frame_is_torn_when_any_sector_of_it_is_zero() {
        let mut content = vec![1; 2000];
        assert!(!is_torn(&content, 8));
        // Sector 1 of the file covers bytes 504..1016 of content that begins at offset 8.
        content[504..1016].fill(0);
        assert!(is_torn(&content, 8));
        assert!(!is_torn(&content, 16));
        content[504] = 1;
        assert!(!is_torn(&content, 8));
        // The last sector is covered in part only.
        content[1528..].fill(0);
        assert!(is_torn(&content, 8));
        assert!(!is_torn(&[], 8));
    }
}
