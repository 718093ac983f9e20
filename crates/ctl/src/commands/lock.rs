//! `lock`: holds a named lock while a program runs, or until a signal comes.

use crate::failure::{self, Failure};
use crate::print::Answer;
use crate::session::Session;
use crate::signals;
use clap::Command;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::{bytes_of, int};
use quorate_cli::{Invocation, flags};
use quorate_client::{Lock, Session as LeaseSession};
use std::os::unix::process::ExitStatusExt;
use std::pin::pin;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;
use tokio::process::Command as Process;
use tokio::time::timeout;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "lock",
        "lock <lockname> [exec-command arg1 arg2 ...]",
        "Hold a lock, alone or while a program runs",
    )
    .arg(int(
        "ttl",
        "10",
        "seconds after which the lock is free when this program is gone",
    ))
}

/// What a session's lease has when no sensible time is given.
const DEFAULT_TTL: i64 = 60;

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let arguments = invocation.given.arguments();
    let [name, program @ ..] = &arguments[..] else {
        return Err(Exit::bad_arguments(
            "lock takes a lock name argument and an optional command to execute",
        ));
    };
    let session = Session::open(invocation).await?;
    let ttl = match invocation.given.int("ttl") {
        ttl @ 1.. => ttl,
        _ => DEFAULT_TTL,
    };
    let leased = LeaseSession::new(&session.client, ttl)
        .await
        .map_err(failed)?;
    // Not before: while nothing is held, a signal ends the program by itself.
    let mut end = pin!(signals::termination());
    let mutex = leased.mutex(name.clone());
    let lock = tokio::select! {
        lock = mutex.lock() => lock.map_err(failed)?,
        () = &mut end => {
            close(leased).await;
            return Err(Exit::error("context canceled"));
        }
    };
    let limit = Duration::from_secs(ttl.unsigned_abs());
    match program {
        [] => hold(&session, &leased, lock, limit, end).await,
        program => execute(program, lock, limit).await,
    }
}

/// Shows the key that stands for the lock, and keeps it until a signal comes.
async fn hold(
    session: &Session,
    leased: &LeaseSession,
    lock: Lock,
    ttl: Duration,
    end: impl Future<Output = ()>,
) -> Result<(), Exit> {
    let mut end = pin!(end);
    let shown = tokio::select! {
        shown = session.client.get(lock.key().clone()) => shown.map_err(failed)?,
        () = &mut end => {
            unlock(lock, ttl).await?;
            return Err(Exit::error("context canceled"));
        }
    };
    if shown.kvs.is_empty() {
        return Err(Exit::error("lock lost on init"));
    }
    session.print(&Answer::Get(shown))?;
    tokio::select! {
        () = end => unlock(lock, ttl).await,
        _ = leased.keeper().lost() => Err(Exit::error("session expired")),
    }
}

/// Frees the lock; if nobody answers for so long, it has ended with the lease.
async fn unlock(lock: Lock, ttl: Duration) -> Result<(), Exit> {
    match timeout(ttl, lock.unlock()).await {
        Ok(unlocked) => unlocked.map_err(failed),
        Err(_) => Err(Exit::error(Failure::Deadline)),
    }
}

/// Runs a program with the lock's key and revision in its environment; its exit code is ours. A
/// signal is waited out: from a terminal the program gets it as well, and it is the program that
/// decides.
async fn execute(program: &[Vec<u8>], lock: Lock, ttl: Duration) -> Result<(), Exit> {
    let mut words = program.iter().map(|word| bytes_of(word));
    let status = Process::new(words.next().unwrap_or_default())
        .args(words)
        .env("ETCD_LOCK_KEY", bytes_of(lock.key()))
        .env("ETCD_LOCK_REV", lock.revision().to_string())
        // What is typed or piped is not the program's, but for who runs this one.
        .stdin(Stdio::null())
        .status()
        .await;
    let unlocked = unlock(lock, ttl).await;
    match status {
        Ok(status) if status.success() => unlocked,
        Ok(status) => Err(Exit::new(code(status), failure::process(status))),
        Err(error) => {
            let program = String::from_utf8_lossy(&program[0]).into_owned();
            Err(Exit::error(failure::not_started(&program, &error)))
        }
    }
}

/// A program that a signal has ended has no code; Go makes it -1, which is 255.
fn code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(exit::ERROR),
        _ => u8::MAX,
    }
}

/// Gives the place in line back. If that fails, the lease's end does it.
pub async fn close(leased: LeaseSession) {
    let _ = leased.close().await;
}

fn failed(error: quorate_client::Error) -> Exit {
    Exit::error(Failure::from(error))
}
