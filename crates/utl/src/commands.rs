//! The commands: what each takes, and which function runs it. Reading the line is
//! [`quorate_cli`]'s.

use crate::error::Failure;
use crate::{
    ETCD_NAME, check, completion, defrag, dump_db, dump_wal, hashkv, manual, migrate, repair,
    restore, size, status, version,
};
use clap::Command;
use quorate_cli::flags::{
    command, directory, duration, exactly, files, help_command, int, required, switch, text, uint,
    word,
};
use quorate_cli::format;
use quorate_cli::pages::completion_command;
use quorate_cli::{Invocation, Program};

/// The program, under this name. What etcdutl lacks is hidden under its name.
pub fn program(name: &'static str) -> Program {
    let own = |command: Command| command.hide(name == ETCD_NAME);
    let root = command(
        name,
        name,
        "What is done to the files of a member that does not run",
    )
    .args([
        duration(
            "timeout",
            "10s",
            "how long to wait for a database that another process has locked, 0 for ever",
        )
        .global(true),
        word(
            "write-out",
            &format::NAMES,
            "simple",
            "form of the output (fields, json, protobuf, simple, table)",
        )
        .short('w')
        .global(true),
    ])
    .subcommands([
        own(check_command()),
        completion_command(),
        defrag_command(),
        own(dump_command()),
        hashkv_command(),
        help_command(),
        own(manual_command()),
        migrate_command(),
        own(repair_command()),
        own(size_command()),
        snapshot_command(),
        command("version", "version", "Print the versions of PROGRAM"),
    ]);
    Program::new(name, root, &[]).repeating_errors()
}

/// Runs a command.
pub fn run(invocation: &Invocation) -> Result<(), Failure> {
    let names: Vec<&str> = invocation.path.iter().map(String::as_str).collect();
    match names[..] {
        ["check"] => check::run(invocation),
        ["completion"] => completion::run(invocation),
        ["defrag"] => defrag::run(invocation),
        ["dump", "db"] => dump_db::run(invocation),
        ["dump", "wal"] => dump_wal::run(invocation),
        ["hashkv"] => hashkv::run(invocation),
        ["manual"] => manual::run(invocation),
        ["migrate"] => migrate::run(invocation),
        ["repair"] => repair::run(invocation),
        ["size"] => size::run(invocation),
        ["snapshot", "restore"] => restore::run(invocation),
        ["snapshot", "status"] => status::run(invocation),
        ["version"] => version::run(invocation),
        _ => unreachable!("{names:?} is no command that runs"),
    }
}

fn wal_dir() -> clap::Arg {
    directory(
        "wal-dir",
        "directory of the log, where it is not in the data directory",
    )
}

fn check_command() -> Command {
    let command = command(
        "check",
        "check <data directory or file>",
        "Say whether the files of a member, or a database, are whole",
    )
    .long_about("Reads the whole log, all snapshot files and every page of the database, and compares them with each other. Nothing is changed. The exit code is 0 where nothing is wrong, 1 otherwise. What etcd wrote has no checksums in its pages: how much of the database cannot be verified is said at the end.")
    .arg(wal_dir());
    files(command)
}

fn defrag_command() -> Command {
    command(
        "defrag",
        "defrag",
        "Rewrite the database of a data directory without its free pages",
    )
    .arg(required(directory(
        "data-dir",
        "data directory of a member that does not run (required)",
    )))
}

fn dump_command() -> Command {
    command("dump", "dump", "Print what a log or a database holds")
        .subcommands([dump_db_command(), dump_wal_command()])
}

fn dump_db_command() -> Command {
    let command = command(
        "db",
        "db <data directory or file> [bucket]",
        "Print the buckets of a database, or what is in one",
    )
    .long_about("Without a bucket, the names of the buckets are printed. Entries come in the reverse order of their keys, as etcd-dump-db prints them, unless --ascending is given.")
    .args([
        switch("ascending", "print entries in the order of their keys"),
        switch("decode", "decode what entries hold"),
        switch("hash", "print the hash of the file instead"),
        uint("limit", "0", "how many entries to print, 0 for all"),
        int(
            "start-revision",
            "0",
            "leave out rows of bucket key below this revision",
        ),
    ]);
    files(command)
}

fn dump_wal_command() -> Command {
    let command = command("wal", "wal <data directory>", "Print the entries of a log").args([
        uint(
            "end-index",
            "18446744073709551615",
            "index to stop at (exclusive)",
        ),
        text(
            "entry-type",
            "Normal,ConfigChange",
            "types of entries to print: ConfigChange, Normal, Request, InternalRaftRequest, IRRRange, IRRPut, IRRDeleteRange, IRRTxn, IRRCompaction, IRRLeaseGrant, IRRLeaseRevoke, IRRLeaseCheckpoint",
        ),
        switch("raw", "print every record as it stands in the files"),
        uint(
            "start-index",
            "0",
            "index to start at (inclusive), that of the last snapshot where it is not given",
        ),
        wal_dir(),
    ]);
    files(command)
}

fn hashkv_command() -> Command {
    let command = command(
        "hashkv",
        "hashkv <filename>",
        "Print the hash of the keys and their history in a database file",
    )
    .arg(int(
        "rev",
        "0",
        "newest revision that is hashed, 0 for the newest there is",
    ));
    files(exactly(command, 1))
}

fn manual_command() -> Command {
    let command = command(
        "manual",
        "manual <directory>",
        "Write the manual pages of all commands into a directory",
    );
    files(exactly(command, 1))
}

fn migrate_command() -> Command {
    command(
        "migrate",
        "migrate",
        "Change a data directory to what another version of etcd takes",
    )
    .args([
        required(directory("data-dir", "the data directory (required)")),
        switch(
            "force",
            "write the version even where the data does not go with it (dangerous)",
        ),
        required(text(
            "target-version",
            "",
            "version to change to, as X.Y, from 3.5 on (required)",
        )),
    ])
}

fn repair_command() -> Command {
    let command = command(
        "repair",
        "repair <data directory>",
        "Repair what can be repaired without losing anything",
    )
    .long_about("Cuts off a write to the log that was never finished, and moves leftovers of interrupted work aside. Everything that is changed or removed is kept under another name first. What else check finds is left as it is.")
    .args([
        switch("dry-run", "say what would be done, and do nothing"),
        wal_dir(),
    ]);
    files(command)
}

fn size_command() -> Command {
    let command = command(
        "size",
        "size <data directory or file>",
        "Print which keys take the space, now and in history",
    )
    .args([
        uint(
            "depth",
            "2",
            "how many parts of a key, up to and with a separator, make a prefix",
        ),
        uint(
            "limit",
            "20",
            "how many prefixes to print, the largest first, 0 for all",
        ),
        text("separator", "/", "what separates the parts of a key"),
    ]);
    files(command)
}

fn snapshot_command() -> Command {
    let status = command(
        "status",
        "status <filename>",
        "Print what a snapshot holds",
    )
    .long_about("Written simply, the items are hash, revision, total keys, total size and version, separated by commas.");
    command(
        "snapshot",
        "snapshot <subcommand>",
        "Restore snapshots and look into them",
    )
    .subcommands([restore_command(), files(status)])
}

fn restore_command() -> Command {
    let command = command(
        "restore",
        "restore <filename> --data-dir {output dir} [options]",
        "Make the data directory of a member from a snapshot",
    )
    .args([
        uint(
            "bump-revision",
            "0",
            "how far the newest revision is raised",
        ),
        directory("data-dir", "directory to make, NAME.etcd where none is given"),
        text(
            "initial-advertise-peer-urls",
            "http://localhost:2380",
            "where the other members reach this one, with commas between",
        ),
        text(
            "initial-cluster",
            "default=http://localhost:2380",
            "the members of the new cluster, as name=URL with commas between",
        ),
        text(
            "initial-cluster-token",
            "etcd-cluster",
            "what tells the new cluster from others with such members",
        ),
        uint(
            "initial-memory-map-size",
            "10737418240",
            "address space for the database in bytes, 0 for the default",
        ),
        switch(
            "mark-compacted",
            "take all below the raised revision for compacted (goes with --bump-revision, and only with it)",
        ),
        text("name", "default", "name of this member"),
        switch(
            "skip-hash-check",
            "take a file that has no hash at its end, as one copied out of a data directory",
        ),
        directory(
            "wal-dir",
            "directory of the log, where it is not to be in the data directory",
        ),
    ]);
    files(command)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_cli::{Parsed, pages, parse};
    use std::ffi::OsString;

    fn path(name: &'static str, line: &str) -> Option<Vec<String>> {
        let line = format!("{name} {line}");
        let raw: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match parse(&program(name), &raw) {
            Parsed::Run(invocation) => Some(invocation.path),
            Parsed::Help(_) | Parsed::Wrong(..) => None,
        }
    }

    #[test]
    fn the_definitions_are_sound() {
        program("quorateutl").root.debug_assert();
    }

    #[test]
    fn our_own_commands_are_not_seen_under_etcds_name() {
        let status = Some(vec!["snapshot".to_owned(), "status".to_owned()]);
        assert_eq!(path("etcdutl", "s st x"), status);
        assert_eq!(path("quorateutl", "s st x"), None);
        assert_eq!(path("etcdutl", "size x"), Some(vec!["size".to_owned()]));
        for shell in pages::SHELLS {
            let script = |name| {
                let script = pages::completion(&program(name), shell).unwrap();
                String::from_utf8(script).unwrap()
            };
            assert!(script("quorateutl").contains("repair"), "{shell}");
            assert!(!script("etcdutl").contains("repair"), "{shell}");
        }
    }
}
