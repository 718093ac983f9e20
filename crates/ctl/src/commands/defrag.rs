//! `defrag`: gives the space of the members' files back, one after the other.

use super::endpoint::{ask, cluster, endpoints};
use crate::session::Setting;
use clap::Command;
use quorate_cli::exit::{self, Exit};
use quorate_cli::streams::{write_err, write_out};
use quorate_cli::{Invocation, flags};
use quorate_client::api::Method;
use quorate_client::api::etcdserverpb::{DefragmentRequest, DefragmentResponse};
use quorate_go::duration;
use tokio::time::Instant;

/// The definition.
pub fn command() -> Command {
    flags::command(
        "defrag",
        "defrag",
        "Give unused space in the database files of the endpoints back",
    )
    .arg(cluster())
}

/// Runs it.
pub async fn run(invocation: &Invocation) -> Result<(), Exit> {
    let setting = Setting::of(invocation).await?;
    let mut failed = false;
    for endpoint in endpoints(&setting, invocation.given.flag("cluster")).await? {
        let start = Instant::now();
        let method = Method::MaintenanceDefragment;
        let answer = ask(&setting, &endpoint, method, DefragmentRequest {}).await?;
        let took = duration::format(start.elapsed());
        match answer {
            Ok(DefragmentResponse { .. }) => write_out(
                format!("Finished defragmenting etcd member[{endpoint}]. took {took}\n").as_bytes(),
            )?,
            Err(failure) => {
                failed = true;
                let text = format!(
                    "Failed to defragment etcd member[{endpoint}]. took {took}. ({failure})\n"
                );
                write_err(text.as_bytes());
            }
        }
    }
    match failed {
        true => Err(Exit::silent(exit::ERROR)),
        false => Ok(()),
    }
}
