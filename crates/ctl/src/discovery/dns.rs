//! SRV records from the system's name servers.
//!
//! Bytes from a server are checked before they are used: names are bounded, and pointers only lead
//! back. Answers that do not fit a datagram are asked for again over TCP.
//!
//! Source: RFC 1035 (messages), RFC 2782 (SRV).

use quorate_cli::go::system;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UdpSocket};
use tokio::time::timeout;

const PORT: u16 = 53;
const CLASS_INTERNET: u16 = 1;
const TYPE_SRV: u16 = 33;
const ANSWER_LIMIT: Duration = Duration::from_secs(5);
const ATTEMPTS_PER_SERVER: usize = 2;
const SERVERS_MAX: usize = 3;

/// Where a service is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Lower ones come first.
    pub priority: u16,
    /// Among those of the same priority, greater ones come first here.
    pub weight: u16,
    /// The port.
    pub port: u16,
    /// The host, without the dot at its end.
    pub target: String,
}

/// Why there are no records.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("lookup {name} on {server}: {reason}")]
pub struct Error {
    name: String,
    server: SocketAddr,
    reason: String,
}

/// The records of a name, in the order in which they are to be used.
pub async fn lookup_srv(name: &str) -> Result<Vec<Record>, Error> {
    let mut last = None;
    for server in servers() {
        for _ in 0..ATTEMPTS_PER_SERVER {
            match ask(server, name).await {
                Ok(mut records) => {
                    records.sort_by_key(|record| (record.priority, u16::MAX - record.weight));
                    return Ok(records);
                }
                Err(Failed::Final(reason)) => return Err(error(name, server, reason)),
                Err(Failed::Passing(reason)) => last = Some(error(name, server, reason)),
            }
        }
    }
    Err(last.unwrap_or_else(|| error(name, local(), "no server".to_owned())))
}

fn error(name: &str, server: SocketAddr, reason: String) -> Error {
    Error {
        name: name.to_owned(),
        server,
        reason,
    }
}

/// The name servers of the system; the one on this machine where none is configured.
fn servers() -> Vec<SocketAddr> {
    let text = std::fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    let found = of_configuration(&text);
    match found.is_empty() {
        true => vec![local()],
        false => found,
    }
}

fn local() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], PORT))
}

fn of_configuration(text: &str) -> Vec<SocketAddr> {
    text.lines()
        .filter_map(|line| line.trim().strip_prefix("nameserver"))
        .filter_map(|address| address.trim().parse::<IpAddr>().ok())
        .map(|address| SocketAddr::new(address, PORT))
        .take(SERVERS_MAX)
        .collect()
}

enum Failed {
    /// Asking again may help.
    Passing(String),
    /// The server knows that there is nothing.
    Final(String),
}

impl From<io::Error> for Failed {
    fn from(error: io::Error) -> Failed {
        Failed::Passing(system::text(&error))
    }
}

async fn ask(server: SocketAddr, name: &str) -> Result<Vec<Record>, Failed> {
    let id = fastrand::u16(..);
    let query = query(id, name).ok_or_else(|| Failed::Final("no such host".to_owned()))?;
    let answer = limited(by_datagram(server, &query, id)).await?;
    let message = match Message::parse(&answer) {
        Some(message) if message.truncated => {
            let answer = limited(by_stream(server, &query)).await?;
            Message::parse(&answer)
        }
        message => message,
    };
    let message =
        message.ok_or_else(|| Failed::Passing("cannot unmarshal DNS message".to_owned()))?;
    match message.code {
        0 if !message.records.is_empty() => Ok(message.records),
        0 | 3 => Err(Failed::Final("no such host".to_owned())),
        _ => Err(Failed::Passing("server misbehaving".to_owned())),
    }
}

async fn limited<T>(work: impl Future<Output = io::Result<T>>) -> Result<T, Failed> {
    match timeout(ANSWER_LIMIT, work).await {
        Ok(result) => result.map_err(Failed::from),
        Err(_) => Err(Failed::Passing("i/o timeout".to_owned())),
    }
}

async fn by_datagram(server: SocketAddr, query: &[u8], id: u16) -> io::Result<Vec<u8>> {
    let any: IpAddr = match server.is_ipv4() {
        true => [0; 4].into(),
        false => [0; 16].into(),
    };
    let socket = UdpSocket::bind((any, 0)).await?;
    let dialled = |error| {
        io::Error::other(format!(
            "dial udp {server}: connect: {}",
            system::text(&error)
        ))
    };
    socket.connect(server).await.map_err(dialled)?;
    socket.send(query).await?;
    let mut buffer = vec![0; usize::from(u16::MAX)];
    loop {
        let length = socket.recv(&mut buffer).await?;
        // What is not the answer to this question is late, or from someone else.
        if buffer[..length].starts_with(&id.to_be_bytes()) {
            buffer.truncate(length);
            return Ok(buffer);
        }
    }
}

async fn by_stream(server: SocketAddr, query: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(query.len()).map_err(io::Error::other)?;
    stream
        .write_all(&[&length.to_be_bytes(), query].concat())
        .await?;
    let mut answer = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut answer).await?;
    Ok(answer)
}

/// A question for SRV records; `None` for what is no name.
fn query(id: u16, name: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    // Recursion desired; one question.
    for field in [id, 0x0100, 1, 0, 0, 0] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    for label in name.trim_end_matches('.').split('.') {
        let length = u8::try_from(label.len())
            .ok()
            .filter(|length| (1..64).contains(length))?;
        out.push(length);
        out.extend_from_slice(label.as_bytes());
    }
    out.push(0);
    for field in [TYPE_SRV, CLASS_INTERNET] {
        out.extend_from_slice(&field.to_be_bytes());
    }
    Some(out)
}

/// What of an answer counts.
#[derive(Debug, PartialEq, Eq)]
struct Message {
    truncated: bool,
    code: u8,
    records: Vec<Record>,
}

impl Message {
    fn parse(bytes: &[u8]) -> Option<Message> {
        let mut reader = Reader { bytes, at: 2 };
        let flags = reader.u16()?;
        let (questions, answers) = (reader.u16()?, reader.u16()?);
        reader.at += 4;
        let mut message = Message {
            truncated: flags & 0x0200 != 0,
            code: (flags & 0x000f) as u8,
            records: Vec::new(),
        };
        if message.truncated {
            return Some(message);
        }
        for _ in 0..questions {
            reader.name()?;
            reader.at += 4;
        }
        for _ in 0..answers {
            reader.name()?;
            let (kind, class) = (reader.u16()?, reader.u16()?);
            reader.at += 4;
            let length = usize::from(reader.u16()?);
            let end = reader
                .at
                .checked_add(length)
                .filter(|end| *end <= bytes.len())?;
            if (kind, class) == (TYPE_SRV, CLASS_INTERNET) {
                message.records.push(Record {
                    priority: reader.u16()?,
                    weight: reader.u16()?,
                    port: reader.u16()?,
                    target: reader.name()?,
                });
            }
            reader.at = end;
        }
        Some(message)
    }
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Reader<'_> {
    fn u8(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn u16(&mut self) -> Option<u16> {
        Some(u16::from_be_bytes([self.u8()?, self.u8()?]))
    }

    /// A name; where it continues elsewhere, that is before.
    fn name(&mut self) -> Option<String> {
        let mut labels: Vec<String> = Vec::new();
        let mut resume = None;
        let mut bound = self.at;
        loop {
            let length = self.u8()?;
            match length {
                0 => break,
                1..64 => {
                    let end = self.at + usize::from(length);
                    let label = self.bytes.get(self.at..end)?;
                    labels.push(String::from_utf8_lossy(label).into_owned());
                    self.at = end;
                }
                192.. => {
                    let target = usize::from(length & 0x3f) << 8 | usize::from(self.u8()?);
                    resume.get_or_insert(self.at);
                    if target >= bound {
                        return None;
                    }
                    (bound, self.at) = (target, target);
                }
                _ => return None,
            }
        }
        if let Some(resume) = resume {
            self.at = resume;
        }
        Some(labels.join("."))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAME: &str = "_etcd-client._tcp.example.com";

    fn answer(records: &[(u16, u16, u16, &[u8])]) -> Vec<u8> {
        let mut out = query(7, NAME).expect("a name");
        out[2..4].copy_from_slice(&0x8180u16.to_be_bytes());
        out[6..8].copy_from_slice(&(records.len() as u16).to_be_bytes());
        for (priority, weight, port, target) in records {
            // The name is that of the question, at 12.
            out.extend_from_slice(&[0xc0, 12]);
            for field in [TYPE_SRV, CLASS_INTERNET, 0, 60, 6 + target.len() as u16] {
                out.extend_from_slice(&field.to_be_bytes());
            }
            for field in [priority, weight, port] {
                out.extend_from_slice(&field.to_be_bytes());
            }
            out.extend_from_slice(target);
        }
        out
    }

    #[test]
    fn records_are_read() {
        // The domain's labels begin at 12 + 13 + 5 = 30.
        let bytes = answer(&[(1, 5, 2379, b"\x01a\xc0\x1e"), (0, 0, 4001, b"\x02bb\x00")]);
        let message = Message::parse(&bytes).expect("a message");
        let record = |priority, weight, port, target: &str| Record {
            priority,
            weight,
            port,
            target: target.to_owned(),
        };
        assert_eq!(
            message.records,
            [
                record(1, 5, 2379, "a.example.com"),
                record(0, 0, 4001, "bb")
            ]
        );
    }

    #[test]
    fn no_bytes_make_it_panic() {
        let whole = answer(&[(1, 5, 2379, b"\x01a\xc0\x1e")]);
        for cut in 0..whole.len() {
            Message::parse(&whole[..cut]);
            for value in [0, 1, 63, 64, 192, 255] {
                let mut changed = whole.clone();
                changed[cut] = value;
                Message::parse(&changed);
            }
        }
        // A name that leads to itself.
        assert_eq!(Message::parse(&answer(&[(1, 1, 1, b"\xc0\x40")])), None);
    }

    #[test]
    fn names_and_servers_are_checked() {
        assert_eq!(query(1, "a..b"), None);
        assert_eq!(query(1, &"x".repeat(64)), None);
        let servers = of_configuration("# c\nnameserver 10.0.0.1\nnameserver ::1\nnameserver x\n");
        assert_eq!(servers.len(), 2);
    }
}
