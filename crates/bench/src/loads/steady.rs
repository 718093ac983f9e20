//! Puts and gets of one key, as fast as they go.

use super::Setting;
use crate::closed_loop::{self, Load, Outcome};
use crate::figures::Run;
use crate::process::Server;
use crate::requests;
use quorate_api::Method;
use std::io;
use std::slice;

const CONNECTIONS: usize = 20;
const CLIENTS: usize = 200;
const KEY_BYTES: usize = 32;
const VALUE_BYTES: usize = 256;
/// Puts overwrite so many keys, gets read so many.
const PUT_KEYS: u64 = 100_000;
const GET_KEYS: u64 = 1_000;

/// Puts of many clients.
pub fn put(setting: &Setting<'_>) -> io::Result<Run> {
    let server = setting.start()?;
    let all = server.as_ref();
    let outcome = puts(setting, all, all, CONNECTIONS, CLIENTS)?;
    Ok(run(["put.cpu", "put.rate", "put.p50", "put.p99"], &outcome))
}

/// Puts of one client.
pub fn put_alone(setting: &Setting<'_>) -> io::Result<Run> {
    let server = setting.start()?;
    let all = server.as_ref();
    let outcome = puts(setting, all, all, 1, 1)?;
    let mut run = Run::default();
    run.set("put1.p50", outcome.latencies.quantile_ms(0.5));
    run.set("put1.cpu", outcome.cpu_micros());
    Ok(run)
}

/// Puts of many clients through all members.
pub fn put_through_members(setting: &Setting<'_>) -> io::Result<Run> {
    let cluster = setting.start_cluster()?;
    let all = cluster.as_ref();
    let outcome = puts(setting, all, all, CONNECTIONS, CLIENTS)?;
    let ids = ["put3.cpu", "put3.rate", "put3.p50", "put3.p99"];
    Ok(run(ids, &outcome))
}

/// Puts of many clients through the leader, while the others follow.
pub fn put_through_leader(setting: &Setting<'_>) -> io::Result<Run> {
    let cluster = setting.start_cluster()?;
    let all = cluster.as_ref();
    let leader = slice::from_ref(&all[cluster.leader()?]);
    let outcome = puts(setting, leader, all, CONNECTIONS, CLIENTS)?;
    let ids = ["lput3.cpu", "lput3.rate", "lput3.p50", "lput3.p99"];
    Ok(run(ids, &outcome))
}

/// Gets of many clients.
pub fn get(setting: &Setting<'_>, serializable: bool) -> io::Result<Run> {
    let server = setting.start()?;
    super::fill(&server, GET_KEYS, KEY_BYTES, VALUE_BYTES)?;
    let outcome = gets(setting, &server, serializable)?;
    let ids = match serializable {
        false => ["get.cpu", "get.rate", "get.p50", "get.p99"],
        true => ["sget.cpu", "sget.rate", "sget.p50", "sget.p99"],
    };
    Ok(run(ids, &outcome))
}

/// Gets of many clients at all members, the leader among them.
pub fn get_at_members(setting: &Setting<'_>, serializable: bool) -> io::Result<Run> {
    let mut cluster = setting.start_cluster()?;
    super::fill(&cluster, GET_KEYS, KEY_BYTES, VALUE_BYTES)?;
    // A member that lags would answer a serializable get with nothing.
    cluster.wait()?;
    let outcome = gets(setting, &cluster, serializable)?;
    let ids = match serializable {
        false => ["get3.cpu", "get3.rate", "get3.p50", "get3.p99"],
        true => ["sget3.cpu", "sget3.rate", "sget3.p50", "sget3.p99"],
    };
    Ok(run(ids, &outcome))
}

/// Processor time, throughput, median and p99 under these ids.
fn run(ids: [&'static str; 4], outcome: &Outcome) -> Run {
    let mut run = Run::default();
    run.set(ids[0], outcome.cpu_micros());
    run.set(ids[1], outcome.per_second());
    run.set(ids[2], outcome.latencies.quantile_ms(0.5));
    run.set(ids[3], outcome.latencies.quantile_ms(0.99));
    run
}

/// Puts over 100,000 keys.
fn puts(
    setting: &Setting<'_>,
    through: &[Server],
    servers: &[Server],
    connections: usize,
    clients: usize,
) -> io::Result<Outcome> {
    let value = requests::value(VALUE_BYTES, 1);
    let load = Load {
        connections,
        clients,
        method: Method::KVPut,
        request: &mut |number, output| {
            let number = requests::shuffled(number, PUT_KEYS);
            requests::put(output, &requests::key(number, KEY_BYTES), &value);
        },
    };
    closed_loop::run_through(through, servers, load, setting.time())
}

/// Gets of keys that exist.
fn gets(
    setting: &Setting<'_>,
    servers: &impl AsRef<[Server]>,
    serializable: bool,
) -> io::Result<Outcome> {
    let requests: Vec<Vec<u8>> = (0..GET_KEYS)
        .map(|number| requests::get(requests::key(number, KEY_BYTES), serializable))
        .collect();
    let load = Load {
        connections: CONNECTIONS,
        clients: CLIENTS,
        method: Method::KVRange,
        request: &mut |number, output| {
            output.clear();
            output.extend_from_slice(&requests[requests::shuffled(number, GET_KEYS) as usize]);
        },
    };
    let outcome = closed_loop::run(servers, load, setting.time())?;
    if outcome.bytes < outcome.answers * VALUE_BYTES as u64 {
        return Err(io::Error::other("gets found no key"));
    }
    Ok(outcome)
}
