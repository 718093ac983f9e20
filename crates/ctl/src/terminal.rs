//! What is asked for at a terminal: passwords, which are not shown while they are typed.

use rustix::stdio::stdin;
use rustix::termios::{
    LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcsetattr,
};
use std::io::{self, BufRead, Read, Write};

/// Asks on standard output and reads a line from standard input, without echo where that is a
/// terminal. Blanks around it are not part of it; at the input's end it is empty. Who interrupts at a
/// terminal ends the program, and the terminal echoes again.
pub fn ask_password(prompt: &str) -> io::Result<String> {
    // Before the question: what answers it at once must not be shown or lost.
    let quiet = Quiet::begin();
    let mut stdout = io::stdout();
    write!(stdout, "{prompt}")?;
    stdout.flush()?;
    let line = match &quiet {
        Some(quiet) => quiet.read_line()?,
        None => Some(read_line()?),
    };
    drop(quiet);
    let Some(line) = line else {
        // As etcdctl ends then.
        std::process::exit(255);
    };
    writeln!(stdout)?;
    Ok(String::from_utf8_lossy(&line).trim().to_owned())
}

/// A line from standard input, byte by byte: what follows is left for the next question.
pub fn read_line() -> io::Result<Vec<u8>> {
    let mut stdin = io::stdin().lock();
    let mut line = Vec::new();
    let mut byte = [0];
    while stdin.read(&mut byte)? == 1 && byte[0] != b'\n' {
        line.push(byte[0]);
    }
    if line.last() == Some(&b'\r') {
        line.pop();
    }
    Ok(line)
}

/// The terminal neither echoes nor makes signals or lines of what is typed, as long as this lives: a
/// key that interrupts comes as a byte, so that the echo can be put back before the program ends.
struct Quiet {
    before: Termios,
}

impl Quiet {
    /// `None` without a terminal.
    fn begin() -> Option<Quiet> {
        let before = tcgetattr(stdin()).ok()?;
        let mut quiet = before.clone();
        let line_by_line = LocalModes::ECHO | LocalModes::ICANON | LocalModes::ISIG;
        quiet.local_modes.remove(line_by_line);
        quiet.special_codes[SpecialCodeIndex::VMIN] = 1;
        quiet.special_codes[SpecialCodeIndex::VTIME] = 0;
        tcsetattr(stdin(), OptionalActions::Now, &quiet).ok()?;
        Some(Quiet { before })
    }

    /// What is typed up to the line's end; `None` if it is interrupted.
    fn read_line(&self) -> io::Result<Option<Vec<u8>>> {
        let code = |index| self.before.special_codes[index];
        let mut typing = Typing {
            line: Vec::new(),
            interrupts: [code(SpecialCodeIndex::VINTR), code(SpecialCodeIndex::VQUIT)],
            // Nobody stops a program to whom the terminal does not echo.
            stop: code(SpecialCodeIndex::VSUSP),
            erase: code(SpecialCodeIndex::VERASE),
            erase_word: code(SpecialCodeIndex::VWERASE),
            kill: code(SpecialCodeIndex::VKILL),
            end: code(SpecialCodeIndex::VEOF),
        };
        let mut stdin = io::stdin().lock();
        let mut byte = [0];
        while stdin.read(&mut byte)? == 1 {
            match typing.key(byte[0]) {
                Key::Taken => {}
                Key::End => break,
                Key::Interrupt => return Ok(None),
            }
        }
        Ok(Some(typing.line))
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        // If it cannot be set back, the shell does so at its next prompt.
        let _ = tcsetattr(stdin(), OptionalActions::Now, &self.before);
    }
}

/// A line that is typed key by key. A code of 0 is no key.
struct Typing {
    line: Vec<u8>,
    interrupts: [u8; 2],
    stop: u8,
    erase: u8,
    erase_word: u8,
    kill: u8,
    end: u8,
}

/// What a key does.
#[derive(Debug, PartialEq, Eq)]
enum Key {
    Taken,
    End,
    Interrupt,
}

impl Typing {
    fn key(&mut self, byte: u8) -> Key {
        match byte {
            0 => {}
            b'\n' | b'\r' => return Key::End,
            byte if self.interrupts.contains(&byte) => return Key::Interrupt,
            byte if byte == self.end => return Key::End,
            byte if byte == self.stop => {}
            byte if byte == self.erase => {
                // The bytes behind the first one of a character begin with the bits 10.
                while self.line.pop().is_some_and(|byte| byte & 0xc0 == 0x80) {}
            }
            byte if byte == self.erase_word => {
                let word = self.line.trim_ascii_end();
                let blank = word.iter().rposition(u8::is_ascii_whitespace);
                self.line.truncate(blank.map_or(0, |at| at + 1));
            }
            byte if byte == self.kill => self.line.clear(),
            byte => self.line.push(byte),
        }
        Key::Taken
    }
}

/// As [`read_line`], but an end of input before the line's end is an error.
pub fn read_full_line() -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    io::stdin().lock().read_until(b'\n', &mut line)?;
    match line.pop() {
        Some(b'\n') => Ok(line),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_edit_the_line_and_end_it() {
        let typed = |keys: &str| {
            let mut typing = Typing {
                line: Vec::new(),
                interrupts: [3, 28],
                stop: 26,
                erase: 127,
                erase_word: 23,
                kill: 21,
                end: 4,
            };
            let end = keys.bytes().find_map(|byte| match typing.key(byte) {
                Key::Taken => None,
                end => Some(end),
            });
            (String::from_utf8(typing.line).expect("text"), end)
        };
        assert_eq!(typed("secret\rmore"), ("secret".into(), Some(Key::End)));
        assert_eq!(
            typed("a\u{7f}\u{7f}bé\u{7f}c\n"),
            ("bc".into(), Some(Key::End))
        );
        assert_eq!(
            typed("wrong\u{15}right\u{4}"),
            ("right".into(), Some(Key::End))
        );
        assert_eq!(
            typed("a wrong  \u{17}b\u{1a}\n"),
            ("a b".into(), Some(Key::End))
        );
        assert_eq!(typed("wrong\u{17}b\n"), ("b".into(), Some(Key::End)));
        assert_eq!(typed("sec\u{3}"), ("sec".into(), Some(Key::Interrupt)));
        assert_eq!(typed("\0x"), ("x".into(), None));
    }
}
