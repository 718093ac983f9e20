//! A million keys: loading them, pages of them, their memory, and starting with them.

use super::Setting;
use crate::closed_loop::{self, Load, Outcome, Until};
use crate::figures::Run;
use crate::process::Server;
use crate::requests;
use quorate_api::Method;
use rustix::process::Signal;
use std::io;
use std::thread;
use std::time::Duration;

const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 512;
const PAGE: u64 = 10_000;
const SMALL_PAGE: u64 = 500;
/// How long memory may settle after the list.
const SETTLE: Duration = Duration::from_secs(15);

/// Loads up to `setting.keys` keys, and measures on the way and at the end.
pub fn keys(setting: &Setting<'_>) -> io::Result<Run> {
    let total = setting.keys;
    let few = (total / 5).max(2 * PAGE);
    let mut run = Run::default();
    let mut server = setting.start()?;

    load(&server, 0, 10_000)?;
    let page_10k = pages(&server, SMALL_PAGE, 10_000)?
        .latencies
        .quantile_ms(0.5);
    run.set("keys.page500_10k", page_10k);
    load(&server, 10_000, few / 2)?;
    let outcome = pages(&server, SMALL_PAGE, few / 2)?;
    run.set("keys.page500_100k", outcome.latencies.quantile_ms(0.5));
    load(&server, few / 2, few)?;
    let page_small = pages(&server, PAGE, few)?.cpu_micros() / 1e3;
    run.set("keys.page_small", page_small);
    let outcome = load(&server, few, total)?;
    run.set("keys.load", outcome.per_second());
    let page_large = pages(&server, PAGE, total)?.cpu_micros() / 1e3;
    run.set("keys.page_large", page_large);
    run.set("keys.page_growth", page_large / page_small);
    let page_all = pages(&server, SMALL_PAGE, total)?
        .latencies
        .quantile_ms(0.5);
    run.set("keys.page500_all", page_all);
    run.set("keys.page500_growth", page_all / page_10k);
    let count = one_by_one(&server, &mut |_, output| *output = requests::count())?;
    run.set("keys.count", count.latencies.quantile_ms(0.5));

    let started = server.restart(Signal::TERM)?;
    run.set("keys.term_read", started.read.as_secs_f64());
    run.set("keys.term_health", started.health.as_secs_f64());
    let started = server.restart(Signal::KILL)?;
    run.set("keys.kill_read", started.read.as_secs_f64());
    run.set("keys.kill_health", started.health.as_secs_f64());
    run.set("keys.memory_start", megabytes(&server)?);
    list_all(&server, total)?;
    thread::sleep(SETTLE);
    run.set("keys.memory_listed", megabytes(&server)?);
    Ok(run)
}

fn megabytes(server: &Server) -> io::Result<f64> {
    Ok(server.anonymous_bytes()? as f64 / 1e6)
}

/// Puts keys `from..to` in shuffled order, one a request.
fn load(server: &Server, from: u64, to: u64) -> io::Result<Outcome> {
    let value = requests::value(VALUE_BYTES, 5);
    let load = Load {
        connections: 20,
        clients: 200,
        method: Method::KVPut,
        request: &mut |number, output| {
            let number = from + requests::shuffled(number, to - from);
            requests::put(output, &requests::key(number, KEY_BYTES), &value);
        },
    };
    closed_loop::run(server, load, Until::Count(to - from))
}

/// Reads pages near the beginning of the keys, for three seconds.
fn pages(server: &Server, limit: u64, keys: u64) -> io::Result<Outcome> {
    let different = (keys / limit).min(10);
    let requests: Vec<Vec<u8>> = (0..different)
        .map(|page| requests::page(requests::key(page * limit, KEY_BYTES), limit as i64))
        .collect();
    let outcome = one_by_one(server, &mut |number, output| {
        output.clear();
        output.extend_from_slice(&requests[(number % different) as usize]);
    })?;
    let least = outcome.answers * limit * (KEY_BYTES + VALUE_BYTES) as u64;
    if outcome.bytes < least {
        return Err(io::Error::other("a page had too few keys"));
    }
    Ok(outcome)
}

fn one_by_one(server: &Server, request: &mut dyn FnMut(u64, &mut Vec<u8>)) -> io::Result<Outcome> {
    let load = Load {
        connections: 1,
        clients: 1,
        method: Method::KVRange,
        request,
    };
    let until = Until::Time {
        warm: Duration::from_millis(300),
        counted: Duration::from_secs(3),
    };
    closed_loop::run(server, load, until)
}

/// Reads all keys, page after page.
fn list_all(server: &Server, keys: u64) -> io::Result<()> {
    let load = Load {
        connections: 1,
        clients: 1,
        method: Method::KVRange,
        request: &mut |number, output| {
            *output = requests::page(requests::key(number * PAGE, KEY_BYTES), PAGE as i64);
        },
    };
    let outcome = closed_loop::run(server, load, Until::Count(keys.div_ceil(PAGE)))?;
    if outcome.bytes < keys * (KEY_BYTES + VALUE_BYTES) as u64 {
        return Err(io::Error::other("the list had too few keys"));
    }
    Ok(())
}
