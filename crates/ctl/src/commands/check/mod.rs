//! `check …`: whether a cluster is fast enough, and what its data weigh in a member's memory.

mod load;
mod metrics;

use super::get::range;
use crate::failure::Failure;
use crate::session::{Session, Setting};
use clap::{Arg, Command};
use load::{Load, Report};
use quorate_cli::Invocation;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::{self, bytes, switch, text};
use quorate_cli::streams::write_out;
use quorate_client::Client;
use quorate_client::api::etcdserverpb::{DeleteRangeRequest, RangeRequest};
use quorate_go::quote::quote;
use std::time::Duration;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "check",
        "check <subcommand>",
        "Load a cluster and measure it (the list: check --help)",
    )
    .long_about("Load a cluster and measure it")
    .subcommands([
        flags::command(
            "datascale",
            "datascale [options]",
            "Measure the memory that a load of keys takes in a member",
        )
        .long_about(
            "Writes keys and tells by how much the first endpoint's member has grown in memory.",
        )
        .args(options("/etcdctl-check-datascale/")),
        flags::command(
            "perf",
            "perf [options]",
            "Measure how many writes a cluster takes, and how fast",
        )
        .args(options("/etcdctl-check-perf/")),
    ])
}

fn options(prefix: &'static str) -> [Arg; 4] {
    [
        text(
            "load",
            "s",
            "how much is written: s(small), m(medium), l(large), xl(xLarge); each has its number of clients and of writes",
        ),
        bytes(
            "prefix",
            prefix,
            "prefix of the keys that are written and deleted",
        ),
        switch("auto-compact", "compact when all is done"),
        switch("auto-defrag", "defragment when all is done"),
    ]
}

/// How long the performance is measured.
const PERF_TIME: Duration = Duration::from_secs(60);
/// How long deleting, compacting and defragmenting may take.
const CLEANUP_TIME: Duration = Duration::from_secs(30);

/// Runs `perf`.
pub async fn perf(invocation: &Invocation) -> Result<(), Exit> {
    let name = invocation.given.text("load");
    let (rate, clients) = match size(&name)? {
        Size::Small => (150, 50),
        Size::Medium => (1000, 200),
        Size::Large => (8000, 500),
        Size::ExtraLarge => (15000, 1000),
    };
    let prefix = invocation.given.bytes("prefix");
    let sessions = sessions(invocation, clients).await?;
    let remedy = |prefix: &str| format!("Delete with 'etcdctl del --prefix {prefix}' first");
    refuse_keys(&sessions[0].client, &prefix, remedy).await?;
    let load = Load {
        prefix: prefix.clone(),
        key_bytes: 256,
        value_bytes: 1024,
    };
    let report = load.at_rate(all_clients(&sessions), rate, PERF_TIME).await;
    clean_up(&sessions[0], &prefix, invocation, Deletion::Limited).await?;
    judge(&report, rate)
}

/// Prints what was measured, and whether it is enough.
fn judge(report: &Report, rate: u32) -> Result<(), Exit> {
    let mut lines = report.error_lines();
    let mut pass = lines.is_empty();
    let mut check = |good: bool, right: String, wrong: String| {
        pass &= good;
        lines.push(if good { right } else { wrong });
    };
    let writes = report.rate.floor() + 1.0;
    check(
        report.rate / f64::from(rate) > 0.9,
        format!("PASS: Throughput is {writes} writes/s"),
        format!("FAIL: Throughput too low: {writes} writes/s"),
    );
    let (slowest, deviation) = (report.slowest, report.deviation);
    check(
        slowest <= 0.5,
        format!("PASS: Slowest request took {slowest:.6}s"),
        format!("Slowest request took too long: {slowest:.6}s"),
    );
    check(
        deviation <= 0.1,
        format!("PASS: Stddev is {deviation:.6}s"),
        format!("Stddev too high: {deviation:.6}s"),
    );
    lines.push(if pass { "PASS" } else { "FAIL" }.to_owned());
    write_out((lines.join("\n") + "\n").as_bytes())?;
    match pass {
        true => Ok(()),
        false => Err(Exit::silent(exit::ERROR)),
    }
}

/// Runs `datascale`.
pub async fn datascale(invocation: &Invocation) -> Result<(), Exit> {
    let name = invocation.given.text("load");
    let (keys, clients) = match size(&name)? {
        Size::Small => (10_000, 50),
        Size::Medium => (100_000, 200),
        Size::Large => (1_000_000, 500),
        Size::ExtraLarge => (3_000_000, 1000),
    };
    let prefix = invocation.given.bytes("prefix");
    let sessions = sessions(invocation, clients).await?;
    let client = &sessions[0].client;
    let remedy = |prefix: &str| format!("Delete with etcdctl del --prefix {prefix} first");
    refuse_keys(client, &prefix, remedy).await?;
    let endpoint = client.endpoints().into_iter().next().unwrap_or_default();
    let before = memory(client, &endpoint, "before").await?;
    write_out(
        format!(
            "Start data scale check for work load [{keys} key-value pairs, 1024 bytes per key-value, {clients} concurrent clients].\n"
        )
        .as_bytes(),
    )?;
    let load = Load {
        prefix: prefix.clone(),
        key_bytes: 512,
        value_bytes: 512,
    };
    let report = load.of_keys(all_clients(&sessions), keys).await;
    let after = memory(client, &endpoint, "after").await?;
    clean_up(&sessions[0], &prefix, invocation, Deletion::Required).await?;
    let errors = report.error_lines();
    if !errors.is_empty() {
        write_out((errors.join("\n") + "\n").as_bytes())?;
        return Err(Exit::silent(exit::ERROR));
    }
    let megabytes = (after - before) / (1024.0 * 1024.0);
    write_out(format!("PASS: Approximate system memory used : {megabytes:.2} MB.\n").as_bytes())
}

/// The memory of the member behind an endpoint.
async fn memory(client: &Client, endpoint: &str, when: &str) -> Result<f64, Exit> {
    match metrics::resident_bytes(client, endpoint).await {
        Ok(bytes) => Ok(bytes),
        Err(error) => {
            let text = format!(
                "{error}\nFAIL: Could not read process_resident_memory_bytes {when} the put operations.\n"
            );
            write_out(text.as_bytes())?;
            Err(Exit::silent(exit::ERROR))
        }
    }
}

enum Size {
    Small,
    Medium,
    Large,
    ExtraLarge,
}

fn size(name: &str) -> Result<Size, Exit> {
    Ok(match name {
        "s" | "small" => Size::Small,
        "m" | "medium" => Size::Medium,
        "l" | "large" => Size::Large,
        "xl" | "xLarge" => Size::ExtraLarge,
        _ => {
            return Err(Exit::new(
                exit::BAD_FEATURE,
                format_args!("unknown load option {name}"),
            ));
        }
    })
}

/// So many clients, each with a connection of its own.
async fn sessions(invocation: &Invocation, count: usize) -> Result<Vec<Session>, Exit> {
    let setting = Setting::of(invocation).await?;
    let mut sessions = Vec::with_capacity(count);
    for _ in 0..count {
        sessions.push(setting.connect(&setting.endpoints).await?);
    }
    Ok(sessions)
}

fn all_clients(sessions: &[Session]) -> Vec<Client> {
    sessions
        .iter()
        .map(|session| session.client.clone())
        .collect()
}

/// Refuses a prefix with keys, since all under it will be deleted.
async fn refuse_keys(
    client: &Client,
    prefix: &[u8],
    remedy: impl FnOnce(&str) -> String,
) -> Result<(), Exit> {
    let (key, range_end) = range(prefix.to_vec(), None, true, false)?;
    let found = client
        .range(RangeRequest {
            key: key.into(),
            range_end: range_end.into(),
            limit: 1,
            ..RangeRequest::default()
        })
        .await
        .map_err(|error| Exit::error(Failure::from(error)))?;
    match found.kvs.is_empty() {
        true => Ok(()),
        false => Err(Exit::new(
            exit::INVALID_INPUT,
            format_args!(
                "prefix {} has keys. {}",
                quote(prefix),
                remedy(&String::from_utf8_lossy(prefix))
            ),
        )),
    }
}

/// How the keys of a check are deleted.
#[derive(Clone, Copy)]
enum Deletion {
    /// However long that takes; if it fails, so does the check.
    Required,
    /// Within a time; a failure is told, and no more.
    Limited,
}

/// Deletes what was written; compacts and defragments where that is wanted.
async fn clean_up(
    session: &Session,
    prefix: &[u8],
    invocation: &Invocation,
    deletion: Deletion,
) -> Result<(), Exit> {
    let client = &session.client;
    let (key, range_end) = range(prefix.to_vec(), None, true, false)?;
    let delete = client.delete_range(DeleteRangeRequest {
        key: key.into(),
        range_end: range_end.into(),
        ..DeleteRangeRequest::default()
    });
    let deleted = match deletion {
        // Millions of keys may be there.
        Deletion::Required => delete.await.map_err(Failure::from),
        Deletion::Limited => limited(delete).await,
    };
    let deleted = match (deleted, deletion) {
        (Ok(deleted), _) => deleted,
        (Err(failure), Deletion::Required) => return Err(Exit::error(failure)),
        (Err(failure), Deletion::Limited) => {
            let text = format!("FAIL: Cleanup failed during key deletion: ERROR({failure})\n");
            return write_out(text.as_bytes());
        }
    };
    if invocation.given.flag("auto-compact") {
        let revision = deleted.header.map_or(0, |header| header.revision);
        write_out(format!("Compacting with revision {revision}\n").as_bytes())?;
        limited(client.compact(revision, true))
            .await
            .map_err(Exit::error)?;
        write_out(format!("Compacted with revision {revision}\n").as_bytes())?;
    }
    if invocation.given.flag("auto-defrag") {
        for endpoint in client.endpoints() {
            let quoted = quote(endpoint.as_bytes());
            write_out(format!("Defragmenting {quoted}\n").as_bytes())?;
            let one = client
                .endpoint(&endpoint)
                .map_err(|error| Exit::error(Failure::from(error)))?;
            limited(one.defragment()).await.map_err(Exit::error)?;
            write_out(format!("Defragmented {quoted}\n").as_bytes())?;
        }
    }
    Ok(())
}

async fn limited<T>(work: impl Future<Output = quorate_client::Result<T>>) -> Result<T, Failure> {
    match tokio::time::timeout(CLEANUP_TIME, work).await {
        Ok(result) => result.map_err(Failure::from),
        Err(_) => Err(Failure::Deadline),
    }
}
