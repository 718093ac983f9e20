//! The command-line tools beside each other: a large snapshot saved by one and restored by both.
//!
//! Each tool restores what its own side saved and what the other side saved; all the databases that
//! come of it must hold the same, by etcdutl's own hash. Time, CPU and memory are of the process:
//! memory is its high-water mark, looked at until it ends.

use crate::closed_loop::{self, Load, Until};
use crate::figures::{Run, TOOLS, medians};
use crate::process::Server;
use crate::report::{self, Pair};
use crate::requests;
use quorate_api::Method;
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

const KEY_BYTES: usize = 64;
const VALUE_BYTES: usize = 4096;
/// How often a process is looked at.
const POLL: Duration = Duration::from_millis(1);

/// The tools of one side.
pub struct Tools {
    /// etcdctl, or what takes its place.
    pub ctl: PathBuf,
    /// etcdutl, or what takes its place.
    pub utl: PathBuf,
}

/// What to do.
pub struct Settings {
    /// The server that the snapshots are of.
    pub server: PathBuf,
    /// etcd's tools, and ours.
    pub tools: [Tools; 2],
    /// Where everything is written.
    pub parent: PathBuf,
    /// Size of the snapshot.
    pub bytes: u64,
    /// How many times all is done.
    pub rounds: u32,
}

/// What a process took.
#[derive(Clone, Copy, Debug)]
struct Cost {
    elapsed: Duration,
    peak_bytes: u64,
}

/// Measures; the table, as Markdown.
pub fn run(settings: &Settings) -> io::Result<String> {
    let work = settings
        .parent
        .join(format!("tools-{}", std::process::id()));
    fs::create_dir(&work)?;
    let outcome = run_in(settings, &work);
    fs::remove_dir_all(&work)?;
    outcome
}

fn run_in(settings: &Settings, work: &Path) -> io::Result<String> {
    let saved = [work.join("saved0.db"), work.join("saved1.db")];
    let mut runs: [Vec<Run>; 2] = Default::default();
    {
        let server = Server::start(&settings.server, work, "origin", false)?;
        fill(&server, settings.bytes)?;
        for _ in 0..settings.rounds {
            for ((tools, saved), runs) in settings.tools.iter().zip(&saved).zip(&mut runs) {
                if saved.exists() {
                    fs::remove_file(saved)?;
                }
                let mut run = Run::default();
                let cost = save(&tools.ctl, server.address(), saved)?;
                run.set("tools.save", cost.elapsed.as_secs_f64());
                run.set("tools.save_memory", cost.peak_bytes as f64 / 1e6);
                run.set("tools.size", fs::metadata(saved)?.len() as f64 / 1e6);
                runs.push(run);
            }
        }
    }
    let mut hashes = BTreeSet::new();
    for round in 0..settings.rounds as usize {
        for (tools, runs) in settings.tools.iter().zip(&mut runs) {
            let run = &mut runs[round];
            let mut both = Vec::new();
            for saved in &saved {
                let target = work.join("restored");
                both.push(restore(&tools.utl, saved, &target)?);
                hashes.insert(hash(&settings.tools[0].utl, &target)?);
                fs::remove_dir_all(&target)?;
            }
            let slower = both.iter().map(|cost| cost.elapsed).max();
            let larger = both.iter().map(|cost| cost.peak_bytes).max();
            let (slower, larger) = (slower.unwrap_or_default(), larger.unwrap_or_default());
            run.set("tools.restore", slower.as_secs_f64());
            run.set("tools.restore_memory", larger as f64 / 1e6);
            let cost = status(&tools.utl, &saved[0])?;
            run.set("tools.status", cost.elapsed.as_secs_f64());
        }
    }
    if hashes.len() != 1 {
        return Err(io::Error::other(format!(
            "what was restored differs: {hashes:?}"
        )));
    }
    let [etcd, quorate] = runs.map(|runs| Some(medians(&runs)));
    Ok(report::markdown(&[Pair {
        load: TOOLS,
        etcd,
        quorate,
    }]))
}

/// Puts until the values alone make so many bytes.
fn fill(server: &Server, bytes: u64) -> io::Result<()> {
    let value = requests::value(VALUE_BYTES, 3);
    let load = Load {
        connections: 4,
        clients: 64,
        method: Method::KVPut,
        request: &mut |number, output| {
            requests::put(output, &requests::key(number, KEY_BYTES), &value);
        },
    };
    let until = Until::Count(bytes / VALUE_BYTES as u64);
    closed_loop::run(server, load, until).map(drop)
}

fn save(ctl: &Path, server: SocketAddr, to: &Path) -> io::Result<Cost> {
    let mut command = Command::new(ctl);
    command
        .arg(format!("--endpoints=http://{server}"))
        .args(["snapshot", "save"])
        .arg(to);
    measured(&mut command)
}

fn restore(utl: &Path, from: &Path, to: &Path) -> io::Result<Cost> {
    let mut command = Command::new(utl);
    command
        .args(["snapshot", "restore"])
        .arg(from)
        .arg(format!("--data-dir={}", to.display()));
    measured(&mut command)
}

fn status(utl: &Path, file: &Path) -> io::Result<Cost> {
    measured(Command::new(utl).args(["snapshot", "status"]).arg(file))
}

fn hash(utl: &Path, directory: &Path) -> io::Result<String> {
    let database = directory.join("member/snap/db");
    let output = Command::new(utl).arg("hashkv").arg(&database).output()?;
    if !output.status.success() {
        return Err(io::Error::other(format!(
            "{} hashkv: {}",
            utl.display(),
            output.status
        )));
    }
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// Runs a process to its end.
fn measured(command: &mut Command) -> io::Result<Cost> {
    let begin = Instant::now();
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()?;
    let mut peak_bytes = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak_bytes = peak_bytes.max(high_water(&child));
        thread::sleep(POLL);
    };
    if !status.success() {
        return Err(io::Error::other(format!("{command:?}: {status}")));
    }
    Ok(Cost {
        elapsed: begin.elapsed(),
        peak_bytes,
    })
}

/// The most anonymous memory that the process is seen with; 0 once it has ended. Pages of files that
/// are mapped or cached are the kernel's to take back.
fn high_water(child: &Child) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", child.id()));
    let anonymous = status.ok().and_then(|text| {
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix("RssAnon:"))?;
        let kilobytes = line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()?;
        Some(kilobytes * 1024)
    });
    anonymous.unwrap_or(0)
}
