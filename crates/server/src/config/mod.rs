//! The configuration: flags and environment, checked as etcd checks them.
//!
//! A flag is taken with one dash or two, with `=` or the value behind it (a bool only with `=`); an
//! environment variable ETCD_NAME stands in for a flag that is not given. An unknown flag is
//! refused, and so is one that is known and not served yet.

pub mod flags;
mod help;
mod urls;
mod values;

pub use urls::{Endpoint, ListenAddress, parse_listen_urls};
pub use values::parse_duration_ns;

use crate::compactor::Retention;
use clap::{Arg, ArgAction, Command};
use flags::{FLAGS, Flag, Kind, Support};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

/// What went wrong; goes to standard error, and the process ends.
#[derive(Debug, PartialEq, Eq)]
pub enum Refusal {
    /// `--help` or `--version`: printed, and all is well.
    Text(String),
    /// Bad flags: exit code 2, as Go's flag package has it.
    Usage(String),
    /// Flags that do not go together: exit code 1.
    Invalid(String),
}

/// Clients could not find a member that listens somewhere and does not say where.
pub const NO_ADVERTISED_URLS: &str =
    "--advertise-client-urls is required when --listen-client-urls is set explicitly";

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    values: BTreeMap<&'static str, String>,
    given: BTreeSet<&'static str>,
    /// --name
    pub name: String,
    /// --data-dir
    pub data_dir: PathBuf,
    /// --wal-dir
    pub wal_dir: Option<PathBuf>,
    /// --listen-peer-urls
    pub listen_peer: Vec<Endpoint>,
    /// --listen-client-urls
    pub listen_client: Vec<Endpoint>,
    /// --listen-client-http-urls
    pub listen_client_http: Vec<Endpoint>,
    /// --listen-metrics-urls
    pub listen_metrics: Vec<Endpoint>,
    /// --initial-advertise-peer-urls
    pub advertise_peer: Vec<String>,
    /// --advertise-client-urls
    pub advertise_client: Vec<String>,
    /// --initial-cluster, by name
    pub initial_cluster: Vec<(String, Vec<String>)>,
}

impl Config {
    /// Reads arguments (without the program's name) and environment.
    pub fn parse(
        arguments: impl Iterator<Item = String>,
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, Refusal> {
        let arguments = parse_arguments(arguments)?;
        let (mut values, mut given) = (BTreeMap::new(), BTreeSet::new());
        for flag in FLAGS {
            let name = flag.name;
            let set = arguments
                .get(name)
                .cloned()
                .or_else(|| environment(&variable(name)));
            if let Some(value) = &set {
                given.insert(name);
                values::check(flag, value).map_err(Refusal::Usage)?;
                if flag.support == Support::NotYet && !is_default(flag, value) {
                    return Err(Refusal::Invalid(format!("--{name} is not supported yet")));
                }
            }
            values.insert(name, set.unwrap_or_else(|| flag.default.to_owned()));
        }
        Config::from_values(values, given)
    }

    fn from_values(
        values: BTreeMap<&'static str, String>,
        given: BTreeSet<&'static str>,
    ) -> Result<Config, Refusal> {
        let text = |name: &str| values[name].clone();
        let listed = |name: &str| parse_listen_urls(name, &values[name]).map_err(Refusal::Usage);
        let urls = |name: &str| urls::parse_urls(name, &values[name]).map_err(Refusal::Usage);
        let name = text("name");
        let data_dir = match text("data-dir") {
            empty if empty.is_empty() => format!("{name}.etcd"),
            dir => dir,
        };
        let advertise_peer = urls("initial-advertise-peer-urls")?;
        let initial_cluster = match text("initial-cluster") {
            empty if empty.is_empty() => vec![(name.clone(), advertise_peer.clone())],
            spec => urls::parse_cluster(&spec).map_err(Refusal::Invalid)?,
        };
        let config = Config {
            data_dir: data_dir.into(),
            wal_dir: Some(text("wal-dir"))
                .filter(|dir| !dir.is_empty())
                .map(PathBuf::from),
            listen_peer: listed("listen-peer-urls")?,
            listen_client: listed("listen-client-urls")?,
            listen_client_http: listed("listen-client-http-urls")?,
            listen_metrics: listed("listen-metrics-urls")?,
            advertise_client: urls("advertise-client-urls")?,
            advertise_peer,
            initial_cluster,
            name,
            values,
            given,
        };
        config.check()?;
        Ok(config)
    }

    fn check(&self) -> Result<(), Refusal> {
        let invalid = |what: String| Err(Refusal::Invalid(what));
        let (tick, election) = (
            self.number("heartbeat-interval"),
            self.number("election-timeout"),
        );
        if tick <= 0 {
            return invalid("--heartbeat-interval must be >0 (set to 0ms)".into());
        }
        if election <= 0 {
            return invalid("--election-timeout must be >0 (set to 0ms)".into());
        }
        if 5 * tick > election {
            return invalid(format!(
                "--election-timeout[{election}ms] should be at least as 5 times as --heartbeat-interval[{tick}ms]"
            ));
        }
        if election > 50_000 {
            return invalid(format!(
                "--election-timeout[{election}ms] is too long, and should be set less than 50000ms"
            ));
        }
        let compared = self.duration("compact-hash-check-time");
        if compared.is_zero() {
            return invalid("--compact-hash-check-time must be >0 (set to 0s)".into());
        }
        if !matches!(self.text("initial-cluster-state"), "new" | "existing") {
            return Err(Refusal::Usage(format!(
                "invalid value {:?} for flag -initial-cluster-state: invalid value",
                self.text("initial-cluster-state")
            )));
        }
        Retention::parse(
            self.text("auto-compaction-mode"),
            self.text("auto-compaction-retention"),
        )
        .map_err(Refusal::Invalid)?;
        if self.listen_client.is_empty() && self.listen_client_http.is_empty() {
            return invalid("--listen-client-urls cannot be empty".into());
        }
        if !matches!(
            self.text("log-level"),
            "debug" | "info" | "warn" | "error" | "dpanic" | "panic" | "fatal"
        ) {
            return invalid(format!("unrecognized level: {:?}", self.text("log-level")));
        }
        if !matches!(self.text("log-format"), "json" | "console") {
            return invalid(format!(
                "unknown log format: {}, supported values json, console",
                self.text("log-format")
            ));
        }
        let listeners = [
            &self.listen_peer,
            &self.listen_client,
            &self.listen_client_http,
            &self.listen_metrics,
        ];
        for endpoint in listeners.into_iter().flatten() {
            let host = match &endpoint.address {
                ListenAddress::Tcp(host, _) => host,
                ListenAddress::Unix(_) => continue,
            };
            if host != "localhost" && host.parse::<IpAddr>().is_err() {
                let url = &endpoint.url;
                return invalid(format!("expected IP in URL for binding ({url})"));
            }
        }
        if self.is_given("listen-client-urls") && !self.is_given("advertise-client-urls") {
            return invalid(NO_ADVERTISED_URLS.into());
        }
        Ok(())
    }

    /// Whether a flag was set, by an argument or by the environment.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(name)
    }

    /// A flag's value as text.
    pub fn text(&self, name: &str) -> &str {
        &self.values[name]
    }

    /// A flag's value as a number.
    pub fn number(&self, name: &str) -> i64 {
        self.values[name].parse().expect("numbers were checked")
    }

    /// A flag's value as a number ≥ 0.
    pub fn count(&self, name: &str) -> u64 {
        self.number(name).max(0) as u64
    }

    /// A flag's value as a bool.
    pub fn is_set(&self, name: &str) -> bool {
        values::parse_bool(&self.values[name]).expect("bools were checked")
    }

    /// A flag's value as a duration.
    pub fn duration(&self, name: &str) -> Duration {
        Duration::from_nanos(parse_duration_ns(&self.values[name]).expect("durations were checked"))
    }

    /// Whether a feature gate is on.
    pub fn feature(&self, name: &str, default: bool) -> bool {
        self.text("feature-gates")
            .split(',')
            .filter_map(|gate| gate.trim().split_once('='))
            .rfind(|(gate, _)| *gate == name)
            .and_then(|(_, value)| values::parse_bool(value))
            .unwrap_or(default)
    }
}

fn variable(name: &str) -> String {
    format!("ETCD_{}", name.replace('-', "_").to_uppercase())
}

fn is_default(flag: &Flag, value: &str) -> bool {
    match flag.kind {
        Kind::Bool => values::parse_bool(value) == values::parse_bool(flag.default),
        Kind::Duration => parse_duration_ns(value) == parse_duration_ns(flag.default),
        Kind::Text | Kind::OneOf(_) | Kind::Number => value == flag.default,
    }
}

/// The version text of `--version`.
pub fn version_text() -> String {
    format!(
        "etcd Version: {}\nQuorate Version: {}\n",
        quorate_node::ETCD_VERSION,
        env!("CARGO_PKG_VERSION")
    )
}

fn command() -> Command {
    let mut command = Command::new("quorate")
        .about("A replicated, revisioned key-value store that speaks etcd 3.7.")
        .override_usage("quorate [flags]")
        .args_override_self(true)
        .disable_version_flag(true);
    for flag in FLAGS {
        let argument = Arg::new(flag.name)
            .long(flag.name)
            .help(flag.help)
            .action(ArgAction::Set);
        command = command.arg(match flag.kind {
            Kind::Bool => argument
                .num_args(0..=1)
                .require_equals(true)
                .default_missing_value("true"),
            _ => argument.num_args(1).allow_hyphen_values(true),
        });
    }
    command.arg(
        Arg::new("version")
            .long("version")
            .action(ArgAction::SetTrue)
            .help("print the version and exit"),
    )
}

fn parse_arguments(
    arguments: impl Iterator<Item = String>,
) -> Result<BTreeMap<&'static str, String>, Refusal> {
    let normalized = arguments.map(|argument| {
        let single = argument.starts_with('-') && !argument.starts_with("--");
        let named =
            argument[1.min(argument.len())..].starts_with(|c: char| c.is_ascii_alphabetic());
        if single && named {
            format!("-{argument}")
        } else {
            argument
        }
    });
    let all = std::iter::once("quorate".to_owned()).chain(normalized);
    let matches = command().try_get_matches_from(all).map_err(|error| {
        use clap::error::{ContextKind, ContextValue, ErrorKind};
        let what = |kind| match error.get(kind) {
            Some(ContextValue::String(text)) => Some(text.clone()),
            _ => None,
        };
        match error.kind() {
            ErrorKind::DisplayHelp => Refusal::Text(help::text()),
            ErrorKind::UnknownArgument => match what(ContextKind::InvalidArg) {
                Some(flag) if flag.starts_with("--") => Refusal::Usage(format!(
                    "flag provided but not defined: -{}",
                    flag.trim_start_matches('-')
                )),
                Some(word) => Refusal::Invalid(format!("{word:?} is not a valid flag")),
                None => Refusal::Usage(error.render().to_string()),
            },
            ErrorKind::InvalidValue
                if what(ContextKind::InvalidValue).is_some_and(|v| v.is_empty()) =>
            {
                let flag = what(ContextKind::InvalidArg).unwrap_or_default();
                let name = flag.split_whitespace().next().unwrap_or_default();
                Refusal::Usage(format!(
                    "flag needs an argument: -{}",
                    name.trim_start_matches('-')
                ))
            }
            _ => Refusal::Usage(error.render().to_string()),
        }
    })?;
    if matches.get_flag("version") {
        return Err(Refusal::Text(version_text()));
    }
    Ok(FLAGS
        .iter()
        .filter_map(|flag| Some((flag.name, matches.get_one::<String>(flag.name)?.clone())))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(arguments: &[&str]) -> Result<Config, Refusal> {
        let environment = |name: &str| (name == "ETCD_MAX_WALS").then(|| "7".to_owned());
        Config::parse(arguments.iter().map(|a| (*a).to_owned()), environment)
    }

    #[test]
    fn one_dash_two_dashes_equals_and_space() {
        for arguments in [
            &["-name", "x"][..],
            &["--name", "x"],
            &["-name=x"],
            &["--name=x"],
            &["--name=y", "--name=x"],
        ] {
            assert_eq!(parse(arguments).unwrap().name, "x", "{arguments:?}");
        }
        assert_eq!(
            parse(&["--quota-backend-bytes", "-1"])
                .unwrap()
                .number("quota-backend-bytes"),
            -1
        );
    }

    #[test]
    fn a_bool_takes_its_value_behind_equals_alone() {
        assert!(!parse(&["--pre-vote=false"]).unwrap().is_set("pre-vote"));
        assert!(parse(&["--pre-vote"]).unwrap().is_set("pre-vote"));
        assert!(parse(&["--pre-vote", "false"]).is_err());
        assert!(parse(&["--pre-vote=maybe"]).is_err());
    }

    #[test]
    fn unknown_and_unserved_flags_are_refused() {
        assert_eq!(
            parse(&["--nope=1"]).unwrap_err(),
            Refusal::Usage("flag provided but not defined: -nope".into())
        );
        assert_eq!(
            parse(&["word"]).unwrap_err(),
            Refusal::Invalid("\"word\" is not a valid flag".into())
        );
        assert_eq!(
            parse(&["--name"]).unwrap_err(),
            Refusal::Usage("flag needs an argument: -name".into())
        );
        assert!(matches!(
            parse(&["--cert-file=x"]).unwrap_err(),
            Refusal::Invalid(_)
        ));
        assert!(parse(&["--auto-tls=false"]).is_ok());
    }

    #[test]
    fn the_environment_stands_in_and_flags_win() {
        assert_eq!(parse(&[]).unwrap().number("max-wals"), 7);
        assert_eq!(parse(&["--max-wals=3"]).unwrap().number("max-wals"), 3);
    }

    #[test]
    fn where_it_listens_is_an_address_and_is_told() {
        let invalid = |what: &str| Err(Refusal::Invalid(what.into()));
        let listen = |url: &str| {
            let listen = format!("--listen-client-urls={url}");
            parse(&[&listen, "--advertise-client-urls=http://host:2379"]).map(drop)
        };
        assert_eq!(listen("http://0.0.0.0:2379"), Ok(()));
        assert_eq!(listen("http://[::]:2379"), Ok(()));
        assert_eq!(listen("http://localhost:2379"), Ok(()));
        assert_eq!(
            listen("http://host:2379"),
            invalid("expected IP in URL for binding (http://host:2379)")
        );
        let untold = parse(&["--listen-client-urls=http://1.2.3.4:1"]).map(drop);
        assert_eq!(untold, invalid(NO_ADVERTISED_URLS));
        assert_eq!(
            parse(&["--listen-client-urls=foo"]).map(drop),
            Err(Refusal::Usage(
                "invalid value \"foo\" for flag -listen-client-urls: URL scheme must be http, https, unix, or unixs: foo"
                    .into()
            ))
        );
        assert_eq!(
            parse(&["--pre-vote=maybe"]).map(drop),
            Err(Refusal::Usage(
                "invalid boolean value \"maybe\" for -pre-vote: parse error".into()
            ))
        );
    }

    #[test]
    fn timings_are_checked() {
        assert!(parse(&["--heartbeat-interval=300"]).is_err());
        assert!(parse(&["--election-timeout=60000"]).is_err());
        assert!(parse(&["--compact-hash-check-time=0s"]).is_err());
    }

    #[test]
    fn data_and_cluster_follow_from_the_name() {
        let config = parse(&["--name=m"]).unwrap();
        assert_eq!(config.data_dir, PathBuf::from("m.etcd"));
        assert_eq!(
            config.initial_cluster,
            [("m".to_owned(), vec!["http://localhost:2380".to_owned()])]
        );
    }

    #[test]
    fn features() {
        let config = parse(&["--feature-gates=LeaseCheckpoint=true,Other=false"]).unwrap();
        assert!(config.feature("LeaseCheckpoint", false));
        assert!(!config.feature("Other", true));
        assert!(config.feature("Unset", true));
    }
}
