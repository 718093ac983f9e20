//! A server that a test plays: it sees each call, and answers, breaks or ignores it.
//!
//! Connections are pipes within the process, so time can be paused: it moves only when everybody
//! waits for it.

use bytes::{Buf, BufMut, Bytes, BytesMut};
use http_body_util::BodyExt;
use hyper::body::{Body, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message;
use quorate_client::api::Error as Known;
use quorate_client::api::error::Code;
use quorate_client::{Client, Connecting, Connector, Options, Transport};
use std::collections::HashMap;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// Some servers, by endpoint.
#[derive(Debug, Default)]
struct Network(Mutex<HashMap<String, Arc<Mutex<Door>>>>);

/// Where connections to a server are made.
#[derive(Debug)]
struct Door {
    calls: mpsc::UnboundedSender<Call>,
    connections: Vec<JoinHandle<()>>,
    is_shut: bool,
    is_stuck: bool,
    hangs_up: bool,
    cuts: watch::Sender<()>,
    tls: Option<Arc<ServerConfig>>,
}

impl Connector for Network {
    fn connect<'a>(&'a self, endpoint: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let door = self.0.lock().unwrap()[endpoint].clone();
            let mut door = door.lock().unwrap();
            if door.is_shut {
                return Err(std::io::ErrorKind::ConnectionRefused.into());
            }
            let (near, far) = tokio::io::duplex(1 << 16);
            if door.is_stuck {
                // Kept open, and never read.
                door.connections.push(tokio::spawn(async move {
                    std::future::pending::<()>().await;
                    drop(far);
                }));
                return Ok(Box::new(near) as Box<dyn Transport>);
            }
            let (calls, tls, hangs_up) = (door.calls.clone(), door.tls.clone(), door.hangs_up);
            let mut cuts = door.cuts.subscribe();
            let connection = tokio::spawn(async move {
                let far: Box<dyn Transport> = match tls {
                    None => Box::new(far),
                    Some(tls) => match TlsAcceptor::from(tls).accept(far).await {
                        Ok(secured) => Box::new(secured),
                        // As below.
                        Err(_) => return,
                    },
                };
                let service = service_fn(move |request| {
                    let answer = accept(&calls, request);
                    async move { Ok::<_, Infallible>(answer) }
                });
                let serving = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                    .serve_connection(TokioIo::new(far), service);
                let mut serving = std::pin::pin!(serving);
                if hangs_up {
                    serving.as_mut().graceful_shutdown();
                }
                tokio::select! {
                    // The test sees on the client's side how it ended.
                    _ = &mut serving => {}
                    // Held, and not polled any more.
                    _ = cuts.changed() => std::future::pending().await,
                }
            });
            door.connections.push(connection);
            Ok(Box::new(near) as Box<dyn Transport>)
        })
    }
}

/// Who may come in; clones share it.
#[derive(Clone)]
pub struct Entrance {
    door: Arc<Mutex<Door>>,
}

/// A server.
pub struct Server {
    entrance: Entrance,
    calls: mpsc::UnboundedReceiver<Call>,
}

/// Servers of these names, and options for clients of theirs.
pub fn servers<const N: usize>(names: [&str; N]) -> ([Server; N], Options) {
    let network = Network::default();
    let all = names.map(|name| {
        let (sender, calls) = mpsc::unbounded_channel();
        let door = Arc::new(Mutex::new(Door {
            calls: sender,
            connections: Vec::new(),
            is_shut: false,
            is_stuck: false,
            hangs_up: false,
            cuts: watch::Sender::new(()),
            tls: None,
        }));
        network
            .0
            .lock()
            .unwrap()
            .insert(name.to_owned(), door.clone());
        Server {
            entrance: Entrance { door },
            calls,
        }
    });
    let mut options = Options {
        connector: Some(Arc::new(network)),
        ..Options::default()
    };
    options.retry.seed = Some(1);
    (all, options)
}

/// One server, and a client of it.
pub fn alone() -> (Server, Client) {
    let ([server], options) = servers(["a:1"]);
    (server, Client::new(&["a:1"], &options).unwrap())
}

impl Server {
    pub fn entrance(&self) -> Entrance {
        self.entrance.clone()
    }

    /// The next call.
    pub async fn call(&mut self) -> Call {
        self.calls.recv().await.expect("the door keeps a sender")
    }

    /// Whether no call is there that was not looked at.
    pub fn is_idle(&self) -> bool {
        self.calls.is_empty()
    }
}

impl std::ops::Deref for Server {
    type Target = Entrance;

    fn deref(&self) -> &Entrance {
        &self.entrance
    }
}

impl Entrance {
    /// Speaks TLS on connections from now on.
    pub fn secure(&self, tls: ServerConfig) {
        self.door.lock().unwrap().tls = Some(Arc::new(tls));
    }

    /// Breaks all connections.
    pub fn break_connections(&self) {
        for connection in self.door.lock().unwrap().connections.drain(..) {
            connection.abort();
        }
    }

    /// Lets nobody in any more, and throws out who is.
    pub fn shut(&self) {
        self.door.lock().unwrap().is_shut = true;
        self.break_connections();
    }

    /// Lets clients in again.
    pub fn open(&self) {
        let mut door = self.door.lock().unwrap();
        (door.is_shut, door.is_stuck) = (false, false);
    }

    /// Takes connections from now on without a word.
    pub fn get_stuck(&self) {
        self.door.lock().unwrap().is_stuck = true;
    }

    /// Greets who connects from now on, and hangs up.
    pub fn hang_up(&self) {
        self.door.lock().unwrap().hangs_up = true;
    }

    /// How many connections were made since they were last broken.
    pub fn connections(&self) -> usize {
        self.door.lock().unwrap().connections.len()
    }

    /// Lets the connections that are there hang, as when a cable is cut.
    pub fn cut(&self) {
        self.door.lock().unwrap().cuts.send_replace(());
    }
}

/// A call that a client has made.
#[derive(Debug)]
pub struct Call {
    pub path: String,
    pub token: Option<String>,
    /// How long the client waits, as it says.
    pub timeout: Option<String>,
    requests: Incoming,
    received: BytesMut,
    answers: mpsc::UnboundedSender<Frame<Bytes>>,
}

fn accept(
    calls: &mpsc::UnboundedSender<Call>,
    request: hyper::Request<Incoming>,
) -> hyper::Response<Answers> {
    let (answers, frames) = mpsc::unbounded_channel();
    let header = |name| {
        let value = request.headers().get(name);
        value.map(|value| value.to_str().unwrap().to_owned())
    };
    let call = Call {
        path: request.uri().path().to_owned(),
        token: header("token"),
        timeout: header("grpc-timeout"),
        requests: request.into_body(),
        received: BytesMut::new(),
        answers,
    };
    // A test that is over takes no more calls.
    let _ = calls.send(call);
    hyper::Response::builder()
        .header("content-type", "application/grpc")
        .body(Answers(frames))
        .unwrap()
}

impl Call {
    /// The next request, which there must be.
    pub async fn request<Q: Message + Default>(&mut self) -> Q {
        self.try_request().await.expect("a request")
    }

    /// The next request; `None` when the client has gone.
    pub async fn try_request<Q: Message + Default>(&mut self) -> Option<Q> {
        Some(Q::decode(self.message().await?).unwrap())
    }

    /// The next request's bytes; `None` when the client has gone.
    pub async fn message(&mut self) -> Option<BytesMut> {
        loop {
            if self.received.len() >= 5 {
                let length = (&self.received[1..5]).get_u32() as usize;
                if self.received.len() >= 5 + length {
                    self.received.advance(5);
                    return Some(self.received.split_to(length));
                }
            }
            let frame = self.requests.frame().await?.ok()?;
            if let Ok(data) = frame.into_data() {
                self.received.put(data);
            }
        }
    }

    /// Whether the client takes no more answers.
    pub fn is_gone(&self) -> bool {
        self.answers.is_closed()
    }

    /// Sends an answer.
    pub fn answer(&self, answer: impl Message) {
        let mut bytes = BytesMut::new();
        bytes.put_u8(0);
        bytes.put_u32(u32::try_from(answer.encoded_len()).unwrap());
        answer.encode(&mut bytes).unwrap();
        // The client may have gone.
        let _ = self.answers.send(Frame::data(bytes.freeze()));
    }

    /// Ends the call with a status.
    pub fn end(self, code: Code, text: &str) {
        let mut trailers = hyper::HeaderMap::new();
        trailers.insert("grpc-status", u16::from(code as u8).into());
        trailers.insert("grpc-message", text.parse().unwrap());
        let _ = self.answers.send(Frame::trailers(trailers));
    }

    /// Sends an answer, the only one.
    pub fn reply(self, answer: impl Message) {
        self.answer(answer);
        self.end(Code::Ok, "");
    }

    /// Refuses the call.
    pub fn refuse(self, error: Known) {
        self.end(error.code(), error.text());
    }
}

struct Answers(mpsc::UnboundedReceiver<Frame<Bytes>>);

impl Body for Answers {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        self.0.poll_recv(context).map(|frame| frame.map(Ok))
    }
}
