//! Whom the client trusts, and what it shows of itself.

use crate::fake::{Server, servers};
use quorate_client::api::etcdserverpb::RangeResponse;
use quorate_client::{Client, Error, Options, Retry, Tls};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio_rustls::rustls::crypto::aws_lc_rs;
use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{RootCertStore, ServerConfig};

pub fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/data")
        .join(name)
}

fn certificate(name: &str) -> CertificateDer<'static> {
    CertificateDer::from_pem_file(file(name)).unwrap()
}

/// A server with this certificate; with `client_ca`, only for clients that show one of it.
pub fn secured(name: &str, client_ca: Option<&str>) -> ServerConfig {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap();
    let builder = match client_ca {
        None => builder.with_no_client_auth(),
        Some(ca) => {
            let mut roots = RootCertStore::empty();
            roots.add(certificate(ca)).unwrap();
            let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
            builder.with_client_cert_verifier(verifier.build().unwrap())
        }
    };
    let key = PrivateKeyDer::from_pem_file(file(&format!("{name}.key"))).unwrap();
    let mut config = builder
        .with_single_cert(vec![certificate(&format!("{name}.pem"))], key)
        .unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    config
}

pub fn trusting(ca: &Path) -> Tls {
    Tls {
        ca_file: Some(ca.to_owned()),
        ..Tls::default()
    }
}

fn client(endpoint: &str, options: &Options, tls: Tls) -> Client {
    let options = Options {
        tls: Some(tls),
        wait_for_ready: false,
        retry: Retry {
            attempts_max: 1,
            ..Retry::default()
        },
        ..options.clone()
    };
    Client::new(&[endpoint], &options).unwrap()
}

/// Whether a call gets through.
async fn reaches(client: &Client, server: &mut Server) -> bool {
    let answer = client.get("k");
    let mut answer = std::pin::pin!(answer);
    let answer = tokio::select! {
        answer = &mut answer => answer,
        call = server.call() => {
            call.reply(RangeResponse::default());
            answer.await
        }
    };
    match answer {
        Ok(_) => true,
        Err(Error::Connection { .. }) => false,
        Err(error) => panic!("{error:?}"),
    }
}

#[tokio::test]
async fn a_server_must_be_of_a_trusted_root_and_have_the_name() {
    let endpoints = ["https://127.0.0.1:1", "https://127.0.0.2:1", "etcd.test:1"];
    let ([mut right, mut wrong, mut named], options) = servers(endpoints);
    for server in [&right, &wrong, &named] {
        server.secure(secured("server", None));
    }
    let (ca, other) = (file("ca.pem"), file("other-ca.pem"));
    let to = |endpoint: usize, tls| client(endpoints[endpoint], &options, tls);
    assert!(reaches(&to(0, trusting(&ca)), &mut right).await);
    assert!(reaches(&to(2, trusting(&ca)), &mut named).await);
    assert!(!reaches(&to(1, trusting(&ca)), &mut wrong).await);
    assert!(!reaches(&to(0, trusting(&other)), &mut right).await);
    let renamed = Tls {
        server_name: Some("etcd.test".to_owned()),
        ..trusting(&ca)
    };
    assert!(reaches(&to(1, renamed), &mut wrong).await);
    let unverified = Tls {
        insecure_skip_verify: true,
        ..trusting(&other)
    };
    assert!(reaches(&to(1, unverified), &mut wrong).await);
}

#[tokio::test]
async fn a_certificate_may_be_its_own_root_for_its_own_name() {
    let endpoints = ["https://127.0.0.1:1", "https://127.0.0.2:1"];
    let ([mut right, mut wrong], options) = servers(endpoints);
    right.secure(secured("self", None));
    wrong.secure(secured("self", None));
    let tls = trusting(&file("self.pem"));
    assert!(reaches(&client(endpoints[0], &options, tls.clone()), &mut right).await);
    assert!(!reaches(&client(endpoints[1], &options, tls), &mut wrong).await);
}

#[tokio::test]
async fn a_client_shows_its_certificate() {
    let ([mut server], options) = servers(["https://127.0.0.1:1"]);
    server.secure(secured("server", Some("ca.pem")));
    let anonymous = client("https://127.0.0.1:1", &options, trusting(&file("ca.pem")));
    assert!(!reaches(&anonymous, &mut server).await);
    let known = Tls {
        cert_file: Some(file("client.pem")),
        key_file: Some(file("client.key")),
        ..trusting(&file("ca.pem"))
    };
    let known = client("https://127.0.0.1:1", &options, known);
    assert!(reaches(&known, &mut server).await);
}

#[tokio::test]
async fn files_are_read_for_every_connection() {
    let ([mut server], options) = servers(["https://127.0.0.1:1"]);
    server.secure(secured("server", None));
    let directory = std::env::temp_dir().join(format!("quorate-client-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let ca = directory.join("ca.pem");
    std::fs::copy(file("ca.pem"), &ca).unwrap();
    let reused = client("https://127.0.0.1:1", &options, trusting(&ca));
    assert!(reaches(&reused, &mut server).await);
    std::fs::copy(file("self.pem"), &ca).unwrap();
    server.secure(secured("self", None));
    server.break_connections();
    // The call may still meet the connection that is breaking.
    while !reaches(&reused, &mut server).await {
        tokio::task::yield_now().await;
    }
    std::fs::remove_dir_all(&directory).unwrap();
}

#[test]
fn files_that_cannot_be_used_are_named() {
    let missing = file("missing.pem");
    for (tls, named) in [
        (trusting(&missing), "missing.pem"),
        (trusting(&file("client.key")), "client.key"),
        (
            Tls {
                cert_file: Some(file("client.pem")),
                ..Tls::default()
            },
            "client.pem",
        ),
        (
            Tls {
                cert_file: Some(file("server.pem")),
                key_file: Some(file("client.key")),
                ..Tls::default()
            },
            "client.key",
        ),
    ] {
        let options = Options {
            tls: Some(tls),
            ..Options::default()
        };
        match Client::new(&["a:1"], &options) {
            Err(Error::Tls { file, .. }) => assert!(file.ends_with(named), "{file}"),
            other => panic!("{named}: {other:?}"),
        }
    }
}
