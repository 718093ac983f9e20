//! gRPC health checking: the server as a whole (`""`) serves while it runs, but for a
//! defragmentation where the feature StopGRPCServiceOnDefrag is on, so that clients that look go to
//! another member.

use super::sink::Sink;
use super::{Services, body, decode};
use crate::transport::{Code, Reply, Status, StreamHandler};
use bytes::Bytes;
use quorate_api::health::health_check_response::ServingStatus;
use quorate_api::health::{HealthCheckRequest, HealthCheckResponse};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Whether the server serves, and who is told when that changes.
#[derive(Clone)]
pub(crate) struct Health {
    /// Whether a defragmentation shows.
    stops_for_defragmentation: bool,
    state: Arc<Mutex<State>>,
}

struct State {
    serving: bool,
    /// Watchers of the server as a whole; those that went away are dropped when the next one comes,
    /// or when they are told.
    watchers: Vec<Sink>,
}

impl Health {
    /// Of a server that serves.
    pub(super) fn new(stops_for_defragmentation: bool) -> Health {
        Health {
            stops_for_defragmentation,
            state: Arc::new(Mutex::new(State {
                serving: true,
                watchers: Vec::new(),
            })),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn defragmentation_began(&self) {
        if self.stops_for_defragmentation {
            tracing::warn!(
                "service" = "",
                "status" = ServingStatus::NotServing.as_str_name(),
                "reason" = "defrag is active",
                "grpc service status changed"
            );
            self.set(false);
        }
    }

    pub(super) fn defragmentation_ended(&self) {
        tracing::info!(
            "service" = "",
            "status" = ServingStatus::Serving.as_str_name(),
            "grpc service status changed"
        );
        self.set(true);
    }

    fn set(&self, serving: bool) {
        let mut state = self.state();
        if std::mem::replace(&mut state.serving, serving) == serving {
            return;
        }
        state.watchers.retain(|watcher| {
            watcher.send(body(&response(whole(serving))));
            !watcher.is_closed()
        });
    }

    /// The status of a service; `None` for one that is not known.
    fn status_of(&self, service: &str) -> Option<ServingStatus> {
        service.is_empty().then(|| whole(self.state().serving))
    }

    /// Tells the status of a service, and from then on each change of it.
    fn watch(&self, service: &str, sink: &Sink) {
        if !service.is_empty() {
            sink.send(body(&response(ServingStatus::ServiceUnknown)));
            return;
        }
        let mut state = self.state();
        sink.send(body(&response(whole(state.serving))));
        state.watchers.retain(|watcher| !watcher.is_closed());
        state.watchers.push(sink.clone());
    }
}

fn whole(serving: bool) -> ServingStatus {
    if serving {
        ServingStatus::Serving
    } else {
        ServingStatus::NotServing
    }
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status as i32,
    }
}

impl Services {
    pub(super) fn health_check(&self, message: Bytes) -> Result<Reply, Status> {
        let request: HealthCheckRequest = decode(message)?;
        match self.health.status_of(&request.service) {
            Some(status) => Ok(Reply::Now(body(&response(status)))),
            None => Err(Status::new(Code::NotFound, "unknown service")),
        }
    }

    pub(super) fn open_health_watch(&self, sink: Sink) -> Box<dyn StreamHandler> {
        Box::new(HealthWatch {
            health: self.health.clone(),
            sink,
        })
    }
}

struct HealthWatch {
    health: Health,
    sink: Sink,
}

impl StreamHandler for HealthWatch {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        let request: HealthCheckRequest = decode(message)?;
        self.health.watch(&request.service, &self.sink);
        Ok(())
    }

    fn on_half_close(&mut self) {}

    fn on_cancel(&mut self) {}

    fn on_writable(&mut self) {}
}

#[cfg(test)]
mod tests {
    use super::super::sink::gateway;
    use super::*;
    use crate::transport::Body;
    use prost::Message;
    use std::task::{Context, Poll, Waker};

    /// A watcher, and the statuses that it has been told since it was asked last.
    fn watcher(health: &Health, service: &str) -> impl FnMut() -> Vec<i32> {
        let (sink, mut messages) = gateway();
        health.watch(service, &Sink::Gateway(sink));
        move || {
            let mut told = Vec::new();
            let mut cx = Context::from_waker(Waker::noop());
            while let Poll::Ready(Some((Ok(message), _))) = messages.poll(&mut cx) {
                let Body::Whole(message) = message else {
                    panic!("a status is one piece");
                };
                told.push(HealthCheckResponse::decode(message).unwrap().status);
            }
            told
        }
    }

    #[test]
    fn a_defragmentation_shows_where_it_is_to() {
        let (serving, not_serving) = (
            ServingStatus::Serving as i32,
            ServingStatus::NotServing as i32,
        );
        let health = Health::new(true);
        let mut told = watcher(&health, "");
        assert_eq!(told(), [serving]);
        health.defragmentation_began();
        assert_eq!(health.status_of(""), Some(ServingStatus::NotServing));
        assert_eq!(told(), [not_serving]);
        health.defragmentation_ended();
        assert_eq!(told(), [serving]);
        health.defragmentation_ended();
        assert_eq!(told(), [0; 0]);

        let health = Health::new(false);
        let mut told = watcher(&health, "");
        health.defragmentation_began();
        assert_eq!(told(), [serving]);
    }

    #[test]
    fn another_service_is_unknown() {
        let health = Health::new(true);
        assert_eq!(health.status_of("etcdserverpb.KV"), None);
        let mut told = watcher(&health, "etcdserverpb.KV");
        assert_eq!(told(), [ServingStatus::ServiceUnknown as i32]);
        assert!(health.state().watchers.is_empty());
    }
}
