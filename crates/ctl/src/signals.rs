//! Signals that ask the program to end.

use std::future::{Future, pending};
use tokio::signal::unix::{SignalKind, signal};

/// Becomes ready when SIGINT or SIGTERM comes; from this call on neither ends the process by
/// itself. Where signals cannot be had, they do, and this is never ready.
pub fn termination() -> impl Future<Output = ()> {
    let interrupt = signal(SignalKind::interrupt());
    let terminate = signal(SignalKind::terminate());
    async move {
        let (Ok(mut interrupt), Ok(mut terminate)) = (interrupt, terminate) else {
            return pending().await;
        };
        tokio::select! {
            _ = interrupt.recv() => {}
            _ = terminate.recv() => {}
        }
    }
}
