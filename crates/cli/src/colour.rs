//! Colours, where a person looks at the stream and wants them: a terminal that has some, and no
//! `NO_COLOR` in the environment (no-color.org). Elsewhere texts are as they are.
//!
//! Only what etcd's tools do not print is coloured; what scripts and tests know has none anywhere.

use console::{StyledObject, style};
use std::env;
use std::fmt::Display;
use std::io::{IsTerminal, stderr, stdout};

/// Where a text goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Out,
    /// Standard error.
    Err,
}

/// What a text tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// All is as it should be.
    Good,
    /// Something is wrong.
    Bad,
    /// Something is worth knowing.
    Notable,
    /// It stands beside what counts.
    Aside,
}

/// The text in its colour.
pub fn tinted(text: impl Display, tone: Tone, stream: Stream) -> String {
    painted(text, tone, is_coloured(stream)).to_string()
}

fn is_coloured(stream: Stream) -> bool {
    let is_terminal = match stream {
        Stream::Out => stdout().is_terminal(),
        Stream::Err => stderr().is_terminal(),
    };
    let refused = env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let is_dumb = env::var_os("TERM").is_some_and(|term| term == "dumb");
    is_terminal && !refused && !is_dumb
}

fn painted<T: Display>(text: T, tone: Tone, is_coloured: bool) -> StyledObject<T> {
    let plain = style(text).force_styling(is_coloured);
    match tone {
        Tone::Good => plain.green(),
        Tone::Bad => plain.red().bold(),
        Tone::Notable => plain.yellow(),
        Tone::Aside => plain.dim(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_colour_begins_and_ends_with_the_text() {
        for tone in [Tone::Good, Tone::Bad, Tone::Notable, Tone::Aside] {
            let coloured = painted("text", tone, true).to_string();
            assert!(
                coloured.starts_with("\x1b[") && coloured.ends_with("text\x1b[0m"),
                "{coloured:?}"
            );
            assert_eq!(painted("text", tone, false).to_string(), "text");
        }
    }
}
