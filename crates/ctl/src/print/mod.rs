//! Answers in the five output forms.
//!
//! A form is a function from an [`Answer`] to bytes; an answer that a form cannot express is
//! refused after the call has been made, as by etcdctl. The layout of every form is an interface.

mod fields;
mod json;
mod permissions;
mod protobuf;
mod rows;
mod simple;
mod table;

use crate::exit::{self, Exit};
use quorate_client::api::etcdserverpb as pb;
use std::io::{self, Write};
use std::time::Duration;

pub use rows::human_bytes;
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

/// An output form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Lines for people.
    Simple,
    /// A name and a value on each line.
    Fields,
    /// One JSON object a line.
    Json,
    /// The message's bytes.
    Protobuf,
    /// A table with borders.
    Table,
}

impl Format {
    /// The form with this name.
    pub fn from_name(name: &str) -> Option<Format> {
        Some(match name {
            "simple" => Format::Simple,
            "fields" => Format::Fields,
            "json" => Format::Json,
            "protobuf" => Format::Protobuf,
            "table" => Format::Table,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Format::Simple => "simple",
            Format::Fields => "fields",
            Format::Json => "json",
            Format::Protobuf => "protobuf",
            Format::Table => "table",
        }
    }
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
            Format::Table => table::page(answer).map(Page::of).ok_or(unsupported),
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

/// Writes to standard output. A reader that has gone ends the program quietly, as a signal would.
pub fn write_out(bytes: &[u8]) -> Result<(), Exit> {
    let mut stdout = io::stdout().lock();
    stdout
        .write_all(bytes)
        .and_then(|()| stdout.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::silent(141),
            _ => Exit::error(format_args!("write /dev/stdout: {error}")),
        })
}

/// Writes to standard error. There is nobody to tell when that fails.
pub fn write_err(bytes: &[u8]) {
    let mut stderr = io::stderr().lock();
    let _ = stderr.write_all(bytes);
}

#[cfg(test)]
mod tests;
