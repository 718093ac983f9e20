//! Several connections and one thread that waits for them.

use crate::connection::{Connection, Finished};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// Connections that are waited for together.
pub struct Fleet {
    /// The connections; start calls on them, then [`Fleet::flush`].
    pub connections: Vec<Connection>,
}

impl Fleet {
    /// Opens so many connections to one address.
    pub fn open(address: SocketAddr, count: usize) -> io::Result<Fleet> {
        let connections = (0..count)
            .map(|_| Connection::open(address))
            .collect::<io::Result<Vec<Connection>>>()?;
        Ok(Fleet { connections })
    }

    /// Calls of all connections that have not ended.
    pub fn open_calls(&self) -> usize {
        self.connections.iter().map(Connection::open_calls).sum()
    }

    /// Writes what the sockets take.
    pub fn flush(&mut self) -> io::Result<()> {
        self.connections.iter_mut().try_for_each(Connection::flush)
    }

    /// Waits until something is there or `deadline` has come, and reads each ready connection
    /// once. `finished` gets (connection, call); `take` gets (connection, tag, message).
    pub fn wait(
        &mut self,
        deadline: Instant,
        finished: &mut Vec<(usize, Finished)>,
        take: &mut dyn FnMut(usize, u64, &[u8]),
    ) -> io::Result<()> {
        let mut fds: Vec<PollFd<'_>> = self
            .connections
            .iter()
            .map(|connection| {
                let mut flags = PollFlags::IN;
                flags.set(PollFlags::OUT, connection.wants_write());
                PollFd::from_borrowed_fd(connection.fd(), flags)
            })
            .collect();
        let left = deadline.saturating_duration_since(Instant::now());
        match poll(&mut fds, Some(&timespec(left))) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
        let ready: Vec<PollFlags> = fds.iter().map(PollFd::revents).collect();
        let mut ended = Vec::new();
        for (place, (connection, ready)) in self.connections.iter_mut().zip(ready).enumerate() {
            if ready.intersects(PollFlags::IN | PollFlags::HUP | PollFlags::ERR) {
                connection.read(&mut ended, &mut |tag, message| take(place, tag, message))?;
                finished.extend(ended.drain(..).map(|call| (place, call)));
            }
            connection.flush()?;
        }
        Ok(())
    }
}

fn timespec(duration: Duration) -> Timespec {
    Timespec {
        tv_sec: duration.as_secs() as i64,
        tv_nsec: i64::from(duration.subsec_nanos()),
    }
}

/// One unary call on a connection of its own: the answer's bytes. `None` says that the server
/// refused it.
pub fn call_once(
    address: SocketAddr,
    method: quorate_api::Method,
    message: &[u8],
    timeout: Duration,
) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + timeout;
    let mut fleet = Fleet::open(address, 1)?;
    fleet.connections[0].start(method, message, true, crate::connection::Answer::Take, 0);
    fleet.flush()?;
    let mut finished = Vec::new();
    let mut answer = None;
    while finished.is_empty() {
        if Instant::now() >= deadline {
            return Err(ErrorKind::TimedOut.into());
        }
        fleet.wait(deadline, &mut finished, &mut |_, _, message| {
            answer = Some(message.to_vec());
        })?;
    }
    Ok(answer)
}
