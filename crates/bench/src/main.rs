//! `quorate-bench`: the real etcd and quorate side by side, in one run, in turns.
//!
//! Each load starts fresh servers of one kind (one, or a cluster of three), measures, and ends them; then the other kind; so
//! round after round, and the medians are compared. What matters is the ratio: a machine's own
//! speed and noise are in both. The steadiest figure is the servers' own CPU time an operation,
//! since the load generator shares the machine.

mod chart;
mod closed_loop;
mod cluster;
mod connection;
mod control;
mod figures;
mod fleet;
mod latencies;
mod loads;
mod probe;
mod process;
mod report;
mod requests;
mod tools;
mod watchers;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use figures::{LOADS, LOADS_OF_THREE, Run, medians};
use loads::Setting;
use report::Pair;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

fn command() -> Command {
    let path = |name: &'static str, help: &'static str| {
        Arg::new(name)
            .long(name)
            .value_name("PATH")
            .value_parser(value_parser!(PathBuf))
            .help(help)
    };
    let compare = Command::new("compare")
        .about("Measures both servers in turns and prints their figures with the ratios")
        .arg(path("etcd", "etcd's binary (or $BENCH_ETCD)"))
        .arg(path("quorate", "quorate's binary (or $BENCH_QUORATE)"))
        .arg(path(
            "out",
            "where bench.md, bench.json and bench.svg are written",
        ))
        .arg(path("directory", "where data directories are made; a real disk").default_value("."))
        .arg(
            Arg::new("members")
                .long("members")
                .value_name("N")
                .value_parser(["1", "3"])
                .default_value("1")
                .help("members of the clusters; each number has its loads"),
        )
        .arg(
            Arg::new("only")
                .long("only")
                .value_name("LOAD,...")
                .value_delimiter(',')
                .value_parser([LOADS, LOADS_OF_THREE].concat())
                .help("only these loads"),
        )
        .arg(
            Arg::new("quick")
                .long("quick")
                .action(ArgAction::SetTrue)
                .help("one round instead of three; smaller and shorter"),
        )
        .arg(
            Arg::new("keep")
                .long("keep")
                .action(ArgAction::SetTrue)
                .help("leave the data directories"),
        )
        .arg(
            Arg::new("rounds")
                .long("rounds")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..100))
                .help("how many rounds"),
        )
        .arg(
            Arg::new("keys")
                .long("keys")
                .value_name("N")
                .value_parser(value_parser!(u64).range(100_000..100_000_000))
                .help("how many keys the load `keys` has (1,000,000; quick: 200,000)"),
        );
    let tools = Command::new("tools")
        .about("Measures the command-line tools on a large snapshot")
        .arg(path("etcd", "the server that the snapshot is of").required(true))
        .arg(path("etcdctl", "etcd's").required(true))
        .arg(path("etcdutl", "etcd's").required(true))
        .arg(path("quoratectl", "ours").required(true))
        .arg(path("quorateutl", "ours").required(true))
        .arg(path("directory", "where files are made; a real disk").default_value("."))
        .arg(
            Arg::new("mebibytes")
                .long("mebibytes")
                .value_name("N")
                .value_parser(value_parser!(u64).range(1..8000))
                .default_value("1024")
                .help("size of the snapshot"),
        )
        .arg(
            Arg::new("rounds")
                .long("rounds")
                .value_name("N")
                .value_parser(value_parser!(u32).range(1..100))
                .default_value("3")
                .help("how many rounds"),
        );
    let picture = Command::new("picture")
        .about("Draws the ratios of one or several reports; a later one's figures win")
        .arg(path("out", "the SVG to write").required(true))
        .arg(
            Arg::new("report")
                .required(true)
                .num_args(1..)
                .value_name("bench.json")
                .value_parser(value_parser!(PathBuf)),
        );
    Command::new("quorate-bench")
        .about("Measures quorate beside etcd")
        .subcommand_required(true)
        .subcommand(compare)
        .subcommand(tools)
        .subcommand(picture)
}

fn main() -> ExitCode {
    let matches = command().get_matches();
    let outcome = match matches.subcommand() {
        Some(("compare", matches)) => compare(matches),
        Some(("tools", matches)) => measure_tools(matches).map(|()| true),
        Some(("picture", matches)) => picture(matches).map(|()| true),
        _ => Err(io::Error::other("there is no such command")),
    };
    match outcome {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

#[allow(clippy::print_stdout)]
fn measure_tools(matches: &ArgMatches) -> io::Result<()> {
    let path = |name| {
        let path: &PathBuf = matches.get_one(name).expect("it is required");
        fs::canonicalize(path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    let mebibytes: &u64 = matches.get_one("mebibytes").expect("it has a default");
    let rounds: &u32 = matches.get_one("rounds").expect("it has a default");
    let side = |ctl, utl| {
        Ok::<_, io::Error>(tools::Tools {
            ctl: path(ctl)?,
            utl: path(utl)?,
        })
    };
    let settings = tools::Settings {
        server: path("etcd")?,
        tools: [
            side("etcdctl", "etcdutl")?,
            side("quoratectl", "quorateutl")?,
        ],
        parent: path("directory")?,
        bytes: mebibytes << 20,
        rounds: *rounds,
    };
    println!("{}", tools::run(&settings)?);
    Ok(())
}

fn picture(matches: &ArgMatches) -> io::Result<()> {
    let reports = matches
        .get_many::<PathBuf>("report")
        .into_iter()
        .flatten()
        .map(|path| serde_json::from_slice(&fs::read(path)?).map_err(io::Error::from))
        .collect::<io::Result<Vec<serde_json::Value>>>()?;
    let out: &PathBuf = matches.get_one("out").expect("it is required");
    fs::write(out, chart::svg(&report::read_json(&reports)))
}

/// Writes what there is so far, so that a run that is broken off leaves something.
fn write_reports(out: &Path, pairs: &[Pair], rounds: u32, quick: bool) -> io::Result<()> {
    fs::create_dir_all(out)?;
    let json = serde_json::to_string_pretty(&report::json(pairs, rounds, quick))?;
    fs::write(out.join("bench.md"), report::markdown(pairs))?;
    fs::write(out.join("bench.json"), json)?;
    fs::write(out.join("bench.svg"), chart::svg(&report::lines(pairs)))
}

/// A binary by flag, else by environment; `None` leaves that server out.
fn binary(matches: &ArgMatches, name: &str, variable: &str) -> io::Result<Option<PathBuf>> {
    let path = matches
        .get_one::<PathBuf>(name)
        .cloned()
        .or_else(|| std::env::var_os(variable).map(PathBuf::from));
    path.map(|path| {
        fs::canonicalize(&path)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    })
    .transpose()
}

/// The loads to run, in order.
fn chosen(matches: &ArgMatches) -> io::Result<Vec<&'static str>> {
    let members = matches.get_one::<String>("members");
    let loads = match members.map(String::as_str) {
        Some("3") => LOADS_OF_THREE,
        _ => LOADS,
    };
    let Some(only) = matches.get_many::<String>("only") else {
        return Ok(loads.to_vec());
    };
    let only: Vec<&str> = only.map(String::as_str).collect();
    if let Some(other) = only.iter().find(|name| !loads.contains(name)) {
        return Err(io::Error::other(format!(
            "{other} is a load of another number of --members"
        )));
    }
    let chosen = loads.iter().filter(|load| only.contains(load));
    Ok(chosen.copied().collect())
}

/// Runs the loads; `false` says that some failed.
#[allow(clippy::print_stdout)]
fn compare(matches: &ArgMatches) -> io::Result<bool> {
    let binaries = [
        ("etcd", binary(matches, "etcd", "BENCH_ETCD")?),
        ("quorate", binary(matches, "quorate", "BENCH_QUORATE")?),
    ];
    if binaries.iter().all(|(_, binary)| binary.is_none()) {
        return Err(io::Error::other("--etcd, --quorate or both are needed"));
    }
    let quick = matches.get_flag("quick");
    let rounds = match matches.get_one::<u32>("rounds") {
        Some(&rounds) => rounds,
        None if quick => 1,
        None => 3,
    };
    let keys = match matches.get_one::<u64>("keys") {
        Some(&keys) => keys,
        None if quick => 200_000,
        None => 1_000_000,
    };
    let loads = chosen(matches)?;
    let parent = fs::canonicalize(
        matches
            .get_one::<PathBuf>("directory")
            .map_or(Path::new("."), PathBuf::as_path),
    )?;
    let mut pairs = Vec::new();
    let mut whole = true;
    for load in loads {
        let mut runs: [Vec<Run>; 2] = Default::default();
        for round in 1..=rounds {
            for ((name, binary), runs) in binaries.iter().zip(&mut runs) {
                let Some(binary) = binary else { continue };
                let setting = Setting {
                    binary,
                    name,
                    parent: &parent,
                    quick,
                    keep: matches.get_flag("keep"),
                    keys,
                };
                let begin = Instant::now();
                match loads::run(load, &setting) {
                    Ok(run) => runs.push(run),
                    Err(error) => {
                        whole = false;
                        eprintln!("{load}, {name}, round {round}: {error}");
                    }
                }
                let seconds = begin.elapsed().as_secs_f64();
                eprintln!("{load}, {name}, round {round} of {rounds}: {seconds:.0} s");
            }
        }
        let [etcd, quorate] = runs.map(|runs| (!runs.is_empty()).then(|| medians(&runs)));
        let pair = Pair {
            load,
            etcd,
            quorate,
        };
        eprintln!("{}", report::markdown(std::slice::from_ref(&pair)));
        pairs.push(pair);
        if let Some(out) = matches.get_one::<PathBuf>("out") {
            write_reports(out, &pairs, rounds, quick)?;
        }
    }
    println!("{}", report::markdown(&pairs));
    Ok(whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        command().debug_assert();
        let line = "quorate-bench compare --quick --only put,get --keys 200000";
        let matches = command().get_matches_from(line.split(' '));
        let (_, matches) = matches.subcommand().expect("compare");
        let only: Vec<&String> = matches.get_many("only").expect("given").collect();
        assert_eq!(only, ["put", "get"]);
        let wrong = "quorate-bench compare --only bet";
        assert!(command().try_get_matches_from(wrong.split(' ')).is_err());
    }

    #[test]
    fn each_number_of_members_has_its_loads() {
        let loads = |line: &str| {
            let matches = command().get_matches_from(line.split(' '));
            let (_, matches) = matches.subcommand().expect("compare");
            chosen(matches).map_err(|error| error.to_string())
        };
        assert_eq!(loads("quorate-bench compare"), Ok(LOADS.to_vec()));
        let three = "quorate-bench compare --members 3";
        assert_eq!(loads(three), Ok(LOADS_OF_THREE.to_vec()));
        let some = "quorate-bench compare --members 3 --only failover,put3";
        assert_eq!(loads(some), Ok(vec!["put3", "failover"]));
        assert!(loads("quorate-bench compare --members 3 --only put").is_err());
    }
}
