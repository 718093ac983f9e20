//! `endpoint …`: asks each endpoint by itself.

use super::alarm;
use crate::failure::Failure;
use crate::print::{Answer, Health};
use crate::session::{Session, Setting};
use clap::Command;
use prost::Message;
use quorate_cli::exit::{self, Exit};
use quorate_cli::flags::{int, switch};
use quorate_cli::streams::write_err;
use quorate_cli::{Invocation, flags};
use quorate_client::api::etcdserverpb as pb;
use quorate_client::api::{Error as Known, Method};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "endpoint",
        "endpoint <subcommand>",
        "Ask members how they are (the list: endpoint --help)",
    )
    .long_about("Ask members how they are")
    .arg(cluster().global(true))
    .subcommands([
        flags::command("hashkv", "hashkv", "Print each endpoint's hash of the keys and their history")
            .arg(int("rev", "0", "greatest revision that is hashed (the newest if not given)")),
        flags::command(
            "health",
            "health",
            "Tell which endpoints answer a read",
        ),
        flags::command(
            "status",
            "status",
            "Print each endpoint's version, size, role and progress",
        )
        .long_about(
            "Prints the status of each endpoint. In the simple form a line has, with commas between: endpoint, ID,
version, storage version, db size, in use, percentage not in use, quota, is leader, is learner, raft
term, raft index, raft applied index, errors, downgrade target version, downgrade enabled.",
        ),
    ])
}

/// The flag for all members' endpoints in place of those given.
pub fn cluster() -> clap::Arg {
    switch(
        "cluster",
        "ask the cluster for its members and use all their endpoints",
    )
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    let setting = Setting::of(invocation).await?;
    let endpoints = endpoints(&setting, setting.globals.cluster).await?;
    match name {
        "health" => health(&setting, endpoints).await,
        "status" => status(&setting, &endpoints).await,
        _ => hash_kv(&setting, &endpoints, invocation.given.int("rev")).await,
    }
}

/// The endpoints: those given, or those of all members.
pub async fn endpoints(setting: &Setting, cluster: bool) -> Result<Vec<String>, Exit> {
    if !cluster {
        return Ok(setting.globals.endpoints.clone());
    }
    let session = setting
        .connect(&setting.endpoints)
        .await
        .map_err(|exit| Exit {
            code: exit::ERROR,
            ..exit
        })?;
    let request = pb::MemberListRequest { linearizable: true };
    let members: pb::MemberListResponse = session
        .call(Method::ClusterMemberList, request)
        .await
        .map_err(|failure| {
            Exit::error(format_args!(
                "failed to fetch endpoints from etcd cluster member list: {failure}"
            ))
        })?;
    Ok(members
        .members
        .into_iter()
        .flat_map(|member| member.client_ur_ls)
        .collect())
}

/// Asks one endpoint.
pub async fn ask<Q, A>(
    setting: &Setting,
    endpoint: &str,
    method: Method,
    request: Q,
) -> Result<Result<A, Failure>, Exit>
where
    Q: Message + 'static,
    A: Message + Default + 'static,
{
    let session = setting.connect(&[endpoint.to_owned()]).await?;
    Ok(session.call(method, request).await)
}

async fn status(setting: &Setting, endpoints: &[String]) -> Result<(), Exit> {
    let mut list = Vec::new();
    let mut failed = false;
    for endpoint in endpoints {
        let request = pb::StatusRequest {};
        match ask(setting, endpoint, Method::MaintenanceStatus, request).await? {
            Ok(status) => list.push((endpoint.clone(), status)),
            Err(failure) => {
                failed = true;
                let text = format!("Failed to get the status of endpoint {endpoint} ({failure})\n");
                write_err(text.as_bytes());
            }
        }
    }
    setting.printer.print(&Answer::EndpointStatus(list))?;
    match failed {
        true => Err(Exit::silent(exit::ERROR)),
        false => Ok(()),
    }
}

async fn hash_kv(setting: &Setting, endpoints: &[String], revision: i64) -> Result<(), Exit> {
    let mut list = Vec::new();
    let mut last = Ok(());
    for endpoint in endpoints {
        let request = pb::HashKvRequest { revision };
        match ask(setting, endpoint, Method::MaintenanceHashKV, request).await? {
            Ok(hash) => list.push((endpoint.clone(), hash)),
            Err(failure) => {
                let text = format!("Failed to get the hash of endpoint {endpoint} ({failure})\n");
                write_err(text.as_bytes());
                last = Err(Exit::error(failure));
            }
        }
    }
    setting.printer.print(&Answer::EndpointHashKv(list))?;
    last
}

/// Reads through each endpoint at once; all must agree with the cluster and have no alarm.
async fn health(setting: &Setting, endpoints: Vec<String>) -> Result<(), Exit> {
    let mut tasks = JoinSet::new();
    for (place, endpoint) in endpoints.into_iter().enumerate() {
        let setting = setting.clone();
        tasks.spawn(async move { (place, health_of(&setting, endpoint).await) });
    }
    let mut list = tasks.join_all().await;
    list.sort_by_key(|(place, _)| *place);
    let list: Vec<Health> = list.into_iter().map(|(_, health)| health).collect();
    let healthy = list.iter().all(|health| health.error.is_empty());
    setting.printer.print(&Answer::EndpointHealth(list))?;
    match healthy {
        true => Ok(()),
        false => Err(Exit::error("unhealthy cluster")),
    }
}

async fn health_of(setting: &Setting, endpoint: String) -> Health {
    let mut health = Health {
        endpoint,
        healthy: false,
        took: None,
        error: String::new(),
    };
    let session = match setting
        .connect(std::slice::from_ref(&health.endpoint))
        .await
    {
        Ok(session) => session,
        Err(exit) => {
            health.error = exit.message.unwrap_or_default();
            return health;
        }
    };
    let start = Instant::now();
    let request = pb::RangeRequest {
        key: "health".into(),
        ..pb::RangeRequest::default()
    };
    let read: Result<pb::RangeResponse, Failure> = session.call(Method::KVRange, request).await;
    health.took = Some(start.elapsed());
    match read {
        Ok(_) => {}
        // The cluster has agreed on that as well.
        Err(failure) if failure.is(Known::PermissionDenied) => {}
        Err(failure) => {
            health.error = failure.to_string();
            return health;
        }
    }
    health.error = alarms(&session).await;
    health.healthy = health.error.is_empty();
    health
}

/// The alarms that are active; empty where there are none.
async fn alarms(session: &Session) -> String {
    match alarm::list(session).await {
        Ok(list) if list.alarms.is_empty() => String::new(),
        Ok(list) => {
            let name = |alarm: &pb::AlarmMember| match pb::AlarmType::try_from(alarm.alarm) {
                Ok(pb::AlarmType::Nospace) => "NOSPACE ",
                Ok(pb::AlarmType::Corrupt) => "CORRUPT ",
                _ => "UNKNOWN ",
            };
            let names: String = list.alarms.iter().map(name).collect();
            format!("Active Alarm(s): {names}")
        }
        Err(_) => "Unable to fetch the alarm list".to_owned(),
    }
}
