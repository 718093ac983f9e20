//! `move-leader`: makes another member lead.

use crate::print::Answer;
use crate::session::{Session, Setting};
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::{MoveLeaderRequest, StatusRequest, StatusResponse};
use quorate_go::number;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "move-leader",
        "move-leader <transferee-member-id>",
        "Hand the leadership to another member",
    )
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let [target] = &invocation.given.texts()[..] else {
        return Err(Exit::bad_arguments("move-leader command needs 1 argument"));
    };
    let target_id = number::parse_u64(target, 16).map_err(Exit::bad_arguments)?;
    let setting = Setting::of(invocation).await?;
    let (leader_id, session) = leader(&setting).await?;
    let request = MoveLeaderRequest { target_id };
    let response = session.call(Method::MaintenanceMoveLeader, request).await;
    session.print(&Answer::MoveLeader(
        leader_id,
        target_id,
        response.map_err(Exit::error)?,
    ))
}

/// The endpoint that leads, and its member.
async fn leader(setting: &Setting) -> Result<(u64, Session), Exit> {
    let all = setting.connect(&setting.endpoints).await?;
    for endpoint in &setting.endpoints {
        let session = setting.connect(std::slice::from_ref(endpoint)).await?;
        let status: StatusResponse = session
            .call(Method::MaintenanceStatus, StatusRequest {})
            .await
            .map_err(Exit::error)?;
        if status
            .header
            .is_some_and(|header| header.member_id == status.leader)
        {
            return Ok((status.leader, session));
        }
    }
    Err(Exit::bad_arguments(format_args!(
        "no leader endpoint given at [{}]",
        all.client.endpoints().join(" ")
    )))
}
