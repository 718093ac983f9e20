//! What is asked for at a terminal: passwords, which are not shown while they are typed.

use rustix::stdio::stdin;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use std::io::{self, BufRead, Read, Write};

/// Asks on standard output and reads a line from standard input, without echo where that is a
/// terminal. Blanks around it are not part of it; at the input's end it is empty.
pub fn ask_password(prompt: &str) -> io::Result<String> {
    // Before the question: what answers it at once must not be shown or lost.
    let quiet = Quiet::begin();
    let mut stdout = io::stdout();
    write!(stdout, "{prompt}")?;
    stdout.flush()?;
    let line = read_line();
    drop(quiet);
    writeln!(stdout)?;
    line.map(|line| String::from_utf8_lossy(&line).trim().to_owned())
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

/// The terminal's echo is off as long as this lives. Without a terminal there is nothing to do.
struct Quiet(Option<Termios>);

impl Quiet {
    fn begin() -> Quiet {
        let Ok(before) = tcgetattr(stdin()) else {
            return Quiet(None);
        };
        let mut quiet = before.clone();
        quiet.local_modes.remove(LocalModes::ECHO);
        match tcsetattr(stdin(), OptionalActions::Now, &quiet) {
            Ok(()) => Quiet(Some(before)),
            Err(_) => Quiet(None),
        }
    }
}

impl Drop for Quiet {
    fn drop(&mut self) {
        if let Some(before) = &self.0 {
            // If it cannot be set back, the shell does so at its next prompt.
            let _ = tcsetattr(stdin(), OptionalActions::Now, before);
        }
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
