//! What a member asks the others before it starts: whether it may, and whether its data agree with
//! theirs.

use crate::config::Config;
use crate::corruption::{InitialError, check_at_start};
use crate::peer_api::hash_kv::Asker;
use crate::peer_api::join::{Flags, JoinError, check_new, join};
use crate::peer_api::same_urls::SystemResolver;
use crate::peer_api::{BeforeTransport, Exchange, Timings};
use quorate_node::Member;
use quorate_node::boot::Join;
use std::sync::Arc;
use std::time::Duration;
use tokio::runtime::Runtime;

/// How long names of members may take to resolve.
const RESOLVE: Duration = Duration::from_secs(30);

/// Checks that a member without data may begin; how it joins, where its cluster is there already.
pub fn first_start(runtime: &Runtime, config: &Config) -> Result<Option<Join>, JoinError> {
    let flags = Flags::of(config);
    let exchange: Arc<dyn Exchange> = Arc::new(BeforeTransport);
    runtime.block_on(async {
        let resolver = SystemResolver::within(RESOLVE);
        if config.text("initial-cluster-state") != "existing" {
            check_new(&*exchange, &flags, &resolver).await?;
            return Ok(None);
        }
        let joined = join(&exchange, &flags, &resolver).await?;
        Ok(Some(Join {
            member_id: joined.member_id,
            cluster_id: joined.cluster_id,
        }))
    })
}

/// Compares the data of a member that has some with its peers', where the feature is on.
pub fn check_data<T>(
    runtime: &Runtime,
    config: &Config,
    member: &Member<T>,
) -> Result<(), InitialError> {
    if !config.feature("InitialCorruptCheck", false) {
        return Ok(());
    }
    let exchange: Arc<dyn Exchange> = Arc::new(BeforeTransport);
    let asker = Asker {
        member_id: member.config().member_id,
        cluster_id: member.config().cluster_id,
        timeout: Timings::of(config).request,
    };
    let checked = runtime.block_on(check_at_start(&exchange, asker, member.view()));
    if let Err(error) = &checked {
        tracing::error!("error" = %error, "checkInitialHashKV failed");
    }
    checked
}
