//! `watch`: changes as they happen, printed or handed to a program; one watch from the arguments,
//! or many that are typed.

mod arguments;

use crate::failure::Failure;
use crate::kubernetes::Decoding;
use crate::print::{Answer, Printer};
use crate::ranges::{self, OPEN_END};
use crate::session::Session;
use crate::{terminal, words};
use arguments::{Variables, Wanted};
use clap::Command;
use quorate_cli::Given;
use quorate_cli::Invocation;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::{self, int, switch};
use quorate_cli::parse::parse_line;
use quorate_cli::streams::{write_err, write_out};
use quorate_client::api::Error as Known;
use quorate_client::api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use quorate_client::api::mvccpb::Event;
use quorate_client::{Client, Error, Watcher};
use quorate_go::quote::quote;
use quorate_go::system;
use std::process::Stdio;
use tokio::process::Command as Process;
use tokio::sync::broadcast;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "watch",
        "watch [options] [key or prefix] [range_end] [--] [exec-command arg1 arg2 ...]",
        "Print the changes of keys as they come",
    )
    .args([
        switch(
            "interactive",
            "take watches, and `progress`, from standard input",
        )
        .short('i'),
        switch("prefix", "all keys that begin with the key"),
        int("rev", "0", "revision from which on changes are wanted"),
        switch("prev-kv", "with what was there before"),
        switch(
            "progress-notify",
            "have the server say now and then how far it is",
        ),
        Decoding::flag(),
    ])
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let variables = Variables::of_process()?;
    let given = &invocation.given;
    let decoding = Decoding::of(given)?;
    if given.flag("interactive") {
        let session = Session::open(invocation).await?;
        return interactive(&session, &variables, decoding).await;
    }
    let raw = arguments::after_command(&invocation.raw);
    let wanted =
        Wanted::of_arguments(raw, given.arguments(), &variables).map_err(Exit::bad_arguments)?;
    let session = Session::open(invocation).await?;
    let request = request(&wanted, given)?;
    let printing = Printing {
        client: session.client.clone(),
        printer: session.printer,
        decoding,
        program: wanted.program,
    };
    let mut watcher = watcher(&session, request)?;
    loop {
        match watcher.next().await {
            Ok(response) => printing.print(response).await?,
            Err(error) => {
                printing.print_end(error).await?;
                return Err(Exit::new(
                    exit::INTERRUPTED,
                    "watch is canceled by the server",
                ));
            }
        }
    }
}

/// Watches that are typed, all at once, until the input ends.
async fn interactive(
    session: &Session,
    variables: &Variables,
    decoding: Decoding,
) -> Result<(), Exit> {
    let (progress, _) = broadcast::channel(PROGRESS_WAITING_MAX);
    loop {
        let Ok(line) = tokio::task::spawn_blocking(terminal::read_full_line).await else {
            return Ok(());
        };
        let line = line.map_err(|error| {
            let reason = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => "EOF".to_owned(),
                _ => system::text(&error),
            };
            Exit::new(
                exit::INVALID_INPUT,
                format_args!("error reading watch request line: {reason}"),
            )
        })?;
        let text = String::from_utf8_lossy(&line).into_owned();
        let refuse = |reason: &str| write_err(format!("Invalid command {reason}\n").as_bytes());
        let words = words::split(&line).unwrap_or_default();
        match words.first().map(Vec::as_slice) {
            None => write_err(
                format!("Invalid command: {text} (watch and progress supported)\n").as_bytes(),
            ),
            Some(b"watch") if words.len() < 2 && variables.key.is_none() => {
                refuse(&format!("{text} (command type or key is not provided)"));
            }
            Some(b"watch") => {
                let (given, program) = typed(&words[1..])?;
                let wanted = Wanted::of_line(given.arguments(), program, variables)
                    .map_err(Exit::bad_arguments)?;
                match request(&wanted, &given) {
                    Ok(request) => {
                        let printing = Printing {
                            client: session.client.clone(),
                            printer: session.printer,
                            decoding,
                            program: wanted.program,
                        };
                        let watcher = watcher(session, request)?;
                        tokio::spawn(follow(watcher, printing, progress.subscribe()));
                    }
                    Err(exit) => {
                        let reason = exit.message.unwrap_or_default();
                        refuse(&format!("{text} ({reason})"));
                    }
                }
            }
            Some(b"progress") => {
                // Nobody listens where nothing is watched.
                let _ = progress.send(());
            }
            Some(_) => refuse(&format!("{text} (only support watch)")),
        }
    }
}

/// A program and its arguments.
type Words = Vec<Vec<u8>>;

/// Requests for progress that may wait for a watch.
const PROGRESS_WAITING_MAX: usize = 16;

/// The flags and arguments of a typed line, and the program after `--`.
fn typed(words: &[Vec<u8>]) -> Result<(Given, Option<Words>), Exit> {
    let at = words.iter().position(|word| word == b"--");
    let (line, program) = match at {
        Some(at) => (&words[..at], Some(words[at + 1..].to_vec())),
        None => (words, None),
    };
    let given = parse_line(&command(), line).map_err(Exit::bad_arguments)?;
    Ok((given, program))
}

/// A watch that ends when its member has no leader.
fn watcher(session: &Session, request: WatchCreateRequest) -> Result<Watcher, Exit> {
    let client = session.client.require_leader();
    client
        .watcher(request)
        .map_err(|error| Exit::error(Failure::from(error)))
}

/// One of several watches. What ends it ends the program only where a program was to be run.
async fn follow(mut watcher: Watcher, printing: Printing, mut progress: broadcast::Receiver<()>) {
    loop {
        let next = tokio::select! {
            next = watcher.next() => next,
            Ok(()) = progress.recv() => {
                watcher.progress();
                continue;
            }
        };
        let printed = match next {
            Ok(response) => printing.print(response).await,
            Err(error) => {
                let _ = printing.print_end(error).await;
                return;
            }
        };
        if let Err(exit) = printed {
            std::process::exit(exit.code.into());
        }
    }
}

/// The request that the arguments and flags say.
fn request(wanted: &Wanted, given: &Given) -> Result<WatchCreateRequest, Exit> {
    let prefix = given.flag("prefix");
    let (key, range_end) = match &wanted.keys[..] {
        [] => return Err(Exit::bad_arguments("bad number of arguments")),
        [_, _] if prefix => {
            return Err(Exit::bad_arguments(
                "`range_end` and `--prefix` are mutually exclusive",
            ));
        }
        [key, end] => (key.clone(), end.clone()),
        [key, ..] if prefix && key.is_empty() => (vec![0], OPEN_END.to_vec()),
        [key, ..] if prefix => (key.clone(), ranges::prefix_end(key)),
        [key, ..] => (key.clone(), Vec::new()),
    };
    Ok(WatchCreateRequest {
        key: key.into(),
        range_end: range_end.into(),
        start_revision: given.int("rev"),
        prev_kv: given.flag("prev-kv"),
        progress_notify: given.flag("progress-notify"),
        ..WatchCreateRequest::default()
    })
}

/// What is done with what was seen.
struct Printing {
    client: Client,
    printer: Printer,
    decoding: Decoding,
    program: Option<Vec<Vec<u8>>>,
}

impl Printing {
    async fn print(&self, mut response: WatchResponse) -> Result<(), Exit> {
        let revision = response.header.map_or(0, |header| header.revision);
        if response.events.is_empty() {
            write_out(format!("progress notify: {revision}\n").as_bytes())?;
        }
        let seen = match self.program {
            Some(_) => response.events.clone(),
            None => Vec::new(),
        };
        for event in &mut response.events {
            event.kv.iter_mut().for_each(|kv| self.decoding.apply(kv));
            event
                .prev_kv
                .iter_mut()
                .for_each(|kv| self.decoding.apply(kv));
        }
        self.printer.print(&Answer::Watch(response))?;
        for event in &seen {
            self.execute(revision, event).await?;
        }
        Ok(())
    }

    /// Prints that the server has ended the watch.
    async fn print_end(&self, error: Error) -> Result<(), Exit> {
        let (reason, compact_revision) = match error {
            Error::Compacted { compact_revision } => {
                (Known::Compacted.to_string(), compact_revision)
            }
            Error::WatchCanceled { reason } => (reason, 0),
            // The server refuses a watch with the text of a whole status.
            Error::Known(Known::PermissionDenied) => (Failure::from(error).as_status(), 0),
            other => (Failure::from(other).to_string(), 0),
        };
        write_err(format!("watch was canceled ({reason})\n").as_bytes());
        // What ended the watch has no header; a member's answer about the cluster has the same.
        let members = self.client.member_list(false).await;
        self.printer.print(&Answer::Watch(WatchResponse {
            header: members.ok().and_then(|members| members.header),
            canceled: true,
            compact_revision,
            ..WatchResponse::default()
        }))
    }

    /// Runs the program for an event, which is in its environment.
    async fn execute(&self, revision: i64, event: &Event) -> Result<(), Exit> {
        let Some(words) = &self.program else {
            return Ok(());
        };
        let mut words = words.iter().map(|word| flags::bytes_of(word));
        let kv = event.kv.clone().unwrap_or_default();
        let kind = crate::print::event_name(event);
        let status = Process::new(words.next().unwrap_or_default())
            .args(words)
            .env("ETCD_WATCH_REVISION", revision.to_string())
            .env("ETCD_WATCH_EVENT_TYPE", quote(kind.as_bytes()))
            .env("ETCD_WATCH_KEY", quote(&kv.key))
            .env("ETCD_WATCH_VALUE", quote(&kv.value))
            // What is typed are this program's commands.
            .stdin(Stdio::null())
            .status()
            .await;
        let failed = match status {
            Ok(status) if status.success() => return Ok(()),
            Ok(status) => crate::failure::process(status),
            Err(error) => {
                let name = self.program.iter().flatten().next();
                let name = String::from_utf8_lossy(name.map_or(&[], Vec::as_slice)).into_owned();
                crate::failure::not_started(&name, &error)
            }
        };
        let program: Vec<String> = self
            .program
            .iter()
            .flatten()
            .map(|word| quote(word))
            .collect();
        let program = program.join(" ");
        write_err(format!("command [{program}] error ({failed})\n").as_bytes());
        Err(Exit::silent(exit::ERROR))
    }
}
