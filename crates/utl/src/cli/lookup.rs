//! Which command a line means.
//!
//! Flags may stand before the command, so its name is found by passing over them. A name may be
//! cut short where only one begins so. Source: cobra's `Find` with prefix matching.

use super::command::{Command, Flag, HELP, Kind};
use super::value::go_quote;

/// The command and what of the line is its own.
pub struct Found {
    /// From the root to the command.
    pub path: Vec<&'static Command>,
    /// The line without the commands' names.
    pub args: Vec<String>,
}

/// No command has this name.
#[derive(Debug, PartialEq, Eq)]
pub struct Unknown {
    name: String,
    /// Commands with names like it.
    similar: Vec<&'static str>,
}

impl Unknown {
    /// What the user is told.
    pub fn text(&self, program: &str) -> String {
        let mut text = format!("unknown command {} for \"{program}\"", go_quote(&self.name));
        if !self.similar.is_empty() {
            text.push_str("\n\nDid you mean this?\n");
            for name in &self.similar {
                text.push_str(&format!("\t{name}\n"));
            }
        }
        text
    }
}

/// The flags of a command and those that it has from above.
pub fn flags_of<'p>(path: &'p [&'static Command]) -> impl Iterator<Item = &'static Flag> + 'p {
    let root = path[0];
    let own = path.last().expect("a path begins with the root");
    let inherited = if path.len() > 1 { root.flags } else { &[] };
    own.flags.iter().chain(inherited).chain([&HELP])
}

/// Whether this word takes the next one as its value.
fn takes_next(path: &[&'static Command], word: &str) -> bool {
    let alone = |flag: Option<&Flag>| flag.is_some_and(|flag| flag.kind == Kind::Bool);
    if word.contains('=') {
        false
    } else if let Some(name) = word.strip_prefix("--") {
        !alone(flags_of(path).find(|flag| flag.name == name))
    } else if word.len() == 2 && word.starts_with('-') {
        let letter = word.chars().nth(1);
        !alone(flags_of(path).find(|flag| flag.short == letter))
    } else {
        false
    }
}

/// The words that are neither flags nor their values.
fn words(path: &[&'static Command], line: &[String]) -> Vec<String> {
    let mut words = Vec::new();
    let mut rest = line;
    while let Some((word, behind)) = rest.split_first() {
        rest = behind;
        if word == "--" {
            break;
        }
        if takes_next(path, word) {
            if rest.len() <= 1 {
                break;
            }
            rest = &rest[1..];
        } else if !word.is_empty() && !word.starts_with('-') {
            words.push(word.clone());
        }
    }
    words
}

/// The line without the first word `name` that is no flag's value.
fn without(path: &[&'static Command], line: &[String], name: &str) -> Vec<String> {
    let mut at = 0;
    while at < line.len() && line[at] != "--" {
        if takes_next(path, &line[at]) {
            at += 1;
        } else if line[at] == name {
            let mut rest = line.to_vec();
            rest.remove(at);
            return rest;
        }
        at += 1;
    }
    line.to_vec()
}

fn next(command: &'static Command, own: bool, name: &str) -> Option<&'static Command> {
    if let Some(exact) = command.commands.iter().find(|c| c.name == name) {
        return Some(exact);
    }
    let visible = command.commands.iter().filter(|c| own || !c.own);
    let mut matches = visible.filter(|c| c.name.starts_with(name));
    match (matches.next(), matches.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Finds the command. `own`: whether commands that etcdutl lacks are shown.
pub fn find(root: &'static Command, own: bool, line: &[String]) -> Result<Found, Unknown> {
    let mut path = vec![root];
    let mut args = line.to_vec();
    loop {
        let command = *path.last().expect("a path begins with the root");
        let words = words(&path, &args);
        let Some(name) = words.first() else { break };
        let Some(inner) = next(command, own, name) else {
            if path.len() == 1 {
                let visible = root.commands.iter().filter(|c| own || !c.own);
                let names = visible.map(|c| c.name).filter(|c| *c != "help");
                return Err(Unknown {
                    name: name.clone(),
                    similar: names.filter(|known| is_similar(known, name)).collect(),
                });
            }
            break;
        };
        args = without(&path, &args, name);
        path.push(inner);
    }
    Ok(Found { path, args })
}

/// Farthest that a misspelled name is from the one that was meant.
const DISTANCE_MAX: usize = 2;

fn is_similar(known: &str, typed: &str) -> bool {
    let typed = typed.to_lowercase();
    distance(&typed, known) <= DISTANCE_MAX || known.starts_with(&typed)
}

/// Levenshtein's distance.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != *to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::super::command::ROOT;
    use super::*;

    fn names(line: &str, own: bool) -> Result<(Vec<&'static str>, Vec<String>), String> {
        let line: Vec<String> = line.split_whitespace().map(str::to_owned).collect();
        match find(&ROOT, own, &line) {
            Ok(found) => Ok((found.path[1..].iter().map(|c| c.name).collect(), found.args)),
            Err(unknown) => Err(unknown.text("etcdutl")),
        }
    }

    #[test]
    fn flags_before_a_command_are_passed_over() {
        let (path, args) = names("-w json snapshot --timeout=1s status x", false).unwrap();
        assert_eq!(path, ["snapshot", "status"]);
        assert_eq!(args, ["-w", "json", "--timeout=1s", "x"]);
    }

    #[test]
    fn names_may_be_cut_short() {
        assert_eq!(names("s st x", false).unwrap().0, ["snapshot", "status"]);
        // Our own commands make it ambiguous only where they are shown.
        assert!(names("s st x", true).is_err());
        assert_eq!(names("size x", false).unwrap().0, ["size"]);
    }

    #[test]
    fn unknown_names_are_told_with_what_is_similar() {
        assert_eq!(
            names("bogus", false).unwrap_err(),
            "unknown command \"bogus\" for \"etcdutl\""
        );
        assert_eq!(
            names("defrga", false).unwrap_err(),
            "unknown command \"defrga\" for \"etcdutl\"\n\nDid you mean this?\n\tdefrag\n"
        );
        assert_eq!(names("snapshot bogus", false).unwrap().0, ["snapshot"]);
    }
}
