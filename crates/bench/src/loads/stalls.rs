//! What clients feel while the server does something large.

use super::{Setting, writers};
use crate::closed_loop::{self, Load, Until};
use crate::connection::Answer;
use crate::control::ask;
use crate::figures::Run;
use crate::fleet::Fleet;
use crate::probe::probe_while;
use crate::process::Server;
use crate::requests;
use quorate_api::Method;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// A shorter action is probed a while longer, for the percentiles' sake.
const LEAST: Duration = Duration::from_secs(3);
const IDLE: Duration = Duration::from_secs(6);
/// Allocators give memory back some time after it was freed.
const SETTLE: Duration = Duration::from_secs(15);
const MEMORY_SAMPLE: Duration = Duration::from_millis(10);

/// Nothing but the probes.
pub fn idle(setting: &Setting<'_>) -> io::Result<Run> {
    let (subject, control) = (setting.start()?, setting.start()?);
    let (stall, ()) = probe_while(&subject, &control, IDLE, || Ok(()))?;
    Ok(Run {
        stall: Some(stall),
        ..Run::default()
    })
}

/// A database of half-free pages is made small.
pub fn defragment(setting: &Setting<'_>) -> io::Result<Run> {
    const PER_TXN: u64 = 100;
    let (subject, control) = (setting.start()?, setting.start()?);
    let keys = setting.size(500_000, 100_000);
    super::fill(&subject, keys, 32, 1_000)?;
    super::send_all(
        &subject,
        Method::KVTxn,
        keys / 2 / PER_TXN,
        &mut |number, output| {
            let first = number * PER_TXN;
            let odd = (first..first + PER_TXN).map(|key| requests::key(2 * key + 1, 32));
            *output = requests::delete_many(odd);
        },
    )?;
    let before = ask(&subject, async |client| {
        let revision = revision(&client).await?;
        client.compact(revision, true).await?;
        client.status().await
    })?;
    let (stall, elapsed) = probe_while(&subject, &control, LEAST, || {
        let begin = Instant::now();
        ask(&subject, async |client| client.defragment().await)?;
        Ok(begin.elapsed())
    })?;
    let after = ask(&subject, async |client| client.status().await)?;
    let mut run = Run {
        stall: Some(stall),
        ..Run::default()
    };
    run.set("defrag.seconds", elapsed.as_secs_f64());
    run.set("defrag.size_before", before.db_size as f64 / 1e6);
    run.set("defrag.size_after", after.db_size as f64 / 1e6);
    Ok(run)
}

/// Much history is given up at once.
pub fn compact(setting: &Setting<'_>) -> io::Result<Run> {
    let (subject, control) = (setting.start()?, setting.start()?);
    let rounds = setting.size(120, 20);
    for _ in 0..rounds {
        super::fill(&subject, 10_000, 32, 128)?;
    }
    let (stall, elapsed) = probe_while(&subject, &control, LEAST, || {
        let begin = Instant::now();
        ask(&subject, async |client| {
            let revision = revision(&client).await?;
            client.compact(revision, true).await
        })?;
        Ok(begin.elapsed())
    })?;
    let mut run = Run {
        stall: Some(stall),
        ..Run::default()
    };
    run.set("compact.seconds", elapsed.as_secs_f64());
    Ok(run)
}

async fn revision(client: &quorate_client::Client) -> quorate_client::Result<i64> {
    let header = client.get(requests::PREFIX).await?.header;
    Ok(header.map_or(0, |header| header.revision))
}

/// All keys are read in one answer, three times.
pub fn big_range(setting: &Setting<'_>) -> io::Result<Run> {
    const TIMES: u64 = 3;
    let (subject, control) = (setting.start()?, setting.start()?);
    super::fill(&subject, setting.size(500_000, 100_000), 32, 236)?;
    // What the fill has used must be given back, or it hides the growth.
    thread::sleep(SETTLE);
    let request = requests::page(requests::PREFIX.into(), 0);
    let before = subject.anonymous_bytes()?;
    let (stall, (outcome, most)) = probe_while(&subject, &control, LEAST, || {
        let load = Load {
            connections: 1,
            clients: 1,
            method: Method::KVRange,
            request: &mut |_, output| {
                output.clear();
                output.extend_from_slice(&request);
            },
        };
        most_memory(&subject, || {
            closed_loop::run(&subject, load, Until::Count(TIMES))
        })
    })?;
    let answer = outcome.bytes as f64 / TIMES as f64;
    let mut run = Run {
        stall: Some(stall),
        ..Run::default()
    };
    run.set("bigrange.seconds", outcome.elapsed.as_secs_f64());
    run.set("bigrange.answer", answer / 1e6);
    run.set(
        "bigrange.growth",
        most.saturating_sub(before) as f64 / answer,
    );
    Ok(run)
}

/// Runs something and gives the largest anonymous memory of the server meanwhile, in bytes.
fn most_memory<R>(server: &Server, action: impl FnOnce() -> io::Result<R>) -> io::Result<(R, u64)> {
    let over = AtomicBool::new(false);
    let most = AtomicU64::new(0);
    let (result, sampled) = thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                most.fetch_max(server.anonymous_bytes()?, Ordering::Relaxed);
                thread::sleep(MEMORY_SAMPLE);
            }
            Ok::<(), io::Error>(())
        });
        let result = action();
        over.store(true, Ordering::Relaxed);
        (result, sampler.join().expect("the sampler does not panic"))
    });
    sampled?;
    Ok((result?, most.load(Ordering::Relaxed)))
}

/// Snapshots are taken while writers write at full speed.
pub fn snapshot(setting: &Setting<'_>) -> io::Result<Run> {
    const TIMES: u64 = 3;
    let server = setting.start()?;
    super::fill(&server, setting.size(530_000, 100_000), 32, 1_000)?;
    let beside = writers::beside(&server, || {
        let mut bytes = 0;
        for _ in 0..TIMES {
            bytes += take_snapshot(&server)?;
        }
        Ok(bytes / TIMES)
    })?;
    let mut run = Run::default();
    run.set("snapshot.seconds", beside.elapsed.as_secs_f64());
    run.set("snapshot.size", beside.result as f64 / 1e6);
    run.set("snapshot.kept", beside.kept);
    Ok(run)
}

/// Reads a snapshot to its end; gives its bytes.
fn take_snapshot(server: &Server) -> io::Result<u64> {
    let mut fleet = Fleet::open(server.address(), 1)?;
    fleet.connections[0].start(Method::MaintenanceSnapshot, &[], true, Answer::Count, 0);
    fleet.flush()?;
    let mut finished = Vec::new();
    while finished.is_empty() {
        let wake = Instant::now() + Duration::from_secs(1);
        fleet.wait(wake, &mut finished, &mut |_, _, _| {})?;
    }
    let (_, call) = finished[0];
    if call.bytes == 0 {
        return Err(closed_loop::refused(Method::MaintenanceSnapshot));
    }
    Ok(call.bytes)
}
