//! The command line of `cargo xtask conformance`.

use crate::error::Error;
use std::path::PathBuf;

/// What to run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suite {
    /// etcd's suite that runs both in process and against a server; here against a server.
    Common,
    /// etcd's suite of a server's flags, tools and upgrades.
    E2e,
    /// The golden traces.
    Raft,
    /// Our cases.
    Cases,
    /// A data directory that changes hands.
    RoundTrip,
    /// Kills and what is there afterwards.
    Kills,
}

impl Suite {
    const ALL: [(&'static str, Suite); 6] = [
        ("common", Suite::Common),
        ("e2e", Suite::E2e),
        ("raft", Suite::Raft),
        ("cases", Suite::Cases),
        ("roundtrip", Suite::RoundTrip),
        ("kills", Suite::Kills),
    ];

    /// Its name on the command line and in file names.
    pub fn name(self) -> &'static str {
        let (name, _) = Suite::ALL
            .iter()
            .find(|(_, suite)| *suite == self)
            .expect("in the table");
        name
    }

    /// Whether it is one of etcd's, with a list of the tests that pass.
    pub fn is_etcds(self) -> bool {
        matches!(self, Suite::Common | Suite::E2e)
    }
}

/// The names of the binaries that a suite runs.
pub const NAMES: [&str; 3] = ["etcd", "etcdctl", "etcdutl"];

/// What was asked for.
#[derive(Debug)]
pub struct Arguments {
    /// What to run.
    pub suite: Suite,
    /// Only tests that match this pattern of `go test -run`.
    pub pattern: Option<String>,
    /// Only the listed tests.
    pub listed: bool,
    /// Add what passes to the list.
    pub update: bool,
    /// Which of [`NAMES`] are left real.
    pub real: Vec<String>,
    /// The server to test.
    pub server: Option<PathBuf>,
    /// How many rounds.
    pub rounds: Option<u32>,
    /// Where the randomness begins.
    pub seed: Option<u64>,
}

impl Arguments {
    /// Reads what follows `conformance`.
    pub fn parse(arguments: &[String]) -> Result<Arguments, Error> {
        let usage = |what: String| Error::Usage(what);
        let mut rest = arguments.iter();
        let name = rest
            .next()
            .ok_or_else(|| usage("which suite?".to_owned()))?;
        let (_, suite) = Suite::ALL
            .into_iter()
            .find(|(known, _)| known == name)
            .ok_or_else(|| usage(format!("unknown suite {name}")))?;
        let mut parsed = Arguments {
            suite,
            pattern: None,
            listed: false,
            update: false,
            real: vec!["etcdctl".to_owned(), "etcdutl".to_owned()],
            server: None,
            rounds: None,
            seed: None,
        };
        while let Some(option) = rest.next() {
            let (option, glued) = match option.split_once('=') {
                Some((option, value)) => (option, Some(value.to_owned())),
                None => (option.as_str(), None),
            };
            let mut value = || {
                let value = glued.clone().or_else(|| rest.next().cloned());
                value.ok_or_else(|| usage(format!("{option} needs a value")))
            };
            let number = |text: String| {
                text.parse::<u64>()
                    .map_err(|_| usage(format!("{option}: {text} is no number")))
            };
            match option {
                "--run" => parsed.pattern = Some(value()?),
                "--listed" => parsed.listed = true,
                "--update" => parsed.update = true,
                "--real" => parsed.real = names(&value()?)?,
                "--server" => {
                    // Suites run elsewhere; the path is meant from here.
                    let path = PathBuf::from(value()?);
                    parsed.server = Some(path.canonicalize().map_err(Error::file(path))?);
                }
                "--rounds" => {
                    let rounds = number(value()?)?;
                    let rounds = u32::try_from(rounds).ok().filter(|rounds| *rounds > 0);
                    let bad = || usage("--rounds is out of range".to_owned());
                    parsed.rounds = Some(rounds.ok_or_else(bad)?);
                }
                "--seed" => parsed.seed = Some(number(value()?)?),
                other => return Err(usage(format!("unknown option {other}"))),
            }
        }
        if parsed.listed && parsed.pattern.is_some() {
            return Err(usage("--listed and --run exclude each other".to_owned()));
        }
        if (parsed.listed || parsed.update) && !suite.is_etcds() {
            return Err(usage(format!("{name} has no list: all of it must pass")));
        }
        let random = matches!(suite, Suite::Kills | Suite::RoundTrip);
        if (parsed.rounds.is_some() || parsed.seed.is_some()) && !random {
            return Err(usage(format!("{name} has neither rounds nor a seed")));
        }
        if suite == Suite::Raft && arguments.len() > 1 {
            return Err(usage("raft is run as a whole, without options".to_owned()));
        }
        Ok(parsed)
    }
}

fn names(text: &str) -> Result<Vec<String>, Error> {
    let names: Vec<String> = text
        .split(',')
        .filter(|name| !name.is_empty())
        .map(str::to_owned)
        .collect();
    match names.iter().find(|name| !NAMES.contains(&name.as_str())) {
        Some(name) => Err(Error::Usage(format!(
            "--real: {name} is none of {}",
            NAMES.join(", ")
        ))),
        None => Ok(names),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Arguments, Error> {
        let arguments: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        Arguments::parse(&arguments)
    }

    #[test]
    fn options_come_glued_or_apart() {
        let parsed = parse("common --run=^TestKV/NoTLS --real etcd --update").expect("it is right");
        assert_eq!(parsed.suite, Suite::Common);
        assert_eq!(parsed.pattern.as_deref(), Some("^TestKV/NoTLS"));
        assert_eq!(parsed.real, ["etcd"]);
        assert!(parsed.update && !parsed.listed);
        let parsed = parse("kills --rounds 7 --seed=9").expect("it is right");
        assert_eq!((parsed.rounds, parsed.seed), (Some(7), Some(9)));
        assert_eq!(parsed.real, ["etcdctl", "etcdutl"]);
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "unheard-of",
            "common --run",
            "common --frobnicate",
            "common --real etcd,bbolt",
            "common --listed --run X",
            "cases --update",
            "kills --rounds 0",
            "kills --rounds -1",
            "kills --seed x",
            "cases --rounds 3",
            "raft --run leader",
        ] {
            assert!(matches!(parse(line), Err(Error::Usage(_))), "{line}");
        }
    }
}
