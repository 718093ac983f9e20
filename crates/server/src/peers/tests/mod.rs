//! The transport against sockets: raw ones, to see what stands on the wire, and its own kind.

mod pair;
mod peer_port;
mod snapshots;
mod ways;

use super::{Failure, Fallback, Host, Refusal, Settings, Transport};
use crate::transport::{HttpReply, HttpRequest, Listener};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use quorate_node::disk::Disk;
use quorate_node::disk::faulty::FaultyDisk;
use quorate_node::raft::{Entry, EntryKind, Message, MessageKind};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Far more than anything here takes: a test that hangs fails.
const PATIENCE: Duration = Duration::from_secs(60);

const CLUSTER: u64 = 0xc1;
const DIR: &str = "/snap";

/// Waits for what the transport's thread does.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    runtime.expect("a runtime").block_on(future)
}

/// What a host was told.
#[derive(Debug, PartialEq)]
enum Told {
    Messages(Vec<Message>),
    Snapshot(Message, PathBuf),
    Unreachable(u64),
    SnapshotSent(u64, bool),
    Active(u64, bool),
    Kin(u64, bool),
    Failed(Failure),
}

/// A host that notes what it is told.
struct Notes {
    told: Mutex<Sender<Told>>,
    /// Takes no messages.
    full: bool,
}

/// Members of this id were removed.
const REMOVED: u64 = 0xdead;

impl Notes {
    fn note(&self, told: Told) {
        // The test may have ended.
        let _unheard = self.told.lock().unwrap().send(told);
    }
}

impl Host for Notes {
    fn receive(&self, messages: Vec<Message>) -> Vec<Message> {
        if self.full {
            return messages;
        }
        self.note(Told::Messages(messages));
        Vec::new()
    }

    fn received_snapshot(&self, message: Message, database: PathBuf) -> Result<(), Refusal> {
        if self.full {
            return Err(Refusal::Overloaded);
        }
        self.note(Told::Snapshot(message, database));
        Ok(())
    }

    fn is_removed(&self, id: u64) -> bool {
        id == REMOVED
    }

    fn unreachable(&self, id: u64) {
        self.note(Told::Unreachable(id));
    }

    fn snapshot_sent(&self, id: u64, ok: bool) {
        self.note(Told::SnapshotSent(id, ok));
    }

    fn active(&self, id: u64, active: bool) {
        self.note(Told::Active(id, active));
    }

    fn is_kin(&self, id: u64, kin: bool) {
        self.note(Told::Kin(id, kin));
    }

    fn failed(&self, failure: Failure) {
        self.note(Told::Failed(failure));
    }
}

/// Answers with the request's path and body.
struct Echo;

impl Fallback for Echo {
    fn http(&self, request: HttpRequest) -> HttpReply {
        let mut body = request.uri().path().as_bytes().to_vec();
        body.extend_from_slice(request.body());
        Box::pin(async move {
            let body = Full::new(Bytes::from(body)).map_err(|never| match never {});
            http::Response::new(body.boxed_unsync())
        })
    }
}

/// A transport and what its host is told.
struct Member {
    id: u64,
    transport: Transport,
    told: Receiver<Told>,
    disk: FaultyDisk,
    address: SocketAddr,
}

impl Member {
    fn start(id: u64) -> Member {
        Member::start_with(id, false, TcpListener::bind("127.0.0.1:0").unwrap())
    }

    fn start_with(id: u64, full: bool, listener: TcpListener) -> Member {
        let address = listener.local_addr().unwrap();
        let (sender, told) = channel();
        let host = Arc::new(Notes {
            told: Mutex::new(sender),
            full,
        });
        let disk = FaultyDisk::new(id);
        disk.create_dir_all(Path::new(DIR)).unwrap();
        let settings = Settings {
            member_id: id,
            cluster_id: CLUSTER,
            advertise_peer_urls: vec![format!("http://{address}")],
            snapshot_dir: DIR.into(),
            disk: Arc::new(disk.clone()),
            dial_timeout: Duration::from_secs(5),
        };
        let listeners = vec![Listener::Tcp(listener)];
        let transport = Transport::start(settings, host, Arc::new(Echo), listeners).unwrap();
        Member {
            id,
            transport,
            told,
            disk,
            address,
        }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for something of interest.
    fn wait<T>(&self, interest: impl FnMut(Told) -> Option<T>) -> T {
        let mut interest = interest;
        loop {
            let told = self.told.recv_timeout(PATIENCE);
            if let Some(found) = interest(told.expect("what is waited for happens")) {
                return found;
            }
        }
    }

    fn wait_for(&self, expected: Told) {
        self.wait(|told| (told == expected).then_some(()));
    }

    /// Waits for so many messages.
    fn messages(&self, count: usize) -> Vec<Message> {
        let mut all = Vec::new();
        while all.len() < count {
            all.extend(self.wait(|told| match told {
                Told::Messages(messages) => Some(messages),
                _ => None,
            }));
        }
        all
    }
}

/// A request's head and body, as they came over the wire.
#[derive(Clone, Debug)]
struct Heard {
    method: String,
    path: String,
    /// Names in lower case.
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Heard {
    fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }
}

fn header<'a>(headers: &'a [(String, String)], name: &str) -> &'a str {
    let found = headers.iter().find(|(known, _)| known == name);
    found.map_or("", |(_, value)| value)
}

/// Reads a head; `None` if the connection ends before.
fn read_head(socket: &mut TcpStream) -> Option<(String, Vec<(String, String)>)> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match socket.read(&mut byte) {
            Ok(1) => head.push(byte[0]),
            Ok(_) | Err(_) => return None,
        }
    }
    let head = String::from_utf8(head).unwrap();
    let mut lines = head.trim_end().split("\r\n");
    let first = lines.next().unwrap().to_owned();
    let headers = lines
        .filter_map(|line| line.split_once(": "))
        .map(|(name, value)| (name.to_lowercase(), value.to_owned()))
        .collect();
    Some((first, headers))
}

fn read_body(socket: &mut TcpStream, headers: &[(String, String)]) -> Vec<u8> {
    let length = header(headers, "content-length").parse().unwrap_or(0);
    let mut body = vec![0; length];
    socket.read_exact(&mut body).unwrap();
    body
}

/// A response as it came over the wire.
struct Seen {
    status: u16,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

impl Seen {
    fn header(&self, name: &str) -> &str {
        header(&self.headers, name)
    }

    fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// Sends bytes, reads a response with a length.
fn exchange(address: SocketAddr, request: &[u8]) -> Seen {
    let mut socket = TcpStream::connect(address).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    // The other end may have answered, and closed, before it was told all.
    let _cut = socket.write_all(request);
    read_response(&mut socket)
}

fn read_response(socket: &mut TcpStream) -> Seen {
    let (first, headers) = read_head(socket).expect("there is an answer");
    let status = first.split(' ').nth(1).unwrap().parse().unwrap();
    let body = read_body(socket, &headers);
    Seen {
        status,
        headers,
        body,
    }
}

/// The headers of a member of the cluster.
fn presented(from: u64) -> String {
    format!(
        "Host: h\r\nX-Server-From: {from:x}\r\nX-Server-Version: 3.7.3\r\n\
         X-Min-Cluster-Version: 3.0.0\r\nX-Etcd-Cluster-ID: {CLUSTER:x}\r\n"
    )
}

fn post(path: &str, from: u64, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "POST {path} HTTP/1.1\r\n{}Content-Length: {}\r\n\r\n",
        presented(from),
        body.len()
    );
    [head.as_bytes(), body].concat()
}

/// What a raw server does with a request.
enum Act {
    /// Answers and waits for the next.
    Answer(Vec<u8>),
    /// Answers and says no more, but stays.
    Stay(Vec<u8>),
    /// Closes.
    Close,
}

/// A peer that the test plays.
struct RawPeer {
    address: SocketAddr,
    heard: Receiver<Heard>,
}

impl RawPeer {
    fn start(act: impl Fn(&Heard) -> Act + Send + Sync + 'static) -> RawPeer {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, heard) = channel();
        let act = Arc::new(act);
        // Both kinds of thread end with the process at the latest.
        thread::spawn(move || {
            for socket in listener.incoming() {
                let (act, sender) = (act.clone(), sender.clone());
                thread::spawn(move || serve_raw(socket.unwrap(), &*act, &sender));
            }
        });
        RawPeer { address, heard }
    }

    fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Waits for a request of interest.
    fn wait(&self, interest: impl Fn(&Heard) -> bool) -> Heard {
        loop {
            let heard = self.heard.recv_timeout(PATIENCE);
            let heard = heard.expect("what is waited for happens");
            if interest(&heard) {
                return heard;
            }
        }
    }
}

fn serve_raw(mut socket: TcpStream, act: &dyn Fn(&Heard) -> Act, heard: &Sender<Heard>) {
    while let Some((first, headers)) = read_head(&mut socket) {
        let mut words = first.split(' ').map(str::to_owned);
        let request = Heard {
            method: words.next().unwrap(),
            path: words.next().unwrap(),
            body: read_body(&mut socket, &headers),
            headers,
        };
        let act = act(&request);
        let _unheard = heard.send(request);
        match act {
            Act::Answer(bytes) => socket.write_all(&bytes).unwrap(),
            Act::Stay(bytes) => socket.write_all(&bytes).unwrap(),
            Act::Close => return,
        }
    }
}

const NO_CONTENT: &[u8] = b"HTTP/1.1 204 No Content\r\n\r\n";
const NOT_FOUND: &[u8] =
    b"HTTP/1.1 404 Not Found\r\nX-Server-Version: 3.7.3\r\nContent-Length: 0\r\n\r\n";

fn append(from: u64, to: u64, index: u64) -> Message {
    Message {
        kind: MessageKind::App,
        from,
        to,
        term: 3,
        log_term: 3,
        index,
        entries: vec![Entry {
            term: 3,
            index: index + 1,
            kind: EntryKind::Normal,
            data: Bytes::from(format!("entry {index}")),
        }],
        commit: index,
        ..Message::default()
    }
}

fn heartbeat(from: u64, to: u64) -> Message {
    Message {
        from,
        term: 3,
        ..Message::new(MessageKind::Heartbeat, to)
    }
}
