//! Calls about members, alarms, users and roles: each asks for what it says.

use crate::fake::alone;
use bytes::BytesMut;
use prost::Message;
use quorate_client::api::authpb::{Permission, UserAddOptions, permission};
use quorate_client::api::etcdserverpb::alarm_request::AlarmAction;
use quorate_client::api::etcdserverpb::downgrade_request::DowngradeAction;
use quorate_client::api::etcdserverpb::*;
use quorate_client::{Client, Result};

/// What a call sends, and where. It is answered with nothing in particular.
async fn sent<A>(call: impl AsyncFnOnce(Client) -> Result<A>) -> (String, BytesMut) {
    let (mut server, client) = alone();
    let play = async {
        let mut call = server.call().await;
        let path = call.path.rsplit('/').next().unwrap().to_owned();
        let bytes = call.message().await.expect("a request");
        call.reply(ResponseHeader::default());
        (path, bytes)
    };
    let (sent, answer) = tokio::join!(play, call(client));
    answer.unwrap();
    sent
}

macro_rules! asks {
    ($($call:ident($($argument:expr),*) => $path:literal, $request:expr;)*) => {$(
        let (path, bytes) = sent(async |client| client.$call($($argument),*).await).await;
        assert_eq!((path.as_str(), &bytes[..]), ($path, &$request.encode_to_vec()[..]));
    )*};
}

#[tokio::test(start_paused = true)]
async fn members() {
    asks! {
        member_add(&["http://a:1"], true) => "MemberAdd", MemberAddRequest {
            peer_ur_ls: vec!["http://a:1".into()],
            is_learner: true,
        };
        member_remove(7) => "MemberRemove", MemberRemoveRequest { id: 7 };
        member_update(7, &["http://b:1"]) => "MemberUpdate", MemberUpdateRequest {
            id: 7,
            peer_ur_ls: vec!["http://b:1".into()],
        };
        member_promote(7) => "MemberPromote", MemberPromoteRequest { id: 7 };
    }
}

#[tokio::test(start_paused = true)]
async fn maintenance() {
    asks! {
        alarms() => "Alarm", AlarmRequest::default();
        alarm_disarm(7, AlarmType::Nospace) => "Alarm", AlarmRequest {
            action: AlarmAction::Deactivate.into(),
            member_id: 7,
            alarm: AlarmType::Nospace.into(),
        };
        hash() => "Hash", HashRequest {};
        move_leader(7) => "MoveLeader", MoveLeaderRequest { target_id: 7 };
        downgrade(DowngradeAction::Enable, "3.6") => "Downgrade", DowngradeRequest {
            action: DowngradeAction::Enable.into(),
            version: "3.6".into(),
        };
    }
}

#[tokio::test(start_paused = true)]
async fn users_and_roles() {
    let permission = Permission {
        perm_type: permission::Type::Read.into(),
        key: "a".into(),
        range_end: "b".into(),
    };
    let user = |password: &str| AuthUserAddRequest {
        name: "u".into(),
        password: password.into(),
        options: Some(UserAddOptions {
            no_password: password.is_empty(),
        }),
        ..AuthUserAddRequest::default()
    };
    asks! {
        auth_enable() => "AuthEnable", AuthEnableRequest {};
        auth_disable() => "AuthDisable", AuthDisableRequest {};
        auth_status() => "AuthStatus", AuthStatusRequest {};
        user_add("u", Some("p")) => "UserAdd", user("p");
        user_add("u", None) => "UserAdd", user("");
        user_delete("u") => "UserDelete", AuthUserDeleteRequest { name: "u".into() };
        user_get("u") => "UserGet", AuthUserGetRequest { name: "u".into() };
        user_list() => "UserList", AuthUserListRequest {};
        user_change_password("u", "q") => "UserChangePassword", AuthUserChangePasswordRequest {
            name: "u".into(),
            password: "q".into(),
            ..AuthUserChangePasswordRequest::default()
        };
        user_grant_role("u", "r") => "UserGrantRole", AuthUserGrantRoleRequest {
            user: "u".into(),
            role: "r".into(),
        };
        user_revoke_role("u", "r") => "UserRevokeRole", AuthUserRevokeRoleRequest {
            name: "u".into(),
            role: "r".into(),
        };
        role_add("r") => "RoleAdd", AuthRoleAddRequest { name: "r".into() };
        role_delete("r") => "RoleDelete", AuthRoleDeleteRequest { role: "r".into() };
        role_get("r") => "RoleGet", AuthRoleGetRequest { role: "r".into() };
        role_list() => "RoleList", AuthRoleListRequest {};
        role_grant_permission("r", permission.clone()) => "RoleGrantPermission",
            AuthRoleGrantPermissionRequest {
                name: "r".into(),
                perm: Some(permission),
            };
        role_revoke_permission("r", "a", "b") => "RoleRevokePermission",
            AuthRoleRevokePermissionRequest {
                role: "r".into(),
                key: "a".into(),
                range_end: "b".into(),
            };
    }
}
