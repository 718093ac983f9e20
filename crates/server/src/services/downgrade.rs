//! Downgrades: asked for by a client, made by the leader (see [`crate::cluster_versions`]).
//!
//! Source: etcd's v3_server.go and version package.

use super::{Caller, Services, body, decode};
use crate::cluster_versions::semver::Version;
use crate::cluster_versions::{cluster_version_of, downgrade_target_of};
use crate::driver::Handle;
use crate::transport::{Code, Reply, Status};
use bytes::Bytes;
use quorate_api::Error;
use quorate_api::etcdserverpb::downgrade_request::DowngradeAction;
use quorate_api::etcdserverpb::{DowngradeRequest, DowngradeResponse, ResponseHeader};

/// Whether a cluster may be sent down to `target`; what it is answered where it may not.
fn validate(
    cluster: Option<&Version>,
    under_way: Option<&Version>,
    target: &Version,
) -> Result<(), Error> {
    let cluster = cluster.ok_or(Error::ClusterVersionUnavailable)?;
    if *target != cluster.below() {
        return Err(Error::InvalidDowngradeTargetVersion);
    }
    if under_way.is_some() {
        return Err(Error::DowngradeInProcess);
    }
    Ok(())
}

/// Whether the cluster may be sent down, as of now.
async fn validate_now(member: &Handle, target: &Version) -> Result<(), Error> {
    member.linearized().await?;
    let view = member.view();
    validate(
        cluster_version_of(&view.members).as_ref(),
        downgrade_target_of(&view.members).as_ref(),
        target,
    )
}

fn target_of(request: &DowngradeRequest) -> Result<Version, Error> {
    Version::parse_minor(&request.version).ok_or(Error::WrongDowngradeVersionFormat)
}

async fn enable(member: &Handle, request: &DowngradeRequest) -> Result<(), Error> {
    let target = target_of(request)?;
    validate_now(member, &target).await?;
    let target = target.to_string();
    member
        .done(move |member, waiter| member.set_downgrade(true, target, Some(waiter)))
        .await
}

async fn cancel(member: &Handle) -> Result<(), Error> {
    member.linearized().await?;
    if member.view().members.downgrade_job().is_none() {
        return Err(Error::NoInflightDowngrade);
    }
    member
        .done(|member, waiter| member.set_downgrade(false, String::new(), Some(waiter)))
        .await
}

/// Does what is asked; the version of the cluster before.
async fn perform(
    member: &Handle,
    action: DowngradeAction,
    request: &DowngradeRequest,
) -> Result<String, Error> {
    let version = cluster_version_of(&member.view().members);
    match action {
        DowngradeAction::Validate => {
            let target = target_of(request)?;
            if version.is_none() {
                return Err(Error::ClusterVersionUnavailable);
            }
            validate_now(member, &target).await?;
        }
        DowngradeAction::Enable => {
            if let Err(error) = enable(member, request).await {
                tracing::warn!("error" = %error, "reject downgrade request");
                return Err(error);
            }
        }
        DowngradeAction::Cancel => {
            // The client is told that it is over either way.
            if let Err(error) = cancel(member).await {
                tracing::warn!("error" = %error, "failed to cancel downgrade");
            }
        }
    }
    let version = cluster_version_of(&member.view().members).or(version);
    let version = version.ok_or(Error::ClusterVersionUnavailable)?;
    Ok(version.short())
}

impl Services {
    pub(super) fn downgrade(
        &self,
        message: Bytes,
        answer: &mut dyn FnMut() -> Caller,
    ) -> Result<Reply, Status> {
        let request: DowngradeRequest = decode(message)?;
        let Ok(action) = DowngradeAction::try_from(request.action) else {
            return Err(Status::new(Code::Unknown, "etcdserver: unknown method"));
        };
        let (member, reader, caller) = (self.member.clone(), self.reader(), answer());
        self.peers.runtime.spawn(async move {
            let answer = match perform(&member, action, &request).await {
                Ok(version) => {
                    let header: ResponseHeader = reader.header(member.view().revision);
                    Ok(body(&DowngradeResponse {
                        header: Some(header),
                        version,
                    }))
                }
                Err(error) => Err(error.into()),
            };
            caller.respond(answer);
        });
        Ok(Reply::Later)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_minor_version_down_and_one_at_a_time() {
        let [v35, v36, v37] = [5, 6, 7].map(|minor| Version::new(3, minor));
        assert_eq!(validate(Some(&v37), None, &v36), Ok(()));
        for wrong in [&v35, &v37] {
            assert_eq!(
                validate(Some(&v37), None, wrong),
                Err(Error::InvalidDowngradeTargetVersion)
            );
        }
        assert_eq!(
            validate(Some(&v37), Some(&v36), &v36),
            Err(Error::DowngradeInProcess)
        );
        assert_eq!(
            validate(None, None, &v36),
            Err(Error::ClusterVersionUnavailable)
        );
    }

    #[test]
    fn the_target_may_have_a_patch_and_must_be_a_version() {
        let target = |version: &str| {
            target_of(&DowngradeRequest {
                version: version.to_owned(),
                ..Default::default()
            })
        };
        assert_eq!(target("3.6"), Ok(Version::new(3, 6)));
        assert_eq!(target("3.6.4"), Ok(Version::new(3, 6)));
        assert_eq!(target("x"), Err(Error::WrongDowngradeVersionFormat));
    }
}
