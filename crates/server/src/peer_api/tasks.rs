//! Tasks that run beside the member, and end with whoever started them.

use tokio::task::JoinHandle;

/// Running tasks.
#[derive(Debug, Default)]
#[must_use = "they end when it is dropped"]
pub struct Tasks(Vec<JoinHandle<()>>);

impl Tasks {
    /// Adds one.
    pub fn push(&mut self, task: JoinHandle<()>) {
        self.0.push(task);
    }
}

impl Drop for Tasks {
    fn drop(&mut self) {
        self.0.iter().for_each(JoinHandle::abort);
    }
}
