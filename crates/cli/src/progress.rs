//! A bar on standard error while something long is under way, where a person looks at it.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::Duration;

const TICK: Duration = Duration::from_millis(250);

/// A bar; drawn only on a terminal, and gone with the value.
#[derive(Debug)]
pub struct Progress(ProgressBar);

impl Progress {
    /// A bar of `total` bytes, with what is being done.
    pub fn bytes(what: &str, total: u64) -> Progress {
        Progress::new(what, total, "{msg} [{bar:40}] {bytes}/{total_bytes} {eta}")
    }

    /// A bar of `total` steps, with what is being done.
    pub fn steps(what: &str, total: u64) -> Progress {
        Progress::new(what, total, "{msg} [{bar:40}] {pos}/{len} {eta}")
    }

    /// For what says nothing until it is done: how long it has been under way.
    pub fn waiting(what: &str) -> Progress {
        let waiting = Progress::new(what, 0, "{msg} {spinner} {elapsed}");
        waiting.0.enable_steady_tick(TICK);
        waiting
    }

    fn new(what: &str, total: u64, template: &str) -> Progress {
        let target = match std::io::stderr().is_terminal() {
            true => ProgressDrawTarget::stderr(),
            false => ProgressDrawTarget::hidden(),
        };
        let bar = ProgressBar::with_draw_target(Some(total), target).with_message(what.to_owned());
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("=> "));
        }
        Progress(bar)
    }

    /// So much is done.
    pub fn set(&self, done: u64) {
        self.0.set_position(done);
    }

    /// So much more is done.
    pub fn add(&self, more: u64) {
        self.0.inc(more);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
