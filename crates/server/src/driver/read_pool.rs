//! Threads for reads that take long: large ranges, hashes, snapshots.
//!
//! The queue is bounded; a full one refuses, and the caller answers "too many requests".

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

type Job = Box<dyn FnOnce() + Send>;

/// The threads.
pub struct ReadPool {
    jobs: SyncSender<Job>,
}

impl ReadPool {
    /// Starts `threads` of them, with at most `queue` jobs waiting.
    pub fn new(threads: usize, queue: usize) -> std::io::Result<ReadPool> {
        let (jobs, receiver) = sync_channel::<Job>(queue);
        let receiver = Arc::new(Mutex::new(receiver));
        for i in 0..threads {
            let receiver: Arc<Mutex<Receiver<Job>>> = receiver.clone();
            thread::Builder::new()
                .name(format!("read-{i}"))
                .spawn(move || {
                    loop {
                        let job = receiver
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .recv();
                        match job {
                            Ok(job) => job(),
                            Err(_) => return,
                        }
                    }
                })?;
        }
        Ok(ReadPool { jobs })
    }

    /// Runs a job when a thread is free; gives it back where the queue is full.
    pub fn run(&self, job: Job) -> Result<(), Job> {
        self.jobs.try_send(job).map_err(|refused| match refused {
            std::sync::mpsc::TrySendError::Full(job)
            | std::sync::mpsc::TrySendError::Disconnected(job) => job,
        })
    }
}
