//! What runs on the transport's thread: takes up what the handles are told.

use super::client::fetch_for;
use super::host::{Fallback, Host, Settings};
use super::transport::{Command, Shared};
use crate::transport::Listener;
use std::rc::Rc;
use std::sync::Arc;
use tokio::task::spawn_local;

pub(super) struct Hub {
    settings: Settings,
    host: Arc<dyn Host>,
    fallback: Arc<dyn Fallback>,
    shared: Arc<Shared>,
}

impl Hub {
    pub fn new(
        settings: Settings,
        host: Arc<dyn Host>,
        fallback: Arc<dyn Fallback>,
        shared: Arc<Shared>,
    ) -> Rc<Hub> {
        Rc::new(Hub {
            settings,
            host,
            fallback,
            shared,
        })
    }

    /// Works until it is told to stop.
    pub async fn run(self: Rc<Self>, _listeners: Vec<Listener>) {
        while let Some(taken) = self.shared.take().await {
            for id in taken.refused {
                self.host.unreachable(id);
            }
            for command in taken.commands {
                match command {
                    Command::Ask(request, answer) => {
                        let shared = self.shared.clone();
                        spawn_local(async move {
                            fetch_for(request, answer).await;
                            shared.asked();
                        });
                    }
                    _ => {}
                }
            }
        }
    }
}
