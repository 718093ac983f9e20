//! Reading flags in pflag's syntax: `--flag=v`, `--flag v`, `-fv`, `-f=v`, `-f v`, `--bool`,
//! `--bool=false`; flags and words in any order, and only words behind `--`.

use super::command::{Command, Flag, Kind};
use super::lookup::flags_of;
use super::value::{self, Value, go_quote};
use std::collections::BTreeMap;
use std::time::Duration;

/// The values of a command's flags.
#[derive(Debug)]
pub struct Flags {
    values: BTreeMap<&'static str, Value>,
    given: Vec<&'static str>,
}

impl Flags {
    fn value(&self, name: &str) -> &Value {
        self.values
            .get(name)
            .expect("a command asks for its own flags")
    }

    /// Whether it stands on the line.
    pub fn is_given(&self, name: &str) -> bool {
        self.given.contains(&name)
    }

    /// Of a bool.
    pub fn is_true(&self, name: &str) -> bool {
        matches!(self.value(name), Value::Bool(true))
    }

    /// Of a text.
    pub fn text(&self, name: &str) -> &str {
        match self.value(name) {
            Value::Text(text) => text,
            other => unreachable!("--{name} is {other:?}, not a text"),
        }
    }

    /// Of a signed number.
    pub fn int(&self, name: &str) -> i64 {
        match self.value(name) {
            Value::Int(number) => *number,
            other => unreachable!("--{name} is {other:?}, not an int"),
        }
    }

    /// Of an unsigned number.
    pub fn uint(&self, name: &str) -> u64 {
        match self.value(name) {
            Value::Uint(number) => *number,
            other => unreachable!("--{name} is {other:?}, not an uint"),
        }
    }

    /// Of a span of time; a negative one is none.
    pub fn duration(&self, name: &str) -> Duration {
        match self.value(name) {
            Value::Duration(ns) => Duration::from_nanos(u64::try_from(*ns).unwrap_or(0)),
            other => unreachable!("--{name} is {other:?}, not a duration"),
        }
    }

    fn set(&mut self, flag: &'static Flag, text: &str) -> Result<(), String> {
        let value = value::parse(flag.kind, text).map_err(|why| {
            let name = match flag.short {
                Some(letter) => format!("-{letter}, --{}", flag.name),
                None => format!("--{}", flag.name),
            };
            format!(
                "invalid argument {} for \"{name}\" flag: {why}",
                go_quote(text)
            )
        })?;
        self.values.insert(flag.name, value);
        self.given.push(flag.name);
        Ok(())
    }
}

/// Reads what [`super::lookup::find`] left of the line into flags and words.
pub fn parse(path: &[&'static Command], line: &[String]) -> Result<(Flags, Vec<String>), String> {
    let known: Vec<&'static Flag> = flags_of(path).collect();
    let known = &known[..];
    let defaults = known.iter().map(|flag| {
        let value = value::parse(flag.kind, flag.default);
        (flag.name, value.expect("the table's defaults can be read"))
    });
    let mut flags = Flags {
        values: defaults.collect(),
        given: Vec::new(),
    };
    let mut words = Vec::new();
    let mut rest = line.iter();
    while let Some(word) = rest.next() {
        if word == "--" {
            words.extend(rest.cloned());
            break;
        }
        if let Some(long) = word.strip_prefix("--") {
            let (name, value) = match long.split_once('=') {
                Some((name, value)) => (name, Some(value)),
                None => (long, None),
            };
            if name.is_empty() || name.starts_with('-') {
                return Err(format!("bad flag syntax: {word}"));
            }
            let flag = known.iter().find(|flag| flag.name == name);
            let flag = flag.ok_or_else(|| format!("unknown flag: --{name}"))?;
            let value = match (value, flag.kind) {
                (Some(value), _) => value,
                (None, Kind::Bool) => "true",
                (None, _) => rest
                    .next()
                    .ok_or_else(|| format!("flag needs an argument: {word}"))?,
            };
            flags.set(flag, value)?;
        } else if word.len() > 1 && word.starts_with('-') {
            letters(known, &mut flags, &word[1..], &mut rest)?;
        } else {
            words.push(word.clone());
        }
    }
    Ok((flags, words))
}

/// A group of letters behind one dash.
fn letters<'l>(
    known: &[&'static Flag],
    flags: &mut Flags,
    group: &'l str,
    rest: &mut std::slice::Iter<'l, String>,
) -> Result<(), String> {
    let mut left = group;
    while let Some(letter) = left.chars().next() {
        let behind = &left[letter.len_utf8()..];
        let flag = known.iter().find(|flag| flag.short == Some(letter));
        let flag =
            flag.ok_or_else(|| format!("unknown shorthand flag: {} in -{left}", go_char(letter)))?;
        if let Some(value) = behind.strip_prefix('=').filter(|value| !value.is_empty()) {
            return flags.set(flag, value);
        }
        if flag.kind == Kind::Bool {
            flags.set(flag, "true")?;
            left = behind;
            continue;
        }
        let value = match behind {
            "" => rest
                .next()
                .ok_or_else(|| format!("flag needs an argument: {} in -{left}", go_char(letter)))?,
            value => value,
        };
        return flags.set(flag, value);
    }
    Ok(())
}

fn go_char(letter: char) -> String {
    format!("'{letter}'")
}

#[cfg(test)]
mod tests {
    use super::super::command::ROOT;
    use super::super::lookup::find;
    use super::*;

    fn read(line: &str) -> Result<(Flags, Vec<String>), String> {
        let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        let found = find(&ROOT, false, &line).unwrap();
        parse(&found.path, &found.args)
    }

    #[test]
    fn all_spellings() {
        for line in [
            "hashkv f --rev 7 -w json",
            "hashkv f --rev=7 -wjson",
            "hashkv --rev=0x7 -w=json -- f",
            "--write-out=json hashkv f --rev 07",
        ] {
            let (flags, words) = read(line).unwrap();
            assert_eq!(flags.int("rev"), 7, "{line}");
            assert_eq!(flags.text("write-out"), "json", "{line}");
            assert_eq!(words, ["f"], "{line}");
        }
        let (flags, words) =
            read("snapshot restore --skip-hash-check f --mark-compacted=0").unwrap();
        assert!(flags.is_true("skip-hash-check"));
        assert!(!flags.is_true("mark-compacted"));
        assert!(flags.is_given("mark-compacted"));
        assert_eq!(words, ["f"]);
    }

    #[test]
    fn errors_in_pflags_words() {
        let error = |line: &str| read(line).unwrap_err();
        assert_eq!(error("version --bogus"), "unknown flag: --bogus");
        assert_eq!(error("version -vx"), "unknown shorthand flag: 'v' in -vx");
        assert_eq!(error("version -w"), "flag needs an argument: 'w' in -w");
        assert_eq!(
            error("version --timeout"),
            "flag needs an argument: --timeout"
        );
        assert_eq!(error("version --=x"), "bad flag syntax: --=x");
        assert_eq!(
            error("version --help=maybe"),
            "invalid argument \"maybe\" for \"-h, --help\" flag: strconv.ParseBool: parsing \"maybe\": invalid syntax"
        );
    }
}
