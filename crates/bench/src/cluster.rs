//! Several servers of one kind that are members of one cluster.

use crate::closed_loop::refused;
use crate::fleet::call_once;
use crate::process::{Identity, Server, initial_cluster};
use prost::Message;
use quorate_api::Method;
use quorate_api::etcdserverpb::StatusResponse;
use std::io;
use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

/// How often it is asked who leads.
const POLL: Duration = Duration::from_millis(20);
/// How long there may be no leader that all members know.
const LEADER_TIMEOUT: Duration = Duration::from_secs(60);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);

/// Running members, each with a directory of its own.
pub struct Cluster {
    servers: Vec<Server>,
}

impl AsRef<[Server]> for Cluster {
    fn as_ref(&self) -> &[Server] {
        &self.servers
    }
}

impl Cluster {
    /// Starts so many members with empty directories below `parent`, and waits until each serves.
    pub fn start(
        binary: &Path,
        parent: &Path,
        name: &str,
        keep: bool,
        members: usize,
    ) -> io::Result<Cluster> {
        let members = Identity::draw(members)?;
        let initial = initial_cluster(&members);
        // None serves before a quorum runs.
        let servers = members
            .into_iter()
            .map(|identity| Server::launch(binary, parent, name, keep, identity, &initial))
            .collect::<io::Result<_>>()?;
        let mut cluster = Cluster { servers };
        cluster.wait()?;
        Ok(cluster)
    }

    /// Waits until each member answers a linearizable read: until then it knows a leader, and has
    /// applied all that was acknowledged before.
    pub fn wait(&mut self) -> io::Result<()> {
        let begin = Instant::now();
        for server in &mut self.servers {
            server.wait(begin)?;
        }
        Ok(())
    }

    /// The place of the leader, once all members agree on it.
    pub fn leader(&self) -> io::Result<usize> {
        let deadline = Instant::now() + LEADER_TIMEOUT;
        loop {
            let known = self.servers.iter().map(status).collect::<io::Result<_>>()?;
            if let Some(place) = agreed(known) {
                return Ok(place);
            }
            if Instant::now() > deadline {
                return Err(io::Error::other("the members agree on no leader"));
            }
            thread::sleep(POLL);
        }
    }

    /// One member.
    pub fn server(&mut self, place: usize) -> &mut Server {
        &mut self.servers[place]
    }
}

/// What a member says of itself and of the leader.
#[derive(Clone, Copy, Debug)]
struct Known {
    member: u64,
    leader: u64,
    term: u64,
}

fn status(server: &Server) -> io::Result<Known> {
    let method = Method::MaintenanceStatus;
    let answer =
        call_once(server.address(), method, &[], ANSWER_TIMEOUT)?.ok_or_else(|| refused(method))?;
    let status = StatusResponse::decode(answer.as_slice()).map_err(io::Error::other)?;
    Ok(Known {
        member: status.header.map_or(0, |header| header.member_id),
        leader: status.leader,
        term: status.raft_term,
    })
}

/// The place of the member that all take for the leader, in one term.
fn agreed(known: Vec<Known>) -> Option<usize> {
    let first = *known.first()?;
    let same = |other: &Known| (other.leader, other.term) == (first.leader, first.term);
    if !known.iter().all(same) {
        return None;
    }
    known.iter().position(|known| known.member == first.leader)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_leader_is_whom_all_take_for_it() {
        let known = |leaders: [u64; 3], terms: [u64; 3]| {
            let each = (0..3).map(|place| Known {
                member: 10 + place as u64,
                leader: leaders[place],
                term: terms[place],
            });
            agreed(each.collect())
        };
        assert_eq!(known([12; 3], [2; 3]), Some(2));
        assert_eq!(known([12, 12, 11], [2; 3]), None);
        assert_eq!(known([12; 3], [2, 2, 3]), None);
        assert_eq!(known([0; 3], [2; 3]), None);
        assert_eq!(agreed(Vec::new()), None);
    }
}
