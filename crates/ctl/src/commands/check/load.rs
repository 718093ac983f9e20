//! Writes from many clients, and how long they took.

use crate::failure::Failure;
use crate::signals;
use quorate_cli::progress::Progress;
use quorate_client::Client;
use quorate_client::api::etcdserverpb::PutRequest;
use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// What is written: keys with a random beginning behind the prefix, zeros otherwise.
#[derive(Clone, Debug)]
pub struct Load {
    /// Of all keys.
    pub prefix: Vec<u8>,
    /// Of a key behind the prefix.
    pub key_bytes: usize,
    /// Of a value.
    pub value_bytes: usize,
}

/// What came of it; times in seconds.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Successful writes a second.
    pub rate: f64,
    /// The longest a write took.
    pub slowest: f64,
    /// The standard deviation of what writes took.
    pub deviation: f64,
    /// How often which error came.
    pub errors: BTreeMap<String, u64>,
}

type Outcome = Result<Duration, String>;

impl Load {
    /// So many writes a second, for so long or until a signal comes.
    pub async fn at_rate(&self, clients: Vec<Client>, rate: u32, time: Duration) -> Report {
        let (requests, outcomes) = workers(clients);
        let load = self.clone();
        let producer = async move {
            let mut end = pin!(signals::termination());
            let mut over = pin!(tokio::time::sleep(time));
            let bar = Progress::steps("putting", time.as_secs());
            let mut seconds = interval(Duration::from_secs(1));
            seconds.tick().await;
            let mut ticks = interval(Duration::from_secs(1) / rate);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
            loop {
                tokio::select! {
                    () = &mut end => break,
                    () = &mut over => break,
                    _ = seconds.tick() => bar.add(1),
                    _ = ticks.tick() => if requests.send(load.put()).await.is_err() { break },
                }
            }
        };
        measure(producer, outcomes, None).await
    }

    /// So many writes, as fast as they go.
    pub async fn of_keys(&self, clients: Vec<Client>, keys: u64) -> Report {
        let (requests, outcomes) = workers(clients);
        let load = self.clone();
        let producer = async move {
            for _ in 0..keys {
                if requests.send(load.put()).await.is_err() {
                    return;
                }
            }
        };
        measure(producer, outcomes, Some(Progress::steps("putting", keys))).await
    }

    fn put(&self) -> PutRequest {
        let mut key = vec![0; self.key_bytes];
        let head = fastrand::u64(..).to_le_bytes();
        key[..head.len()].copy_from_slice(&head);
        PutRequest {
            key: [&self.prefix[..], &key].concat().into(),
            value: vec![0; self.value_bytes].into(),
            ..PutRequest::default()
        }
    }
}

/// One task for each client: they take requests from one channel and give outcomes to another.
fn workers(clients: Vec<Client>) -> (mpsc::Sender<PutRequest>, mpsc::Receiver<Outcome>) {
    let (requests, waiting) = mpsc::channel(clients.len().max(1));
    let (outcomes, results) = mpsc::channel(clients.len().max(1));
    let waiting = Arc::new(Mutex::new(waiting));
    for client in clients {
        tokio::spawn(work(client, waiting.clone(), outcomes.clone()));
    }
    (requests, results)
}

async fn work(
    client: Client,
    waiting: Arc<Mutex<mpsc::Receiver<PutRequest>>>,
    outcomes: mpsc::Sender<Outcome>,
) {
    loop {
        let Some(request) = waiting.lock().await.recv().await else {
            return;
        };
        let start = Instant::now();
        let outcome = match client.put(request).await {
            Ok(_) => Ok(start.elapsed()),
            Err(error) => Err(Failure::from(error).to_string()),
        };
        if outcomes.send(outcome).await.is_err() {
            return;
        }
    }
}

/// Runs the producer beside the reader of outcomes, until both are done.
async fn measure(
    producer: impl Future<Output = ()> + Send + 'static,
    mut outcomes: mpsc::Receiver<Outcome>,
    bar: Option<Progress>,
) -> Report {
    let start = Instant::now();
    let mut producers = JoinSet::new();
    producers.spawn(producer);
    let mut seconds = Vec::new();
    let mut errors = BTreeMap::new();
    while let Some(outcome) = outcomes.recv().await {
        match outcome {
            Ok(took) => seconds.push(took.as_secs_f64()),
            Err(error) => *errors.entry(error).or_default() += 1,
        }
        if let Some(bar) = &bar {
            bar.add(1);
        }
    }
    producers.join_all().await;
    drop(bar);
    Report::of(&seconds, start.elapsed(), errors)
}

impl Report {
    #[expect(
        clippy::cast_precision_loss,
        reason = "counts of writes are far below 2^52"
    )]
    fn of(seconds: &[f64], whole: Duration, errors: BTreeMap<String, u64>) -> Report {
        let count = seconds.len() as f64;
        let mean = seconds.iter().sum::<f64>() / count;
        let squares: f64 = seconds.iter().map(|s| (s - mean).powi(2)).sum();
        Report {
            rate: count / whole.as_secs_f64(),
            slowest: seconds.iter().copied().fold(0.0, f64::max),
            deviation: (squares / count).sqrt(),
            errors,
        }
    }

    /// What is to be said about errors; nothing where there were none.
    pub fn error_lines(&self) -> Vec<String> {
        if self.errors.is_empty() {
            return Vec::new();
        }
        let each = self
            .errors
            .iter()
            .map(|(error, n)| format!("FAIL: ERROR({error}) -> {n}"));
        ["FAIL: too many errors".to_owned()]
            .into_iter()
            .chain(each)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_what_succeeded() {
        let errors = [("etcdserver: too many requests".to_owned(), 2)].into();
        let report = Report::of(&[0.1, 0.3], Duration::from_secs(2), errors);
        assert!((report.rate - 1.0).abs() < 1e-9);
        assert!((report.slowest - 0.3).abs() < 1e-9);
        assert!((report.deviation - 0.1).abs() < 1e-9);
        assert_eq!(
            report.error_lines(),
            [
                "FAIL: too many errors",
                "FAIL: ERROR(etcdserver: too many requests) -> 2"
            ]
        );
    }
}
