//! The file format of the traces: commands with arguments, input, and what they must print.
//!
//! ```text
//! # comment
//! command argument key=value key=(value,value)
//! input
//! ----
//! output, up to an empty line
//! ```

/// One command of a file.
#[derive(Debug)]
pub struct Command {
    /// Where its first line stands, from 1.
    pub line: usize,
    /// What to do.
    pub name: String,
    /// With what, in order: a key and its values, none for a bare word.
    pub arguments: Vec<(String, Vec<String>)>,
    /// Lines between the command and the separator.
    pub input: String,
    /// What must come out.
    pub expected: String,
}

impl Command {
    /// The bare words that are numbers; an error if one is not.
    pub fn numbers(&self) -> Result<Vec<u64>, String> {
        let bare = self
            .arguments
            .iter()
            .filter(|(_, values)| values.is_empty());
        bare.map(|(word, _)| number(word)).collect()
    }

    /// The n-th bare number.
    pub fn number(&self, position: usize) -> Result<u64, String> {
        let found = self.numbers()?.get(position).copied();
        found.ok_or_else(|| format!("argument {position} is missing"))
    }

    /// The one value of a key.
    pub fn value(&self, key: &str) -> Option<&str> {
        let (_, values) = self.arguments.iter().find(|(name, _)| name == key)?;
        values.first().map(String::as_str)
    }
}

/// Reads a number.
pub fn number(text: &str) -> Result<u64, String> {
    text.parse()
        .map_err(|error| format!("{text:?} is no number: {error}"))
}

/// Reads a file.
pub fn parse(text: &str) -> Result<Vec<Command>, String> {
    let mut commands = Vec::new();
    let mut lines = text.lines().zip(1..).peekable();
    while let Some((first, line)) = lines.next() {
        if first.trim().is_empty() || first.starts_with('#') {
            continue;
        }
        let mut directive = first.to_owned();
        while let Some(start) = directive.strip_suffix('\\') {
            let (next, _) = lines.next().ok_or("a command ends in the middle")?;
            directive = format!("{start} {next}");
        }
        let mut words = words(&directive).into_iter();
        let name = words.next().unwrap_or_default();
        let arguments = words
            .map(|word| argument(&word))
            .collect::<Result<_, String>>()?;
        let mut input = String::new();
        loop {
            let (next, _) = lines.next().ok_or(format!("line {line}: no separator"))?;
            if next == "----" {
                break;
            }
            input += next;
            input += "\n";
        }
        if lines.peek().is_some_and(|(next, _)| *next == "----") {
            return Err(format!(
                "line {line}: output in double separators is not understood"
            ));
        }
        let mut expected = String::new();
        for (next, _) in lines.by_ref() {
            if next.trim().is_empty() {
                break;
            }
            expected += next;
            expected += "\n";
        }
        commands.push(Command {
            line,
            name,
            arguments,
            input,
            expected,
        });
    }
    Ok(commands)
}

/// Parts at spaces, except within parentheses, where they are dropped.
fn words(directive: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_list = false;
    for char in directive.chars() {
        match char {
            ' ' | '\t' if is_list => continue,
            ' ' | '\t' => {
                words.push(String::new());
                continue;
            }
            '(' => is_list = true,
            ')' => is_list = false,
            _ => {}
        }
        words.last_mut().expect("never empty").push(char);
    }
    words.retain(|word| !word.is_empty());
    words
}

fn argument(word: &str) -> Result<(String, Vec<String>), String> {
    let Some((key, value)) = word.split_once('=') else {
        return Ok((word.to_owned(), Vec::new()));
    };
    let values = match value.strip_prefix('(') {
        None => vec![value.to_owned()],
        Some(list) => {
            let list = list
                .strip_suffix(')')
                .ok_or(format!("{word}: no closing parenthesis"))?;
            list.split(',').map(str::to_owned).collect()
        }
    };
    Ok((key.to_owned(), values))
}
