//! The loads. Each starts its servers anew and measures one kind of server, once.

mod failover;
mod keys;
mod leases;
mod stalls;
mod steady;
mod watch;
mod writers;

use crate::closed_loop::{self, Load, Until};
use crate::cluster::Cluster;
use crate::figures::Run;
use crate::process::Server;
use crate::requests;
use quorate_api::Method;
use std::io;
use std::path::Path;
use std::time::Duration;

/// Members of a cluster, where a load has one.
const MEMBERS: usize = 3;

/// What a load needs to know.
pub struct Setting<'a> {
    /// The server's binary.
    pub binary: &'a Path,
    /// `etcd` or `quorate`, for directories' names.
    pub name: &'a str,
    /// Where directories are made.
    pub parent: &'a Path,
    /// Shorter and smaller.
    pub quick: bool,
    /// Leave the directories.
    pub keep: bool,
    /// How many keys the load `keys` ends with.
    pub keys: u64,
}

impl Setting<'_> {
    fn start(&self) -> io::Result<Server> {
        Server::start(self.binary, self.parent, self.name, self.keep)
    }

    fn start_cluster(&self) -> io::Result<Cluster> {
        Cluster::start(self.binary, self.parent, self.name, self.keep, MEMBERS)
    }

    /// One of two sizes.
    fn size(&self, full: u64, quick: u64) -> u64 {
        if self.quick { quick } else { full }
    }

    /// How long a steady load is counted.
    fn time(&self) -> Until<'static> {
        Until::Time {
            warm: Duration::from_secs(1),
            counted: Duration::from_secs(self.size(8, 4)),
        }
    }
}

/// Runs a load by its name, which is one of [`crate::figures::LOADS`] or [`crate::figures::LOADS_OF_THREE`].
pub fn run(load: &str, setting: &Setting<'_>) -> io::Result<Run> {
    match load {
        "put" => steady::put(setting),
        "put1" => steady::put_alone(setting),
        "get" => steady::get(setting, false),
        "sget" => steady::get(setting, true),
        "keys" => keys::keys(setting),
        "watch" => watch::fan_out(setting),
        "catchup" => watch::catch_up(setting),
        "idle" => stalls::idle(setting),
        "defrag" => stalls::defragment(setting),
        "compact" => stalls::compact(setting),
        "bigrange" => stalls::big_range(setting),
        "snapshot" => stalls::snapshot(setting),
        "leases" => leases::fall_due(setting),
        "put3" => steady::put_through_members(setting),
        "lput3" => steady::put_through_leader(setting),
        "get3" => steady::get_at_members(setting, false),
        "sget3" => steady::get_at_members(setting, true),
        "failover" => failover::failover(setting),
        other => Err(io::Error::other(format!("there is no load {other}"))),
    }
}

/// Sends requests of one method, many at a time, until all are answered.
fn send_all(
    servers: &impl AsRef<[Server]>,
    method: Method,
    count: u64,
    request: &mut dyn FnMut(u64, &mut Vec<u8>),
) -> io::Result<()> {
    let load = Load {
        connections: 8,
        clients: 64,
        method,
        request,
    };
    closed_loop::run(servers, load, Until::Count(count))?;
    Ok(())
}

/// Writes keys 0..count quickly, several a transaction.
fn fill(
    servers: &impl AsRef<[Server]>,
    count: u64,
    key_bytes: usize,
    value_bytes: usize,
) -> io::Result<()> {
    let per_txn = (50_000 / (key_bytes + value_bytes + 16)).clamp(1, 100) as u64;
    let value = requests::value(value_bytes, 3);
    send_all(
        servers,
        Method::KVTxn,
        count.div_ceil(per_txn),
        &mut |number, output| {
            let range = number * per_txn..count.min((number + 1) * per_txn);
            let pairs = range.map(|key| (requests::key(key, key_bytes), value.clone()));
            *output = requests::put_many(pairs);
        },
    )
}
