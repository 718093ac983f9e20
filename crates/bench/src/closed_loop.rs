//! A load of clients that each send their next request when the last is answered.

use crate::connection::Answer;
use crate::fleet::Fleet;
use crate::latencies::Latencies;
use crate::process::Server;
use quorate_api::Method;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// When a load ends.
#[derive(Clone, Copy)]
pub enum Until<'a> {
    /// After so long, of which the first part is not counted.
    Time {
        /// Not counted.
        warm: Duration,
        /// Counted.
        counted: Duration,
    },
    /// When so many requests have been answered.
    Count(u64),
    /// When somebody says so; answers are counted in the second as they come.
    Told(&'a AtomicBool, &'a AtomicU64),
}

/// Who sends what.
pub struct Load<'a> {
    /// How many connections.
    pub connections: usize,
    /// How many clients, spread over the connections.
    pub clients: usize,
    /// The rpc, a unary one.
    pub method: Method,
    /// Writes the n-th request over what the buffer had.
    pub request: &'a mut dyn FnMut(u64, &mut Vec<u8>),
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Answers counted.
    pub answers: u64,
    /// The bytes of those answers.
    pub bytes: u64,
    /// How long that took.
    pub elapsed: Duration,
    /// The server's CPU time in it.
    pub cpu: Duration,
    /// One for each answer.
    pub latencies: Latencies,
}

impl Outcome {
    /// Answers for each second.
    pub fn per_second(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }

    /// The server's CPU time for each answer, in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.answers as f64
    }
}

struct Client {
    connection: usize,
    started: Instant,
}

/// Runs a load. A request that the server refuses ends it with an error.
pub fn run(server: &Server, load: Load<'_>, until: Until<'_>) -> io::Result<Outcome> {
    let mut fleet = Fleet::open(server.address(), load.connections)?;
    let begin = Instant::now();
    let mut counting_from = begin;
    let mut cpu_from = server.cpu()?;
    let mut counting = !matches!(until, Until::Time { .. });
    let mut outcome = Outcome {
        answers: 0,
        bytes: 0,
        elapsed: Duration::ZERO,
        cpu: Duration::ZERO,
        latencies: Latencies::default(),
    };
    let mut buffer = Vec::new();
    let mut sent = 0;
    let mut clients = Vec::with_capacity(load.clients);
    let requests_max = match until {
        Until::Count(count) => count,
        _ => u64::MAX,
    };
    for number in 0..load.clients.min(requests_max as usize) {
        let connection = number % load.connections;
        (load.request)(sent, &mut buffer);
        sent += 1;
        fleet.connections[connection].start(
            load.method,
            &buffer,
            true,
            Answer::Count,
            number as u64,
        );
        clients.push(Client {
            connection,
            started: Instant::now(),
        });
    }
    fleet.flush()?;
    let mut finished = Vec::new();
    loop {
        finished.clear();
        let wake = Instant::now() + Duration::from_millis(100);
        fleet.wait(wake, &mut finished, &mut |_, _, _| {})?;
        let now = Instant::now();
        for (_, call) in &finished {
            if call.messages != 1 {
                return Err(refused(load.method));
            }
            let client = &mut clients[call.tag as usize];
            if counting {
                outcome.answers += 1;
                outcome.bytes += call.bytes;
                if let Until::Told(_, answers) = until {
                    answers.fetch_add(1, Ordering::Relaxed);
                }
                outcome.latencies.record(now - client.started);
            }
            if sent < requests_max {
                (load.request)(sent, &mut buffer);
                sent += 1;
                client.started = now;
                fleet.connections[client.connection].start(
                    load.method,
                    &buffer,
                    true,
                    Answer::Count,
                    call.tag,
                );
            }
        }
        fleet.flush()?;
        let over = match until {
            Until::Time { warm, counted } => {
                if !counting && now - begin >= warm {
                    counting = true;
                    counting_from = now;
                    cpu_from = server.cpu()?;
                }
                counting && now - counting_from >= counted
            }
            Until::Count(count) => outcome.answers == count,
            Until::Told(stop, _) => stop.load(Ordering::Relaxed),
        };
        if over {
            outcome.elapsed = now - counting_from;
            outcome.cpu = server.cpu()? - cpu_from;
            break;
        }
    }
    // Nothing may be left running into the next measurement.
    let deadline = Instant::now() + Duration::from_secs(60);
    while fleet.open_calls() > 0 {
        if Instant::now() > deadline {
            return Err(io::Error::other(
                "requests were not answered within a minute",
            ));
        }
        fleet.wait(deadline, &mut finished, &mut |_, _, _| {})?;
    }
    Ok(outcome)
}

/// The error of a request without an answer.
pub fn refused(method: Method) -> io::Error {
    io::Error::other(format!("the server refused a request of {}", method.path()))
}
