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
    /// etcd's suite of random faults under load, whose history is checked.
    Robustness,
    /// A cluster whose members change hands one by one.
    Rolling,
    /// Each failpoint, and what reaches it.
    Failpoints,
    /// The command-line tools beside the real ones.
    Tools,
    /// What quorateutl finds in damaged files, and in whole ones.
    Check,
}

impl Suite {
    const ALL: [(&'static str, Suite); 11] = [
        ("common", Suite::Common),
        ("e2e", Suite::E2e),
        ("raft", Suite::Raft),
        ("cases", Suite::Cases),
        ("roundtrip", Suite::RoundTrip),
        ("kills", Suite::Kills),
        ("robustness", Suite::Robustness),
        ("rolling", Suite::Rolling),
        ("failpoints", Suite::Failpoints),
        ("tools", Suite::Tools),
        ("check", Suite::Check),
    ];

    /// Its name on the command line and in file names.
    pub fn name(self) -> &'static str {
        let (name, _) = Suite::ALL
            .iter()
            .find(|(_, suite)| *suite == self)
            .expect("in the table");
        name
    }

    /// Whether it is one of etcd's.
    pub fn is_etcds(self) -> bool {
        matches!(self, Suite::Common | Suite::E2e | Suite::Robustness)
    }

    /// Whether it has a list of the tests that must pass; of the others all must.
    pub fn has_list(self) -> bool {
        matches!(self, Suite::Common | Suite::E2e)
    }

    /// Whether it takes a number of rounds and a seed.
    pub fn is_random(self) -> bool {
        matches!(
            self,
            Suite::Kills | Suite::RoundTrip | Suite::Rolling | Suite::Check
        )
    }

    /// Whether it needs servers with failpoints.
    fn has_failpoints(self) -> bool {
        matches!(self, Suite::Robustness | Suite::Failpoints)
    }

    /// Which binaries are left real where nothing is said.
    fn usually_real(self) -> Vec<String> {
        let names: &[&str] = match self {
            Suite::Tools => &["etcd"],
            // The real server is there besides.
            Suite::Check => &[],
            _ => &["etcdctl", "etcdutl"],
        };
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    /// The release that clusters are mixed with, upgraded from and downgraded to where none is
    /// asked for.
    fn usual_last(self) -> Option<Release> {
        matches!(self, Suite::E2e | Suite::Robustness).then_some(Release::Before)
    }
}

/// A release of etcd that a cluster may be mixed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// The one before the release that quorate is compatible with.
    Before,
    /// That release itself.
    Same,
}

impl Release {
    const ALL: [Release; 2] = [Release::Before, Release::Same];

    /// Its number, as on the command line and in file names.
    pub fn number(self) -> &'static str {
        match self {
            Release::Before => "3.6",
            Release::Same => "3.7",
        }
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
    /// Only those of another list, which is a part of the suite's.
    pub part: Option<String>,
    /// Add what passes to the list.
    pub update: bool,
    /// Which of [`NAMES`] are left real.
    pub real: Vec<String>,
    /// The folder with our binaries, where they are built already.
    pub binaries: Option<PathBuf>,
    /// What etcd's suites take for the last release.
    pub last: Option<Release>,
    /// Servers with failpoints, ours and the real ones.
    pub failpoints: bool,
    /// Clusters without TLS between the members, where the suite would have it.
    pub plain_peers: bool,
    /// How many times the suite is run.
    pub count: Option<u32>,
    /// How long the suite is run again and again.
    pub minutes: Option<u32>,
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
            part: None,
            update: false,
            real: suite.usually_real(),
            binaries: None,
            last: suite.usual_last(),
            failpoints: suite.has_failpoints(),
            plain_peers: false,
            count: None,
            minutes: None,
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
            let positive = |text: String| {
                let number = u32::try_from(number(text)?).ok();
                let bad = || usage(format!("{option} is out of range"));
                number.filter(|number| *number > 0).ok_or_else(bad)
            };
            match option {
                "--run" => parsed.pattern = Some(value()?),
                "--listed" => parsed.listed = true,
                "--part" => parsed.part = Some(value()?),
                "--update" => parsed.update = true,
                "--real" => parsed.real = names(&value()?)?,
                "--binaries" => {
                    // Suites run elsewhere; the path is meant from here.
                    let path = PathBuf::from(value()?);
                    parsed.binaries = Some(path.canonicalize().map_err(Error::file(path))?);
                }
                "--last" => {
                    let text = value()?;
                    let known = |release: &Release| release.number() == text;
                    let bad = || usage(format!("--last: {text} is neither 3.6 nor 3.7"));
                    parsed.last = Some(Release::ALL.into_iter().find(known).ok_or_else(bad)?);
                }
                "--failpoints" => parsed.failpoints = true,
                "--plain-peers" => parsed.plain_peers = true,
                "--count" => parsed.count = Some(positive(value()?)?),
                "--minutes" => parsed.minutes = Some(positive(value()?)?),
                "--rounds" => parsed.rounds = Some(positive(value()?)?),
                "--seed" => parsed.seed = Some(number(value()?)?),
                other => return Err(usage(format!("unknown option {other}"))),
            }
        }
        let selections = [
            parsed.listed,
            parsed.pattern.is_some(),
            parsed.part.is_some(),
        ];
        if selections.into_iter().filter(|given| *given).count() > 1 {
            let what = "--listed, --part and --run exclude each other";
            return Err(usage(what.to_owned()));
        }
        parsed.check()?;
        if suite == Suite::Raft && arguments.len() > 1 {
            return Err(usage("raft is run as a whole, without options".to_owned()));
        }
        Ok(parsed)
    }

    /// Whether the suite knows the options.
    fn check(&self) -> Result<(), Error> {
        let suite = self.suite;
        let refusals = [
            (
                (self.listed || self.update || self.part.is_some()) && !suite.has_list(),
                "has no list: all of it must pass",
            ),
            (
                (self.rounds.is_some() || self.seed.is_some()) && !suite.is_random(),
                "has neither rounds nor a seed",
            ),
            (
                self.last != suite.usual_last() && !suite.is_etcds(),
                "has no last release",
            ),
            (
                self.failpoints && !suite.is_etcds() && !suite.has_failpoints(),
                "has no failpoints",
            ),
            (
                (self.count.is_some() || self.minutes.is_some() || self.plain_peers)
                    && suite != Suite::Robustness,
                "has neither a count, nor minutes, nor plain peers",
            ),
        ];
        match refusals.into_iter().find(|(refused, _)| *refused) {
            Some((_, why)) => Err(Error::Usage(format!("{} {why}", suite.name()))),
            None => Ok(()),
        }
    }

    /// The name of the list of what must pass. Clusters with another last release than the
    /// suite's usual one have the same tests' names for other tests, and a list of their own.
    pub fn list(&self) -> String {
        let name = self.suite.name();
        match self
            .last
            .filter(|last| Some(*last) != self.suite.usual_last())
        {
            Some(last) => format!("{name}-{}", last.number()),
            None => name.to_owned(),
        }
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
    fn mixed_clusters_have_lists_of_their_own() {
        let list = |line| parse(line).expect("it is right").list();
        assert_eq!(list("common"), "common");
        assert_eq!(list("common --last 3.6"), "common-3.6");
        assert_eq!(list("common --last 3.7"), "common-3.7");
        assert_eq!(list("e2e"), "e2e");
        assert_eq!(list("e2e --last 3.6"), "e2e");
        assert_eq!(list("e2e --last=3.7"), "e2e-3.7");
    }

    #[test]
    fn robustness_has_failpoints() {
        let parsed = parse("robustness --count 3 --minutes=5 --plain-peers").expect("it is right");
        assert!(parsed.failpoints && parsed.plain_peers);
        assert_eq!((parsed.count, parsed.minutes), (Some(3), Some(5)));
        assert_eq!(parsed.last, Some(Release::Before));
        assert!(!parse("e2e").expect("it is right").failpoints);
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
            "common --last 3.5",
            "kills --last 3.6",
            "kills --failpoints",
            "common --count 2",
            "e2e --plain-peers",
            "robustness --update",
            "robustness --minutes 0",
        ] {
            assert!(matches!(parse(line), Err(Error::Usage(_))), "{line}");
        }
    }
}
