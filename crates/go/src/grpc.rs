//! Names of gRPC's codes, as grpc-go prints them.

const NAMES: [&str; 17] = [
    "OK",
    "Canceled",
    "Unknown",
    "InvalidArgument",
    "DeadlineExceeded",
    "NotFound",
    "AlreadyExists",
    "PermissionDenied",
    "ResourceExhausted",
    "FailedPrecondition",
    "Aborted",
    "OutOfRange",
    "Unimplemented",
    "Internal",
    "Unavailable",
    "DataLoss",
    "Unauthenticated",
];

/// The name of a code; of a number that is none, that of the unknown one.
pub fn code_name(code: usize) -> &'static str {
    NAMES.get(code).copied().unwrap_or("Unknown")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_grpc_gos_names() {
        assert_eq!(code_name(0), "OK");
        assert_eq!(code_name(14), "Unavailable");
        assert_eq!(code_name(16), "Unauthenticated");
        assert_eq!(code_name(17), "Unknown");
    }
}
