//! What happened, as a hash and, where it is wanted, as lines.
//!
//! Every event of a run goes through here, so two runs with equal hashes took the same way.

/// The trace of a run.
pub struct Trace {
    hash: u64,
    print: bool,
}

impl Trace {
    /// An empty one. `print`: each event is written to the standard error.
    pub fn new(print: bool) -> Trace {
        Trace {
            hash: 0xcbf2_9ce4_8422_2325,
            print,
        }
    }

    /// Takes in an event.
    pub fn event(&mut self, at_us: u64, what: std::fmt::Arguments<'_>) {
        let mut hasher = Fnv(self.hash);
        hasher.bytes(&at_us.to_le_bytes());
        std::fmt::write(&mut hasher, what).expect("hashing text does not fail");
        self.hash = hasher.0;
        if self.print {
            eprintln!("{:>10}.{:03} {what}", at_us / 1000, at_us % 1000);
        }
    }

    /// The hash of all of it.
    pub fn hash(&self) -> u64 {
        self.hash
    }
}

/// FNV-1a with 64 bits.
struct Fnv(u64);

impl Fnv {
    fn bytes(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }
}

impl std::fmt::Write for Fnv {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        self.bytes(text.as_bytes());
        Ok(())
    }
}

/// A digest of bytes.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = Fnv(0xcbf2_9ce4_8422_2325);
    hasher.bytes(bytes);
    hasher.0
}
