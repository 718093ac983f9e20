//! A load of clients that each send their next request when the last is answered.

use crate::connection::{Answer, Connection};
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
    /// How many connections, spread over the servers.
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
    /// The CPU time of all servers in it.
    pub cpu: Duration,
    /// One for each answer.
    pub latencies: Latencies,
}

impl Outcome {
    /// Answers for each second.
    pub fn per_second(&self) -> f64 {
        self.answers as f64 / self.elapsed.as_secs_f64()
    }

    /// The servers' CPU time for each answer, in microseconds.
    pub fn cpu_micros(&self) -> f64 {
        self.cpu.as_secs_f64() * 1e6 / self.answers as f64
    }
}

struct Client {
    connection: usize,
    started: Instant,
}

/// The n-th connection leads to the n-th server, and around again, as those of etcd's own benchmark.
fn connect(servers: &[Server], connections: usize) -> io::Result<Fleet> {
    let connections = servers
        .iter()
        .cycle()
        .take(connections)
        .map(|server| Connection::open(server.address()))
        .collect::<io::Result<_>>()?;
    Ok(Fleet { connections })
}

/// CPU time of all servers so far.
fn cpu(servers: &[Server]) -> io::Result<Duration> {
    servers.iter().map(Server::cpu).sum()
}

/// Runs a load. A request that a server refuses ends it with an error.
pub fn run(
    servers: &impl AsRef<[Server]>,
    load: Load<'_>,
    until: Until<'_>,
) -> io::Result<Outcome> {
    run_through(servers.as_ref(), servers.as_ref(), load, until)
}

/// Runs a load through some of the servers; the CPU time is that of all.
pub fn run_through(
    through: &[Server],
    servers: &[Server],
    load: Load<'_>,
    until: Until<'_>,
) -> io::Result<Outcome> {
    let mut fleet = connect(through, load.connections)?;
    let begin = Instant::now();
    let mut counting_from = begin;
    let mut cpu_from = cpu(servers)?;
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
                    cpu_from = cpu(servers)?;
                }
                counting && now - counting_from >= counted
            }
            Until::Count(count) => outcome.answers == count,
            Until::Told(stop, _) => stop.load(Ordering::Relaxed),
        };
        if over {
            outcome.elapsed = now - counting_from;
            outcome.cpu = cpu(servers)? - cpu_from;
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
