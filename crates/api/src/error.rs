//! The errors that a client of etcd can meet: the one table of gRPC codes and texts.
//!
//! Source: etcd 3.7.3, package rpctypes. Clients compare the texts, so they are part of the wire.

/// gRPC status codes (google.rpc.Code).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Code {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

macro_rules! errors {
    ($($id:ident, $code:ident, $text:literal;)*) => {
        /// An error with a fixed code and text.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs)]
        pub enum Error { $($id,)* }

        impl Error {
            /// Every error of the table.
            pub const ALL: &'static [Error] = &[$(Error::$id,)*];

            /// The gRPC code it travels with.
            pub const fn code(self) -> Code {
                match self { $(Error::$id => Code::$code,)* }
            }

            /// The text it travels with.
            pub const fn text(self) -> &'static str {
                match self { $(Error::$id => $text,)* }
            }
        }
    };
}

errors! {
    EmptyKey, InvalidArgument, "etcdserver: key is not provided";
    KeyNotFound, InvalidArgument, "etcdserver: key not found";
    ValueProvided, InvalidArgument, "etcdserver: value is provided";
    LeaseProvided, InvalidArgument, "etcdserver: lease is provided";
    TooManyOps, InvalidArgument, "etcdserver: too many operations in txn request";
    DuplicateKey, InvalidArgument, "etcdserver: duplicate key given in txn request";
    InvalidClientAPIVersion, InvalidArgument, "etcdserver: invalid client api version";
    InvalidSortOption, InvalidArgument, "etcdserver: invalid sort option";
    Compacted, OutOfRange, "etcdserver: mvcc: required revision has been compacted";
    FutureRev, OutOfRange, "etcdserver: mvcc: required revision is a future revision";
    NoSpace, ResourceExhausted, "etcdserver: mvcc: database space exceeded";
    LeaseNotFound, NotFound, "etcdserver: requested lease not found";
    LeaseExist, FailedPrecondition, "etcdserver: lease already exists";
    LeaseTTLTooLarge, OutOfRange, "etcdserver: too large lease TTL";
    WatchCanceled, Cancelled, "etcdserver: watch canceled";
    MemberExist, FailedPrecondition, "etcdserver: member ID already exist";
    PeerURLExist, FailedPrecondition, "etcdserver: Peer URLs already exists";
    MemberNotEnoughStarted, FailedPrecondition, "etcdserver: re-configuration failed due to not enough started members";
    MemberBadURLs, InvalidArgument, "etcdserver: given member URLs are invalid";
    MemberNotFound, NotFound, "etcdserver: member not found";
    MemberNotLearner, FailedPrecondition, "etcdserver: can only promote a learner member";
    LearnerNotReady, FailedPrecondition, "etcdserver: can only promote a learner member which is in sync with leader";
    TooManyLearners, FailedPrecondition, "etcdserver: too many learner members in cluster";
    ClusterIDMismatch, FailedPrecondition, "etcdserver: cluster ID mismatch";
    RequestTooLarge, InvalidArgument, "etcdserver: request is too large";
    RequestTooManyRequests, ResourceExhausted, "etcdserver: too many requests";
    RootUserNotExist, FailedPrecondition, "etcdserver: root user does not exist";
    RootRoleNotExist, FailedPrecondition, "etcdserver: root user does not have root role";
    UserAlreadyExist, FailedPrecondition, "etcdserver: user name already exists";
    UserEmpty, InvalidArgument, "etcdserver: user name is empty";
    UserNotFound, FailedPrecondition, "etcdserver: user name not found";
    RoleAlreadyExist, FailedPrecondition, "etcdserver: role name already exists";
    RoleNotFound, FailedPrecondition, "etcdserver: role name not found";
    RoleEmpty, InvalidArgument, "etcdserver: role name is empty";
    AuthFailed, InvalidArgument, "etcdserver: authentication failed, invalid user ID or password";
    PermissionNotGiven, InvalidArgument, "etcdserver: permission not given";
    PermissionDenied, PermissionDenied, "etcdserver: permission denied";
    RoleNotGranted, FailedPrecondition, "etcdserver: role is not granted to the user";
    PermissionNotGranted, FailedPrecondition, "etcdserver: permission is not granted to the role";
    AuthNotEnabled, FailedPrecondition, "etcdserver: authentication is not enabled";
    InvalidAuthToken, Unauthenticated, "etcdserver: invalid auth token";
    InvalidAuthMgmt, InvalidArgument, "etcdserver: invalid auth management";
    AuthOldRevision, InvalidArgument, "etcdserver: revision of auth store is old";
    NoLeader, Unavailable, "etcdserver: no leader";
    NotLeader, FailedPrecondition, "etcdserver: not leader";
    LeaderChanged, Unavailable, "etcdserver: leader changed";
    NotCapable, FailedPrecondition, "etcdserver: not capable";
    Stopped, Unavailable, "etcdserver: server stopped";
    Timeout, Unavailable, "etcdserver: request timed out";
    TimeoutDueToLeaderFail, Unavailable, "etcdserver: request timed out, possibly due to previous leader failure";
    TimeoutDueToConnectionLost, Unavailable, "etcdserver: request timed out, possibly due to connection lost";
    TimeoutLeaderTransfer, Unknown, "etcdserver: request timed out, leader transfer took too long";
    TimeoutWaitAppliedIndex, Unavailable, "etcdserver: request timed out, waiting for the applied index took too long";
    Unhealthy, Unavailable, "etcdserver: unhealthy cluster";
    Corrupt, DataLoss, "etcdserver: corrupt cluster";
    NotSupportedForLearner, FailedPrecondition, "etcdserver: rpc not supported for learner";
    BadLeaderTransferee, FailedPrecondition, "etcdserver: bad leader transferee";
    WrongDowngradeVersionFormat, InvalidArgument, "etcdserver: wrong downgrade target version format";
    InvalidDowngradeTargetVersion, InvalidArgument, "etcdserver: invalid downgrade target version";
    ClusterVersionUnavailable, FailedPrecondition, "etcdserver: cluster version not found during downgrade";
    DowngradeInProcess, FailedPrecondition, "etcdserver: cluster has a downgrade job in progress";
    NoInflightDowngrade, FailedPrecondition, "etcdserver: no inflight downgrade job";
    Canceled, Cancelled, "etcdserver: request canceled";
    DeadlineExceeded, DeadlineExceeded, "etcdserver: context deadline exceeded";
}

impl std::fmt::Display for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_distinct() {
        let mut texts: Vec<_> = Error::ALL.iter().map(|e| e.text()).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), Error::ALL.len());
    }
}
