//! The leader is killed, again and again: how long until the others take a put.
//!
//! Puts are sent to each of the others on a schedule that no answer delays, since one that is sent
//! before there is a leader may be lost with the leader it was meant for. The first that is
//! acknowledged ends the time.

use super::Setting;
use crate::cluster::Cluster;
use crate::connection::{Answer, Connection};
use crate::figures::{Run, median};
use crate::fleet::Fleet;
use crate::requests;
use quorate_api::Method;
use rustix::process::Signal;
use std::io;
use std::time::{Duration, Instant};

/// A put is due at each of the others this often.
const PERIOD: Duration = Duration::from_millis(5);
const TIMEOUT: Duration = Duration::from_secs(30);
const KEY: &[u8] = b"/failover/key";
const VALUE_BYTES: usize = 256;

/// The median over several kills.
pub fn failover(setting: &Setting<'_>) -> io::Result<Run> {
    let mut cluster = setting.start_cluster()?;
    let kills = setting.size(15, 5);
    let times = (0..kills)
        .map(|_| kill_leader(&mut cluster))
        .collect::<io::Result<Vec<Duration>>>()?;
    let seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    let mut run = Run::default();
    let longest = seconds.iter().copied().fold(0.0, f64::max);
    run.set("failover.max", longest);
    run.set("failover.seconds", median(seconds));
    Ok(run)
}

/// The time from the leader's end until a put is acknowledged. Leaves all members running.
fn kill_leader(cluster: &mut Cluster) -> io::Result<Duration> {
    let leader = cluster.leader()?;
    let connections = (0..cluster.as_ref().len())
        .filter(|place| *place != leader)
        .map(|place| Connection::open(cluster.as_ref()[place].address()))
        .collect::<io::Result<Vec<Connection>>>()?;
    let mut fleet = Fleet { connections };
    cluster.server(leader).end(Signal::KILL)?;
    let elapsed = until_acknowledged(&mut fleet)?;
    drop(fleet);
    cluster.server(leader).start_again()?;
    cluster.wait()?;
    Ok(elapsed)
}

fn until_acknowledged(fleet: &mut Fleet) -> io::Result<Duration> {
    let mut put = Vec::new();
    requests::put(&mut put, KEY, &requests::value(VALUE_BYTES, 1));
    let begin = Instant::now();
    let mut finished = Vec::new();
    for number in 0_u32.. {
        let due = begin + PERIOD * number;
        while Instant::now() < due {
            finished.clear();
            fleet.wait(due, &mut finished, &mut |_, _, _| {})?;
            // One that is refused has no message.
            if finished.iter().any(|(_, call)| call.messages == 1) {
                return Ok(begin.elapsed());
            }
        }
        if begin.elapsed() > TIMEOUT {
            break;
        }
        for connection in &mut fleet.connections {
            connection.start(Method::KVPut, &put, true, Answer::Count, 0);
        }
        fleet.flush()?;
    }
    Err(io::Error::other(format!(
        "no put was acknowledged within {TIMEOUT:?} after the leader's end"
    )))
}
