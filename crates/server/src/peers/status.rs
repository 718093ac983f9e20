//! Whether a peer is connected.
//!
//! Any success makes it active, any failure inactive, until the next of the other kind: with several
//! connections a peer that is there is soon active again.

use super::identity::hex;
use super::local::Local;
use super::metrics::Link;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering;

pub(super) struct Status {
    pub local: Rc<Local>,
    pub id: u64,
    pub link: Arc<Link>,
    /// Whether the member hears of it: it does not of those that are only remotes.
    told: bool,
    active: Cell<bool>,
}

impl Status {
    pub fn new(local: Rc<Local>, id: u64, told: bool) -> Rc<Status> {
        Rc::new(Status {
            link: local.link(id),
            local,
            id,
            told,
            active: Cell::new(false),
        })
    }

    pub fn is_active(&self) -> bool {
        self.active.get()
    }

    /// Something worked.
    pub fn activate(&self) {
        if self.active.replace(true) {
            return;
        }
        tracing::info!("peer-id" = hex(self.id), "peer became active");
        self.link.active.fetch_add(1, Ordering::Relaxed);
        if self.told {
            self.local.host.active(self.id, true);
        }
    }

    /// `action` on `source` failed.
    pub fn deactivate(&self, source: &str, action: &str, reason: &str) {
        let error = format!("failed to {action} {:x} on {source} ({reason})", self.id);
        if !self.active.get() {
            tracing::debug!(
                "peer-id" = hex(self.id),
                "error" = error,
                "peer deactivated again"
            );
            return;
        }
        tracing::warn!(
            "peer-id" = hex(self.id),
            "error" = error,
            "peer became inactive (message send to peer failed)"
        );
        self.link.disconnected.inc();
        self.rest();
    }

    /// Nothing is known of the peer any more.
    pub fn rest(&self) {
        if !self.active.replace(false) {
            return;
        }
        self.link.active.fetch_sub(1, Ordering::Relaxed);
        if self.told {
            self.local.host.active(self.id, false);
        }
    }
}
