//! A service for tests, the transport that serves it, and clients.

use crate::transport::*;
use ::http::{HeaderMap, Request, Response};
use bytes::{BufMut, Bytes, BytesMut};
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use http_body_util::{BodyExt, Full};
use std::convert::Infallible;
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// What the service hears, in order.
pub enum Event {
    /// A call of `Later`, with the means to answer it.
    Call(Bytes, Responder, Cancellation),
    /// A stream, with the means to send on it.
    Open(StreamSink),
    Message(Bytes),
    HalfClose,
    Cancel,
    Writable,
    HandlerDropped,
    Flush,
}

impl std::fmt::Debug for Event {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Event::Call(..) => "Call",
            Event::Open(_) => "Open",
            Event::Message(_) => "Message",
            Event::HalfClose => "HalfClose",
            Event::Cancel => "Cancel",
            Event::Writable => "Writable",
            Event::HandlerDropped => "HandlerDropped",
            Event::Flush => "Flush",
        })
    }
}

const METHODS: &[(&str, MethodKind)] = &[
    ("/t.T/Echo", MethodKind::Unary),
    ("/t.T/Fail", MethodKind::Unary),
    ("/t.T/Later", MethodKind::Unary),
    ("/t.T/Drop", MethodKind::Unary),
    ("/t.T/Forget", MethodKind::Unary),
    ("/t.T/Big", MethodKind::Unary),
    ("/t.T/Broken", MethodKind::Unary),
    ("/t.T/Context", MethodKind::Unary),
    ("/t.T/Chat", MethodKind::Bidi),
    ("/t.T/List", MethodKind::ServerStream),
    ("/t.T/Closed", MethodKind::Bidi),
];

pub struct Fake {
    events: UnboundedSender<Event>,
}

impl Fake {
    pub fn new(events: UnboundedSender<Event>) -> Fake {
        Fake { events }
    }
}

/// Counts up: byte `i` of the message is `i` modulo 251.
pub struct Counting {
    at: usize,
    end: usize,
}

pub fn counted(from: usize, to: usize) -> Bytes {
    (from..to)
        .map(|i| (i % 251) as u8)
        .collect::<Vec<_>>()
        .into()
}

impl BodySource for Counting {
    fn next_chunk(&mut self, budget: usize) -> Option<Bytes> {
        let to = self.end.min(self.at + budget.min(10_000));
        let chunk = counted(self.at, to);
        self.at = to;
        (!chunk.is_empty()).then_some(chunk)
    }
}

pub fn number(message: &[u8]) -> usize {
    std::str::from_utf8(message).unwrap().parse().unwrap()
}

impl Service for Fake {
    fn method(&self, path: &str) -> Lookup {
        match METHODS.iter().position(|(known, _)| *known == path) {
            Some(id) => Lookup::Method(MethodId(id as u16), METHODS[id].1),
            None if path.starts_with("/t.T/") => Lookup::UnknownMethod,
            None => Lookup::UnknownService,
        }
    }

    fn call(&self, method: MethodId, message: Bytes, context: &CallContext) -> Reply {
        match METHODS[usize::from(method.0)].0 {
            "/t.T/Echo" => Reply::Now(message.into()),
            "/t.T/Fail" => {
                let mut status = Status::new(Code::FailedPrecondition, "no: 100%");
                status
                    .trailers
                    .push(("x".parse().unwrap(), "y".parse().unwrap()));
                Reply::Error(status)
            }
            "/t.T/Later" => {
                let event = Event::Call(message, context.responder(), context.cancellation());
                self.events.send(event).unwrap();
                Reply::Later
            }
            "/t.T/Drop" => {
                drop(context.responder());
                Reply::Later
            }
            "/t.T/Forget" => Reply::Later,
            "/t.T/Big" => {
                let len = number(&message);
                Reply::Now(Body::Source {
                    len,
                    source: Box::new(Counting { at: 0, end: len }),
                })
            }
            "/t.T/Broken" => {
                let source = Box::new(Counting {
                    at: 0,
                    end: 100_000,
                });
                Reply::Now(Body::Source {
                    len: 200_000,
                    source,
                })
            }
            "/t.T/Context" => {
                let text = format!(
                    "{:?} {} {:?} {:?} {} {}",
                    context.token(),
                    context.requires_leader(),
                    context.client_api_version(),
                    context.user_agent(),
                    context.deadline().is_some(),
                    matches!(context.peer().address, PeerAddress::Tcp(from) if from.ip().is_loopback()),
                );
                Reply::Now(text.into_bytes().into())
            }
            other => panic!("{other} is a stream"),
        }
    }

    fn open_stream(
        &self,
        method: MethodId,
        _: &CallContext,
        sink: StreamSink,
    ) -> Result<Box<dyn StreamHandler>, Status> {
        match METHODS[usize::from(method.0)].0 {
            "/t.T/Chat" => {
                self.events.send(Event::Open(sink)).unwrap();
                Ok(Box::new(Chat(self.events.clone())))
            }
            "/t.T/List" => Ok(Box::new(List(sink))),
            _ => Err(Status::new(Code::PermissionDenied, "closed")),
        }
    }

    fn flush(&self, connection: &ConnectionInbox) {
        assert!(connection.id() > 0);
        // The test may be over.
        let _heard = self.events.send(Event::Flush);
    }

    fn http(&self, request: HttpRequest) -> HttpReply {
        Box::pin(async move {
            assert!(request.extensions().get::<Arc<Peer>>().is_some());
            let text = format!(
                "{} {} {}",
                request.method(),
                request.uri().path(),
                request.body().len()
            );
            // A body of some length shows flow control.
            let text = if request.uri().path() == "/long" {
                "x".repeat(3_000_000)
            } else {
                text
            };
            let body = Full::new(Bytes::from(text)).map_err(|never: Infallible| match never {});
            Response::builder()
                .header("connection", "close")
                .body(body.boxed_unsync())
                .unwrap()
        })
    }
}

struct Chat(UnboundedSender<Event>);

impl Chat {
    fn tell(&self, event: Event) {
        // The test may be over.
        let _heard = self.0.send(event);
    }
}

impl StreamHandler for Chat {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        if message == "refuse" {
            return Err(Status::new(Code::InvalidArgument, "refused"));
        }
        self.tell(Event::Message(message));
        Ok(())
    }
    fn on_half_close(&mut self) {
        self.tell(Event::HalfClose);
    }
    fn on_cancel(&mut self) {
        self.tell(Event::Cancel);
    }
    fn on_writable(&mut self) {
        self.tell(Event::Writable);
    }
}

impl Drop for Chat {
    fn drop(&mut self) {
        self.tell(Event::HandlerDropped);
    }
}

struct List(StreamSink);

impl StreamHandler for List {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        for n in 0..number(&message) {
            self.0.send(n.to_string().into_bytes().into());
        }
        self.0.close(Status::ok());
        Ok(())
    }
    fn on_half_close(&mut self) {}
    fn on_cancel(&mut self) {}
    fn on_writable(&mut self) {}
}

/// The client's library ends connections that bring many small frames at once; not here.
pub const BUDGET: usize = 1 << 30;

pub struct Server {
    pub transport: Transport,
    pub address: SocketAddr,
    pub events: UnboundedReceiver<Event>,
}

impl Server {
    pub fn start() -> Server {
        Server::with(Limits::default())
    }

    pub fn with(limits: Limits) -> Server {
        let (sender, events) = unbounded_channel();
        let transport = Transport::start(2).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let endpoint = Endpoint {
            service: Arc::new(Fake::new(sender)),
            limits: Arc::new(limits),
            secure: None,
        };
        transport.listen(Listener::Tcp(listener), endpoint).unwrap();
        Server {
            transport,
            address,
            events,
        }
    }

    pub async fn client(&self) -> SendRequest<Bytes> {
        self.client_with(h2::client::Builder::new().data_frame_budget(BUDGET))
            .await
    }

    pub async fn client_with(&self, builder: &h2::client::Builder) -> SendRequest<Bytes> {
        let socket = TcpStream::connect(self.address).await.unwrap();
        let (client, connection) = builder.handshake(socket).await.unwrap();
        tokio::spawn(async move {
            // Ends with the server's.
            let _ended = connection.await;
        });
        client
    }

    /// The next event that is no flush.
    pub async fn event(&mut self) -> Event {
        loop {
            let event = tokio::time::timeout(Duration::from_secs(10), self.events.recv()).await;
            match event
                .expect("something happens within ten seconds")
                .expect("the service lives")
            {
                Event::Flush => {}
                event => return event,
            }
        }
    }

    pub async fn later_call(&mut self) -> (Bytes, Responder, Cancellation) {
        match self.event().await {
            Event::Call(message, responder, cancellation) => (message, responder, cancellation),
            other => panic!("expected a call, not {other:?}"),
        }
    }

    pub async fn opened(&mut self) -> StreamSink {
        match self.event().await {
            Event::Open(sink) => sink,
            other => panic!("expected a stream, not {other:?}"),
        }
    }
}

pub fn framed(message: &[u8]) -> Bytes {
    let mut out = BytesMut::with_capacity(5 + message.len());
    out.put_u8(0);
    out.put_u32(message.len() as u32);
    out.put_slice(message);
    out.freeze()
}

pub fn request(path: &str) -> Request<()> {
    with_headers(path, &[])
}

pub fn with_headers(path: &str, headers: &[(&str, &str)]) -> Request<()> {
    let mut request = Request::post(format!("http://test{path}"));
    if !headers.iter().any(|(name, _)| *name == "content-type") {
        request = request.header("content-type", "application/grpc");
    }
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(()).unwrap()
}

/// How a call ended, as its client sees it.
#[derive(Debug)]
pub struct Outcome {
    pub http: u16,
    pub headers: HeaderMap,
    pub data: Vec<u8>,
    pub trailers: HeaderMap,
}

impl Outcome {
    pub fn code(&self) -> &str {
        let either = self
            .trailers
            .get("grpc-status")
            .or(self.headers.get("grpc-status"));
        either.expect("a call has a status").to_str().unwrap()
    }

    pub fn message(&self) -> &str {
        let either = self
            .trailers
            .get("grpc-message")
            .or(self.headers.get("grpc-message"));
        either.map_or("", |message| message.to_str().unwrap())
    }

    /// The answer of a call that went well.
    #[track_caller]
    pub fn answer(&self) -> &[u8] {
        assert_eq!((self.http, self.code()), (200, "0"), "{}", self.message());
        assert_eq!(self.headers["content-type"], "application/grpc");
        let len = u32::from_be_bytes(self.data[1..5].try_into().unwrap());
        assert_eq!((self.data[0], len as usize), (0, self.data.len() - 5));
        &self.data[5..]
    }
}

/// Reads a response to its end; what is read is given back to flow control.
pub async fn finish(response: h2::client::ResponseFuture) -> Result<Outcome, h2::Error> {
    let (parts, mut body) = response.await?.into_parts();
    let data = read_all(&mut body).await?;
    let trailers = body.trailers().await?.unwrap_or_default();
    Ok(Outcome {
        http: parts.status.as_u16(),
        headers: parts.headers,
        data,
        trailers,
    })
}

pub async fn read_all(body: &mut RecvStream) -> Result<Vec<u8>, h2::Error> {
    let mut data = Vec::new();
    while let Some(part) = body.data().await {
        let part = part?;
        body.flow_control().release_capacity(part.len())?;
        data.extend_from_slice(&part);
    }
    Ok(data)
}

/// Makes a call and reads it to its end.
pub async fn call(client: &SendRequest<Bytes>, path: &str, message: &[u8]) -> Outcome {
    call_request(client, request(path), framed(message))
        .await
        .unwrap()
}

pub async fn call_request(
    client: &SendRequest<Bytes>,
    request: Request<()>,
    body: Bytes,
) -> Result<Outcome, h2::Error> {
    let mut client = client.clone().ready().await?;
    let (response, mut send) = client.send_request(request, body.is_empty())?;
    if !body.is_empty() {
        send.send_data(body, true)?;
    }
    finish(response).await
}

/// Begins a call and leaves it open.
pub async fn begin(
    client: &SendRequest<Bytes>,
    request: Request<()>,
) -> (h2::client::ResponseFuture, SendStream<Bytes>) {
    client
        .clone()
        .ready()
        .await
        .unwrap()
        .send_request(request, false)
        .unwrap()
}
