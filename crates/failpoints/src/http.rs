//! gofail's protocol: `GET /` lists what is set, `GET /NAME` and `GET /NAME/count` tell of one
//! failpoint, `PUT /NAME` sets it to the terms in the body, `PUT /failpoints` several, `DELETE /NAME`
//! sets it to nothing.
//!
//! One request a connection, and one connection at a time: it is a test that talks here. Statuses
//! and texts are gofail's. What comes in is bounded in size and in time.

use super::registry::{PointError, Registry, parse_list};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Held while a request is answered: what would end the process waits for the answer to be sent.
pub static SERVING: Mutex<()> = Mutex::new(());

/// How long a client may take to send its request.
const PATIENCE: Duration = Duration::from_secs(5);
/// The longest head of a request, in bytes.
const HEAD_BYTES_MAX: u64 = 16 * 1024;
/// The longest body, in bytes.
const BODY_BYTES_MAX: usize = 64 * 1024;

/// Answers a request on each of these connections.
pub fn serve(connections: impl Iterator<Item = io::Result<TcpStream>>, registry: &Registry) {
    for stream in connections {
        let Ok(stream) = stream else { continue };
        // A client that went away, or talks nonsense, gets no answer.
        let _ = converse(&stream, registry);
    }
}

fn converse(stream: &TcpStream, registry: &Registry) -> io::Result<()> {
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    let request = Request::read(stream)?;
    let _serving = SERVING.lock().unwrap_or_else(PoisonError::into_inner);
    let mut stream = stream;
    stream.write_all(&answer(&request, registry).encode())
}

struct Request {
    method: String,
    /// Path and query.
    uri: String,
    body: String,
}

impl Request {
    fn read(stream: impl Read) -> io::Result<Request> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let mut reader = BufReader::new(stream);
        let mut head = reader.by_ref().take(HEAD_BYTES_MAX);
        let mut line = String::new();
        head.read_line(&mut line)?;
        let mut words = line.split_whitespace().map(str::to_owned);
        let (Some(method), Some(uri)) = (words.next(), words.next()) else {
            return Err(bad("no request line"));
        };
        let mut length = 0_usize;
        loop {
            line.clear();
            head.read_line(&mut line)?;
            if !line.ends_with('\n') {
                return Err(bad("the head does not end"));
            }
            let header = line.trim_end();
            if header.is_empty() {
                break;
            }
            let Some((name, value)) = header.split_once(':') else {
                return Err(bad("a header without a colon"));
            };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().map_err(|_| bad("a bad length"))?;
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                return Err(bad("a body without a length"));
            }
        }
        if length > BODY_BYTES_MAX {
            return Err(bad("the body is too long"));
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let body = String::from_utf8(body).map_err(|_| bad("the body is no text"))?;
        Ok(Request { method, uri, body })
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    body: String,
}

impl Answer {
    fn new(status: u16, body: impl Into<String>) -> Answer {
        let body = body.into();
        Answer { status, body }
    }

    /// An error, as Go's servers write one.
    fn error(status: u16, text: impl std::fmt::Display) -> Answer {
        Answer::new(status, format!("{text}\n"))
    }

    fn encode(&self) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            204 => "No Content",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            _ => "Internal Server Error",
        };
        let mut text = format!("HTTP/1.1 {} {reason}\r\nConnection: close\r\n", self.status);
        if self.status == 405 {
            text.push_str("Allow: PUT\r\n");
        }
        if self.status != 204 {
            text.push_str(&format!(
                "Content-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\n",
                self.body.len()
            ));
        }
        text.push_str("\r\n");
        text.push_str(&self.body);
        text.into_bytes()
    }
}

fn answer(request: &Request, registry: &Registry) -> Answer {
    let Some(key) = request.uri.strip_prefix('/') else {
        return Answer::error(400, "malformed request URI");
    };
    match request.method.as_str() {
        "PUT" => put(key, &request.body, registry),
        "GET" => get(key, registry),
        "DELETE" => match registry.disable(key) {
            Ok(()) => Answer::new(204, ""),
            Err(error) => Answer::error(400, format!("failed to delete failpoint {error}")),
        },
        _ => Answer::error(405, "Method not allowed"),
    }
}

fn put(key: &str, body: &str, registry: &Registry) -> Answer {
    let list = if key.eq_ignore_ascii_case("failpoints") {
        match parse_list(body) {
            Ok(list) => list,
            Err(error) => return Answer::error(400, format!("fail to parse failpoint: {error}")),
        }
    } else {
        vec![(key, body)]
    };
    for (name, terms) in list {
        if let Err(error) = registry.enable(name, terms) {
            return Answer::error(400, format!("fail to set failpoint: {error}"));
        }
    }
    Answer::new(204, "")
}

fn get(key: &str, registry: &Registry) -> Answer {
    if key.is_empty() {
        let mut names = registry.names().to_vec();
        names.sort_unstable();
        let line = |name| match registry.terms(name) {
            Ok(terms) => format!("{name}={}\n", terms.text()),
            Err(_) => format!("{name}=\n"),
        };
        return Answer::new(200, names.into_iter().map(line).collect::<String>());
    }
    if let Some(name) = key.strip_suffix("/count") {
        return match registry.terms(name) {
            Ok(terms) => Answer::new(200, terms.acted().to_string()),
            Err(error @ PointError::Unknown) => {
                Answer::error(404, format!("failed to GET: {error}"))
            }
            Err(error) => Answer::error(500, format!("failed to GET: {error}")),
        };
    }
    match registry.terms(key) {
        Ok(terms) => Answer::new(200, format!("{}\n", terms.text())),
        // gofail ends the text with what it would have told, which is nothing.
        Err(error) => Answer::error(404, format!("failed to GET: {error}\n")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Shutdown, TcpListener};
    use std::thread;

    const NAMES: &[&str] = &["second", "first"];

    /// One exchange over a socket: the status and the body.
    fn exchange(registry: &Registry, text: &str) -> Option<(u16, String)> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("its address");
        thread::scope(|scope| {
            scope.spawn(|| serve(listener.incoming().take(1), registry));
            let mut client = TcpStream::connect(address).expect("a server");
            // A server that wants no more of it may have closed the connection.
            let _ = client.write_all(text.as_bytes());
            let _ = client.shutdown(Shutdown::Write);
            let mut answer = String::new();
            client.read_to_string(&mut answer).ok()?;
            let (head, body) = answer.split_once("\r\n\r\n")?;
            let status = head.split(' ').nth(1)?.parse().ok()?;
            Some((status, body.to_owned()))
        })
    }

    fn request(registry: &Registry, method: &str, uri: &str, body: &str) -> (u16, String) {
        let length = body.len();
        let text =
            format!("{method} {uri} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n{body}");
        exchange(registry, &text).expect("an answer")
    }

    fn text(status: u16, body: &str) -> (u16, String) {
        (status, body.to_owned())
    }

    #[test]
    fn failpoints_are_set_shown_and_disabled() {
        let registry = Registry::new(NAMES);
        let talk = |method, uri, body| request(&registry, method, uri, body);
        assert_eq!(talk("GET", "/", ""), text(200, "first=\nsecond=\n"));
        assert_eq!(talk("PUT", "/first", "2*print->off"), text(204, ""));
        assert_eq!(
            talk("GET", "/", ""),
            text(200, "first=2*print->off\nsecond=\n")
        );
        assert_eq!(talk("GET", "/first", ""), text(200, "2*print->off\n"));
        registry.reach(1);
        assert_eq!(talk("GET", "/first/count", ""), text(200, "1"));
        assert_eq!(talk("DELETE", "/first", ""), text(204, ""));
        assert_eq!(
            talk("PUT", "/Failpoints", "first=off;second=print"),
            text(204, "")
        );
        assert_eq!(talk("GET", "/", ""), text(200, "first=off\nsecond=print\n"));
    }

    #[test]
    fn refusals_are_gofails() {
        let registry = Registry::new(NAMES);
        let talk = |method, uri, body| request(&registry, method, uri, body);
        let disabled = "failpoint: failpoint is disabled";
        let unknown = "failpoint: failpoint does not exist";
        for (method, uri, body, status, answer) in [
            (
                "GET",
                "/first",
                "",
                404,
                format!("failed to GET: {disabled}\n\n"),
            ),
            (
                "GET",
                "/x",
                "",
                404,
                format!("failed to GET: {unknown}\n\n"),
            ),
            (
                "GET",
                "/first/count",
                "",
                500,
                format!("failed to GET: {disabled}\n"),
            ),
            (
                "GET",
                "/x/count",
                "",
                404,
                format!("failed to GET: {unknown}\n"),
            ),
            (
                "PUT",
                "/x",
                "off",
                400,
                format!("fail to set failpoint: {unknown}\n"),
            ),
            (
                "PUT",
                "/first",
                "jump",
                400,
                "fail to set failpoint: failpoint: could not parse terms\n".to_owned(),
            ),
            (
                "PUT",
                "/failpoints",
                "first",
                400,
                "fail to parse failpoint: bad failpoint \"first\"\n".to_owned(),
            ),
            (
                "DELETE",
                "/first",
                "",
                400,
                format!("failed to delete failpoint {disabled}\n"),
            ),
            (
                "POST",
                "/first",
                "off",
                405,
                "Method not allowed\n".to_owned(),
            ),
        ] {
            assert_eq!(talk(method, uri, body), (status, answer), "{method} {uri}");
        }
    }

    #[test]
    fn nonsense_gets_no_answer() {
        let registry = Registry::new(NAMES);
        let long = format!(
            "PUT /first HTTP/1.1\r\nContent-Length: {}\r\n\r\n",
            usize::MAX
        );
        let header = format!("GET / HTTP/1.1\r\nx: {}", "y".repeat(1 << 15));
        for text in [
            "",
            "\r\n\r\n",
            "GET / HTTP/1.1\r\nno colon\r\n\r\n",
            "PUT /first HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n",
            "PUT /first HTTP/1.1\r\nContent-Length: 4\r\n\r\noff",
            &long,
            &header,
        ] {
            assert_eq!(exchange(&registry, text), None, "{text:.60}");
        }
    }
}
