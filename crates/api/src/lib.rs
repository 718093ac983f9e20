//! The wire: etcd's messages, methods and errors.
//!
//! Message types come from the .proto files in `proto/` (same names and numbers as etcd's); bytes
//! fields are [`bytes::Bytes`], so a decoded request shares the buffer it came in: copy what is
//! kept. Knows nothing of storage, consensus or transport.

pub mod error;
pub mod internal;
pub mod methods;

pub use error::{Code, Error};
pub use methods::Method;

/// The compiled .proto files (a google.protobuf.FileDescriptorSet).
pub const DESCRIPTORS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/descriptors.bin"));

macro_rules! package {
    ($(#[$doc:meta])* $name:ident, $file:literal) => {
        $(#[$doc])*
        #[allow(missing_docs, clippy::all, unused_qualifications)]
        pub mod $name {
            include!(concat!(env!("OUT_DIR"), "/", $file, ".rs"));
        }
    };
}

package!(/** Client services and raft requests. */ etcdserverpb, "etcdserverpb");
package!(/** Keys and events. */ mvccpb, "mvccpb");
package!(/** Auth as stored. */ authpb, "authpb");
package!(/** Membership as stored and proposed. */ membershippb, "membershippb");
package!(/** Leases as stored. */ leasepb, "leasepb");
package!(/** The lock service. */ v3lockpb, "v3lockpb");
package!(/** The election service. */ v3electionpb, "v3electionpb");
package!(/** gRPC health checking. */ health, "grpc.health.v1");
