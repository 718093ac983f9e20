//! The threads that serve connections: one per processor, each with a runtime of its own, and the
//! listeners that hand connections out to them in turn.
//!
//! Invariants:
//! - A connection stays on the worker that it was given to.
//! - A listener's accept loop never ends for an error that the next connection may not have.

use super::connection::{self, Serving};
use super::context::{Peer, PeerAddress};
use super::http1;
use super::inbox::{Inbox, Message, Post};
use super::io::{Duplex, read_preface};
use super::limits::Limits;
use super::service::Service;
use std::future::{Future, poll_fn};
use std::io;
use std::net;
use std::os::unix;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::thread;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::{LocalSet, spawn_local};
use tokio::time::{sleep, timeout};

/// How long a client may take for its first bytes.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(120);

/// How long connections that were told to end at once may take for it.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Connections that may wait for a worker to take them.
const HANDOVER_QUEUE: usize = 1024;

/// A connected socket.
pub enum Socket {
    /// TCP.
    Tcp(TcpStream),
    /// A unix socket.
    Unix(UnixStream),
}

/// A transport over a socket, such as TLS makes.
pub type BoxedDuplex = Box<dyn BoxableDuplex>;

/// A [`Duplex`] that can be boxed.
pub trait BoxableDuplex: Duplex {}

impl<T: Duplex> BoxableDuplex for T {}

/// What a [`Secure`] handshake comes to.
pub type Secured = Pin<Box<dyn Future<Output = io::Result<(BoxedDuplex, Peer)>>>>;

/// Makes a transport of a connected socket: the seam for TLS.
pub trait Secure: Send + Sync + 'static {
    /// Shakes hands. `peer` is what is known of the client so far.
    fn secure(&self, socket: Socket, peer: Peer) -> Secured;
}

/// What a listener serves, and how.
#[derive(Clone)]
pub struct Endpoint {
    /// The services.
    pub service: Arc<dyn Service>,
    /// What clients may ask for.
    pub limits: Arc<Limits>,
    /// How sockets are secured; not at all if `None`.
    pub secure: Option<Arc<dyn Secure>>,
}

/// A socket that listens.
pub enum Listener {
    /// TCP.
    Tcp(net::TcpListener),
    /// A unix socket.
    Unix(unix::net::UnixListener),
}

type Task = Box<dyn FnOnce() + Send>;

struct Worker {
    /// Run on the worker's thread, where they may spawn local tasks.
    tasks: mpsc::Sender<Task>,
    /// End: connections first gracefully, those that are left after this time at once.
    stop: watch::Sender<Option<Duration>>,
    about: Arc<WorkerState>,
    thread: Option<thread::JoinHandle<()>>,
}

#[derive(Default)]
struct WorkerState {
    post: Arc<Post>,
    /// A connection has ended.
    ended: Notify,
}

/// The workers and their listeners.
pub struct Transport {
    workers: Vec<Worker>,
    next: AtomicUsize,
    stop_listening: watch::Sender<bool>,
}

static NEXT_CONNECTION: AtomicU64 = AtomicU64::new(1);

impl Transport {
    /// Starts so many workers.
    pub fn start(workers: usize) -> io::Result<Transport> {
        assert!(workers > 0);
        let workers = (0..workers)
            .map(Worker::start)
            .collect::<io::Result<Vec<_>>>()?;
        let (stop_listening, _) = watch::channel(false);
        Ok(Transport {
            workers,
            next: AtomicUsize::new(0),
            stop_listening,
        })
    }

    /// Accepts connections until [`Transport::stop_listening`].
    pub fn listen(&self, listener: Listener, endpoint: Endpoint) -> io::Result<()> {
        match &listener {
            Listener::Tcp(listener) => listener.set_nonblocking(true)?,
            Listener::Unix(listener) => listener.set_nonblocking(true)?,
        }
        let stopped = self.stop_listening.subscribe();
        let workers: Vec<_> = self
            .workers
            .iter()
            .map(|worker| (worker.tasks.clone(), worker.about.clone()))
            .collect();
        let first = self.next.fetch_add(1, Ordering::Relaxed);
        let accept: Task = Box::new(move || {
            spawn_local(accept_all(listener, endpoint, workers, first, stopped));
        });
        let tasks = &self.workers[first % self.workers.len()].tasks;
        tasks
            .try_send(accept)
            .map_err(|_| io::ErrorKind::WouldBlock.into())
    }

    /// Closes the listeners.
    pub fn stop_listening(&self) {
        self.stop_listening.send_replace(true);
    }

    /// Connections that are open.
    pub fn connections(&self) -> usize {
        self.workers
            .iter()
            .map(|worker| worker.about.post.connections())
            .sum()
    }

    /// Ends: listeners close, connections take no new calls and finish those they have, and what is
    /// not finished after `grace` is cut off. Not to be called from a worker.
    pub fn shutdown(mut self, grace: Duration) {
        self.end(grace);
    }

    fn end(&mut self, grace: Duration) {
        self.stop_listening();
        for worker in &self.workers {
            worker.stop.send_replace(Some(grace));
        }
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take()
                && let Err(panic) = thread.join()
                && !thread::panicking()
            {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

impl Drop for Transport {
    fn drop(&mut self) {
        if self.workers.iter().any(|worker| worker.thread.is_some()) {
            self.end(Duration::ZERO);
        }
    }
}

impl Worker {
    fn start(number: usize) -> io::Result<Worker> {
        let (tasks, receiver) = mpsc::channel(HANDOVER_QUEUE);
        let (stop, stopped) = watch::channel(None);
        let about = Arc::new(WorkerState::default());
        let state = about.clone();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let thread = thread::Builder::new()
            .name(format!("transport-{number}"))
            .spawn(move || {
                runtime.block_on(LocalSet::new().run_until(work(receiver, stopped, state)));
            })?;
        Ok(Worker {
            tasks,
            stop,
            about,
            thread: Some(thread),
        })
    }
}

/// A worker's main task.
async fn work(
    mut tasks: mpsc::Receiver<Task>,
    mut stopped: watch::Receiver<Option<Duration>>,
    state: Arc<WorkerState>,
) {
    let post = state.post.clone();
    spawn_local(poll_fn(move |cx| -> Poll<()> {
        post.deliver(cx.waker());
        Poll::Pending
    }));
    let grace = loop {
        tokio::select! {
            task = tasks.recv() => match task {
                Some(task) => task(),
                None => break Duration::ZERO,
            },
            // An error says that the transport is gone without a word.
            stop = stopped.wait_for(Option::is_some) => {
                break stop.ok().and_then(|grace| *grace).unwrap_or_default();
            }
        }
    };
    drop(tasks);
    state.post.tell_all(|| Message::Drain);
    let gone = async {
        while state.post.connections() > 0 {
            state.ended.notified().await;
        }
    };
    let mut gone = std::pin::pin!(gone);
    if timeout(grace, gone.as_mut()).await.is_err() {
        state.post.tell_all(|| Message::Abort);
        // What is still there then goes with the runtime.
        let _all_gone = timeout(ABORT_TIMEOUT, gone).await;
    }
}

enum Accepting {
    Tcp(TcpListener),
    Unix(UnixListener),
}

/// A socket on its way from the accept loop to its worker, outside of any runtime.
enum Loose {
    Tcp(net::TcpStream, net::SocketAddr),
    Unix(unix::net::UnixStream),
}

async fn accept_all(
    listener: Listener,
    endpoint: Endpoint,
    workers: Vec<(mpsc::Sender<Task>, Arc<WorkerState>)>,
    first: usize,
    mut stopped: watch::Receiver<bool>,
) {
    let accepting = match listener {
        Listener::Tcp(listener) => TcpListener::from_std(listener).map(Accepting::Tcp),
        Listener::Unix(listener) => UnixListener::from_std(listener).map(Accepting::Unix),
    };
    let accepting = accepting.expect("a nonblocking listener can be registered with the runtime");
    let mut pause = Duration::ZERO;
    for turn in first.. {
        let accepted = tokio::select! {
            accepted = accept(&accepting) => accepted,
            _ = stopped.wait_for(|stopped| *stopped) => return,
        };
        let loose = match accepted {
            Ok(loose) => loose,
            Err(_) => {
                // Out of descriptors, most likely. The pause is net/http's.
                pause = (pause * 2).clamp(Duration::from_millis(5), Duration::from_secs(1));
                sleep(pause).await;
                continue;
            }
        };
        pause = Duration::ZERO;
        let (tasks, state) = &workers[turn % workers.len()];
        let (endpoint, state) = (endpoint.clone(), state.clone());
        let task: Task = Box::new(move || {
            spawn_local(serve_loose(loose, endpoint, state));
        });
        if tasks.send(task).await.is_err() {
            return;
        }
    }
}

async fn accept(accepting: &Accepting) -> io::Result<Loose> {
    match accepting {
        Accepting::Tcp(listener) => {
            let (socket, address) = listener.accept().await?;
            Ok(Loose::Tcp(socket.into_std()?, address))
        }
        Accepting::Unix(listener) => Ok(Loose::Unix(listener.accept().await?.0.into_std()?)),
    }
}

async fn serve_loose(loose: Loose, endpoint: Endpoint, state: Arc<WorkerState>) {
    // A client that is gone before it was served leaves nobody to tell.
    let _gone = match loose {
        Loose::Tcp(socket, address) => serve_tcp(socket, address, endpoint, &state).await,
        Loose::Unix(socket) => serve_unix(socket, endpoint, &state).await,
    };
    state.ended.notify_one();
}

async fn serve_tcp(
    socket: net::TcpStream,
    address: net::SocketAddr,
    endpoint: Endpoint,
    state: &WorkerState,
) -> io::Result<()> {
    socket.set_nodelay(true)?;
    rustix::net::sockopt::set_socket_keepalive(&socket, true)?;
    rustix::net::sockopt::set_tcp_keepidle(&socket, TCP_KEEPALIVE)?;
    rustix::net::sockopt::set_tcp_keepintvl(&socket, TCP_KEEPALIVE)?;
    let socket = TcpStream::from_std(socket)?;
    let peer = Peer {
        address: PeerAddress::Tcp(address),
        tls: None,
    };
    match endpoint.secure.clone() {
        None => serve_stream(socket, peer, endpoint, state).await,
        Some(secure) => serve_secured(&*secure, Socket::Tcp(socket), peer, endpoint, state).await,
    }
}

/// Interval of TCP's own probes of a silent peer, which etcd's listeners set too.
const TCP_KEEPALIVE: Duration = Duration::from_secs(30);

async fn serve_unix(
    socket: unix::net::UnixStream,
    endpoint: Endpoint,
    state: &WorkerState,
) -> io::Result<()> {
    let socket = UnixStream::from_std(socket)?;
    let peer = Peer {
        address: PeerAddress::Unix,
        tls: None,
    };
    match endpoint.secure.clone() {
        None => serve_stream(socket, peer, endpoint, state).await,
        Some(secure) => serve_secured(&*secure, Socket::Unix(socket), peer, endpoint, state).await,
    }
}

async fn serve_secured(
    secure: &dyn Secure,
    socket: Socket,
    peer: Peer,
    endpoint: Endpoint,
    state: &WorkerState,
) -> io::Result<()> {
    let (socket, peer) = timeout(PREFACE_TIMEOUT, secure.secure(socket, peer)).await??;
    serve_stream(socket, peer, endpoint, state).await
}

/// Serves a transport in the protocol that its client speaks.
async fn serve_stream<T: Duplex>(
    mut socket: T,
    peer: Peer,
    endpoint: Endpoint,
    state: &WorkerState,
) -> io::Result<()> {
    let (is_http2, early) = timeout(PREFACE_TIMEOUT, read_preface(&mut socket)).await??;
    let id = NEXT_CONNECTION.fetch_add(1, Ordering::Relaxed);
    let inbox = Inbox::new(id, state.post.clone());
    state.post.enter(&inbox);
    let serving = Serving {
        service: endpoint.service,
        limits: endpoint.limits,
        inbox: inbox.clone(),
        peer: Arc::new(peer),
    };
    let _left = LeftOnDrop(inbox);
    if is_http2 {
        connection::serve(socket, early, serving).await;
    } else {
        http1::serve(socket, early, serving).await;
    }
    Ok(())
}

/// Closes the inbox of a connection whose task is dropped with its runtime.
struct LeftOnDrop(Arc<Inbox>);

impl Drop for LeftOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}
