//! Watching versions: the leader proposes the cluster's and ends a downgrade that has arrived, and
//! every member lets the layout of its data follow.
//!
//! The three are tasks of their own, since asking members that are down takes long. What they do is
//! decided in [`decision`], from what was told. Source: etcd's server.go (when) and version package
//! (what).

pub mod decision;
pub mod semver;

use crate::peer_api::versions::fetch_versions;
use crate::peer_api::{Peers, Tasks};
use decision::StorageRefusal;
use quorate_api::Error;
use quorate_node::ETCD_VERSION;
use quorate_node::store::View;
use quorate_node::store::membership::Membership;
use semver::{MIN_CLUSTER, Version};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::timeout;

/// Time between two looks at versions: below the write timeout of connections between members, so
/// that one that was dropped is found out before anything waits for it.
const INTERVAL: Duration = Duration::from_secs(4);

/// What makes a look due at once.
#[derive(Debug, Default)]
pub struct Wakes {
    /// This member has become the leader.
    pub leads: Notify,
    /// The cluster version has changed.
    pub version_changed: Notify,
}

/// Starts watching. `downgrade_interval`: between two looks whether a downgrade has arrived; zero
/// for none.
pub fn start(peers: &Peers, downgrade_interval: Duration) -> Tasks {
    let mut tasks = Tasks::default();
    let (runtime, wakes) = (&peers.runtime, peers.member.wakes());
    let (of, woken) = (peers.clone(), wakes.clone());
    tasks.push(runtime.spawn(async move {
        loop {
            let woken = timeout(INTERVAL, woken.leads.notified()).await.is_ok();
            // A lone member decides as soon as it leads, without asking anybody.
            if !woken || of.member.view().members.len() > 1 {
                update_cluster_version(&of).await;
            }
        }
    }));
    let (of, woken) = (peers.clone(), wakes.clone());
    tasks.push(runtime.spawn(async move {
        loop {
            let _late = timeout(INTERVAL, woken.version_changed.notified()).await;
            update_storage_version(&of).await;
        }
    }));
    if !downgrade_interval.is_zero() {
        let of = peers.clone();
        tasks.push(runtime.spawn(async move {
            loop {
                tokio::time::sleep(downgrade_interval).await;
                cancel_downgrade_that_arrived(&of).await;
            }
        }));
    }
    tasks
}

/// The cluster's version, where it is decided and can be read.
pub(crate) fn cluster_version_of(members: &Membership) -> Option<Version> {
    members.cluster_version.as_deref().and_then(Version::parse)
}

/// Where the cluster goes down to, if it does.
pub(crate) fn downgrade_target_of(members: &Membership) -> Option<Version> {
    Version::parse(&members.downgrade_job()?)
}

fn is_leader(peers: &Peers) -> bool {
    peers.member.leads()
}

async fn update_cluster_version(peers: &Peers) {
    // A new leader first learns what was decided before its term.
    if !is_leader(peers) || peers.member.linearized().await.is_err() {
        return;
    }
    let (member, view) = (&peers.member, peers.member.view());
    let own = member.member_id();
    let versions = fetch_versions(&peers.exchange, &view.members, own, peers.timings.request).await;
    let least = decision::least_server_version(&versions);
    let current = cluster_version_of(&view.members);
    let target = downgrade_target_of(&view.members);
    let decided = decision::cluster_version(current.as_ref(), least.as_ref(), target.as_ref());
    let version = match decided {
        Ok(None) => return,
        Ok(Some(version)) => version,
        Err(error) => {
            tracing::error!("error" = %error, "Failed to monitor cluster version");
            return;
        }
    };
    match &current {
        None => tracing::info!(
            "cluster-version" = version.short(),
            "setting up initial cluster version using v3 API"
        ),
        Some(current) => tracing::info!(
            "from" = current.short(),
            "to" = version.short(),
            "updating cluster version using v3 API"
        ),
    }
    let text = version.to_string();
    let outcome = member
        .done(move |member, waiter| member.set_cluster_version(text, Some(waiter)))
        .await;
    match outcome {
        // Told by every member that applies it.
        Ok(()) => {}
        Err(error @ Error::Stopped) => tracing::warn!(
            "error" = %error,
            "aborting cluster version update; server is stopped"
        ),
        Err(error) => tracing::warn!("error" = %error, "failed to update cluster version"),
    }
}

async fn cancel_downgrade_that_arrived(peers: &Peers) {
    if !is_leader(peers) {
        return;
    }
    let (member, view) = (&peers.member, peers.member.view());
    let Some(target) = downgrade_target_of(&view.members) else {
        return;
    };
    let own = member.member_id();
    let versions = fetch_versions(&peers.exchange, &view.members, own, peers.timings.request).await;
    if !decision::all_run(&versions, &target) {
        return;
    }
    tracing::info!(
        "cluster-version" = target.to_string(),
        "the cluster has been downgraded"
    );
    let cancelled = member
        .done(|member, waiter| member.set_downgrade(false, String::new(), Some(waiter)))
        .await;
    if let Err(error) = cancelled {
        tracing::warn!("error" = %error, "failed to cancel downgrade");
    }
}

/// The version of the data: as recorded, or what those are that record none. `None`: not known.
pub(crate) fn storage_version_of(view: &View) -> Option<Version> {
    match &view.storage_version {
        Some(recorded) => Version::parse(recorded),
        None => (view.applied_term > 0).then_some(Version::new(3, 5)),
    }
}

async fn update_storage_version(peers: &Peers) {
    let (member, view) = (&peers.member, peers.member.view());
    let Some(cluster) = cluster_version_of(&view.members).filter(|cluster| *cluster != MIN_CLUSTER)
    else {
        return;
    };
    let storage = storage_version_of(&view);
    if let Some(storage) = &storage {
        if storage.minor() == cluster.minor() {
            return;
        }
        tracing::info!(
            "cluster-version" = cluster.to_string(),
            "storage-version" = storage.to_string(),
            "cluster version differs from storage version."
        );
    }
    let asked = member
        .answer(move |member| {
            let storage = storage.ok_or(StorageRefusal::Unknown)?;
            let needed = member.log_versions();
            let log = needed.iter().filter_map(|text| Version::parse(text)).max();
            let steps = decision::storage_steps(&storage, &cluster, log.as_ref())?;
            for step in &steps {
                member.set_storage_version(&step.to_string());
            }
            Ok::<_, StorageRefusal>(())
        })
        .await;
    let error = match asked {
        Ok(Ok(())) => {
            if let Some(target) = view.members.downgrade_job() {
                tracing::info!(
                    "target-version" = target.as_str(),
                    "server-version" = ETCD_VERSION,
                    "The server is ready to downgrade"
                );
            }
            return;
        }
        Ok(Err(refusal)) => refusal.to_string(),
        Err(error) => error.to_string(),
    };
    let cluster = view.members.cluster_version.as_deref().unwrap_or_default();
    tracing::error!(
        "cluster-version" = cluster,
        "error" = error.as_str(),
        "failed to update storage version"
    );
}
