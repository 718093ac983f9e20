//! The endpoints of a lone member, byte for byte as etcd 3.7.3 answers them.

use super::PeerApi;
use super::members::CLUSTER_ID_HEADER;
use crate::config::Config;
use crate::lone::Lone;
use bytes::Bytes;
use http::{Method, Request};
use http_body_util::BodyExt;
use prost::Message;
use quorate_api::etcdserverpb::{
    InternalRaftRequest, LeaseGrantRequest, LeaseKeepAliveRequest, LeaseKeepAliveResponse,
    LeaseTimeToLiveRequest, RequestHeader,
};
use quorate_api::leasepb::{LeaseInternalRequest, LeaseInternalResponse};
use quorate_node::{Proposal, ProposalKind};
use std::time::Duration;

struct Asked {
    lone: Lone,
    api: PeerApi,
}

/// A member that has begun to serve, named and reached as in etcd's recorded answers.
fn lone() -> Asked {
    let arguments = [
        "--data-dir=/m",
        "--listen-peer-urls=http://127.0.0.1:42380",
        "--initial-advertise-peer-urls=http://127.0.0.1:42380",
        "--initial-cluster=default=http://127.0.0.1:42380",
        "--listen-client-urls=http://127.0.0.1:42379",
        "--advertise-client-urls=http://127.0.0.1:42379",
    ];
    let config = Config::parse(arguments.map(str::to_owned).into_iter(), |_| None).unwrap();
    let lone = Lone::start(&config, Duration::from_secs(3600));
    let api = PeerApi::new(lone.peers.clone());
    Asked { lone, api }
}

/// Status, content type, cluster id and body.
type Answer = (u16, String, String, Bytes);

impl Asked {
    fn ask(&self, method: Method, path: &str, body: impl Into<Bytes>) -> Answer {
        self.ask_as(method, path, body, "")
    }

    fn ask_as(
        &self,
        method: Method,
        path: &str,
        body: impl Into<Bytes>,
        cluster: &'static str,
    ) -> Answer {
        let mut request = Request::new(body.into());
        *request.method_mut() = method;
        *request.uri_mut() = path.parse().unwrap();
        let cluster = http::HeaderValue::from_static(cluster);
        request.headers_mut().insert(CLUSTER_ID_HEADER, cluster);
        self.lone.runtime.block_on(async {
            let answer = self.api.serve(request).await;
            let header = |name: &str| {
                let value = answer.headers().get(name);
                value.map_or("", |value| value.to_str().unwrap()).to_owned()
            };
            let (kind, cluster) = (header("content-type"), header(CLUSTER_ID_HEADER));
            let status = answer.status().as_u16();
            let body = answer.into_body().collect().await.unwrap().to_bytes();
            (status, kind, cluster, body)
        })
    }

    /// Status and text.
    fn text(&self, method: Method, path: &str, body: &'static str) -> (u16, String) {
        let (status, _, _, body) = self.ask(method, path, body);
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    fn grant(&self, id: i64, ttl: i64) {
        let handle = &self.lone.started.handle;
        let request_id = handle.draw_id();
        let request = InternalRaftRequest {
            header: Some(RequestHeader {
                id: request_id,
                ..Default::default()
            }),
            lease_grant: Some(LeaseGrantRequest { id, ttl }),
            ..Default::default()
        };
        let granted = handle.done(move |member, waiter| {
            member.propose(vec![Proposal {
                id: request_id,
                data: request.encode_to_vec().into(),
                token: Some(waiter),
                kind: ProposalKind::Ordinary,
            }]);
        });
        self.lone.runtime.block_on(granted).unwrap();
    }
}

#[test]
fn what_a_lone_member_answers() {
    let lone = lone();
    let (get, post) = (|| Method::GET, || Method::POST);
    assert_eq!(
        lone.ask(get(), "/members", ""),
        (
            200,
            "application/json".into(),
            "dc50b8daae93b3e0".into(),
            Bytes::from_static(
                b"[{\"id\":7383792418829112008,\"peerURLs\":[\"http://127.0.0.1:42380\"],\
                \"name\":\"default\",\"clientURLs\":[\"http://127.0.0.1:42379\"]}]\n"
            )
        )
    );
    assert_eq!(
        lone.ask(get(), "/downgrade/enabled", ""),
        (
            200,
            "text/plain".into(),
            "dc50b8daae93b3e0".into(),
            Bytes::from_static(b"false")
        )
    );
    let (status, kind, cluster, body) = lone.ask(get(), "/members/hashkv", "{}");
    assert_eq!(
        (status, kind.as_str(), cluster.as_str()),
        (200, "application/json", "dc50b8daae93b3e0")
    );
    assert_eq!(
        body,
        r#"{"header":{"revision":1},"hash":1084519789,"compact_revision":-1,"hash_revision":1}"#
    );
    let not_allowed = (405, "Method Not Allowed\n".to_owned());
    let not_found = (404, "404 page not found\n".to_owned());
    for path in [
        "/members",
        "/version",
        "/downgrade/enabled",
        "/members/hashkv",
    ] {
        assert_eq!(lone.text(post(), path, ""), not_allowed, "{path}");
    }
    for path in ["/leases", "/leases/internal", "/members/promote/1"] {
        assert_eq!(lone.text(get(), path, ""), not_allowed, "{path}");
    }
    for path in ["/", "/nope", "/members/", "/downgrade/enabled/x", "/raft"] {
        assert_eq!(lone.text(get(), path, ""), not_found, "{path}");
    }
    let versions = r#"{"etcdserver":"3.7.3","etcdcluster":"3.7.0","storage":"3.7.0"}"#;
    assert_eq!(lone.text(get(), "/version", ""), (200, versions.to_owned()));
}

#[test]
fn what_is_refused() {
    let lone = lone();
    let told = |method: Method, path: &str, body: &'static str, status: u16, text: &str| {
        let expected = (status, format!("{text}\n"));
        assert_eq!(lone.text(method, path, body), expected, "{path} {body:?}");
    };
    let (get, post) = (|| Method::GET, || Method::POST);
    let unreadable = "error unmarshalling request";
    told(get(), "/members/hashkv", "", 400, unreadable);
    told(
        get(),
        "/members/hashkv",
        r#"{"revision":100}"#,
        400,
        "mvcc: required revision is a future revision",
    );
    let other = lone.ask_as(Method::GET, "/members/hashkv", "{}", "1");
    assert_eq!(
        (other.0, &other.3[..]),
        (412, &b"cluster ID mismatch\n"[..])
    );
    let same = lone.ask_as(Method::GET, "/members/hashkv", "{}", "dc50b8daae93b3e0");
    assert_eq!(same.0, 200);
    let wide = "a long request that nobody sends ".repeat(2048);
    let large = lone.ask(Method::POST, "/leases", wide);
    assert_eq!(
        (large.0, &large.3[..]),
        (413, &b"request body too large\n"[..])
    );
    told(post(), "/leases", "\u{7f}", 400, unreadable);
    told(post(), "/leases", "\u{8}\u{5}", 404, "lease not found");
    told(post(), "/leases/internal", "", 400, unreadable);
    let unknown = "\u{a}\u{2}\u{8}\u{5}";
    told(post(), "/leases/internal", unknown, 404, "lease not found");
    told(
        post(),
        "/members/promote/zz",
        "",
        404,
        "member zz not found in cluster",
    );
}

#[test]
fn leases_are_renewed_and_told() {
    let lone = lone();
    lone.grant(5, 600);
    let renew = LeaseKeepAliveRequest { id: 5 }.encode_to_vec();
    let (status, kind, _, body) = lone.ask(Method::POST, "/leases", renew);
    assert_eq!((status, kind.as_str()), (200, "application/protobuf"));
    let renewed = LeaseKeepAliveResponse::decode(body).unwrap();
    assert_eq!((renewed.id, renewed.ttl), (5, 600));

    let question = LeaseInternalRequest {
        lease_time_to_live_request: Some(LeaseTimeToLiveRequest { id: 5, keys: true }),
    };
    let (status, _, _, body) = lone.ask(Method::POST, "/leases/internal", question.encode_to_vec());
    assert_eq!(status, 200);
    let told = LeaseInternalResponse::decode(body).unwrap();
    let told = told.lease_time_to_live_response.unwrap();
    assert_eq!((told.id, told.granted_ttl), (5, 600));
    assert!((1..=600).contains(&told.ttl));

    // The leader itself needs nobody.
    let renewed = lone
        .lone
        .runtime
        .block_on(lone.lone.peers.renew_lease(5, false));
    assert_eq!(renewed, Ok(600));
}
