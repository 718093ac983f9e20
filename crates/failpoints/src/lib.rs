//! Failpoints: places in the code that a test can make panic, sleep or fail, by name.
//!
//! Without the feature `enabled`, which no release has, [`fail_point!`] is nothing at all. With it
//! the process answers gofail's protocol, so that etcd's suites can do to quorate what they do to etcd:
//! `GOFAIL_FAILPOINTS` arms failpoints at the start, and a server on `GOFAIL_HTTP` arms, shows and
//! disarms them. A panic ends the whole process at once, whichever thread it hits.
//!
//! Invariants: a place names a failpoint of [`NAMES`], which the compiler checks; every name has a
//! place, which a test checks; and a name is listed only where what etcd's suites do to reach it in
//! etcd reaches it here, since they wait for its effect.
//!
//! Source: gofail's runtime, its README for the terms, and the comments `gofail:` in etcd's server.

#[cfg(any(test, feature = "enabled"))]
mod duration;
#[cfg(any(test, feature = "enabled"))]
mod http;
mod names;
#[cfg(any(test, feature = "enabled"))]
mod registry;
#[cfg(any(test, feature = "enabled"))]
mod terms;

#[cfg(feature = "enabled")]
mod process;

pub use names::{NAMES, index_of};

#[cfg(feature = "enabled")]
pub use process::{StartError, hit, start};
#[cfg(any(test, feature = "enabled"))]
pub use terms::Value;

/// A place that can be made to fail, by the name of a failpoint.
///
/// With `if condition` it is reached only then. With `value => expression` the expression is
/// evaluated where the failpoint returns a value, as its term says.
#[cfg(feature = "enabled")]
#[macro_export]
macro_rules! fail_point {
    ($name:literal) => {{
        const POINT: usize = $crate::index_of($name);
        $crate::hit(POINT);
    }};
    ($name:literal, if $condition:expr) => {{
        const POINT: usize = $crate::index_of($name);
        if $condition {
            $crate::hit(POINT);
        }
    }};
    ($name:literal, $value:pat => $then:expr) => {{
        const POINT: usize = $crate::index_of($name);
        if let Some($value) = $crate::hit(POINT) {
            $then
        }
    }};
}

/// A place that can be made to fail, by the name of a failpoint; nothing without the feature.
#[cfg(not(feature = "enabled"))]
#[macro_export]
macro_rules! fail_point {
    ($name:literal) => {{
        const _: usize = $crate::index_of($name);
    }};
    ($name:literal, if $condition:expr) => {{
        const _: usize = $crate::index_of($name);
        let _never = || $condition;
    }};
    ($name:literal, $value:pat => $then:expr) => {{
        const _: usize = $crate::index_of($name);
    }};
}
