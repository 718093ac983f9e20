//! Writers at full speed beside something else.

use crate::closed_loop::{self, Load, Outcome, Until};
use crate::process::Server;
use crate::requests;
use quorate_api::Method;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const KEYS: u64 = 1_000;
const VALUE_BYTES: usize = 256;
const WARM: Duration = Duration::from_secs(1);
const ALONE: Duration = Duration::from_secs(4);

/// How the writers did.
pub struct Beside<R> {
    /// Puts a second beside the action, as a part of those alone.
    pub kept: f64,
    /// p99 of all puts during the action, in milliseconds.
    pub p99_ms: f64,
    /// How long the action took.
    pub elapsed: Duration,
    /// What the action gave.
    pub result: R,
}

/// 200 writers on 20 connections: first alone, then beside the action.
pub fn beside<R>(server: &Server, action: impl FnOnce() -> io::Result<R>) -> io::Result<Beside<R>> {
    let until = Until::Time {
        warm: WARM,
        counted: ALONE,
    };
    let alone = write(server, until)?.per_second();
    let stop = AtomicBool::new(false);
    let answers = AtomicU64::new(0);
    let (outcome, measured) = thread::scope(|scope| {
        let writer = scope.spawn(|| write(server, Until::Told(&stop, &answers)));
        let begin = Instant::now();
        let before = answers.load(Ordering::Relaxed);
        let result = action();
        let elapsed = begin.elapsed();
        let puts = answers.load(Ordering::Relaxed) - before;
        stop.store(true, Ordering::Relaxed);
        let outcome = writer.join().expect("the writer does not panic");
        (outcome, (result, elapsed, puts))
    });
    let (result, elapsed, puts) = measured;
    let result = result?;
    Ok(Beside {
        kept: puts as f64 / elapsed.as_secs_f64() / alone,
        p99_ms: outcome?.latencies.quantile_ms(0.99),
        elapsed,
        result,
    })
}

fn write(server: &Server, until: Until<'_>) -> io::Result<Outcome> {
    let value = requests::value(VALUE_BYTES, 9);
    let load = Load {
        connections: 20,
        clients: 200,
        method: Method::KVPut,
        request: &mut |number, output| {
            let key = format!("/write/{:08}", requests::shuffled(number, KEYS));
            requests::put(output, key.as_bytes(), &value);
        },
    };
    closed_loop::run(server, load, until)
}
