//! Many leases that fall due together.

use super::{Setting, send_all};
use crate::closed_loop::refused;
use crate::figures::Run;
use crate::fleet::call_once;
use crate::probe::probe_while;
use crate::requests;
use prost::Message;
use quorate_api::Method;
use quorate_api::etcdserverpb::{LeaseGrantRequest, RangeResponse};
use std::io;
use std::thread;
use std::time::{Duration, Instant};

const LEASES: u64 = 20_000;
const TTL: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(120);
const LEAST: Duration = Duration::from_secs(3);

/// 20,000 leases with one key each; measured until the last key is gone.
pub fn fall_due(setting: &Setting<'_>) -> io::Result<Run> {
    let (subject, control) = (setting.start()?, setting.start()?);
    send_all(
        &subject,
        Method::LeaseLeaseGrant,
        LEASES,
        &mut |number, output| {
            let grant = LeaseGrantRequest {
                ttl: TTL.as_secs() as i64,
                id: number as i64 + 1,
            };
            *output = grant.encode_to_vec();
        },
    )?;
    let due = Instant::now() + TTL;
    send_all(&subject, Method::KVPut, LEASES, &mut |number, output| {
        let key = requests::key(number, 32);
        *output = requests::put_leased(key, b"leased".to_vec(), number as i64 + 1);
    })?;
    let count = requests::count();
    let (stall, gone) = probe_while(&subject, &control, LEAST, || {
        let deadline = due + TIMEOUT;
        loop {
            let timeout = Duration::from_secs(30);
            let answer = call_once(subject.address(), Method::KVRange, &count, timeout)?
                .ok_or_else(|| refused(Method::KVRange))?;
            let now = Instant::now();
            let left = RangeResponse::decode(answer.as_slice())
                .map_err(io::Error::other)?
                .count;
            if left == 0 {
                return Ok(now.saturating_duration_since(due));
            }
            if now > deadline {
                return Err(io::Error::other(format!("{left} leases are still there")));
            }
            thread::sleep(POLL);
        }
    })?;
    let mut run = Run {
        stall: Some(stall),
        ..Run::default()
    };
    run.set("leases.gone", gone.as_secs_f64());
    Ok(run)
}
