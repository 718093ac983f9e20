//! Users, roles and permissions.
//!
//! Permissions name keys as the cluster has them, whatever the client's namespace.

use crate::{Client, Result};
use bytes::Bytes;
use quorate_api::Method;
use quorate_api::authpb::{Permission, UserAddOptions};
use quorate_api::etcdserverpb::{
    AuthDisableRequest, AuthDisableResponse, AuthEnableRequest, AuthEnableResponse,
    AuthRoleAddRequest, AuthRoleAddResponse, AuthRoleDeleteRequest, AuthRoleDeleteResponse,
    AuthRoleGetRequest, AuthRoleGetResponse, AuthRoleGrantPermissionRequest,
    AuthRoleGrantPermissionResponse, AuthRoleListRequest, AuthRoleListResponse,
    AuthRoleRevokePermissionRequest, AuthRoleRevokePermissionResponse, AuthStatusRequest,
    AuthStatusResponse, AuthUserAddRequest, AuthUserAddResponse, AuthUserChangePasswordRequest,
    AuthUserChangePasswordResponse, AuthUserDeleteRequest, AuthUserDeleteResponse,
    AuthUserGetRequest, AuthUserGetResponse, AuthUserGrantRoleRequest, AuthUserGrantRoleResponse,
    AuthUserListRequest, AuthUserListResponse, AuthUserRevokeRoleRequest,
    AuthUserRevokeRoleResponse,
};

impl Client {
    /// Lets only users in from now on. There must be a user `root` with the role `root`.
    pub async fn auth_enable(&self) -> Result<AuthEnableResponse> {
        self.call(Method::AuthAuthEnable, AuthEnableRequest {})
            .await
    }

    /// Lets everybody in from now on.
    pub async fn auth_disable(&self) -> Result<AuthDisableResponse> {
        self.call(Method::AuthAuthDisable, AuthDisableRequest {})
            .await
    }

    /// Whether only users are let in, and the revision of what is known of them.
    pub async fn auth_status(&self) -> Result<AuthStatusResponse> {
        self.call(Method::AuthAuthStatus, AuthStatusRequest {})
            .await
    }

    /// Adds a user; without a password it can be known by a certificate only.
    pub async fn user_add(
        &self,
        name: impl Into<String>,
        password: Option<&str>,
    ) -> Result<AuthUserAddResponse> {
        let request = AuthUserAddRequest {
            name: name.into(),
            password: password.unwrap_or_default().to_owned(),
            options: Some(UserAddOptions {
                no_password: password.is_none(),
            }),
            ..AuthUserAddRequest::default()
        };
        self.call(Method::AuthUserAdd, request).await
    }

    /// Deletes a user; its tokens are refused from then on.
    pub async fn user_delete(&self, name: impl Into<String>) -> Result<AuthUserDeleteResponse> {
        let request = AuthUserDeleteRequest { name: name.into() };
        self.call(Method::AuthUserDelete, request).await
    }

    /// The roles of a user.
    pub async fn user_get(&self, name: impl Into<String>) -> Result<AuthUserGetResponse> {
        let request = AuthUserGetRequest { name: name.into() };
        self.call(Method::AuthUserGet, request).await
    }

    /// All users.
    pub async fn user_list(&self) -> Result<AuthUserListResponse> {
        self.call(Method::AuthUserList, AuthUserListRequest {})
            .await
    }

    /// Gives a user another password.
    pub async fn user_change_password(
        &self,
        name: impl Into<String>,
        password: impl Into<String>,
    ) -> Result<AuthUserChangePasswordResponse> {
        let request = AuthUserChangePasswordRequest {
            name: name.into(),
            password: password.into(),
            ..AuthUserChangePasswordRequest::default()
        };
        self.call(Method::AuthUserChangePassword, request).await
    }

    /// Gives a user a role.
    pub async fn user_grant_role(
        &self,
        user: impl Into<String>,
        role: impl Into<String>,
    ) -> Result<AuthUserGrantRoleResponse> {
        let (user, role) = (user.into(), role.into());
        let request = AuthUserGrantRoleRequest { user, role };
        self.call(Method::AuthUserGrantRole, request).await
    }

    /// Takes a role from a user.
    pub async fn user_revoke_role(
        &self,
        user: impl Into<String>,
        role: impl Into<String>,
    ) -> Result<AuthUserRevokeRoleResponse> {
        let (name, role) = (user.into(), role.into());
        let request = AuthUserRevokeRoleRequest { name, role };
        self.call(Method::AuthUserRevokeRole, request).await
    }

    /// Adds a role.
    pub async fn role_add(&self, name: impl Into<String>) -> Result<AuthRoleAddResponse> {
        let request = AuthRoleAddRequest { name: name.into() };
        self.call(Method::AuthRoleAdd, request).await
    }

    /// Deletes a role, and takes it from all users.
    pub async fn role_delete(&self, role: impl Into<String>) -> Result<AuthRoleDeleteResponse> {
        let request = AuthRoleDeleteRequest { role: role.into() };
        self.call(Method::AuthRoleDelete, request).await
    }

    /// The permissions of a role.
    pub async fn role_get(&self, role: impl Into<String>) -> Result<AuthRoleGetResponse> {
        let request = AuthRoleGetRequest { role: role.into() };
        self.call(Method::AuthRoleGet, request).await
    }

    /// All roles.
    pub async fn role_list(&self) -> Result<AuthRoleListResponse> {
        self.call(Method::AuthRoleList, AuthRoleListRequest {})
            .await
    }

    /// Lets a role read or write keys.
    pub async fn role_grant_permission(
        &self,
        role: impl Into<String>,
        permission: Permission,
    ) -> Result<AuthRoleGrantPermissionResponse> {
        let request = AuthRoleGrantPermissionRequest {
            name: role.into(),
            perm: Some(permission),
        };
        self.call(Method::AuthRoleGrantPermission, request).await
    }

    /// Takes the permission for exactly these keys from a role: `range_end` is as it was granted.
    pub async fn role_revoke_permission(
        &self,
        role: impl Into<String>,
        key: impl Into<Bytes>,
        range_end: impl Into<Bytes>,
    ) -> Result<AuthRoleRevokePermissionResponse> {
        let request = AuthRoleRevokePermissionRequest {
            role: role.into(),
            key: key.into(),
            range_end: range_end.into(),
        };
        self.call(Method::AuthRoleRevokePermission, request).await
    }
}
