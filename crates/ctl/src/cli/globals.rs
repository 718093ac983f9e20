//! The flags that every command takes, and their values: from the line, from the environment, or
//! by default.

use super::environment::{self, Environment};
use crate::print::{Format, Printer};
use clap::Arg;
use quorate_cli::Given;
use quorate_cli::exit::Exit;
use quorate_cli::flags::{boolean, duration, int, switch, text, texts, word};
use quorate_cli::format;
use quorate_cli::streams::write_err;
use std::fmt::Write;
use std::time::Duration;

/// The definitions.
pub fn flags() -> Vec<Arg> {
    [
        text("auth-jwt-token", "", "a token (JWT) to call with, in place of --user and --password"),
        text("cacert", "", "file of the certificate authorities that servers' certificates are checked against"),
        text("cert", "", "file of the certificate that this client shows"),
        duration("command-timeout", "5s", "how long a short command may take, connecting included"),
        switch("debug", "say on standard error what is used and what goes on"),
        duration("dial-timeout", "2s", "how long a connection, or asking for a token, may take"),
        text("discovery-srv", "", "domain whose SRV records name the endpoints").short('d'),
        text("discovery-srv-name", "", "service name that the SRV records are asked for with"),
        texts("endpoints", "127.0.0.1:2379", "where the members listen for clients, with commas between"),
        switch("hex", "write ids, keys and values in hex"),
        boolean("insecure-discovery", "true", "take SRV records that name endpoints without TLS"),
        switch("insecure-skip-tls-verify", "take any certificate of a server (CAUTION: whoever is between reads and changes all; for tests only)"),
        boolean("insecure-transport", "true", "talk without TLS where no certificate is given"),
        duration("keepalive-time", "2s", "silence after which a connection is probed"),
        duration("keepalive-timeout", "6s", "how long the answer to a probe may take"),
        text("key", "", "file of the private key of the certificate in --cert"),
        int("max-recv-bytes", "0", "largest answer that is taken, in bytes (0: 2^31-1)"),
        int("max-request-bytes", "0", "largest request that is sent, in bytes (0: 2 MiB)"),
        text("password", "", "the user's password (then --user has none)"),
        text("user", "", "name[:password] of the user (without a password it is asked for)"),
        word("write-out", &format::NAMES, "simple", "form of the output (fields, json, protobuf, simple, table)").short('w'),
    ]
    .into_iter()
    .map(|flag| flag.global(true))
    .collect()
}

/// The values.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub struct Globals {
    pub token: String,
    pub ca_file: String,
    pub cert_file: String,
    pub key_file: String,
    pub command_timeout: Duration,
    /// Whether it was given on the line.
    pub command_timeout_given: bool,
    pub debug: bool,
    pub dial_timeout: Duration,
    pub discovery_domain: String,
    pub discovery_service: String,
    pub endpoints: Vec<String>,
    pub hex: bool,
    pub insecure_discovery: bool,
    pub insecure_skip_verify: bool,
    pub insecure_transport: bool,
    pub keepalive_time: Duration,
    pub keepalive_timeout: Duration,
    pub answer_bytes_max: i64,
    pub request_bytes_max: i64,
    pub password: String,
    pub user: String,
    pub output: String,
    /// Of commands that have `--cluster` from their parent.
    pub cluster: bool,
}

impl Globals {
    /// The values for a command, its variables being taken from the process's environment.
    pub fn resolve(path: &[String], given: &Given) -> Result<Globals, Exit> {
        Globals::with(path, given, &Environment::of_process())
    }

    /// The values once more, without warnings: for what is done after a command.
    pub fn quietly(path: &[String], given: &Given) -> Result<Globals, Exit> {
        Globals::read(path, given, &Environment::of_process())
    }

    /// The values with these variables. Warnings about them go to standard error.
    pub fn with(path: &[String], given: &Given, variables: &Environment) -> Result<Globals, Exit> {
        let cluster = path.first().is_some_and(|name| name == "endpoint");
        let mut names: Vec<String> = flags()
            .iter()
            .map(|flag| flag.get_id().to_string())
            .collect();
        names.extend(cluster.then(|| "cluster".to_owned()));
        let mut known = names.clone();
        if path == ["watch"] {
            known.extend(["watch-key".to_owned(), "watch-range-end".to_owned()]);
        }
        let set: Vec<String> = names
            .iter()
            .filter(|name| given.is_set(name))
            .cloned()
            .collect();
        environment::verify(variables, &known, &set)?;
        let globals = Globals::read(path, given, variables)?;
        if globals.debug {
            write_err(globals.listing(cluster).as_bytes());
        }
        Ok(globals)
    }

    fn read(path: &[String], given: &Given, variables: &Environment) -> Result<Globals, Exit> {
        let cluster = path.first().is_some_and(|name| name == "endpoint");
        let values = Values { given, variables };
        Ok(Globals {
            token: values.text("auth-jwt-token"),
            ca_file: values.file("cacert")?,
            cert_file: values.file("cert")?,
            key_file: values.file("key")?,
            command_timeout: values.duration("command-timeout"),
            command_timeout_given: values.variable("command-timeout").is_some()
                || given.is_set("command-timeout"),
            debug: values.flag("debug"),
            dial_timeout: values.duration("dial-timeout"),
            discovery_domain: values.text("discovery-srv"),
            discovery_service: values.text("discovery-srv-name"),
            endpoints: values.texts("endpoints"),
            hex: values.flag("hex"),
            insecure_discovery: values.flag("insecure-discovery"),
            insecure_skip_verify: values.flag("insecure-skip-tls-verify"),
            insecure_transport: values.flag("insecure-transport"),
            keepalive_time: values.duration("keepalive-time"),
            keepalive_timeout: values.duration("keepalive-timeout"),
            answer_bytes_max: values.int("max-recv-bytes"),
            request_bytes_max: values.int("max-request-bytes"),
            password: values.text("password"),
            user: values.text("user"),
            output: values.text("write-out"),
            cluster: cluster && values.flag("cluster"),
        })
    }

    /// The output form.
    pub fn printer(&self) -> Result<Printer, Exit> {
        let format = Format::from_name(&self.output)?;
        Ok(Printer {
            format,
            hex: self.hex,
            value_only: false,
        })
    }

    /// What is used, as variables; the password is not shown.
    fn listing(&self, cluster: bool) -> String {
        let mut out = String::new();
        let duration = quorate_go::duration::format;
        let mut line = |name: &str, value: &str| {
            writeln!(out, "{}={value}", environment::variable(name))
                .expect("writing to a String cannot fail");
        };
        let hidden = |secret: &str| if secret.is_empty() { "" } else { "***" }.to_owned();
        line("auth-jwt-token", &hidden(&self.token));
        line("cacert", &self.ca_file);
        line("cert", &self.cert_file);
        if cluster {
            line("cluster", &self.cluster.to_string());
        }
        line("command-timeout", &duration(self.command_timeout));
        line("debug", "true");
        line("dial-timeout", &duration(self.dial_timeout));
        line("discovery-srv", &self.discovery_domain);
        line("discovery-srv-name", &self.discovery_service);
        line("endpoints", &format!("[{}]", self.endpoints.join(",")));
        line("hex", &self.hex.to_string());
        line("insecure-discovery", &self.insecure_discovery.to_string());
        line(
            "insecure-skip-tls-verify",
            &self.insecure_skip_verify.to_string(),
        );
        line("insecure-transport", &self.insecure_transport.to_string());
        line("keepalive-time", &duration(self.keepalive_time));
        line("keepalive-timeout", &duration(self.keepalive_timeout));
        line("key", &self.key_file);
        line("max-recv-bytes", &self.answer_bytes_max.to_string());
        line("max-request-bytes", &self.request_bytes_max.to_string());
        line("password", &hidden(&self.password));
        line("user", self.user.split(':').next().unwrap_or_default());
        line("write-out", &self.output);
        out
    }
}

/// Variables before flags: no flag is set where there is a variable, see
/// [`environment::verify`]. A variable with a value that its flag would refuse counts for nothing.
struct Values<'a> {
    given: &'a Given,
    variables: &'a Environment,
}

impl Values<'_> {
    fn variable(&self, name: &str) -> Option<&str> {
        self.variables.get(&environment::variable(name))
    }

    fn text(&self, name: &str) -> String {
        match self.variable(name) {
            Some(text) => text.to_owned(),
            None => self.given.text(name),
        }
    }

    /// A file's name, which is not empty if it is given.
    fn file(&self, name: &str) -> Result<String, Exit> {
        let file = self.text(name);
        match file.is_empty() && self.given.is_set(name) {
            true => Err(Exit::bad_arguments(format_args!(
                "empty string is passed to --{name} option"
            ))),
            false => Ok(file),
        }
    }

    fn flag(&self, name: &str) -> bool {
        self.variable(name)
            .and_then(|text| quorate_go::number::parse_bool(text).ok())
            .unwrap_or_else(|| self.given.flag(name))
    }

    fn int(&self, name: &str) -> i64 {
        self.variable(name)
            .and_then(|text| quorate_go::number::parse_i64(text, 0).ok())
            .unwrap_or_else(|| self.given.int(name))
    }

    fn duration(&self, name: &str) -> Duration {
        self.variable(name)
            .and_then(|text| quorate_go::duration::parse(text).ok())
            .unwrap_or_else(|| self.given.duration(name))
    }

    fn texts(&self, name: &str) -> Vec<String> {
        let lists: Vec<String> = match self.variable(name) {
            Some(text) => vec![text.to_owned()],
            None => self.given.lists(name),
        };
        lists
            .iter()
            .filter(|list| !list.is_empty())
            .flat_map(|list| list.split(','))
            .map(|item| item.trim().to_owned())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::tree;
    use quorate_cli::{Parsed, exit, parse};
    use std::ffi::OsString;

    fn globals(line: &str, variables: &[(&str, &str)]) -> Result<Globals, Exit> {
        let raw: Vec<OsString> = line.split(' ').map(OsString::from).collect();
        match parse(&tree::program("etcdctl"), &raw) {
            Parsed::Run(run) => Globals::with(&run.path, &run.given, &Environment::of(variables)),
            other => panic!("{line} became {other:?}"),
        }
    }

    #[test]
    fn values_come_from_flags_variables_and_defaults() {
        let of = |line, variables| globals(line, variables).expect("values");
        let plain = of("etcdctl get k", &[]);
        assert_eq!(plain.endpoints, ["127.0.0.1:2379"]);
        assert_eq!(plain.dial_timeout, Duration::from_secs(2));
        assert!(plain.insecure_transport && !plain.hex && !plain.command_timeout_given);
        let both = of(
            "etcdctl get k --endpoints=a:1,b:2 --endpoints c:3",
            &[
                ("ETCDCTL_WRITE_OUT", "json"),
                ("ETCDCTL_HEX", "zz"),
                ("ETCDCTL_DIAL_TIMEOUT", "3"),
            ],
        );
        assert_eq!(both.endpoints, ["a:1", "b:2", "c:3"]);
        assert_eq!(both.output, "json");
        assert_eq!(
            (both.hex, both.dial_timeout),
            (false, Duration::from_secs(2))
        );
        let cluster = of("etcdctl endpoint status", &[("ETCDCTL_CLUSTER", "1")]);
        assert!(cluster.cluster);
    }

    #[test]
    fn a_flag_and_its_variable_are_too_much() {
        let refused = globals("etcdctl get k -w simple", &[("ETCDCTL_WRITE_OUT", "json")]);
        assert_eq!(
            refused.map(drop).map_err(|exit| exit.code),
            Err(exit::ERROR)
        );
    }

    #[test]
    fn an_empty_file_name_is_refused() {
        let refused = globals("etcdctl get k --cacert=", &[]).expect_err("no file");
        assert_eq!(refused.code, exit::BAD_ARGUMENTS);
    }
}
