//! The simple form: short lines for people, and for the many scripts that read them.

use super::{Answer, Health, Page, permissions, rows};
use quorate_client::api::etcdserverpb as pb;
use quorate_client::api::etcdserverpb::response_op::Response;
use quorate_client::api::mvccpb;
use quorate_client::api::mvccpb::event::EventType;
use quorate_go::duration;
use std::io::Write;

/// The lines of an answer.
pub fn page(answer: &Answer, hex: bool, value_only: bool) -> Page {
    let mut lines = Lines {
        page: Page::default(),
        hex,
        value_only,
    };
    lines.answer(answer);
    lines.page
}

struct Lines {
    page: Page,
    hex: bool,
    value_only: bool,
}

/// Adds a line to standard output.
macro_rules! line {
    ($lines:expr, $($part:tt)*) => {
        writeln!($lines.page.out, $($part)*).expect("writing to a Vec cannot fail")
    };
}

impl Lines {
    fn answer(&mut self, answer: &Answer) {
        match answer {
            Answer::Put(r) => self.put(r),
            Answer::Get(r) => r.kvs.iter().for_each(|kv| self.key_value(kv)),
            Answer::Delete(r) => self.delete(r),
            Answer::Txn(r) => self.txn(r),
            Answer::Watch(r) => r.events.iter().for_each(|event| self.event(event)),
            Answer::Grant(r) => line!(self, "lease {:016x} granted with TTL({}s)", r.id, r.ttl),
            Answer::Revoke(id, _) => line!(self, "lease {id:016x} revoked"),
            Answer::KeepAlive(r) => {
                line!(self, "lease {:016x} keepalived with TTL({})", r.id, r.ttl);
            }
            Answer::TimeToLive(r, keys) => self.time_to_live(r, *keys),
            Answer::Leases(r) => {
                line!(self, "found {} leases", r.leases.len());
                r.leases
                    .iter()
                    .for_each(|lease| line!(self, "{:016x}", lease.id));
            }
            Answer::MemberAdd(r) => {
                let member = r.member.clone().unwrap_or_default();
                let role = match member.is_learner {
                    true => " as learner",
                    false => "",
                };
                let cluster = cluster(&r.header);
                line!(
                    self,
                    "Member {:16x} added{role} to cluster {cluster:16x}",
                    member.id
                );
            }
            Answer::MemberRemove(id, r) => {
                line!(
                    self,
                    "Member {id:16x} removed from cluster {:16x}",
                    cluster(&r.header)
                );
            }
            Answer::MemberUpdate(id, r) => {
                line!(
                    self,
                    "Member {id:16x} updated in cluster {:16x}",
                    cluster(&r.header)
                );
            }
            Answer::MemberPromote(id, r) => {
                line!(
                    self,
                    "Member {id:16x} promoted in cluster {:16x}",
                    cluster(&r.header)
                );
            }
            Answer::MemberList(r) => self.rows(&rows::members(&r.members)),
            Answer::EndpointHealth(list) => list.iter().for_each(|health| self.health(health)),
            Answer::EndpointStatus(list) => self.rows(&rows::status(list)),
            Answer::EndpointHashKv(list) => self.rows(&rows::hashes(list)),
            Answer::MoveLeader(from, to, _) => {
                line!(self, "Leadership transferred from {from:x} to {to:x}");
            }
            Answer::Downgrade(action, r) => {
                line!(
                    self,
                    "Downgrade {action} success, cluster version {}",
                    r.version
                );
            }
            Answer::Alarm(r) => r.alarms.iter().for_each(|alarm| self.alarm(alarm)),
            Answer::AuthStatus(r) => {
                line!(self, "Authentication Status: {}", r.enabled);
                line!(self, "AuthRevision: {}", r.auth_revision);
            }
            answer => self.users_and_roles(answer),
        }
    }

    fn users_and_roles(&mut self, answer: &Answer) {
        match answer {
            Answer::RoleAdd(role, _) => line!(self, "Role {role} created"),
            Answer::RoleGet(role, r) => permissions::write(role, &r.perm, &mut self.page.out),
            Answer::RoleDelete(role, _) => line!(self, "Role {role} deleted"),
            Answer::RoleList(r) => r.roles.iter().for_each(|role| line!(self, "{role}")),
            Answer::RoleGrantPermission(role, _) => line!(self, "Role {role} updated"),
            Answer::RoleRevokePermission(role, key, end, _) => self.revoked(role, key, end),
            Answer::UserAdd(user, _) => line!(self, "User {user} created"),
            Answer::UserGet(user, r) => {
                let roles: String = r.roles.iter().map(|role| format!(" {role}")).collect();
                line!(self, "User: {user}\nRoles:{roles}");
            }
            Answer::UserList(r) => r.users.iter().for_each(|user| line!(self, "{user}")),
            Answer::UserChangePassword(_) => line!(self, "Password updated"),
            Answer::UserGrantRole(user, role, _) => {
                line!(self, "Role {role} is granted to user {user}");
            }
            Answer::UserRevokeRole(user, role, _) => {
                line!(self, "Role {role} is revoked from user {user}");
            }
            Answer::UserDelete(user, _) => line!(self, "User {user} deleted"),
            other => unreachable!("{other:?} is written by Lines::answer"),
        }
    }

    fn bytes(&mut self, bytes: &[u8]) {
        match self.hex {
            true => {
                let digits: String = bytes.iter().map(|byte| format!("\\x{byte:02x}")).collect();
                line!(self, "{digits}");
            }
            false => {
                self.page.out.extend_from_slice(bytes);
                self.page.out.push(b'\n');
            }
        }
    }

    fn key_value(&mut self, kv: &mvccpb::KeyValue) {
        if !self.value_only {
            self.bytes(&kv.key);
        }
        self.bytes(&kv.value);
    }

    fn put(&mut self, response: &pb::PutResponse) {
        line!(self, "OK");
        response.prev_kv.iter().for_each(|kv| self.key_value(kv));
    }

    fn delete(&mut self, response: &pb::DeleteRangeResponse) {
        line!(self, "{}", response.deleted);
        response.prev_kvs.iter().for_each(|kv| self.key_value(kv));
    }

    fn txn(&mut self, response: &pb::TxnResponse) {
        let outcome = match response.succeeded {
            true => "SUCCESS",
            false => "FAILURE",
        };
        line!(self, "{outcome}");
        for op in &response.responses {
            line!(self, "");
            match &op.response {
                Some(Response::ResponsePut(r)) => self.put(r),
                Some(Response::ResponseDeleteRange(r)) => self.delete(r),
                Some(Response::ResponseRange(r)) => {
                    r.kvs.iter().for_each(|kv| self.key_value(kv));
                }
                Some(Response::ResponseTxn(r)) => self.txn(r),
                None => line!(self, "unexpected response"),
            }
        }
    }

    fn event(&mut self, event: &mvccpb::Event) {
        line!(self, "{}", event_name(event));
        event.prev_kv.iter().for_each(|kv| self.key_value(kv));
        self.key_value(&event.kv.clone().unwrap_or_default());
    }

    fn time_to_live(&mut self, r: &pb::LeaseTimeToLiveResponse, keys: bool) {
        if r.granted_ttl == 0 && r.ttl == -1 {
            line!(self, "lease {:016x} already expired", r.id);
            return;
        }
        let (id, granted, left) = (r.id, r.granted_ttl, r.ttl);
        write!(
            self.page.out,
            "lease {id:016x} granted with TTL({granted}s), remaining({left}s)"
        )
        .expect("writing to a Vec cannot fail");
        if keys {
            let list = r.keys.join(&b" "[..]);
            self.page
                .out
                .extend_from_slice(&[b", attached keys([", &list[..], b"])"].concat());
        }
        line!(self, "");
    }

    fn rows(&mut self, table: &rows::Rows) {
        table
            .rows
            .iter()
            .for_each(|row| line!(self, "{}", row.join(", ")));
    }

    fn health(&mut self, health: &Health) {
        let endpoint = &health.endpoint;
        if health.error.is_empty() {
            let took = health.took.map(duration::format).unwrap_or_default();
            line!(
                self,
                "{endpoint} is healthy: successfully committed proposal: took = {took}"
            );
        } else {
            let error = &health.error;
            let text = format!("{endpoint} is unhealthy: failed to commit proposal: {error}\n");
            self.page.err.extend_from_slice(text.as_bytes());
        }
    }

    /// A message in protobuf's text form, fields with their zero value left out.
    fn alarm(&mut self, alarm: &pb::AlarmMember) {
        let member = (alarm.member_id != 0).then(|| format!("memberID:{}", alarm.member_id));
        let kind = (alarm.alarm != 0).then(|| format!("alarm:{}", alarm_name(alarm.alarm)));
        let parts: Vec<String> = [member, kind].into_iter().flatten().collect();
        line!(self, "{}", parts.join("  "));
    }

    fn revoked(&mut self, role: &str, key: &[u8], end: &[u8]) {
        let role = format!(" is revoked from role {role}\n");
        let out = match end {
            [] => [b"Permission of key ", key, role.as_bytes()].concat(),
            [0] => [
                b"Permission of range [",
                key,
                b", <open ended>",
                role.as_bytes(),
            ]
            .concat(),
            end => [
                b"Permission of range [",
                key,
                b", ",
                end,
                b")",
                role.as_bytes(),
            ]
            .concat(),
        };
        self.page.out.extend_from_slice(&out);
    }
}

fn cluster(header: &Option<pb::ResponseHeader>) -> u64 {
    header.as_ref().map_or(0, |header| header.cluster_id)
}

/// An event's kind as protobuf names it.
pub fn event_name(event: &mvccpb::Event) -> String {
    match EventType::try_from(event.r#type) {
        Ok(kind) => kind.as_str_name().to_owned(),
        Err(_) => event.r#type.to_string(),
    }
}

/// An alarm's kind as protobuf names it.
pub fn alarm_name(kind: i32) -> String {
    match pb::AlarmType::try_from(kind) {
        Ok(kind) => kind.as_str_name().to_owned(),
        Err(_) => kind.to_string(),
    }
}
