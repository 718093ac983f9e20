//! Asks a peer every few seconds whether it is there, for the round trip and its clock.
//!
//! Source: `probing_status.go` of etcd's rafthttp, and the probing module it uses.

use super::client::{Request, fetch};
use super::identity::hex;
use super::status::Status;
use quorate_go::duration;
use std::rc::Rc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};
use tokio::time::{MissedTickBehavior, interval};

pub(super) const PATH: &str = "/raft/probing";

/// Time between two probes.
const INTERVAL: Duration = Duration::from_secs(4);

/// How long an answer may take.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Clocks may be so far apart.
const DRIFT_MAX: Duration = Duration::from_secs(1);

/// Time between two warnings about a peer's clock.
const DRIFT_WARNING_INTERVAL: Duration = Duration::from_secs(30);

const ANSWER_BYTES_MAX: usize = 4096;

/// etcd probes both of its clients; this is the name of the one for messages.
const ROUND_TRIPPER: &str = "ROUND_TRIPPER_RAFT_MESSAGE";

/// Probes until the task ends.
pub(super) async fn run(status: Rc<Status>, mut urls: Vec<String>) {
    let mut ticks = interval(INTERVAL);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks.reset();
    let mut smoothed = Duration::ZERO;
    let mut drift_told: Option<Instant> = None;
    loop {
        ticks.tick().await;
        match probe(&urls).await {
            Err(error) => {
                tracing::warn!(
                    "round-tripper-name" = ROUND_TRIPPER,
                    "remote-peer-id" = hex(status.id),
                    "rtt" = duration::format(smoothed),
                    "error" = error,
                    "prober detected unhealthy status"
                );
                if !urls.is_empty() {
                    urls.rotate_left(1);
                }
            }
            Ok((round_trip, drift)) => {
                status.link.round_trip.observe(round_trip);
                smoothed = match smoothed {
                    Duration::ZERO => round_trip,
                    // The weight of the newest is an eighth.
                    before => before * 7 / 8 + round_trip / 8,
                };
                let told = drift_told.is_some_and(|at| at.elapsed() < DRIFT_WARNING_INTERVAL);
                if drift > DRIFT_MAX && !told {
                    drift_told = Some(Instant::now());
                    tracing::warn!(
                        "round-tripper-name" = ROUND_TRIPPER,
                        "remote-peer-id" = hex(status.id),
                        "clock-drift" = duration::format(drift),
                        "rtt" = duration::format(smoothed),
                        "prober found high clock drift"
                    );
                }
            }
        }
    }
}

/// Round trip, and how far the clocks are apart.
async fn probe(urls: &[String]) -> Result<(Duration, Duration), String> {
    let first = urls.first().cloned().into_iter().collect();
    let mut request = Request::get(first, PATH, TIMEOUT);
    request.response_bytes_max = ANSWER_BYTES_MAX;
    let began = Instant::now();
    let response = fetch(request).await.map_err(|error| error.to_string())?;
    let round_trip = began.elapsed();
    if response.status != http::StatusCode::OK {
        return Err(format!(
            "got unexpected HTTP status code {} from {}{PATH}",
            response.status, response.url
        ));
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.unwrap_or_default();
    let theirs = parse_answer(&response.body).ok_or("the answer to a probe is none")?;
    let drift = now.abs_diff(theirs + round_trip / 2);
    Ok((round_trip, drift))
}

/// The peer's time, if it is well.
fn parse_answer(body: &[u8]) -> Option<Duration> {
    let answer: serde_json::Value = serde_json::from_slice(body).ok()?;
    if answer.get("OK")?.as_bool()? {
        parse_time(answer.get("Now")?.as_str()?)
    } else {
        None
    }
}

/// Reads RFC 3339, as time since 1970; `None` for earlier times too.
fn parse_time(text: &str) -> Option<Duration> {
    let number = |range: std::ops::Range<usize>| -> Option<i64> {
        let digits = text.get(range)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        if all { digits.parse().ok() } else { None }
    };
    let separators = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    let bytes = text.as_bytes();
    if separators.iter().any(|&(at, c)| bytes.get(at) != Some(&c)) {
        return None;
    }
    let days = days_since_1970(number(0..4)?, number(5..7)?, number(8..10)?);
    let seconds = number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?;
    let mut at = 19;
    let mut nanos = 0;
    if bytes.get(at) == Some(&b'.') {
        let digits = bytes[at + 1..]
            .iter()
            .take_while(|byte| byte.is_ascii_digit());
        let count = digits.count();
        if !(1..=9).contains(&count) {
            return None;
        }
        let fraction = number(at + 1..at + 1 + count)?;
        nanos = u32::try_from(fraction).ok()? * 10u32.pow(9 - count as u32);
        at += 1 + count;
    }
    let offset = match bytes.get(at)? {
        b'Z' if bytes.len() == at + 1 => 0,
        sign @ (b'+' | b'-') if bytes.len() == at + 6 && bytes[at + 3] == b':' => {
            let offset = number(at + 1..at + 3)? * 3600 + number(at + 4..at + 6)? * 60;
            if *sign == b'+' { offset } else { -offset }
        }
        _ => return None,
    };
    let seconds = u64::try_from(days * 86_400 + seconds - offset).ok()?;
    Some(Duration::new(seconds, nanos))
}

/// Howard Hinnant's days_from_civil, for years of the common era.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year.div_euclid(400), year.rem_euclid(400));
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    era * 146_097 + day_of_era - 719_468
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_read_with_fraction_and_offset() {
        let time = |text| parse_time(text).map(|time| (time.as_secs(), time.subsec_nanos()));
        for (text, expected) in [
            ("1970-01-01T00:00:00Z", Some((0, 0))),
            ("2000-02-29T12:34:56.5Z", Some((951_827_696, 500_000_000))),
            (
                "2026-11-29T15:30:00.123456789+02:00",
                Some((1_795_966_200 - 7200, 123_456_789)),
            ),
            ("2026-11-29T15:30:00-00:30", Some((1_795_966_200 + 1800, 0))),
            ("1969-12-31T23:59:59Z", None),
            ("2026-11-29 15:30:00Z", None),
            ("2026-11-29T15:30:00", None),
            ("2026-11-29T15:30:00.Z", None),
            ("2026-11-29T15:30:00.1234567890Z", None),
            ("2026-11-29T15:30:00+0200", None),
            ("2026-11-2éT15:30:00Z", None),
            ("", None),
        ] {
            assert_eq!(time(text), expected, "{text}");
        }
    }

    #[test]
    fn an_answer_is_well_and_tells_the_time() {
        let well = br#"{"OK":true,"Now":"1970-01-01T00:00:07Z"}"#;
        assert_eq!(parse_answer(well), Some(Duration::from_secs(7)));
        let ill = br#"{"OK":false,"Now":"1970-01-01T00:00:07Z"}"#;
        assert_eq!(parse_answer(ill), None);
        assert_eq!(parse_answer(b"404 page not found\n"), None);
    }
}
