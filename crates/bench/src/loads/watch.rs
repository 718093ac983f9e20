//! Watchers: many of one key, and many that lag.

use super::{Setting, writers};
use crate::closed_loop::refused;
use crate::connection::Answer;
use crate::figures::Run;
use crate::fleet::Fleet;
use crate::process::Server;
use crate::requests;
use crate::watchers::Watchers;
use quorate_api::Method;
use quorate_api::etcdserverpb::WatchCreateRequest;
use std::io;
use std::time::{Duration, Instant};

const WATCHERS: usize = 1_000;
const STREAMS: usize = 10;
const VALUE_BYTES: usize = 256;
/// Puts whose events have not all arrived.
const UNDELIVERED_PUTS_MAX: u64 = 20;
const SMALL_VALUE_BYTES: usize = 16;
const KEY_BYTES: usize = 24;
/// Each lagging watcher wants one key range of so many.
const GROUPS: u64 = 10;
const CATCH_UP_TIMEOUT: Duration = Duration::from_secs(180);

/// 1,000 watchers of one key that is written as fast as they receive.
pub fn fan_out(setting: &Setting<'_>) -> io::Result<Run> {
    let server = setting.start()?;
    let key = requests::key(1, KEY_BYTES);
    let create = WatchCreateRequest {
        key: key.clone().into(),
        ..WatchCreateRequest::default()
    };
    let mut watchers = Watchers::open(&server, STREAMS, WATCHERS, u64::MAX, &|_| create.clone())?;
    let mut put = Vec::new();
    requests::put(&mut put, &key, &requests::value(VALUE_BYTES, 1));
    let mut writer = Fleet::open(server.address(), 1)?;
    let warm = Duration::from_secs(1);
    let counted = Duration::from_secs(setting.size(8, 4));
    let begin = Instant::now();
    let mut from = None;
    let mut puts = 0_u64;
    let mut finished = Vec::new();
    loop {
        let now = Instant::now();
        let delivered = watchers.events / WATCHERS as u64;
        while puts < delivered + UNDELIVERED_PUTS_MAX {
            writer.connections[0].start(Method::KVPut, &put, true, Answer::Count, 0);
            puts += 1;
        }
        writer.flush()?;
        watchers.wait(now + Duration::from_millis(2))?;
        writer.wait(now, &mut finished, &mut |_, _, _| {})?;
        if finished.drain(..).any(|(_, call)| call.messages != 1) {
            return Err(refused(Method::KVPut));
        }
        match from {
            None if now - begin >= warm => from = Some((now, watchers.events, server.cpu()?)),
            Some((then, events, cpu)) if now - then >= counted => {
                let events = (watchers.events - events) as f64;
                let cpu = (server.cpu()? - cpu).as_secs_f64();
                let mut run = Run::default();
                run.set("watch.cpu", cpu * 1e6 / events);
                run.set("watch.rate", events / (now - then).as_secs_f64());
                return Ok(run);
            }
            _ => {}
        }
    }
}

/// 1,000 watchers from an old revision on, while writers write other keys.
pub fn catch_up(setting: &Setting<'_>) -> io::Result<Run> {
    let server = setting.start()?;
    let revisions = setting.size(100_000, 20_000);
    let value = requests::value(SMALL_VALUE_BYTES, 1);
    super::send_all(&server, Method::KVPut, revisions, &mut |number, output| {
        let group = number % GROUPS;
        let key = format!("/bench/{group}/{:08}", number % 1_000);
        requests::put(output, key.as_bytes(), &value);
    })?;
    let beside = writers::beside(&server, || receive_all(&server, revisions))?;
    let mut run = Run::default();
    run.set("catchup.seconds", beside.elapsed.as_secs_f64());
    run.set("catchup.kept", beside.kept);
    run.set("catchup.p99", beside.p99_ms);
    Ok(run)
}

fn receive_all(server: &Server, revisions: u64) -> io::Result<()> {
    let create = |number: usize| {
        let group = number as u64 % GROUPS;
        WatchCreateRequest {
            key: format!("/bench/{group}/").into(),
            range_end: format!("/bench/{group}0").into(),
            start_revision: 1,
            ..WatchCreateRequest::default()
        }
    };
    let goal = revisions / GROUPS;
    let mut watchers = Watchers::open(server, STREAMS, WATCHERS, goal, &create)?;
    let deadline = Instant::now() + CATCH_UP_TIMEOUT;
    while watchers.done < WATCHERS {
        if Instant::now() > deadline {
            return Err(io::Error::other(format!(
                "{} of {WATCHERS} watchers had not caught up after {CATCH_UP_TIMEOUT:?}",
                WATCHERS - watchers.done
            )));
        }
        watchers.wait(deadline)?;
    }
    Ok(())
}
