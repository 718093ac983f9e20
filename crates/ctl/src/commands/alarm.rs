//! `alarm …`: alarms that members have raised.

use crate::failure::Failure;
use crate::print::Answer;
use crate::session::Session;
use clap::Command;
use quorate_cli::exit::Exit;
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::alarm_request::AlarmAction;
use quorate_client::api::etcdserverpb::{AlarmMember, AlarmRequest, AlarmResponse};

/// The definition.
pub fn command() -> Command {
    flags::command(
        "alarm",
        "alarm <subcommand>",
        "Show and put out alarms (the list: alarm --help)",
    )
    .long_about("Show and put out alarms")
    .subcommands([
        flags::command("disarm", "disarm", "Put out all alarms"),
        flags::command("list", "list", "Show the alarms that are raised"),
    ])
}

/// Runs one of them.
pub async fn run(name: &str, invocation: &Invocation) -> Result<(), Exit> {
    if !invocation.given.arguments().is_empty() {
        return Err(Exit::bad_arguments(format_args!(
            "alarm {name} command accepts no arguments"
        )));
    }
    let session = Session::open(invocation).await?;
    let response = match name {
        "disarm" => disarm(&session).await,
        _ => list(&session).await,
    };
    session.print(&Answer::Alarm(response.map_err(Exit::error)?))
}

/// All alarms.
pub async fn list(session: &Session) -> Result<AlarmResponse, Failure> {
    session
        .call(Method::MaintenanceAlarm, AlarmRequest::default())
        .await
}

/// Ends all alarms, one after the other. The answer has those that were ended and no header.
async fn disarm(session: &Session) -> Result<AlarmResponse, Failure> {
    let mut ended = AlarmResponse::default();
    for AlarmMember { member_id, alarm } in list(session).await?.alarms {
        let request = AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id,
            alarm,
        };
        let response: AlarmResponse = session.call(Method::MaintenanceAlarm, request).await?;
        ended.alarms.extend(response.alarms);
    }
    Ok(ended)
}
