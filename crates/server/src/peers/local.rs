//! What every part of the transport knows of the member it works for.

use super::host::{Host, Settings};
use super::identity::{Identity, hex};
use super::metrics::{Link, NETWORK};
use super::transport::Shared;
use quorate_node::raft::{Message, MessageKind};
use std::sync::Arc;

pub(super) struct Local {
    pub settings: Settings,
    pub identity: Identity,
    pub host: Arc<dyn Host>,
    pub shared: Arc<Shared>,
}

/// Why a message does not go to the member. What etcd answers to each with is "forbidden".
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Rejection {
    #[error("cannot process message from removed member")]
    Removed,
    #[error("cannot process message to mismatch member")]
    Mismatch,
}

impl Local {
    pub fn new(settings: Settings, host: Arc<dyn Host>, shared: Arc<Shared>) -> Local {
        Local {
            identity: Identity::new(&settings),
            settings,
            host,
            shared,
        }
    }

    pub fn id(&self) -> u64 {
        self.settings.member_id
    }

    pub fn link(&self, remote: u64) -> Arc<Link> {
        NETWORK.link(self.id(), remote)
    }

    /// Whether a message may go to the member.
    pub fn vet(&self, message: &Message) -> Result<(), Rejection> {
        if self.host.is_removed(message.from) {
            tracing::warn!(
                "local-member-id" = self.identity.member.as_str(),
                "removed-member-id" = hex(message.from),
                "rejected Raft message from removed member"
            );
            return Err(Rejection::Removed);
        }
        if message.to != self.id() {
            tracing::warn!(
                "local-member-id" = self.identity.member.as_str(),
                "mismatch-member-id" = hex(message.to),
                "rejected Raft message to mismatch member"
            );
            return Err(Rejection::Mismatch);
        }
        Ok(())
    }

    /// Hands messages of `from` over that came together; false if some were lost.
    pub fn receive(
        &self,
        from: u64,
        link: &Link,
        mut messages: Vec<Message>,
        active: bool,
    ) -> bool {
        let mut all = true;
        messages.retain(|message| {
            let alone = message.kind == MessageKind::Snap;
            if alone {
                all = false;
                link.received_failures.inc();
                tracing::warn!(
                    "local-member-id" = self.identity.member.as_str(),
                    "remote-snapshot-sender-id" = hex(message.from),
                    "dropped a snapshot message that came without its database"
                );
            }
            // Local kinds are nobody else's to send.
            !alone && !message.kind.is_local() && self.vet(message).is_ok()
        });
        if messages.is_empty() {
            return all;
        }
        let left = self.host.receive(messages);
        for message in &left {
            link.received_failures.inc();
            let lost = |text: &'static str| {
                tracing::warn!(
                    "message-type" = message.kind.name(),
                    "local-member-id" = self.identity.member.as_str(),
                    "from" = hex(from),
                    "remote-peer-id" = hex(message.to),
                    "remote-peer-active" = active,
                    "{text}"
                );
            };
            lost(match active {
                true => {
                    "dropped internal Raft message since receiving buffer is full (overloaded network)"
                }
                false => "dropped Raft message since receiving buffer is full (overloaded network)",
            });
        }
        all && left.is_empty()
    }
}
