//! Measures what the transport alone costs: etcd's Range is answered at once, its Put by another
//! thread that answers all that has come together, as a log with one sync per batch would. A Watch
//! stream is sent constant responses as fast as its client takes them.
//!
//! Usage: echo_transport [ADDRESS [WORKERS [VALUE_BYTES]]]. Any etcd client loads it.

use bytes::Bytes;
use quorate::transport::{
    Body, CallContext, ConnectionInbox, Endpoint, HttpReply, HttpRequest, Limits, Listener, Lookup,
    MethodId, MethodKind, Reply, Responder, Service, Status, StreamHandler, StreamSink, Transport,
    WakeBatch,
};
use std::error::Error;
use std::net::TcpListener;
use std::sync::{Arc, Condvar, Mutex};
use std::thread;

const RANGE: MethodId = MethodId(0);
const PUT: MethodId = MethodId(1);
const WATCH: MethodId = MethodId(2);

struct Echo {
    range_answer: Bytes,
    /// Puts of the connection being read, then of all.
    waiting: Mutex<Vec<Responder>>,
    some_wait: Condvar,
}

impl Echo {
    fn new(value_bytes: usize) -> Echo {
        // RangeResponse { kvs: [KeyValue { key: "key", value }], count: 1 }
        let mut pair = vec![0x0a, 3, b'k', b'e', b'y', 0x2a];
        put_varint(&mut pair, value_bytes);
        pair.resize(pair.len() + value_bytes, b'v');
        let mut answer = vec![0x12];
        put_varint(&mut answer, pair.len());
        answer.extend(pair);
        answer.extend([0x20, 1]);
        Echo {
            range_answer: answer.into(),
            waiting: Mutex::default(),
            some_wait: Condvar::new(),
        }
    }

    /// Answers puts, batch by batch.
    fn work(&self) {
        loop {
            let mut waiting = self.waiting.lock().expect("nobody panics");
            while waiting.is_empty() {
                waiting = self.some_wait.wait(waiting).expect("nobody panics");
            }
            let batch = std::mem::take(&mut *waiting);
            drop(waiting);
            let mut wake = WakeBatch::new();
            for responder in batch {
                responder.respond_in(Ok(Body::Whole(Bytes::new())), &mut wake);
            }
        }
    }
}

/// Sends all that its client takes.
struct Flood {
    sink: StreamSink,
    response: Bytes,
}

impl Flood {
    fn fill(&self) {
        // As if each was meant for another watcher: message by message.
        while self.sink.writable() > 0 {
            self.sink.send(Body::Whole(self.response.clone()));
        }
    }
}

impl StreamHandler for Flood {
    fn on_message(&mut self, _message: Bytes) -> Result<(), Status> {
        self.fill();
        Ok(())
    }
    fn on_half_close(&mut self) {}
    fn on_cancel(&mut self) {}
    fn on_writable(&mut self) {
        self.fill();
    }
}

fn put_varint(out: &mut Vec<u8>, mut value: usize) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

impl Service for Echo {
    fn method(&self, path: &str) -> Lookup {
        match path {
            "/etcdserverpb.KV/Range" => Lookup::Method(RANGE, MethodKind::Unary),
            "/etcdserverpb.KV/Put" => Lookup::Method(PUT, MethodKind::Unary),
            "/etcdserverpb.Watch/Watch" => Lookup::Method(WATCH, MethodKind::Bidi),
            _ if path.starts_with("/etcdserverpb.KV/") => Lookup::UnknownMethod,
            _ => Lookup::UnknownService,
        }
    }

    fn call(&self, method: MethodId, _message: Bytes, context: &CallContext) -> Reply {
        if method == RANGE {
            return Reply::Now(Body::Whole(self.range_answer.clone()));
        }
        self.waiting
            .lock()
            .expect("nobody panics")
            .push(context.responder());
        Reply::Later
    }

    fn open_stream(
        &self,
        _: MethodId,
        _: &CallContext,
        sink: StreamSink,
    ) -> Result<Box<dyn StreamHandler>, Status> {
        Ok(Box::new(Flood {
            sink,
            response: self.range_answer.clone(),
        }))
    }

    fn flush(&self, _connection: &ConnectionInbox) {
        if !self.waiting.lock().expect("nobody panics").is_empty() {
            self.some_wait.notify_one();
        }
    }

    fn http(&self, _request: HttpRequest) -> HttpReply {
        unreachable!("the load is gRPC")
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let address = arguments.next().unwrap_or("127.0.0.1:2379".to_owned());
    let workers = match arguments.next() {
        Some(workers) => workers.parse()?,
        None => thread::available_parallelism()?.get(),
    };
    let value_bytes = arguments.next().map_or(Ok(256), |bytes| bytes.parse())?;
    let echo = Arc::new(Echo::new(value_bytes));
    let transport = Transport::start(workers)?;
    let listener = Listener::Tcp(TcpListener::bind(address)?);
    let endpoint = Endpoint {
        service: echo.clone(),
        limits: Arc::new(Limits::default()),
        secure: None,
    };
    transport.listen(listener, endpoint)?;
    echo.work();
    Ok(())
}
