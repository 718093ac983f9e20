//! Puts and gets of one key, as fast as they go.

use super::Setting;
use crate::closed_loop::{self, Load};
use crate::figures::Run;
use crate::requests;
use quorate_api::Method;
use std::io;

const KEY_BYTES: usize = 32;
const VALUE_BYTES: usize = 256;
/// Puts overwrite so many keys, gets read so many.
const PUT_KEYS: u64 = 100_000;
const GET_KEYS: u64 = 1_000;

/// Puts over 100,000 keys.
pub fn put(setting: &Setting<'_>, connections: usize, clients: usize) -> io::Result<Run> {
    let server = setting.start()?;
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
    let outcome = closed_loop::run(&server, load, setting.time())?;
    let mut run = Run::default();
    if clients == 1 {
        run.set("put1.p50", outcome.latencies.quantile_ms(0.5));
        run.set("put1.cpu", outcome.cpu_micros());
    } else {
        run.set("put.cpu", outcome.cpu_micros());
        run.set("put.rate", outcome.per_second());
        run.set("put.p50", outcome.latencies.quantile_ms(0.5));
        run.set("put.p99", outcome.latencies.quantile_ms(0.99));
    }
    Ok(run)
}

/// Gets of keys that exist.
pub fn get(setting: &Setting<'_>, serializable: bool) -> io::Result<Run> {
    let server = setting.start()?;
    super::fill(&server, GET_KEYS, KEY_BYTES, VALUE_BYTES)?;
    let requests: Vec<Vec<u8>> = (0..GET_KEYS)
        .map(|number| requests::get(requests::key(number, KEY_BYTES), serializable))
        .collect();
    let load = Load {
        connections: 20,
        clients: 200,
        method: Method::KVRange,
        request: &mut |number, output| {
            output.clear();
            output.extend_from_slice(&requests[requests::shuffled(number, GET_KEYS) as usize]);
        },
    };
    let outcome = closed_loop::run(&server, load, setting.time())?;
    if outcome.bytes < outcome.answers * VALUE_BYTES as u64 {
        return Err(io::Error::other("gets found no key"));
    }
    let mut run = Run::default();
    let ids = match serializable {
        false => ["get.cpu", "get.rate", "get.p99"],
        true => ["sget.cpu", "sget.rate", "sget.p99"],
    };
    run.set(ids[0], outcome.cpu_micros());
    run.set(ids[1], outcome.per_second());
    run.set(ids[2], outcome.latencies.quantile_ms(0.99));
    Ok(run)
}
