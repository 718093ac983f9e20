//! gRPC health checking: the server as a whole (`""`) serves while it runs.

use super::sink::Sink;
use super::{Services, body, decode};
use crate::transport::{Code, Reply, Status, StreamHandler};
use bytes::Bytes;
use quorate_api::health::health_check_response::ServingStatus;
use quorate_api::health::{HealthCheckRequest, HealthCheckResponse};

fn status_of(service: &str) -> Option<ServingStatus> {
    service.is_empty().then_some(ServingStatus::Serving)
}

fn response(status: ServingStatus) -> HealthCheckResponse {
    HealthCheckResponse {
        status: status as i32,
    }
}

impl Services {
    pub(super) fn health_check(&self, message: Bytes) -> Result<Reply, Status> {
        let request: HealthCheckRequest = decode(message)?;
        match status_of(&request.service) {
            Some(status) => Ok(Reply::Now(body(&response(status)))),
            None => Err(Status::new(Code::NotFound, "unknown service")),
        }
    }

    pub(super) fn open_health_watch(&self, sink: Sink) -> Box<dyn StreamHandler> {
        Box::new(HealthWatch { sink })
    }
}

/// Tells the status once: it does not change while the server runs.
struct HealthWatch {
    sink: Sink,
}

impl StreamHandler for HealthWatch {
    fn on_message(&mut self, message: Bytes) -> Result<(), Status> {
        let request: HealthCheckRequest = decode(message)?;
        let status = status_of(&request.service).unwrap_or(ServingStatus::ServiceUnknown);
        self.sink.send(body(&response(status)));
        Ok(())
    }

    fn on_half_close(&mut self) {}

    fn on_cancel(&mut self) {}

    fn on_writable(&mut self) {}
}
