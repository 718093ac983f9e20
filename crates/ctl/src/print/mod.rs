//! Answers in the five output forms.
//!
//! A form is a function from an [`Answer`] to bytes; an answer that a form cannot express is
//! refused after the call has been made, as by etcdctl. The layout of every form is an interface.

mod fields;
mod json;
pub mod object;
mod permissions;
mod protobuf;
mod rows;
mod simple;

use quorate_cli::exit::{self, Exit};
use quorate_cli::streams::{write_err, write_out};
use quorate_cli::table;
use quorate_client::api::etcdserverpb as pb;
use std::time::Duration;

pub use quorate_cli::format::Format;
pub use simple::event_name;

/// What a command got.
#[derive(Clone, Debug)]
#[allow(missing_docs)]
pub enum Answer {
    Put(pb::PutResponse),
    Get(pb::RangeResponse),
    Delete(pb::DeleteRangeResponse),
    Txn(pb::TxnResponse),
    Watch(pb::WatchResponse),
    Grant(pb::LeaseGrantResponse),
    Revoke(i64, pb::LeaseRevokeResponse),
    KeepAlive(pb::LeaseKeepAliveResponse),
    /// With whether keys were asked for.
    TimeToLive(pb::LeaseTimeToLiveResponse, bool),
    Leases(pb::LeaseLeasesResponse),
    MemberAdd(pb::MemberAddResponse),
    MemberRemove(u64, pb::MemberRemoveResponse),
    MemberUpdate(u64, pb::MemberUpdateResponse),
    MemberPromote(u64, pb::MemberPromoteResponse),
    MemberList(pb::MemberListResponse),
    EndpointHealth(Vec<Health>),
    EndpointStatus(Vec<(String, pb::StatusResponse)>),
    EndpointHashKv(Vec<(String, pb::HashKvResponse)>),
    /// From whom, to whom.
    MoveLeader(u64, u64, pb::MoveLeaderResponse),
    /// With the action's name.
    Downgrade(&'static str, pb::DowngradeResponse),
    Alarm(pb::AlarmResponse),
    RoleAdd(String, pb::AuthRoleAddResponse),
    RoleGet(String, pb::AuthRoleGetResponse),
    RoleDelete(String, pb::AuthRoleDeleteResponse),
    RoleList(pb::AuthRoleListResponse),
    RoleGrantPermission(String, pb::AuthRoleGrantPermissionResponse),
    /// Of which role, which key and range end.
    RoleRevokePermission(
        String,
        Vec<u8>,
        Vec<u8>,
        pb::AuthRoleRevokePermissionResponse,
    ),
    UserAdd(String, pb::AuthUserAddResponse),
    UserGet(String, pb::AuthUserGetResponse),
    UserList(pb::AuthUserListResponse),
    UserChangePassword(pb::AuthUserChangePasswordResponse),
    /// To which user, which role.
    UserGrantRole(String, String, pb::AuthUserGrantRoleResponse),
    /// From which user, which role.
    UserRevokeRole(String, String, pb::AuthUserRevokeRoleResponse),
    UserDelete(String, pb::AuthUserDeleteResponse),
    AuthStatus(pb::AuthStatusResponse),
}

/// How an endpoint answered a read that needs the cluster's agreement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The endpoint, as given.
    pub endpoint: String,
    /// Whether it answered and no alarm is raised.
    pub healthy: bool,
    /// How long the read took; `None` where none was made.
    pub took: Option<Duration>,
    /// What is wrong; empty where nothing is.
    pub error: String,
}

/// What a form made of an answer: bytes for both streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Page {
    /// For standard output.
    pub out: Vec<u8>,
    /// For standard error.
    pub err: Vec<u8>,
}

impl Page {
    fn of(out: impl Into<Vec<u8>>) -> Page {
        Page {
            out: out.into(),
            err: Vec::new(),
        }
    }
}

/// Why an answer has no form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Unprintable {
    /// The form has nothing for this answer.
    #[error("{0} not supported as output format")]
    Unsupported(&'static str),
    /// The answer is no message of its own.
    #[error("marshal unsupported for type {0}")]
    NoMessage(&'static str),
}

/// Writes answers in one form.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// The form.
    pub format: Format,
    /// Whether ids, keys and values are written in hex.
    pub hex: bool,
    /// Whether keys are left out (simple form).
    pub value_only: bool,
}

impl Printer {
    /// The form of an answer.
    pub fn page(&self, answer: &Answer) -> Result<Page, Unprintable> {
        let unsupported = Unprintable::Unsupported(self.format.name());
        match self.format {
            Format::Simple => Ok(simple::page(answer, self.hex, self.value_only)),
            Format::Fields => fields::page(answer, self.hex)
                .map(Page::of)
                .ok_or(unsupported),
            Format::Json => Ok(Page::of(json::line(answer, self.hex) + "\n")),
            Format::Protobuf => protobuf::message(answer)
                .map(Page::of)
                .map_err(|name| name.map_or(unsupported, Unprintable::NoMessage)),
            Format::Table => rows::of(answer)
                .map(|rows| table::draw(rows.titles, &rows.rows))
                .map(Page::of)
                .ok_or(unsupported),
        }
    }

    /// Writes an answer.
    pub fn print(&self, answer: &Answer) -> Result<(), Exit> {
        let page = self
            .page(answer)
            .map_err(|refusal| Exit::new(exit::BAD_FEATURE, refusal))?;
        write_out(&page.out)?;
        write_err(&page.err);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
