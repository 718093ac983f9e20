//! The operating system's disk.
