//! What a failpoint does when it is reached: a chain of terms, of which the first that is allowed
//! acts.
//!
//! `<term> ("->" <term>)*`, each `(<float>"%" | <int>"*")* <action> ["(" <value> ")"]`. A count is used
//! up by each evaluation that gets to it; a term whose counts or chances do not allow it is passed
//! over. Source: gofail's README.

use super::duration;
use std::fmt;
use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// What a failpoint returns, where its term says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// `return` or `return()`.
    Nothing,
    /// `return("text")`.
    Text(String),
    /// `return(1)`.
    Number(i64),
    /// `return(true)`.
    Truth(bool),
}

/// As Go prints it.
impl fmt::Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nothing => formatter.write_str("{}"),
            Value::Text(text) => formatter.write_str(text),
            Value::Number(number) => write!(formatter, "{number}"),
            Value::Truth(truth) => write!(formatter, "{truth}"),
        }
    }
}

/// What is to be done now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Nothing.
    Off,
    /// The place gets the value.
    Return(Value),
    /// The thread sleeps.
    Sleep(Duration),
    /// The process ends.
    Panic(Option<Value>),
    /// A line is printed.
    Print,
}

#[derive(Debug)]
enum Modifier {
    /// From 0 to 1.
    Chance(f64),
    /// Evaluations left.
    Count(u64),
}

#[derive(Debug)]
struct Term {
    modifiers: Vec<Modifier>,
    action: Action,
}

/// A chain of terms.
#[derive(Debug)]
pub struct Terms {
    text: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    chain: Vec<Term>,
    /// How often a term acted.
    acted: u64,
    /// Of a linear congruential generator.
    random: u64,
}

/// It is not a chain of terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("failpoint: could not parse terms")]
pub struct ParseError;

impl Terms {
    /// Reads a chain.
    pub fn parse(text: &str) -> Result<Terms, ParseError> {
        let chain: Result<Vec<Term>, ParseError> = text.split("->").map(Term::parse).collect();
        Ok(Terms {
            text: text.to_owned(),
            state: Mutex::new(State {
                chain: chain?,
                acted: 0,
                random: RandomState::new().hash_one(text),
            }),
        })
    }

    /// The chain, as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How often a term acted.
    pub fn acted(&self) -> u64 {
        self.lock().acted
    }

    /// What is to be done at this evaluation.
    pub fn evaluate(&self) -> Action {
        let mut state = self.lock();
        let State {
            chain,
            acted,
            random,
        } = &mut *state;
        let mut allows = |modifier: &mut Modifier| match modifier {
            Modifier::Chance(chance) => {
                *random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1_442_695_040_888_963_407);
                // The upper bits are the better ones.
                (*random >> 11) as f64 / (1_u64 << 53) as f64 <= *chance
            }
            Modifier::Count(0) => false,
            Modifier::Count(left) => {
                *left -= 1;
                true
            }
        };
        let term = chain
            .iter_mut()
            .find_map(|term| term.modifiers.iter_mut().all(&mut allows).then_some(term));
        match term {
            None => Action::Off,
            Some(term) => {
                *acted += 1;
                term.action.clone()
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Nothing panics with it, and half a change of it would do no harm.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Term {
    fn parse(text: &str) -> Result<Term, ParseError> {
        let (modifiers, rest) = modifiers(text)?;
        let name_length = rest.find('(').unwrap_or(rest.len());
        let (name, value) = rest.split_at(name_length);
        let value = match value {
            "" => None,
            _ => {
                let inner = value.strip_prefix('(').and_then(|v| v.strip_suffix(')'));
                Some(parse_value(inner.ok_or(ParseError)?)?)
            }
        };
        let action = match name {
            "off" => Action::Off,
            "return" => Action::Return(value.unwrap_or(Value::Nothing)),
            "sleep" => Action::Sleep(match value {
                Some(Value::Number(milliseconds)) => {
                    Duration::from_millis(milliseconds.try_into().map_err(|_| ParseError)?)
                }
                Some(Value::Text(text)) => duration::parse(&text).ok_or(ParseError)?,
                _ => return Err(ParseError),
            }),
            "panic" => Action::Panic(value),
            "print" => Action::Print,
            _ => return Err(ParseError),
        };
        Ok(Term { modifiers, action })
    }
}

/// The counts and chances at the head of a term, and what follows them.
fn modifiers(text: &str) -> Result<(Vec<Modifier>, &str), ParseError> {
    let (mut found, mut rest) = (Vec::new(), text);
    while rest.starts_with(|c: char| c.is_ascii_digit()) {
        let end = rest
            .find(|c: char| !(c.is_ascii_digit() || c == '.'))
            .ok_or(ParseError)?;
        let number = &rest[..end];
        if let Some(after) = rest[end..].strip_prefix('%') {
            // A chance has a point; gofail takes no other.
            let percent: f64 = number.parse().map_err(|_| ParseError)?;
            if !number.contains('.') {
                return Err(ParseError);
            }
            found.push(Modifier::Chance(percent / 100.0));
            rest = after;
        } else if let Some(after) = rest[end..].strip_prefix('*') {
            found.push(Modifier::Count(number.parse().map_err(|_| ParseError)?));
            rest = after;
        } else {
            return Err(ParseError);
        }
    }
    Ok((found, rest))
}

fn parse_value(text: &str) -> Result<Value, ParseError> {
    if let Some(quoted) = text.strip_prefix('"') {
        let inner = quoted.strip_suffix('"').ok_or(ParseError)?;
        return Ok(Value::Text(unescape(inner)?));
    }
    match text {
        "" => Ok(Value::Nothing),
        "true" => Ok(Value::Truth(true)),
        "false" => Ok(Value::Truth(false)),
        _ => text.parse().map(Value::Number).map_err(|_| ParseError),
    }
}

/// What stands between the quotes of a Go string, with the escapes that occur.
fn unescape(text: &str) -> Result<String, ParseError> {
    let mut result = String::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        result.push(match character {
            '"' => return Err(ParseError),
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some('t') => '\t',
                Some(escaped @ ('"' | '\\')) => escaped,
                _ => return Err(ParseError),
            },
            plain => plain,
        });
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn actions(text: &str, count: usize) -> Vec<Action> {
        let terms = Terms::parse(text).expect("terms");
        (0..count).map(|_| terms.evaluate()).collect()
    }

    #[test]
    fn each_action_is_read() {
        for (text, action) in [
            ("off", Action::Off),
            ("panic", Action::Panic(None)),
            (
                "panic(\"now\")",
                Action::Panic(Some(Value::Text("now".into()))),
            ),
            ("print", Action::Print),
            ("sleep(100)", Action::Sleep(Duration::from_millis(100))),
            ("sleep(\"1s\")", Action::Sleep(Duration::from_secs(1))),
            ("return", Action::Return(Value::Nothing)),
            ("return()", Action::Return(Value::Nothing)),
            ("return(-3)", Action::Return(Value::Number(-3))),
            ("return(true)", Action::Return(Value::Truth(true))),
            (
                r#"return("a \"b\" (c)")"#,
                Action::Return(Value::Text("a \"b\" (c)".into())),
            ),
        ] {
            assert_eq!(actions(text, 1), [action], "{text}");
        }
    }

    #[test]
    fn counts_are_used_up_and_the_chain_goes_on() {
        use Action::{Off, Print};
        assert_eq!(actions("2*print", 3), [Print, Print, Off]);
        assert_eq!(
            actions("1*print->1*off->return(1)", 3),
            [Print, Off, Action::Return(Value::Number(1))]
        );
        let terms = Terms::parse("3*print").expect("terms");
        for _ in 0..5 {
            terms.evaluate();
        }
        assert_eq!(terms.acted(), 3);
    }

    #[test]
    fn chances_are_taken() {
        let printed = |text: &str| {
            let all = actions(text, 2000);
            all.iter()
                .filter(|action| **action == Action::Print)
                .count()
        };
        assert_eq!(printed("0.0%print"), 0);
        assert_eq!(printed("100.0%print"), 2000);
        assert!((700..1300).contains(&printed("50.0%print")));
        assert_eq!(printed("100.0%3*print"), 3);
    }

    #[test]
    fn what_is_no_chain_is_refused() {
        for text in [
            "",
            "jump",
            "50%panic",
            "3*",
            "3",
            "panic->",
            "->panic",
            "panic,off",
            "sleep",
            "sleep(-1)",
            "sleep(\"soon\")",
            "return(maybe)",
            "return(\"open)",
            "return(1",
            "1.5*print",
        ] {
            assert_eq!(Terms::parse(text).err(), Some(ParseError), "{text}");
        }
    }
}
