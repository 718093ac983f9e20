//! The table of commands.

use super::Invocation;
use crate::error::Failure;
use crate::{
    check, completion, defrag, dump_db, dump_wal, hashkv, manual, migrate, repair, restore, size,
    status, version,
};

/// A command, or a group of them.
pub struct Command {
    /// Its name.
    pub name: &'static str,
    /// What follows the name in its usage line.
    pub arguments: &'static str,
    /// What it does, in a line.
    pub short: &'static str,
    /// What it does, for the manual; empty where the line says it all.
    pub long: &'static str,
    /// Its own flags, by name.
    pub flags: &'static [Flag],
    /// Commands in it, by name.
    pub commands: &'static [Command],
    /// What may stand on the line beside flags.
    pub positional: Positional,
    /// Whether its usage line ends in `[flags]`.
    pub flags_in_usage: bool,
    /// Whether etcdutl lacks it; called by that name, it is found by its whole name only.
    pub own: bool,
    /// What runs; a group has nothing.
    pub run: Option<Run>,
}

/// What a command does.
pub type Run = fn(&Invocation) -> Result<(), Failure>;

/// A flag.
pub struct Flag {
    /// Its name.
    pub name: &'static str,
    /// Its letter.
    pub short: Option<char>,
    /// What its value is.
    pub kind: Kind,
    /// Its value where it is not given.
    pub default: &'static str,
    /// What it is for.
    pub help: &'static str,
    /// Whether the command does nothing without it.
    pub required: bool,
    /// What a completion offers.
    pub hint: Hint,
}

/// What a flag's value is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `true` or `false`; alone it is `true`.
    Bool,
    /// Any text.
    Text,
    /// A signed number of 64 bits.
    Int,
    /// An unsigned number of 64 bits.
    Uint,
    /// A span of time in Go's spelling.
    Duration,
}

/// What a completion offers for a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hint {
    /// Nothing in particular.
    Nothing,
    /// Directories.
    Directory,
    /// These words.
    Words(&'static [&'static str]),
}

/// What may stand on the line beside flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Positional {
    /// Anything; the command looks for itself.
    Any,
    /// So many words.
    Exactly(usize),
    /// One of these.
    OneOf(&'static [&'static str]),
}

/// How results can be written.
pub const FORMATS: &[&str] = &["fields", "json", "protobuf", "simple", "table"];

const GROUP: Command = Command {
    name: "",
    arguments: "",
    short: "",
    long: "",
    flags: &[],
    commands: &[],
    positional: Positional::Any,
    flags_in_usage: true,
    own: false,
    run: None,
};

const fn flag(name: &'static str, kind: Kind, default: &'static str, help: &'static str) -> Flag {
    Flag {
        name,
        short: None,
        kind,
        default,
        help,
        required: false,
        hint: Hint::Nothing,
    }
}

const fn directory(name: &'static str, required: bool, help: &'static str) -> Flag {
    Flag {
        required,
        hint: Hint::Directory,
        ..flag(name, Kind::Text, "", help)
    }
}

/// The flag that every command has.
pub const HELP: Flag = Flag {
    short: Some('h'),
    ..flag("help", Kind::Bool, "false", "")
};

const SHELLS: &[&str] = &["bash", "zsh", "fish", "powershell"];

const SNAPSHOT: &[Command] = &[
    Command {
        name: "restore",
        arguments: "<filename> --data-dir {output dir} [options]",
        short: "Restores an etcd member snapshot to an etcd directory",
        flags: &[
            flag(
                "bump-revision",
                Kind::Uint,
                "0",
                "How much to increase the latest revision after restore",
            ),
            directory("data-dir", false, "Path to the output data directory"),
            flag(
                "initial-advertise-peer-urls",
                Kind::Text,
                "http://localhost:2380",
                "List of this member's peer URLs to advertise to the rest of the cluster",
            ),
            flag(
                "initial-cluster",
                Kind::Text,
                "default=http://localhost:2380",
                "Initial cluster configuration for restore bootstrap",
            ),
            flag(
                "initial-cluster-token",
                Kind::Text,
                "etcd-cluster",
                "Initial cluster token for the etcd cluster during restore bootstrap",
            ),
            flag(
                "initial-memory-map-size",
                Kind::Uint,
                "10737418240",
                "Initial memory map size of the database in bytes. It uses the default value if not defined or defined to 0",
            ),
            flag(
                "mark-compacted",
                Kind::Bool,
                "false",
                "Mark the latest revision after restore as the point of scheduled compaction (required if --bump-revision > 0, disallowed otherwise)",
            ),
            flag(
                "name",
                Kind::Text,
                "default",
                "Human-readable name for this member",
            ),
            flag(
                "skip-hash-check",
                Kind::Bool,
                "false",
                "Ignore snapshot integrity hash value (required if copied from data directory)",
            ),
            directory(
                "wal-dir",
                false,
                "Path to the WAL directory (use --data-dir if none given)",
            ),
        ],
        run: Some(restore::run),
        ..GROUP
    },
    Command {
        name: "status",
        arguments: "<filename>",
        short: "Gets backend snapshot status of a given file",
        long: "Written simply, the items are hash, revision, total keys, total size and version, separated by commas.",
        run: Some(status::run),
        ..GROUP
    },
];

const DUMP: &[Command] = &[
    Command {
        name: "db",
        arguments: "<data directory or file> [bucket]",
        short: "Prints the buckets of a database, or what is in one",
        long: "Without a bucket, the names of the buckets are printed. Entries come in the reverse order of their keys, as etcd-dump-db prints them, unless --ascending is given.",
        flags: &[
            flag(
                "ascending",
                Kind::Bool,
                "false",
                "print entries in the order of their keys",
            ),
            flag("decode", Kind::Bool, "false", "decode what entries hold"),
            flag(
                "hash",
                Kind::Bool,
                "false",
                "print the hash of the file instead",
            ),
            flag(
                "limit",
                Kind::Uint,
                "0",
                "how many entries to print, 0 for all",
            ),
            flag(
                "start-revision",
                Kind::Int,
                "0",
                "leave out rows of bucket key below this revision",
            ),
        ],
        own: true,
        run: Some(dump_db::run),
        ..GROUP
    },
    Command {
        name: "wal",
        arguments: "<data directory>",
        short: "Prints the entries of a log",
        flags: &[
            flag(
                "end-index",
                Kind::Uint,
                "18446744073709551615",
                "index to stop at (exclusive)",
            ),
            flag(
                "entry-type",
                Kind::Text,
                "Normal,ConfigChange",
                "types of entries to print: ConfigChange, Normal, Request, InternalRaftRequest, IRRRange, IRRPut, IRRDeleteRange, IRRTxn, IRRCompaction, IRRLeaseGrant, IRRLeaseRevoke, IRRLeaseCheckpoint",
            ),
            flag(
                "raw",
                Kind::Bool,
                "false",
                "print every record as it stands in the files",
            ),
            flag(
                "start-index",
                Kind::Uint,
                "0",
                "index to start at (inclusive), that of the last snapshot where it is not given",
            ),
            directory(
                "wal-dir",
                false,
                "directory of the log, where it is not in the data directory",
            ),
        ],
        own: true,
        run: Some(dump_wal::run),
        ..GROUP
    },
];

const COMMANDS: &[Command] = &[
    Command {
        name: "check",
        arguments: "<data directory or file>",
        short: "Says whether the files of a member, or a database, are whole",
        long: "Reads the whole log, all snapshot files and every page of the database, and compares them with each other. Nothing is changed. The exit code is 0 where nothing is wrong, 1 otherwise. What etcd wrote has no checksums in its pages: how much of the database cannot be verified is said at the end.",
        flags: &[directory(
            "wal-dir",
            false,
            "directory of the log, where it is not in the data directory",
        )],
        own: true,
        run: Some(check::run),
        ..GROUP
    },
    Command {
        name: "completion",
        arguments: "[bash|zsh|fish|powershell]",
        short: "Generate completion script",
        long: "The script goes to standard output; to load it in a bash, for instance: source <(quorateutl completion bash)",
        positional: Positional::OneOf(SHELLS),
        flags_in_usage: false,
        run: Some(completion::run),
        ..GROUP
    },
    Command {
        name: "defrag",
        short: "Defragments the storage of the etcd",
        flags: &[directory(
            "data-dir",
            true,
            "Required. Defragments a data directory not in use by etcd.",
        )],
        run: Some(defrag::run),
        ..GROUP
    },
    Command {
        name: "dump",
        short: "Prints what a log or a database holds",
        commands: DUMP,
        own: true,
        ..GROUP
    },
    Command {
        name: "hashkv",
        arguments: "<filename>",
        short: "Prints the KV history hash of a given file",
        flags: &[flag(
            "rev",
            Kind::Int,
            "0",
            "maximum revision to hash (default: latest revision)",
        )],
        positional: Positional::Exactly(1),
        run: Some(hashkv::run),
        ..GROUP
    },
    Command {
        name: "help",
        arguments: "[command]",
        short: "Help about any command",
        ..GROUP
    },
    Command {
        name: "manual",
        arguments: "<directory>",
        short: "Writes the manual pages of all commands into a directory",
        positional: Positional::Exactly(1),
        own: true,
        run: Some(manual::run),
        ..GROUP
    },
    Command {
        name: "migrate",
        short: "Migrates schema of etcd data dir files to make them compatible with different etcd version",
        flags: &[
            directory("data-dir", true, "Path to the etcd data dir"),
            flag(
                "force",
                Kind::Bool,
                "false",
                "Ignore migration failure and forcefully override storage version. Not recommended.",
            ),
            Flag {
                required: true,
                ..flag(
                    "target-version",
                    Kind::Text,
                    "",
                    "Target etcd version to migrate contents of data dir. Minimal value 3.5. Format \"X.Y\" for example 3.6.",
                )
            },
        ],
        run: Some(migrate::run),
        ..GROUP
    },
    Command {
        name: "repair",
        arguments: "<data directory>",
        short: "Repairs what can be repaired without losing anything",
        long: "Cuts off a write to the log that was never finished, and moves leftovers of interrupted work aside. Everything that is changed or removed is kept under another name first. What else check finds is left as it is.",
        flags: &[
            flag(
                "dry-run",
                Kind::Bool,
                "false",
                "say what would be done, and do nothing",
            ),
            directory(
                "wal-dir",
                false,
                "directory of the log, where it is not in the data directory",
            ),
        ],
        own: true,
        run: Some(repair::run),
        ..GROUP
    },
    Command {
        name: "size",
        arguments: "<data directory or file>",
        short: "Prints which keys take the space, now and in history",
        flags: &[
            flag(
                "depth",
                Kind::Uint,
                "2",
                "how many parts of a key, up to and with a separator, make a prefix",
            ),
            flag(
                "limit",
                Kind::Uint,
                "20",
                "how many prefixes to print, the largest first, 0 for all",
            ),
            flag(
                "separator",
                Kind::Text,
                "/",
                "what separates the parts of a key",
            ),
        ],
        own: true,
        run: Some(size::run),
        ..GROUP
    },
    Command {
        name: "snapshot",
        arguments: "<subcommand>",
        short: "Manages etcd node snapshots",
        commands: SNAPSHOT,
        ..GROUP
    },
    Command {
        name: "version",
        short: "Prints the version of etcdutl",
        run: Some(version::run),
        ..GROUP
    },
];

/// All of it.
pub static ROOT: Command = Command {
    short: "An administrative command line tool for etcd's and Quorate's files",
    flags: &[
        flag(
            "timeout",
            Kind::Duration,
            "10s",
            "time to wait to obtain a file lock on db file, 0 to block indefinitely",
        ),
        Flag {
            short: Some('w'),
            hint: Hint::Words(FORMATS),
            ..flag(
                "write-out",
                Kind::Text,
                "simple",
                "set the output format (fields, json, protobuf, simple, table)",
            )
        },
    ],
    commands: COMMANDS,
    ..GROUP
};
