//! A member alone on a faulty disk, for tests of what is around it.

use crate::config::Config;
use crate::driver::{Handle, Settings, Started, start};
use crate::peer_api::exchange::{Answered, Exchange};
use crate::peer_api::{Peers, Timings};
use crate::peers::{self, Transport};
use crate::server::boot_of;
use crate::transport::{HttpReply, HttpRequest};
use bytes::Bytes;
use http::{Request, StatusCode};
use quorate_node::boot::boot;
use quorate_node::disk::Disk;
use quorate_node::disk::faulty::FaultyDisk;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// A member that serves.
pub struct Lone {
    /// The member.
    pub started: Started,
    /// Nobody.
    pub peers: Peers,
    /// Where tasks run, as long as something is waited for.
    pub runtime: Runtime,
}

/// Answers nobody.
struct Closed;

impl peers::Fallback for Closed {
    fn http(&self, _: HttpRequest) -> HttpReply {
        Box::pin(async { crate::http::error(StatusCode::NOT_FOUND, "404 page not found") })
    }
}

/// Nobody to ask.
struct Nobody;

impl Exchange for Nobody {
    fn send<'a>(&'a self, _: &'a str, _: Request<Bytes>, _: Duration) -> Answered<'a> {
        Box::pin(async { Err("there are no peers".to_owned()) })
    }
}

/// Waits until the member has published itself and the cluster version, which it does unasked.
async fn settled(member: &Handle) {
    loop {
        member.linearized().await.unwrap();
        let view = member.view();
        let published = view.members.iter().all(|member| !member.name.is_empty());
        if published && view.members.cluster_version.is_some() {
            return;
        }
        tokio::task::yield_now().await;
    }
}

impl Lone {
    /// Starts one; whatever takes longer than `slow_apply` to apply is told.
    pub fn start(config: &Config, slow_apply: Duration) -> Lone {
        let disk: Arc<dyn Disk> = Arc::new(FaultyDisk::new(1));
        let boot_settings = boot_of(config, 1);
        let settings = Settings {
            read_threads: 1,
            start_ms: 1,
            data_dir: "/m".into(),
            slow_apply,
            directories: boot_settings.directories.clone(),
            disk: disk.clone(),
            store: boot_settings.store,
        };
        let snapshot_dir = boot_settings.directories.snap();
        let booted = boot(disk.clone(), boot_settings).unwrap();
        let started = start(booted, settings, |member, host| {
            let settings = peers::Settings {
                member_id: member.member_id(),
                cluster_id: member.cluster_id(),
                advertise_peer_urls: Vec::new(),
                snapshot_dir,
                disk,
                dial_timeout: Duration::from_secs(1),
            };
            Transport::start(settings, host, Arc::new(Closed), Vec::new())
        })
        .unwrap();
        started.ready.recv().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let hour = Duration::from_secs(3600);
        let timings = Timings {
            request: hour,
            tick: hour,
        };
        runtime.block_on(settled(&started.handle));
        let member = started.handle.clone();
        let peers = Peers::new(member, Arc::new(Nobody), runtime.handle().clone(), timings);
        Lone {
            started,
            peers,
            runtime,
        }
    }
}
