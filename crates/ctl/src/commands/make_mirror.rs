//! `make-mirror`: copies a cluster's keys into another one, and goes on with its changes.
//!
//! Invariant: changes of one revision are made in one transaction, unless they are more than
//! `--max-txn-ops`; transactions follow one another.

use crate::failure::Failure;
use crate::ranges::{self, OPEN_END};
use crate::session::{self, Session};
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::flags::{boolean, bytes, int, switch, text, uint};
use quorate_cli::progress::Progress;
use quorate_cli::streams::write_out;
use quorate_cli::{Invocation, flags};
use quorate_client::Client;
use quorate_client::api::etcdserverpb::request_op::Request;
use quorate_client::api::etcdserverpb::{
    DeleteRangeRequest, PutRequest, RangeRequest, RequestOp, TxnRequest, WatchCreateRequest,
};
use quorate_client::api::mvccpb::Event;
use quorate_client::api::mvccpb::event::EventType;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "make-mirror",
        "make-mirror [options] <destination>",
        "Copy keys, and every change of them, to another cluster",
    )
    .args([
        bytes("prefix", "", "prefix of the keys that are mirrored"),
        int(
            "rev",
            "0",
            "revision from which on changes are mirrored, without what was there before",
        ),
        uint("max-txn-ops", "128", "most changes in one transaction"),
        bytes(
            "dest-prefix",
            "",
            "prefix that the keys get in place of theirs",
        ),
        switch("no-dest-prefix", "take the prefix off"),
        text(
            "dest-cert",
            "",
            "file of the certificate that is shown to the destination",
        ),
        text(
            "dest-key",
            "",
            "file of the private key of the certificate in --dest-cert",
        ),
        text(
            "dest-cacert",
            "",
            "file of the certificate authorities that the destination is checked against",
        ),
        boolean(
            "dest-insecure-transport",
            "true",
            "talk without TLS where no certificate is given",
        ),
        text(
            "dest-user",
            "",
            "name[:password] of the user at the destination (without a password it is asked for)",
        ),
        text(
            "dest-password",
            "",
            "the user's password (then --dest-user has none)",
        ),
    ])
}

/// Keys of a page while what is there is copied.
const PAGE: i64 = 1000;
/// Between two lines about how many keys were copied.
const REPORT: Duration = Duration::from_secs(30);

/// Runs it; it ends only with an error.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let given = &invocation.given;
    let [destination] = &given.texts()[..] else {
        return Err(Exit::bad_arguments(
            "make-mirror takes one destination argument",
        ));
    };
    let (prefix, dest_prefix) = (given.bytes("prefix"), given.bytes("dest-prefix"));
    if given.flag("no-dest-prefix") && !dest_prefix.is_empty() {
        return Err(Exit::bad_arguments(
            "`--dest-prefix` and `--no-dest-prefix` cannot be set at the same time, choose one",
        ));
    }
    let target = self::destination(invocation, destination).await?;
    let source = Session::open(invocation).await?;
    let start_revision = (given.int("rev") - 1).max(0);
    let keep_prefix =
        start_revision == 0 && !given.flag("no-dest-prefix") && dest_prefix.is_empty();
    let mirror = Mirror {
        source: source.client,
        target,
        dest_prefix: if keep_prefix {
            prefix.clone()
        } else {
            dest_prefix
        },
        prefix,
        txn_ops_max: usize::try_from(given.uint("max-txn-ops"))
            .unwrap_or(usize::MAX)
            .max(1),
        copied: Arc::default(),
    };
    tokio::spawn(report(mirror.copied.clone()));
    let failed = |error| Exit::error(Failure::from(error));
    let revision = match start_revision {
        0 => mirror.copy_all().await.map_err(failed)?,
        revision => revision,
    };
    mirror.follow(revision).await.map_err(failed)
}

/// A client of the destination.
async fn destination(invocation: &Invocation, endpoint: &str) -> Result<Client, Exit> {
    let given = &invocation.given;
    let globals = crate::cli::Globals::quietly(&invocation.path, given)?;
    let (ca, cert, key) = (
        given.text("dest-cacert"),
        given.text("dest-cert"),
        given.text("dest-key"),
    );
    let files = session::Files {
        ca: &ca,
        cert: &cert,
        key: &key,
    };
    let tls = session::tls(&files, "", given.flag("dest-insecure-transport"), false)?;
    let mut options = session::connection(&globals, tls)?;
    let (user, password) = (given.text("dest-user"), given.text("dest-password"));
    options.credentials = session::user(&user, &password, "Destination Password: ")?;
    session::connected(&[endpoint.to_owned()], &options, globals.dial_timeout).await
}

struct Mirror {
    source: Client,
    target: Client,
    prefix: Vec<u8>,
    dest_prefix: Vec<u8>,
    txn_ops_max: usize,
    copied: Arc<AtomicU64>,
}

/// Says now and then how many keys were copied.
async fn report(copied: Arc<AtomicU64>) {
    loop {
        tokio::time::sleep(REPORT).await;
        let line = format!("{}\n", copied.load(Ordering::Relaxed));
        if write_out(line.as_bytes()).is_err() {
            return;
        }
    }
}

impl Mirror {
    /// Copies what is there; gives the revision at which it was.
    async fn copy_all(&self) -> quorate_client::Result<i64> {
        let (mut key, range_end) = match self.prefix.is_empty() {
            true => (vec![0], OPEN_END.to_vec()),
            false => (self.prefix.clone(), ranges::prefix_end(&self.prefix)),
        };
        let mut revision = 0;
        let mut bar: Option<Progress> = None;
        loop {
            let page = self
                .source
                .range(RangeRequest {
                    key: key.into(),
                    range_end: range_end.clone().into(),
                    limit: PAGE,
                    revision,
                    ..RangeRequest::default()
                })
                .await?;
            if revision == 0 {
                revision = page.header.map_or(0, |header| header.revision);
            }
            let keys = u64::try_from(page.count).unwrap_or(0);
            let bar = bar.get_or_insert_with(|| Progress::steps("copying", keys));
            let last = page.kvs.last().map(|kv| kv.key.clone());
            for kv in page.kvs {
                let put = PutRequest {
                    key: self.renamed(&kv.key).into(),
                    value: kv.value,
                    ..PutRequest::default()
                };
                self.target.put(put).await?;
                self.copied.fetch_add(1, Ordering::Relaxed);
                bar.add(1);
            }
            match last {
                Some(last) if page.more => key = [&last[..], &[0]].concat(),
                _ => return Ok(revision),
            }
        }
    }

    /// Makes every change after a revision.
    async fn follow(&self, revision: i64) -> quorate_client::Result<()> {
        let (key, range_end) = match self.prefix.is_empty() {
            true => (vec![0], OPEN_END.to_vec()),
            false => (self.prefix.clone(), ranges::prefix_end(&self.prefix)),
        };
        let mut watcher = self.source.watcher(WatchCreateRequest {
            key: key.into(),
            range_end: range_end.into(),
            start_revision: revision + 1,
            ..WatchCreateRequest::default()
        })?;
        loop {
            for changes in batches(&watcher.next().await?.events, self.txn_ops_max) {
                let success: Vec<RequestOp> = changes
                    .iter()
                    .map(|change| self.operation(change))
                    .collect();
                let count = success.len() as u64;
                let txn = TxnRequest {
                    success,
                    ..TxnRequest::default()
                };
                self.target.txn(txn).await?;
                self.copied.fetch_add(count, Ordering::Relaxed);
            }
        }
    }

    fn operation(&self, event: &Event) -> RequestOp {
        let kv = event.kv.clone().unwrap_or_default();
        let key = self.renamed(&kv.key).into();
        let request = match event.r#type() {
            EventType::Put => Request::RequestPut(PutRequest {
                key,
                value: kv.value,
                ..PutRequest::default()
            }),
            EventType::Delete => Request::RequestDeleteRange(DeleteRangeRequest {
                key,
                ..DeleteRangeRequest::default()
            }),
        };
        RequestOp {
            request: Some(request),
        }
    }

    /// The key's name at the destination.
    fn renamed(&self, key: &[u8]) -> Vec<u8> {
        match key.strip_prefix(&self.prefix[..]) {
            Some(rest) => [&self.dest_prefix[..], rest].concat(),
            None => key.to_vec(),
        }
    }
}

/// Events of one revision together, and no more than `most` at once.
fn batches(events: &[Event], most: usize) -> Vec<&[Event]> {
    let revision = |event: &Event| event.kv.as_ref().map(|kv| kv.mod_revision);
    events
        .chunk_by(|a, b| revision(a) == revision(b))
        .flat_map(|same| same.chunks(most))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_client::api::mvccpb::KeyValue;

    #[test]
    fn revisions_stay_together() {
        let event = |mod_revision| Event {
            kv: Some(KeyValue {
                mod_revision,
                ..KeyValue::default()
            }),
            ..Event::default()
        };
        let events: Vec<Event> = [2, 3, 3, 3, 4].into_iter().map(event).collect();
        let sizes = |most| {
            batches(&events, most)
                .iter()
                .map(|b| b.len())
                .collect::<Vec<_>>()
        };
        assert_eq!(sizes(128), [1, 3, 1]);
        assert_eq!(sizes(2), [1, 2, 1, 1]);
    }
}
