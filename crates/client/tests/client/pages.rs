//! Pages that a member serves beside its rpcs.

use crate::tls::{file, secured, trusting};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use quorate_client::{Client, Connecting, Connector, Error, Options, Transport};
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;

/// A member that serves pages only: what is asked for, behind the name that it is asked by.
#[derive(Debug, Default)]
struct Site {
    tls: Option<Arc<ServerConfig>>,
    /// It never answers.
    is_stuck: bool,
    /// It does not even shake hands.
    is_silent: bool,
    body_bytes: usize,
}

impl Connector for Site {
    fn connect<'a>(&'a self, _endpoint: &'a str) -> Connecting<'a> {
        Box::pin(async move {
            let (near, far) = tokio::io::duplex(1 << 16);
            let (tls, is_stuck, bytes) = (self.tls.clone(), self.is_stuck, self.body_bytes);
            let is_silent = self.is_silent;
            tokio::spawn(async move {
                if is_silent {
                    std::future::pending::<()>().await;
                }
                let far: Box<dyn Transport> = match tls {
                    None => Box::new(far),
                    Some(tls) => match TlsAcceptor::from(tls).accept(far).await {
                        Ok(secured) => Box::new(secured),
                        // The client has refused it, which the test sees there.
                        Err(_) => return,
                    },
                };
                let service = service_fn(move |request: Request<Incoming>| async move {
                    if is_stuck {
                        std::future::pending::<()>().await;
                    }
                    let host = request.headers()["host"].to_str().unwrap();
                    let text = format!("{host}{}{}", request.uri(), "x".repeat(bytes));
                    let mut page = Response::new(Full::new(Bytes::from(text)));
                    if request.uri() == "/health" {
                        *page.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
                    }
                    Ok::<_, Infallible>(page)
                });
                let http = hyper::server::conn::http1::Builder::new();
                // It ends when the client goes.
                let _ = http.serve_connection(TokioIo::new(far), service).await;
            });
            Ok(Box::new(near) as Box<dyn Transport>)
        })
    }
}

fn client(site: Site, options: Options) -> Client {
    let options = Options {
        connector: Some(Arc::new(site)),
        ..options
    };
    Client::new(&["unused:1"], &options).unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_page_comes_with_its_status() {
    let client = client(Site::default(), Options::default());
    let (status, page) = client.page("http://a:7", "/metrics").await.unwrap();
    assert_eq!((status, &page[..]), (StatusCode::OK, &b"a:7/metrics"[..]));
    let (status, page) = client.page("b:8", "/health").await.unwrap();
    assert_eq!(status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(page, "b:8/health");
}

#[tokio::test]
async fn a_page_comes_over_tls_from_who_is_trusted() {
    let page = async |ca: &str| {
        let mut tls = secured("server", None);
        tls.alpn_protocols = vec![b"http/1.1".to_vec(), b"h2".to_vec()];
        let site = Site {
            tls: Some(Arc::new(tls)),
            ..Site::default()
        };
        let options = Options {
            tls: Some(trusting(&file(ca))),
            ..Options::default()
        };
        client(site, options)
            .page("https://127.0.0.1:1", "/version")
            .await
    };
    let (status, text) = page("ca.pem").await.unwrap();
    assert_eq!(
        (status, &text[..]),
        (StatusCode::OK, &b"127.0.0.1:1/version"[..])
    );
    match page("other-ca.pem").await {
        Err(Error::Page { url, reason }) => {
            assert_eq!(url, "https://127.0.0.1:1/version");
            assert!(reason.starts_with("TLS handshake"), "{reason}");
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_page_that_does_not_come_or_does_not_end_is_given_up() {
    let stuck = Site {
        is_stuck: true,
        ..Site::default()
    };
    let stuck = client(stuck, Options::default()).with_timeout(Duration::from_secs(2));
    let endless = Site {
        body_bytes: 17 << 20,
        ..Site::default()
    };
    let endless = client(endless, Options::default());
    let silent = Site {
        is_silent: true,
        ..Site::default()
    };
    let silent = client(silent, Options::default());
    for (client, endpoint, why) in [
        (stuck, "a:1", "no answer within 2s"),
        (endless, "a:1", "length limit exceeded"),
        (silent, "https://a:1", "no connection within 5s"),
    ] {
        match client.page(endpoint, "/metrics").await {
            Err(Error::Page { reason, .. }) => assert!(reason.contains(why), "{reason}"),
            other => panic!("{:?}", other.map(|(status, page)| (status, page.len()))),
        }
    }
}
