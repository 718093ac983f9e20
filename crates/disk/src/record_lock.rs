//! Record locks owned by the open file (fcntl(2), F_OFD_SETLK).
//!
//! etcd's `fileutil` takes them on log segments, so these are what keeps it and us apart there.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// Locks the whole file for writing, or gives `WouldBlock`.
#[allow(unsafe_code)]
pub(crate) fn try_lock(file: BorrowedFd<'_>) -> io::Result<()> {
    // Start 0 and length 0 mean the whole file, however long it becomes; the kernel requires a
    // process id of 0 for this kind of lock.
    let request = libc::flock {
        l_type: libc::F_WRLCK as libc::c_short,
        l_whence: libc::SEEK_SET as libc::c_short,
        l_start: 0,
        l_len: 0,
        l_pid: 0,
    };
    // SAFETY: the descriptor is open, since it is borrowed; the kernel only reads `request`, which
    // lives across the call and has the type that this command asks for.
    let answer = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &request) };
    if answer == 0 {
        return Ok(());
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        // Both names of "another holds it" that POSIX permits.
        Some(libc::EAGAIN | libc::EACCES) => Err(io::ErrorKind::WouldBlock.into()),
        _ => Err(error),
    }
}
