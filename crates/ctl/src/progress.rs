//! A bar that shows how far something is, on standard error and only where that is a terminal.

use crate::print::human_bytes;
use crate::print::write_err;
use std::io::{IsTerminal, stderr};
use std::time::{Duration, Instant};

/// Between two drawings.
const REDRAW: Duration = Duration::from_millis(100);
const WIDTH: u64 = 40;

/// A bar.
#[derive(Debug)]
pub struct Bar {
    whole: u64,
    done: u64,
    in_bytes: bool,
    shown: bool,
    drawn: Instant,
}

impl Bar {
    /// Of so many bytes.
    pub fn bytes(whole: u64) -> Bar {
        Bar::new(whole, true)
    }

    /// Of so many steps.
    pub fn steps(whole: u64) -> Bar {
        Bar::new(whole, false)
    }

    fn new(whole: u64, in_bytes: bool) -> Bar {
        let bar = Bar {
            whole,
            done: 0,
            in_bytes,
            shown: stderr().is_terminal(),
            drawn: Instant::now(),
        };
        bar.draw();
        bar
    }

    /// So much more is done.
    pub fn add(&mut self, more: u64) {
        self.done = (self.done + more).min(self.whole);
        if self.drawn.elapsed() >= REDRAW {
            self.drawn = Instant::now();
            self.draw();
        }
    }

    /// All that will be done is done.
    pub fn finish(self) {
        self.draw();
        if self.shown {
            write_err(b"\n");
        }
    }

    fn draw(&self) {
        if self.shown {
            write_err(format!("\r{}\x1b[K", self.line()).as_bytes());
        }
    }

    fn line(&self) -> String {
        let part = |of: u64| {
            self.done
                .saturating_mul(of)
                .checked_div(self.whole)
                .unwrap_or(of)
        };
        let filled = part(WIDTH);
        let bar: String = (0..WIDTH)
            .map(|at| if at < filled { '=' } else { ' ' })
            .collect();
        let (done, whole) = match self.in_bytes {
            true => (human_bytes(self.done), human_bytes(self.whole)),
            false => (self.done.to_string(), self.whole.to_string()),
        };
        format!("{done} / {whole} [{bar}] {}%", part(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_fills() {
        let mut bar = Bar::steps(60);
        bar.add(15);
        assert_eq!(
            bar.line(),
            format!("15 / 60 [{}{}] 25%", "=".repeat(10), " ".repeat(30))
        );
        bar.add(100);
        assert!(bar.line().ends_with("] 100%"));
        assert!(Bar::bytes(0).line().starts_with("0 B / 0 B ["));
    }
}
