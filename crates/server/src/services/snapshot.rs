//! Maintenance.Snapshot: the database as of a commit, in blobs, with its SHA-256 behind.

use super::kv::failure;
use super::range_stream::Gate;
use super::sink::Sink;
use super::{Services, body};
use crate::driver::Handle;
use crate::metrics::METRICS;
use crate::transport::{Code, Status, StreamHandler};
use bytes::Bytes;
use quorate_api::Error;
use quorate_api::etcdserverpb::SnapshotResponse;
use quorate_node::Reply as MemberReply;
use sha2::{Digest, Sha256};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Bytes of a blob.
const BLOB_BYTES: usize = 32 * 1024;

struct SnapshotStream {
    member: Handle,
    sink: Sink,
    gate: Arc<Gate>,
    running: Arc<AtomicUsize>,
    most: usize,
    begun: bool,
}

impl Services {
    pub(super) fn open_snapshot(&self, sink: Sink) -> Result<Box<dyn StreamHandler>, Status> {
        Ok(Box::new(SnapshotStream {
            member: self.member.clone(),
            sink,
            gate: Arc::default(),
            running: self.snapshots.clone(),
            most: self.limits.max_snapshots,
            begun: false,
        }))
    }
}

/// A place among the snapshots that are sent at a time.
struct Place(Arc<AtomicUsize>);

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl StreamHandler for SnapshotStream {
    fn on_message(&mut self, _: Bytes) -> Result<(), Status> {
        if std::mem::replace(&mut self.begun, true) {
            return Err(Status::new(
                Code::Internal,
                "a snapshot stream takes one request",
            ));
        }
        let place = Place(self.running.clone());
        if self.running.fetch_add(1, Ordering::AcqRel) >= self.most {
            return Err(Error::RequestTooManyRequests.into());
        }
        let (member, sink, gate) = (self.member.clone(), self.sink.clone(), self.gate.clone());
        self.member.commit_then(Box::new(move |reply, _| {
            if !matches!(reply, MemberReply::Ready) {
                return sink.close(failure(reply));
            }
            let refused = sink.clone();
            // A thread of its own: it goes at the client's pace, and the pool is for reads.
            let spawned = std::thread::Builder::new()
                .name("snapshot".into())
                .spawn(move || {
                    let began = Instant::now();
                    let status = send(&member, &sink, &gate).err();
                    if status.is_none() {
                        METRICS.snapshot_sent.observe(began.elapsed());
                    }
                    drop(place);
                    sink.close(status.unwrap_or_else(Status::ok));
                });
            if let Err(error) = spawned {
                refused.close(Status::new(Code::ResourceExhausted, error.to_string()));
            }
        }));
        Ok(())
    }

    fn on_half_close(&mut self) {}

    fn on_cancel(&mut self) {
        self.gate.cancel();
    }

    fn on_writable(&mut self) {
        self.gate.open();
    }
}

impl Drop for SnapshotStream {
    fn drop(&mut self) {
        self.gate.cancel();
    }
}

fn send(member: &Handle, sink: &Sink, gate: &Gate) -> Result<(), Status> {
    let view = member.view();
    let version = view.storage_version.as_deref().unwrap_or("").to_owned();
    let file = view.file.clone();
    drop(view);
    let total = file.size();
    tracing::info!(
        "total-bytes" = total,
        "storage-version" = version.as_str(),
        "sending database snapshot to client"
    );
    let mut digest = Sha256::new();
    let (mut blob, mut sent) = (Vec::with_capacity(BLOB_BYTES), 0);
    let mut pace = member.pace();
    let mut send_blob = |blob: &mut Vec<u8>| -> io::Result<()> {
        digest.update(&blob);
        sent += blob.len() as u64;
        pace.sent(blob.len() as u64);
        if !gate.wait(sink) {
            return Err(io::Error::new(
                io::ErrorKind::BrokenPipe,
                "the client went away",
            ));
        }
        let whole = std::mem::replace(blob, Vec::with_capacity(BLOB_BYTES));
        sink.send(body(&SnapshotResponse {
            remaining_bytes: total.saturating_sub(sent),
            blob: whole.into(),
            version: version.clone(),
            ..Default::default()
        }));
        Ok(())
    };
    let copied = file.write_to(&mut |mut bytes| {
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(BLOB_BYTES - blob.len()));
            blob.extend_from_slice(now);
            bytes = later;
            if blob.len() == BLOB_BYTES {
                send_blob(&mut blob)?;
            }
        }
        Ok(())
    });
    let copied = copied.map_err(|e| e.to_string()).and_then(|_| {
        if blob.is_empty() {
            Ok(())
        } else {
            send_blob(&mut blob).map_err(|e| e.to_string())
        }
    });
    if let Err(error) = copied {
        tracing::warn!(
            "error" = error.as_str(),
            "a snapshot was not sent to its end"
        );
        return Err(Status::new(Code::Unavailable, error));
    }
    let sum = digest.finalize().to_vec();
    tracing::info!(
        "total-bytes" = total,
        "checksum-size" = sum.len() as u64,
        "sending database sha256 checksum to client"
    );
    if gate.wait(sink) {
        sink.send(body(&SnapshotResponse {
            blob: sum.into(),
            version,
            ..Default::default()
        }));
    }
    tracing::info!(
        "total-bytes" = total,
        "successfully sent database snapshot to client"
    );
    Ok(())
}
