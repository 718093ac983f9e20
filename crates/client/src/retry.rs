//! Which failed calls are tried again, and when.
//!
//! A write that may have happened is never sent twice: only what surely did nothing is. What only
//! reads, or can be done twice, is tried again wherever the server or the way to it was not there.
//! Source: the retry policy of etcd's client (the table of repeatable calls, the wait after a round
//! of a majority).

use crate::Error;
use crate::options::Retry;
use quorate_api::{Error as Known, Method};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Whether a call may happen twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    Freely,
    /// Only if it did not happen.
    OnlyUnsent,
}

impl Repeat {
    pub(crate) fn of(method: Method) -> Repeat {
        match method {
            Method::KVRange
            | Method::KVRangeStream
            | Method::LeaseLeaseGrant
            | Method::LeaseLeaseRevoke
            | Method::LeaseLeaseTimeToLive
            | Method::LeaseLeaseLeases
            | Method::ClusterMemberList
            | Method::MaintenanceAlarm
            | Method::MaintenanceStatus
            | Method::MaintenanceHash
            | Method::MaintenanceHashKV
            | Method::MaintenanceSnapshot
            | Method::MaintenanceMoveLeader
            | Method::AuthAuthenticate
            | Method::AuthUserList
            | Method::AuthUserGet
            | Method::AuthRoleList
            | Method::AuthRoleGet
            | Method::HealthCheck => Repeat::Freely,
            _ => Repeat::OnlyUnsent,
        }
    }
}

/// What to do about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Return,
    Again,
    /// Again, with a new token.
    Reauthenticate,
}

/// What is known of the client when it judges.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) endpoints: usize,
    /// It has a password, and so can get a new token.
    pub(crate) has_password: bool,
    /// It uses a token that was given to it.
    pub(crate) has_fixed_token: bool,
}

/// Judges a failure of a call.
pub(crate) fn judge(error: &Error, repeat: Repeat, situation: Situation) -> Verdict {
    let freely = repeat == Repeat::Freely;
    match error {
        Error::Known(Known::InvalidAuthToken | Known::AuthOldRevision | Known::UserEmpty)
            if situation.has_password =>
        {
            Verdict::Reauthenticate
        }
        // Who is known by a certificate has no token that could be old: the users have changed
        // while the call was under way, and nothing was done.
        Error::Known(Known::AuthOldRevision) if !situation.has_fixed_token => Verdict::Again,
        Error::Known(Known::NotSupportedForLearner) if situation.endpoints > 1 => Verdict::Again,
        Error::Connection { unsent: true, .. } => Verdict::Again,
        error if error.is_transient() && freely => Verdict::Again,
        _ => Verdict::Return,
    }
}

/// The wait before attempt `attempt` (the first is 0): none within a round of a majority.
pub(crate) fn wait_before(
    attempt: u32,
    endpoints: usize,
    retry: &Retry,
    jitter: &Jitter,
) -> Duration {
    let majority = u32::try_from(endpoints / 2 + 1).unwrap_or(u32::MAX);
    match attempt > 0 && attempt.is_multiple_of(majority) {
        true => jitter.spread(retry.wait, retry.jitter),
        false => Duration::ZERO,
    }
}

/// The source of what is random in waits; with a seed it is the same in every run.
#[derive(Debug)]
pub(crate) struct Jitter(Mutex<fastrand::Rng>);

impl Jitter {
    pub(crate) fn new(seed: Option<u64>) -> Jitter {
        let source = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        Jitter(Mutex::new(source))
    }

    /// `wait`, longer or shorter by up to the part `fraction` of it.
    pub(crate) fn spread(&self, wait: Duration, fraction: f64) -> Duration {
        let mut source = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let fraction = if fraction.is_nan() {
            0.0
        } else {
            fraction.clamp(0.0, 1.0)
        };
        let factor = 1.0 + fraction * (source.f64() * 2.0 - 1.0);
        Duration::try_from_secs_f64(wait.as_secs_f64() * factor).unwrap_or(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONE: Situation = Situation {
        endpoints: 1,
        has_password: false,
        has_fixed_token: false,
    };

    fn broken(unsent: bool) -> Error {
        Error::Connection {
            method: "/a/b",
            unsent,
            reason: String::new(),
        }
    }

    #[test]
    fn a_write_is_sent_again_only_if_it_did_not_happen() {
        let put = Repeat::of(Method::KVPut);
        assert_eq!(judge(&broken(true), put, LONE), Verdict::Again);
        assert_eq!(judge(&broken(false), put, LONE), Verdict::Return);
        for &known in Known::ALL {
            let verdict = judge(&Error::Known(known), put, LONE);
            let refused = known == Known::AuthOldRevision;
            assert_eq!(verdict == Verdict::Again, refused, "{known:?}");
        }
    }

    #[test]
    fn a_read_is_tried_again_where_nobody_could_answer() {
        let get = Repeat::of(Method::KVRange);
        assert_eq!(judge(&broken(false), get, LONE), Verdict::Again);
        for (known, verdict) in [
            (Known::NoLeader, Verdict::Again),
            (Known::Timeout, Verdict::Again),
            (Known::Compacted, Verdict::Return),
            (Known::NotSupportedForLearner, Verdict::Return),
            (Known::InvalidAuthToken, Verdict::Return),
        ] {
            assert_eq!(judge(&Error::Known(known), get, LONE), verdict, "{known:?}");
        }
    }

    #[test]
    fn who_has_a_password_gets_a_new_token() {
        let user = Situation {
            has_password: true,
            ..LONE
        };
        for known in [
            Known::InvalidAuthToken,
            Known::AuthOldRevision,
            Known::UserEmpty,
        ] {
            let verdict = judge(&Error::Known(known), Repeat::OnlyUnsent, user);
            assert_eq!(verdict, Verdict::Reauthenticate, "{known:?}");
        }
        let verdict = judge(&Error::Known(Known::AuthFailed), Repeat::Freely, user);
        assert_eq!(verdict, Verdict::Return);
    }

    #[test]
    fn another_endpoint_may_be_no_learner() {
        let several = Situation {
            endpoints: 2,
            ..LONE
        };
        let error = Error::Known(Known::NotSupportedForLearner);
        assert_eq!(judge(&error, Repeat::OnlyUnsent, several), Verdict::Again);
    }

    #[test]
    fn waits_come_after_a_majority_and_keep_to_their_range() {
        let (retry, jitter) = (Retry::default(), Jitter::new(Some(7)));
        for attempt in 0..100 {
            let wait = wait_before(attempt, 3, &retry, &jitter);
            if attempt == 0 || attempt % 2 == 1 {
                assert_eq!(wait, Duration::ZERO, "{attempt}");
            } else {
                let range = retry.wait.mul_f64(0.9)..=retry.wait.mul_f64(1.1);
                assert!(range.contains(&wait), "{attempt}: {wait:?}");
            }
        }
        for fraction in [f64::NAN, f64::INFINITY, -1.0] {
            jitter.spread(Duration::MAX, fraction);
        }
        let (one, other) = (Jitter::new(Some(1)), Jitter::new(Some(1)));
        for attempt in 1..10 {
            let waits = [&one, &other].map(|jitter| wait_before(attempt, 1, &retry, jitter));
            assert_eq!(waits[0], waits[1]);
        }
    }
}
