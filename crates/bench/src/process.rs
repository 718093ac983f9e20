//! A server under test: a process of its own with a fresh directory and free ports.

use crate::fleet::call_once;
use crate::requests;
use quorate_api::Method;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::slice;
use std::thread;
use std::time::{Duration, Instant};

const START_TIMEOUT: Duration = Duration::from_secs(120);
/// How often a starting server is asked.
const POLL: Duration = Duration::from_millis(2);
/// The largest that etcd keeps to.
const QUOTA_BYTES: u64 = 8 << 30;
/// etcd's own values, said aloud since the time of a failover is made of them.
const HEARTBEAT_MS: u64 = 100;
const ELECTION_MS: u64 = 1000;

/// How long a start took.
#[derive(Clone, Copy, Debug)]
pub struct Started {
    /// From the start of the process until a linearizable read was answered.
    pub read: Duration,
    /// Until /health said true.
    pub health: Duration,
}

/// Who a server is to its cluster, and where it listens.
#[derive(Clone, Debug)]
pub struct Identity {
    /// Its name.
    pub name: String,
    /// For clients.
    pub client: SocketAddr,
    /// For other members.
    pub peer: SocketAddr,
}

impl Identity {
    /// So many, with ports that were free a moment ago, on the loopback address.
    pub fn draw(count: usize) -> io::Result<Vec<Identity>> {
        // All are held until all are known, so that none is given twice.
        let mut held = Vec::new();
        let mut port = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let address = listener.local_addr();
            held.push(listener);
            address
        };
        (1..=count)
            .map(|number| {
                Ok(Identity {
                    name: format!("bench{number}"),
                    client: port()?,
                    peer: port()?,
                })
            })
            .collect()
    }
}

/// The members of a new cluster as `--initial-cluster` wants them.
pub fn initial_cluster(members: &[Identity]) -> String {
    let each = members
        .iter()
        .map(|member| format!("{}=http://{}", member.name, member.peer));
    each.collect::<Vec<_>>().join(",")
}

/// A running server. Dropping it kills the process and, unless it is kept, removes its directory.
pub struct Server {
    binary: PathBuf,
    directory: PathBuf,
    identity: Identity,
    initial_cluster: String,
    child: Child,
    keep: bool,
}

/// A server is a cluster of one.
impl AsRef<[Server]> for Server {
    fn as_ref(&self) -> &[Server] {
        slice::from_ref(self)
    }
}

impl Server {
    /// Starts a server with an empty directory below `parent`, and waits until it serves.
    pub fn start(binary: &Path, parent: &Path, name: &str, keep: bool) -> io::Result<Server> {
        let alone = Identity::draw(1)?;
        let initial_cluster = initial_cluster(&alone);
        let identity = alone.into_iter().next().expect("one was drawn");
        let mut server = Server::launch(binary, parent, name, keep, identity, &initial_cluster)?;
        server.wait(Instant::now())?;
        Ok(server)
    }

    /// Starts a server with an empty directory below `parent`, and does not wait for it.
    pub fn launch(
        binary: &Path,
        parent: &Path,
        name: &str,
        keep: bool,
        identity: Identity,
        initial_cluster: &str,
    ) -> io::Result<Server> {
        let directory = fresh_directory(parent, name)?;
        let child = spawn(binary, &directory, &identity, initial_cluster)?;
        Ok(Server {
            binary: binary.to_owned(),
            directory,
            identity,
            initial_cluster: initial_cluster.to_owned(),
            child,
            keep,
        })
    }

    /// Ends the process with a signal, starts it again, and waits until it serves.
    pub fn restart(&mut self, signal: Signal) -> io::Result<Started> {
        self.end(signal)?;
        self.start_again()
    }

    /// Starts the process again that was ended, and waits until it serves.
    pub fn start_again(&mut self) -> io::Result<Started> {
        let begin = Instant::now();
        self.child = spawn(
            &self.binary,
            &self.directory,
            &self.identity,
            &self.initial_cluster,
        )?;
        self.wait(begin)
    }

    /// Where clients connect.
    pub fn address(&self) -> SocketAddr {
        self.identity.client
    }

    /// The process's id.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// User and system time of the process so far; the kernel counts in 10 ms.
    pub fn cpu(&self) -> io::Result<Duration> {
        let path = format!("/proc/{}/stat", self.pid());
        let text = fs::read_to_string(&path)?;
        let bad = || io::Error::other(format!("{path} has no CPU times"));
        // The name before the last ')' may hold anything; utime and stime are fields 14 and 15.
        let (_, fields) = text.rsplit_once(')').ok_or_else(bad)?;
        let ticks = fields
            .split_whitespace()
            .skip(11)
            .take(2)
            .map(|field| field.parse::<u64>().ok())
            .sum::<Option<u64>>()
            .ok_or_else(bad)?;
        Ok(Duration::from_millis(
            ticks * 1000 / rustix::param::clock_ticks_per_second(),
        ))
    }

    /// Anonymous resident memory, in bytes.
    pub fn anonymous_bytes(&self) -> io::Result<u64> {
        let path = format!("/proc/{}/status", self.pid());
        fs::read_to_string(&path)?
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))
            .and_then(|rest| rest.trim().strip_suffix("kB"))
            .and_then(|number| number.trim().parse::<u64>().ok())
            .map(|kilobytes| kilobytes * 1024)
            .ok_or_else(|| io::Error::other(format!("{path} has no RssAnon")))
    }

    /// The upper bound of the slowest fdatasync of the log since the start, in milliseconds, as
    /// the server's own histogram has it.
    pub fn slowest_sync_ms(&self) -> io::Result<f64> {
        let text = http_get(self.address(), "/metrics")?;
        let name = "etcd_disk_wal_fsync_duration_seconds_bucket{le=\"";
        let mut below = 0.0;
        let mut slowest = 0.0;
        for line in text.lines().filter_map(|line| line.strip_prefix(name)) {
            let Some((bound, count)) = line.split_once("\"} ") else {
                continue;
            };
            let bound = bound.parse::<f64>().unwrap_or(f64::INFINITY);
            let count = count.trim().parse::<f64>().unwrap_or(f64::NAN);
            if count > below {
                slowest = bound;
                below = count;
            }
        }
        Ok(slowest * 1e3)
    }

    /// Ends the process and waits for it.
    pub fn end(&mut self, signal: Signal) -> io::Result<()> {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, signal)?;
        self.child.wait()?;
        Ok(())
    }

    /// Waits until it serves; times count from `begin`.
    pub fn wait(&mut self, begin: Instant) -> io::Result<Started> {
        let request = requests::get(b"/".to_vec(), false);
        let mut read = None;
        let mut health = None;
        let mut last = String::new();
        loop {
            if let Some(status) = self.child.try_wait()? {
                return Err(io::Error::other(format!(
                    "{} ended with {status}; its log is {}",
                    self.binary.display(),
                    self.directory.join("log").display()
                )));
            }
            let timeout = Duration::from_secs(1);
            if read.is_none() {
                match call_once(self.address(), Method::KVRange, &request, timeout) {
                    Ok(Some(_)) => read = Some(begin.elapsed()),
                    Ok(None) => last = "it refuses a read".to_owned(),
                    Err(error) => last = error.to_string(),
                }
            }
            if health.is_none()
                && let Ok(text) = http_get(self.address(), "/health")
                && text.contains("\"health\":\"true\"")
            {
                health = Some(begin.elapsed());
            }
            if let (Some(read), Some(health)) = (read, health) {
                return Ok(Started { read, health });
            }
            if begin.elapsed() > START_TIMEOUT {
                return Err(io::Error::other(format!(
                    "{} did not serve within {START_TIMEOUT:?}: {last}",
                    self.binary.display()
                )));
            }
            thread::sleep(POLL);
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // The process may have ended by itself; then there is nobody to signal.
        if let Ok(None) = self.child.try_wait()
            && let Err(error) = self.end(Signal::KILL)
        {
            eprintln!("cannot end process {}: {error}", self.child.id());
        }
        if self.keep || thread::panicking() {
            return;
        }
        if let Err(error) = fs::remove_dir_all(&self.directory) {
            eprintln!("cannot remove {}: {error}", self.directory.display());
        }
    }
}

fn fresh_directory(parent: &Path, name: &str) -> io::Result<PathBuf> {
    for number in 0.. {
        let directory = parent.join(format!("{name}-{}-{number}", std::process::id()));
        match fs::create_dir(&directory) {
            Ok(()) => return Ok(directory),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
    unreachable!("there are more numbers than directories")
}

fn spawn(
    binary: &Path,
    directory: &Path,
    identity: &Identity,
    initial_cluster: &str,
) -> io::Result<Child> {
    let log = File::options()
        .create(true)
        .append(true)
        .open(directory.join("log"))?;
    let Identity { name, client, peer } = identity;
    Command::new(binary)
        .arg(format!("--name={name}"))
        .arg(format!("--data-dir={}", directory.join("data").display()))
        .arg(format!("--listen-client-urls=http://{client}"))
        .arg(format!("--advertise-client-urls=http://{client}"))
        .arg(format!("--listen-peer-urls=http://{peer}"))
        .arg(format!("--initial-advertise-peer-urls=http://{peer}"))
        .arg(format!("--initial-cluster={initial_cluster}"))
        .arg(format!("--heartbeat-interval={HEARTBEAT_MS}"))
        .arg(format!("--election-timeout={ELECTION_MS}"))
        .arg(format!("--quota-backend-bytes={QUOTA_BYTES}"))
        .stdin(Stdio::null())
        .stdout(log.try_clone()?)
        .stderr(log)
        .spawn()
        .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", binary.display())))
}

/// The text that a GET answers, whatever its status.
fn http_get(address: SocketAddr, path: &str) -> io::Result<String> {
    let mut socket = TcpStream::connect(address)?;
    socket.set_read_timeout(Some(Duration::from_secs(10)))?;
    write!(
        socket,
        "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n"
    )?;
    let mut text = String::new();
    socket.read_to_string(&mut text)?;
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn members_have_names_and_ports_of_their_own() {
        let members = Identity::draw(3).expect("there are free ports");
        let names: BTreeSet<&str> = members.iter().map(|member| &*member.name).collect();
        let ports: BTreeSet<u16> = members
            .iter()
            .flat_map(|member| [member.client.port(), member.peer.port()])
            .collect();
        assert_eq!((names.len(), ports.len()), (3, 6));
        let text = initial_cluster(&members);
        assert_eq!(text.split(',').count(), 3);
        assert!(text.starts_with(&format!("bench1=http://{},bench2=", members[0].peer)));
    }
}
