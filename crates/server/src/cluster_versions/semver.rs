//! Versions as members spell and order them: `major.minor.patch[-pre][+build]`.
//!
//! Source: semver.org, as far as etcd's members tell each other versions.

use std::cmp::Ordering;

/// A version.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Version {
    /// Major.
    pub major: i64,
    /// Minor.
    pub minor: i64,
    /// Patch.
    pub patch: i64,
    /// Empty for a release.
    pre: String,
}

/// The version that this member speaks as.
pub const OWN: Version = Version {
    major: 3,
    minor: 7,
    patch: 3,
    pre: String::new(),
};
/// The least cluster version: decided where not every member's version is known.
pub const MIN_CLUSTER: Version = Version::new(3, 0);

impl Version {
    /// A minor version's first.
    pub const fn new(major: i64, minor: i64) -> Version {
        Version {
            major,
            minor,
            patch: 0,
            pre: String::new(),
        }
    }

    /// Reads three numbers with dots between, and what may follow.
    pub fn parse(text: &str) -> Option<Version> {
        let is_word = |word: &str| {
            word.bytes()
                .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'.')
        };
        let (text, build) = text.split_once('+').unwrap_or((text, ""));
        let (text, pre) = text.split_once('-').unwrap_or((text, ""));
        if !is_word(pre) || !is_word(build) {
            return None;
        }
        let mut numbers = text.splitn(3, '.');
        let mut next = || {
            let digits = numbers.next()?;
            let is_plain = digits.bytes().all(|byte| byte.is_ascii_digit());
            if is_plain { digits.parse().ok() } else { None }
        };
        Some(Version {
            major: next()?,
            minor: next()?,
            patch: next()?,
            pre: pre.to_owned(),
        })
    }

    /// Reads a version that clients ask for: with or without a patch, which does not count.
    pub fn parse_minor(text: &str) -> Option<Version> {
        let version = Version::parse(text).or_else(|| Version::parse(&format!("{text}.0")));
        Some(version?.minor())
    }

    /// The minor version that it belongs to.
    pub fn minor(&self) -> Version {
        Version::new(self.major, self.minor)
    }

    /// `major.minor`, as people and clients are told cluster versions.
    pub fn short(&self) -> String {
        format!("{}.{}", self.major, self.minor)
    }

    /// The only version that a cluster of this one can go down to.
    pub fn below(&self) -> Version {
        Version::new(self.major, self.minor - 1)
    }
}

impl Ord for Version {
    fn cmp(&self, other: &Version) -> Ordering {
        let numbers = |version: &Version| (version.major, version.minor, version.patch);
        numbers(self).cmp(&numbers(other)).then_with(|| {
            match (self.pre.as_str(), other.pre.as_str()) {
                ("", "") => Ordering::Equal,
                ("", _) => Ordering::Greater,
                (_, "") => Ordering::Less,
                (a, b) => compare_pre(a, b),
            }
        })
    }
}

fn compare_pre(a: &str, b: &str) -> Ordering {
    let (mut a, mut b) = (a.split('.'), b.split('.'));
    loop {
        let order = match (a.next(), b.next()) {
            (None, None) => return Ordering::Equal,
            (None, _) => Ordering::Less,
            (_, None) => Ordering::Greater,
            (Some(a), Some(b)) => match (a.parse::<u64>(), b.parse::<u64>()) {
                (Ok(a), Ok(b)) => a.cmp(&b),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                (Err(_), Err(_)) => a.cmp(b),
            },
        };
        if order.is_ne() {
            return order;
        }
    }
}

impl PartialOrd for Version {
    fn partial_cmp(&self, other: &Version) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl std::fmt::Display for Version {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if self.pre.is_empty() {
            return Ok(());
        }
        write!(f, "-{}", self.pre)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn own_is_what_the_member_tells() {
        assert_eq!(OWN.to_string(), quorate_node::ETCD_VERSION);
        assert_eq!(OWN.minor().to_string(), quorate_node::CLUSTER_VERSION);
    }

    #[test]
    fn spelled_and_read() {
        for text in ["3.7.0", "3.7.0-alpha.0", "10.20.30"] {
            assert_eq!(Version::parse(text).unwrap().to_string(), text);
        }
        assert_eq!(Version::parse("3.6.1+git").unwrap().to_string(), "3.6.1");
        for bad in [
            "",
            "3",
            "3.6",
            "3.6.x",
            "3.6.1.1",
            "3.+6.1",
            "v3.6.1",
            "3..1",
            "99999999999999999999.0.0",
            "a.b.c",
            "3.6.1-a_b",
            "not_decided",
        ] {
            assert_eq!(Version::parse(bad), None, "{bad}");
        }
        let minor = |text| Version::parse_minor(text).map(|version| version.to_string());
        assert_eq!(minor("3.6"), Some("3.6.0".into()));
        assert_eq!(minor("3.6.4"), Some("3.6.0".into()));
        assert_eq!(minor("x"), None);
    }

    #[test]
    fn in_order() {
        let ascending = [
            "3.5.13",
            "3.6.0-alpha.0",
            "3.6.0-alpha.1",
            "3.6.0-rc.0",
            "3.6.0",
            "3.6.1",
            "3.10.0",
        ];
        for pair in ascending.windows(2) {
            let [a, b] = [pair[0], pair[1]].map(|text| Version::parse(text).unwrap());
            assert!(a < b, "{a} {b}");
        }
    }
}
