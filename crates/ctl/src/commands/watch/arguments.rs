//! What a watch's arguments say: keys, and after `--` a program. Keys may come from the variables
//! ETCDCTL_WATCH_KEY and ETCDCTL_WATCH_RANGE_END instead.

use quorate_cli::exit::Exit;
use quorate_go::quote::quote;
use std::os::unix::ffi::OsStringExt;

/// The keys that variables name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Variables {
    /// The key, where one is named.
    pub key: Option<Vec<u8>>,
    /// The range's end.
    pub range_end: Option<Vec<u8>>,
}

impl Variables {
    /// Those of the process.
    pub fn of_process() -> Result<Variables, Exit> {
        let variable = |name| {
            std::env::var_os(name)
                .map(OsStringExt::into_vec)
                .filter(|value| !value.is_empty())
        };
        let variables = Variables {
            key: variable("ETCDCTL_WATCH_KEY"),
            range_end: variable("ETCDCTL_WATCH_RANGE_END"),
        };
        match (&variables.key, &variables.range_end) {
            (None, Some(end)) => Err(Exit::bad_arguments(format_args!(
                "ETCDCTL_WATCH_KEY is empty but got ETCDCTL_WATCH_RANGE_END={}",
                quote(end)
            ))),
            _ => Ok(variables),
        }
    }
}

/// Why arguments do not say what to watch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// There is no key.
    #[error("bad number of arguments")]
    Number,
    /// There are keys in arguments and variables.
    #[error("bad number of arguments (found conflicting environment key)")]
    Conflict,
    /// There is no program after `--`.
    #[error("bad number of arguments (found separator --, but no commands)")]
    NoProgram,
}

/// What is to be watched, and what is to be run for each event.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// The key, and the range's end if there is one.
    pub keys: Vec<Vec<u8>>,
    /// The program and its arguments.
    pub program: Option<Vec<Vec<u8>>>,
}

impl Wanted {
    /// From the command line: `raw` is all that stands behind the command's name, `plain` what of
    /// it is no flag.
    pub fn of_arguments(
        raw: &[Vec<u8>],
        mut plain: Vec<Vec<u8>>,
        variables: &Variables,
    ) -> Result<Wanted, Wrong> {
        let program = raw
            .iter()
            .position(|word| word == b"--")
            .map(|at| raw[at + 1..].to_vec());
        if program.is_none() && raw.is_empty() && variables.key.is_none() {
            return Err(Wrong::Number);
        }
        let words = program.as_ref().map_or(0, Vec::len);
        plain.truncate(plain.len().saturating_sub(words));
        Wanted::with(plain, program, variables)
    }

    /// From a typed line: `plain` is what stands before `--` and is no flag.
    pub fn of_line(
        plain: Vec<Vec<u8>>,
        program: Option<Vec<Vec<u8>>>,
        variables: &Variables,
    ) -> Result<Wanted, Wrong> {
        if program.is_none() && plain.is_empty() && variables.key.is_none() {
            return Err(Wrong::Number);
        }
        Wanted::with(plain, program, variables)
    }

    fn with(
        plain: Vec<Vec<u8>>,
        program: Option<Vec<Vec<u8>>>,
        variables: &Variables,
    ) -> Result<Wanted, Wrong> {
        if program.as_ref().is_some_and(Vec::is_empty) {
            return Err(Wrong::NoProgram);
        }
        let keys = match &variables.key {
            Some(_) if !plain.is_empty() => return Err(Wrong::Conflict),
            Some(key) => [key.clone()]
                .into_iter()
                .chain(variables.range_end.clone())
                .collect(),
            None => plain,
        };
        Ok(Wanted { keys, program })
    }
}

/// What stands behind the command's name.
pub fn after_command(raw: &[Vec<u8>]) -> &[Vec<u8>] {
    let at = raw.iter().position(|word| word == b"watch");
    at.map_or(&raw[1.min(raw.len())..], |at| &raw[at + 1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(line: &str) -> Vec<Vec<u8>> {
        line.split_whitespace()
            .map(|word| word.as_bytes().to_vec())
            .collect()
    }

    fn of(raw: &str, plain: &str, key: Option<&str>) -> Result<(String, Option<String>), Wrong> {
        let variables = Variables {
            key: key.map(|key| key.as_bytes().to_vec()),
            range_end: None,
        };
        let raw = bytes(raw);
        let text = |words: Vec<Vec<u8>>| String::from_utf8(words.join(&b" "[..])).expect("text");
        Wanted::of_arguments(after_command(&raw), bytes(plain), &variables)
            .map(|wanted| (text(wanted.keys), wanted.program.map(text)))
    }

    #[test]
    fn keys_and_programs_are_told_apart() {
        let ok = |keys: &str, program: Option<&str>| Ok((keys.into(), program.map(Into::into)));
        assert_eq!(
            of("ctl watch foo bar", "foo bar", None),
            ok("foo bar", None)
        );
        assert_eq!(
            of(
                "ctl watch foo --rev 1 bar -- echo echo",
                "foo bar echo echo",
                None
            ),
            ok("foo bar", Some("echo echo"))
        );
        assert_eq!(
            of("ctl watch -- echo hi", "echo hi", Some("k")),
            ok("k", Some("echo hi"))
        );
        assert_eq!(of("ctl watch", "", Some("k")), ok("k", None));
        assert_eq!(of("ctl watch --prefix", "", None), ok("", None));
    }

    #[test]
    fn what_is_no_watch_is_refused() {
        assert_eq!(of("ctl watch", "", None), Err(Wrong::Number));
        assert_eq!(of("ctl watch foo --", "foo", None), Err(Wrong::NoProgram));
        assert_eq!(of("ctl watch foo", "foo", Some("k")), Err(Wrong::Conflict));
        assert_eq!(
            of("ctl watch foo -- echo 1", "foo echo 1", Some("k")),
            Err(Wrong::Conflict)
        );
    }
}
