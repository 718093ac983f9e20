//! Who made a call, and is to be answered.

use crate::transport::{Body, Responder, Status, WakeBatch};
use tokio::sync::oneshot;

/// The means to answer a call, from any thread.
pub enum Caller {
    /// A gRPC client.
    Grpc(Responder),
    /// The JSON gateway, which waits on its task.
    Gateway(oneshot::Sender<Result<Body, Status>>),
}

impl Caller {
    /// Answers.
    pub fn respond(self, answer: Result<Body, Status>) {
        self.respond_in(answer, &mut WakeBatch::new());
    }

    /// Answers; a connection is woken with the batch.
    pub fn respond_in(self, answer: Result<Body, Status>, batch: &mut WakeBatch) {
        match self {
            Caller::Grpc(responder) => responder.respond_in(answer, batch),
            Caller::Gateway(sender) => {
                // A client that went away took the receiver with it.
                let _gone = sender.send(answer);
            }
        }
    }
}
