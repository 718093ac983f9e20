//! Which command a line is for, found as cobra does: flags and their values are passed over, a
//! command may be cut to a prefix that only it has, and what is no command ends the search.

use crate::flags::HELP;
use clap::Command;

/// The commands on the way, and the first word that is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The full names, without the program's.
    pub path: Vec<String>,
    /// Where in the arguments they stand.
    pub places: Vec<usize>,
    /// The word after them that is no flag, if there is one.
    pub word: Option<String>,
}

/// Goes down from `root` along `arguments`.
pub fn find(root: &Command, arguments: &[String]) -> Found {
    let mut here = vec![root];
    let mut found = Found {
        path: Vec::new(),
        places: Vec::new(),
        word: None,
    };
    let mut rest = arguments.iter().enumerate();
    while let Some((place, argument)) = rest.next() {
        if argument == "--" {
            break;
        }
        if argument.starts_with('-') {
            if takes_next(&here, argument) {
                rest.next();
            }
            continue;
        }
        if argument.is_empty() {
            continue;
        }
        match child(here[here.len() - 1], argument) {
            Some(child) => {
                found.path.push(child.get_name().to_owned());
                found.places.push(place);
                here.push(child);
            }
            None => {
                found.word = Some(argument.clone());
                break;
            }
        }
    }
    found
}

/// The command at this path.
pub fn at<'a>(root: &'a Command, path: &[String]) -> Option<&'a Command> {
    path.iter()
        .try_fold(root, |here, name| here.find_subcommand(name))
}

/// The one that the word names or is a prefix of.
fn child<'a>(command: &'a Command, word: &str) -> Option<&'a Command> {
    if let Some(exact) = command.find_subcommand(word) {
        return Some(exact);
    }
    let mut matching = command
        .get_subcommands()
        .filter(|child| !child.is_hide_set() && child.get_name().starts_with(word));
    match (matching.next(), matching.next()) {
        (Some(only), None) => Some(only),
        _ => None,
    }
}

/// Whether the flag's value is the next argument. One that is not known is taken to have a value.
fn takes_next(here: &[&Command], argument: &str) -> bool {
    if argument.contains('=') {
        return false;
    }
    let name = match argument.strip_prefix("--") {
        Some(name) => name,
        None if argument.len() == 2 => &argument[1..],
        None => return false,
    };
    let inner = here.len() - 1;
    let known = here.iter().enumerate().find_map(|(depth, command)| {
        command.get_arguments().find(|flag| {
            (flag.is_global_set() || depth == inner)
                && (flag.get_long() == Some(name)
                    || flag
                        .get_short()
                        .is_some_and(|short| name == short.to_string()))
        })
    });
    known.is_none_or(|flag| !flag.is_require_equals_set())
}

/// What a wrong word may have meant: commands within two edits of it, or that it is a prefix of.
pub fn suggestions(root: &Command, word: &str) -> Vec<String> {
    root.get_subcommands()
        .filter(|command| !command.is_hide_set())
        .map(Command::get_name)
        .filter(|name| *name != HELP)
        .filter(|name| {
            edits(word, name) <= 2 || name.to_lowercase().starts_with(&word.to_lowercase())
        })
        .map(str::to_owned)
        .collect()
}

/// Levenshtein's distance, letters of either case being the same.
fn edits(a: &str, b: &str) -> usize {
    let a: Vec<char> = a.to_lowercase().chars().collect();
    let b: Vec<char> = b.to_lowercase().chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(x != y);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flags::{command, switch, text};

    fn root() -> Command {
        command("tool", "tool", "")
            .args([
                text("form", "", "").short('w').global(true),
                text("at", "", "").global(true),
                switch("loud", "").global(true),
            ])
            .subcommands([
                command("get", "get", ""),
                command("lease", "lease", "").subcommand(command("list", "list", "")),
                command("member", "member", "").subcommand(command("list", "list", "")),
                command("move", "move", ""),
                command("mend", "mend", "").hide(true),
                crate::flags::help_command(),
            ])
    }

    fn found(line: &str) -> (String, Option<String>) {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        let found = find(&root(), &words);
        (found.path.join(" "), found.word)
    }

    #[test]
    fn commands_are_found_behind_flags_and_by_prefix() {
        assert_eq!(found("get foo"), ("get".into(), Some("foo".into())));
        assert_eq!(found("-w json --loud le li"), ("lease list".into(), None));
        assert_eq!(found("--at x me --loud li"), ("member list".into(), None));
        assert_eq!(found("m list"), (String::new(), Some("m".into())));
        assert_eq!(
            found("--unknown get foo"),
            (String::new(), Some("foo".into()))
        );
        assert_eq!(found("lease x"), ("lease".into(), Some("x".into())));
    }

    #[test]
    fn a_hidden_command_goes_by_its_whole_name() {
        assert_eq!(found("mend"), ("mend".into(), None));
        assert_eq!(found("men"), (String::new(), Some("men".into())));
    }

    #[test]
    fn near_words_are_suggested() {
        assert_eq!(suggestions(&root(), "gett"), ["get"]);
        assert!(suggestions(&root(), "foo").is_empty());
        assert!(suggestions(&root(), "helpp").is_empty());
        assert_eq!(edits("kitten", "sitting"), 3);
    }
}
