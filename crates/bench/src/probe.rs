//! An open-loop probe: puts and gets on a schedule that no answer delays.
//!
//! Two instances of the same server are probed at once, by one thread: the one under load, and an
//! otherwise idle one on the same machine and disk, the control. So what the machine does to
//! both is told apart from what the server does to its clients. A latency counts from the moment
//! the request was due.

use crate::closed_loop::refused;
use crate::connection::{Answer, Connection};
use crate::fleet::Fleet;
use crate::latencies::Latencies;
use crate::process::Server;
use crate::requests;
use quorate_api::Method;
use serde::Serialize;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Each of the four kinds of request is due this often: 200 a second.
const PERIOD: Duration = Duration::from_millis(5);
/// The probe runs so long before what it probes.
const WARM: Duration = Duration::from_millis(500);
/// Requests still open when the probe ends get so long.
const DRAIN: Duration = Duration::from_secs(60);
const KEY: &[u8] = b"/probe/key";
const VALUE_BYTES: usize = 256;
/// Put and get on the subject, then on the control.
const KINDS: usize = 4;

/// Latencies in milliseconds.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Figures {
    /// Median of puts.
    pub put_p50: f64,
    /// 99th percentile of puts.
    pub put_p99: f64,
    /// Slowest put.
    pub put_max: f64,
    /// Median of linearizable gets.
    pub get_p50: f64,
    /// 99th percentile of gets.
    pub get_p99: f64,
    /// Slowest get.
    pub get_max: f64,
}

impl Figures {
    fn of(puts: &Latencies, gets: &Latencies) -> Figures {
        Figures {
            put_p50: puts.quantile_ms(0.5),
            put_p99: puts.quantile_ms(0.99),
            put_max: puts.max_ms(),
            get_p50: gets.quantile_ms(0.5),
            get_p99: gets.quantile_ms(0.99),
            get_max: gets.max_ms(),
        }
    }
}

/// What the probe saw.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Stall {
    /// The instance under load.
    pub subject: Figures,
    /// The idle one.
    pub control: Figures,
    /// Probes of each kind that were counted.
    pub probes: f64,
    /// The upper bound of the subject's slowest fdatasync, in milliseconds.
    pub slowest_sync_ms: f64,
}

impl Stall {
    /// p99 at most twice the control's; max at most 50 ms or three times the control's.
    pub fn keeps_the_rule(&self) -> bool {
        let (a, b) = (&self.subject, &self.control);
        a.put_p99 <= 2.0 * b.put_p99
            && a.get_p99 <= 2.0 * b.get_p99
            && a.put_max <= f64::max(50.0, 3.0 * b.put_max)
            && a.get_max <= f64::max(50.0, 3.0 * b.get_max)
    }
}

/// Probes both while `action` runs, and at least for `least`.
pub fn probe_while<R>(
    subject: &Server,
    control: &Server,
    least: Duration,
    action: impl FnOnce() -> io::Result<R>,
) -> io::Result<(Stall, R)> {
    let counting = AtomicBool::new(false);
    let stop = AtomicBool::new(false);
    for server in [subject, control] {
        let mut request = Vec::new();
        requests::put(&mut request, KEY, &requests::value(VALUE_BYTES, 1));
        let timeout = Duration::from_secs(30);
        crate::fleet::call_once(server.address(), Method::KVPut, &request, timeout)?
            .ok_or_else(|| refused(Method::KVPut))?;
    }
    let (result, latencies) = thread::scope(|scope| {
        let prober = scope.spawn(|| run(subject, control, &counting, &stop));
        thread::sleep(WARM);
        counting.store(true, Ordering::Relaxed);
        let begin = Instant::now();
        let result = action();
        thread::sleep(least.saturating_sub(begin.elapsed()));
        stop.store(true, Ordering::Relaxed);
        let latencies = prober.join().expect("the prober does not panic");
        (result, latencies)
    });
    let result = result?;
    let [puts, gets, control_puts, control_gets] = latencies?;
    let stall = Stall {
        subject: Figures::of(&puts, &gets),
        control: Figures::of(&control_puts, &control_gets),
        probes: puts.len() as f64,
        slowest_sync_ms: subject.slowest_sync_ms()?,
    };
    Ok((stall, result))
}

fn run(
    subject: &Server,
    control: &Server,
    counting: &AtomicBool,
    stop: &AtomicBool,
) -> io::Result<[Latencies; KINDS]> {
    let mut connections = Vec::with_capacity(KINDS);
    for server in [subject, subject, control, control] {
        connections.push(Connection::open(server.address())?);
    }
    let mut fleet = Fleet { connections };
    let mut put = Vec::new();
    requests::put(&mut put, KEY, &requests::value(VALUE_BYTES, 2));
    let get = requests::get(KEY.to_vec(), false);
    let mut latencies: [Latencies; KINDS] = Default::default();
    let begin = Instant::now();
    let due = |number: u64| begin + (PERIOD / KINDS as u32) * number as u32;
    let mut next = 0_u64;
    let mut counted_from = None;
    let mut finished = Vec::new();
    let mut drain_until = None;
    loop {
        let now = Instant::now();
        if counted_from.is_none() && counting.load(Ordering::Relaxed) {
            counted_from = Some(next);
        }
        if drain_until.is_none() && stop.load(Ordering::Relaxed) {
            drain_until = Some(now + DRAIN);
        }
        while drain_until.is_none() && due(next) <= now {
            let kind = next as usize % KINDS;
            let (method, request) = match kind % 2 {
                0 => (Method::KVPut, &put),
                _ => (Method::KVRange, &get),
            };
            fleet.connections[kind].start(method, request, true, Answer::Count, next);
            next += 1;
        }
        fleet.flush()?;
        if let Some(until) = drain_until {
            if fleet.open_calls() == 0 {
                return Ok(latencies);
            }
            if now > until {
                return Err(io::Error::other("probes were not answered within a minute"));
            }
        }
        let wake = drain_until.unwrap_or_else(|| due(next));
        finished.clear();
        fleet.wait(wake, &mut finished, &mut |_, _, _| {})?;
        let now = Instant::now();
        for (kind, call) in &finished {
            if call.messages != 1 {
                return Err(io::Error::other("the server refused a probe"));
            }
            if counted_from.is_some_and(|from| call.tag >= from) {
                latencies[*kind].record(now.saturating_duration_since(due(call.tag)));
            }
        }
    }
}
