//! What other threads tell a connection, and how it learns of it.
//!
//! A connection lives on one worker thread. Anything may be put into its [`Inbox`] from any thread;
//! the first message puts the inbox on the worker's [`Post`], and one wake-up of the worker delivers
//! all that is there. A [`WakeBatch`] puts that wake-up off until many answers were given, so that a
//! durable batch of log entries costs one wake-up per worker.
//!
//! Invariants:
//! - A message put into an inbox is seen by its connection, or the connection has ended.
//! - Each call is answered once: by its responder, or by the responder's end.
//! - Answers to a stream that has ended are dropped: a [`StreamKey`] never comes back.

use super::body::Body;
use super::status::{Code, Status};
use std::cell::Cell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::task::Waker;

/// Which stream of a connection is meant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct StreamKey {
    /// Its place among the connection's streams.
    pub slot: u32,
    /// How often that place has been used.
    pub generation: u32,
}

pub(super) enum Message {
    /// A call's answer.
    Answer(StreamKey, Result<Body, Status>),
    /// A message of a stream.
    Send(StreamKey, Body),
    /// A stream's end, behind what was sent.
    Close(StreamKey, Status),
    /// Finish what was begun, take nothing new.
    Drain,
    /// End at once.
    Abort,
}

#[derive(Default)]
struct Queue {
    messages: Vec<Message>,
    /// The connection has ended.
    closed: bool,
}

/// A connection's mailbox.
pub(super) struct Inbox {
    id: u64,
    post: Arc<Post>,
    queue: Mutex<Queue>,
    /// Whether it is on the post's list, or its connection is about to look anyway.
    posted: AtomicBool,
    waker: Mutex<Option<Waker>>,
}

/// A connection as a service may know it.
pub struct ConnectionInbox(pub(super) Arc<Inbox>);

impl ConnectionInbox {
    /// Its number, which never comes back.
    pub fn id(&self) -> u64 {
        self.0.id
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    // Nothing that runs under these locks leaves them half done.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

thread_local! {
    /// The connection that this thread is running, by its inbox's address.
    static RUNNING: Cell<*const Inbox> = const { Cell::new(std::ptr::null()) };
}

impl Inbox {
    pub fn new(id: u64, post: Arc<Post>) -> Arc<Inbox> {
        Arc::new(Inbox {
            id,
            post,
            queue: Mutex::default(),
            posted: AtomicBool::new(false),
            waker: Mutex::new(None),
        })
    }

    pub fn id(&self) -> u64 {
        self.id
    }

    /// Puts a message in, and notes in the batch whom to wake.
    pub fn put(self: &Arc<Inbox>, message: Message, batch: &mut WakeBatch) {
        {
            let mut queue = lock(&self.queue);
            if queue.closed {
                return;
            }
            queue.messages.push(message);
        }
        // What the connection itself causes it sees before it ends its round.
        if std::ptr::eq(RUNNING.get(), Arc::as_ptr(self)) {
            return;
        }
        if !self.posted.swap(true, Ordering::AcqRel) {
            lock(&self.post.inboxes).push(self.clone());
            batch.add(&self.post);
        }
    }

    /// Puts a message in and wakes its connection.
    pub fn put_now(self: &Arc<Inbox>, message: Message) {
        self.put(message, &mut WakeBatch::new());
    }

    /// Moves all messages to `into`.
    pub fn take(&self, into: &mut Vec<Message>) {
        // Before the messages are taken: what comes after is posted again.
        self.posted.store(false, Ordering::Release);
        into.append(&mut lock(&self.queue).messages);
    }

    /// Runs a round of the connection.
    pub fn running<T>(self: &Arc<Inbox>, waker: &Waker, round: impl FnOnce() -> T) -> T {
        {
            let mut known = lock(&self.waker);
            if !known.as_ref().is_some_and(|known| known.will_wake(waker)) {
                *known = Some(waker.clone());
            }
        }
        let outer = RUNNING.replace(Arc::as_ptr(self));
        let result = round();
        RUNNING.set(outer);
        result
    }

    pub fn has_messages(&self) -> bool {
        !lock(&self.queue).messages.is_empty()
    }

    /// Ends the connection's part: nothing is taken any more.
    pub fn close(&self) {
        let messages = {
            let mut queue = lock(&self.queue);
            queue.closed = true;
            std::mem::take(&mut queue.messages)
        };
        // Outside the lock: bodies may hold anything.
        drop(messages);
        lock(&self.post.connections).remove(&self.id);
    }
}

/// A worker's list of the connections that have mail.
#[derive(Default)]
pub(super) struct Post {
    inboxes: Mutex<Vec<Arc<Inbox>>>,
    /// Whether the worker has been woken and has not looked since.
    woken: AtomicBool,
    waker: Mutex<Option<Waker>>,
    /// All connections of the worker.
    connections: Mutex<HashMap<u64, Weak<Inbox>>>,
}

impl Post {
    /// Makes a connection known, so that [`Post::tell_all`] reaches it.
    pub fn enter(&self, inbox: &Arc<Inbox>) {
        lock(&self.connections).insert(inbox.id, Arc::downgrade(inbox));
    }

    /// Connections that have not ended.
    pub fn connections(&self) -> usize {
        lock(&self.connections).len()
    }

    /// Tells every connection something.
    pub fn tell_all(&self, message: fn() -> Message) {
        let inboxes: Vec<_> = lock(&self.connections)
            .values()
            .filter_map(Weak::upgrade)
            .collect();
        let mut batch = WakeBatch::new();
        for inbox in inboxes {
            inbox.put(message(), &mut batch);
        }
    }

    /// Wakes the worker unless that was done already.
    fn wake(&self) {
        if !self.woken.swap(true, Ordering::AcqRel)
            && let Some(waker) = &*lock(&self.waker)
        {
            waker.wake_by_ref();
        }
    }

    /// Wakes the connections that have mail. Called by the worker with the waker that brings it
    /// here again.
    pub fn deliver(&self, waker: &Waker) {
        *lock(&self.waker) = Some(waker.clone());
        // Before the list is taken: who is added after wakes again.
        self.woken.store(false, Ordering::Release);
        let inboxes = std::mem::take(&mut *lock(&self.inboxes));
        for inbox in inboxes {
            if let Some(waker) = &*lock(&inbox.waker) {
                waker.wake_by_ref();
            }
        }
    }
}

/// Collects which workers have to be woken, and wakes each of them once when it is dropped or
/// flushed.
#[derive(Default)]
pub struct WakeBatch {
    posts: Vec<Arc<Post>>,
}

impl WakeBatch {
    /// An empty batch.
    pub fn new() -> WakeBatch {
        WakeBatch::default()
    }

    fn add(&mut self, post: &Arc<Post>) {
        // There are as many as processors: a list is searched fastest.
        if !self.posts.iter().any(|known| Arc::ptr_eq(known, post)) {
            self.posts.push(post.clone());
        }
    }

    /// Wakes whom it has collected.
    pub fn flush(&mut self) {
        for post in self.posts.drain(..) {
            post.wake();
        }
    }
}

impl Drop for WakeBatch {
    fn drop(&mut self) {
        self.flush();
    }
}

/// The means to answer a call, once, from any thread. Dropped without an answer it ends the call
/// with [`Code::Unavailable`].
pub struct Responder {
    inbox: Arc<Inbox>,
    key: StreamKey,
    answered: bool,
}

impl Responder {
    pub(super) fn new(inbox: Arc<Inbox>, key: StreamKey) -> Responder {
        Responder {
            inbox,
            key,
            answered: false,
        }
    }

    /// Answers, and wakes the connection.
    pub fn respond(self, answer: Result<Body, Status>) {
        self.respond_in(answer, &mut WakeBatch::new());
    }

    /// Answers; the connection is woken with the batch.
    pub fn respond_in(mut self, answer: Result<Body, Status>, batch: &mut WakeBatch) {
        self.answered = true;
        self.inbox.put(Message::Answer(self.key, answer), batch);
    }

    /// The connection that waits for the answer.
    pub fn connection_id(&self) -> u64 {
        self.inbox.id()
    }
}

impl Drop for Responder {
    fn drop(&mut self) {
        if !self.answered {
            let status = Status::new(Code::Unavailable, "etcdserver: server stopped");
            self.inbox.put_now(Message::Answer(self.key, Err(status)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicUsize;
    use std::task::Wake;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Count>) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }

    const KEY: StreamKey = StreamKey {
        slot: 3,
        generation: 1,
    };

    fn taken(inbox: &Inbox) -> Vec<Message> {
        let mut messages = Vec::new();
        inbox.take(&mut messages);
        messages
    }

    #[test]
    fn a_batch_wakes_a_worker_once_and_each_connection_once() {
        let post = Arc::new(Post::default());
        let (worker, first, second) = <(Arc<Count>, Arc<Count>, Arc<Count>)>::default();
        let inboxes = [Inbox::new(1, post.clone()), Inbox::new(2, post.clone())];
        inboxes[0].running(&first.clone().into(), || {});
        inboxes[1].running(&second.clone().into(), || {});
        post.deliver(&worker.clone().into());
        let mut batch = WakeBatch::new();
        for _ in 0..5 {
            for inbox in &inboxes {
                Responder::new(inbox.clone(), KEY).respond_in(Ok(vec![1].into()), &mut batch);
            }
        }
        assert_eq!(worker.0.load(Ordering::Relaxed), 0);
        drop(batch);
        assert_eq!(worker.0.load(Ordering::Relaxed), 1);
        post.deliver(&worker.clone().into());
        assert_eq!(
            (
                first.0.load(Ordering::Relaxed),
                second.0.load(Ordering::Relaxed)
            ),
            (1, 1)
        );
        assert_eq!(taken(&inboxes[0]).len(), 5);
        // Once it has looked, it is woken again.
        Responder::new(inboxes[0].clone(), KEY).respond(Ok(vec![1].into()));
        assert_eq!(worker.0.load(Ordering::Relaxed), 2);
    }

    #[test]
    fn a_responder_dropped_is_an_answer() {
        let inbox = Inbox::new(1, Arc::new(Post::default()));
        drop(Responder::new(inbox.clone(), KEY));
        match &taken(&inbox)[..] {
            [Message::Answer(KEY, Err(status))] => assert_eq!(status.code, Code::Unavailable),
            _ => panic!("one error is expected"),
        }
    }

    #[test]
    fn what_a_connection_tells_itself_wakes_nobody() {
        let post = Arc::new(Post::default());
        let count = Arc::new(Count::default());
        post.deliver(&count.clone().into());
        let inbox = Inbox::new(1, post);
        inbox.running(&count.clone().into(), || inbox.put_now(Message::Drain));
        assert_eq!(count.0.load(Ordering::Relaxed), 0);
        assert!(inbox.has_messages());
    }

    #[test]
    fn a_closed_inbox_takes_nothing() {
        let post = Arc::new(Post::default());
        let inbox = Inbox::new(1, post.clone());
        post.enter(&inbox);
        assert_eq!(post.connections(), 1);
        inbox.put_now(Message::Drain);
        inbox.close();
        inbox.put_now(Message::Drain);
        assert!(!inbox.has_messages());
        assert_eq!(post.connections(), 0);
    }
}
