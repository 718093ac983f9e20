//! What is not gRPC.

use super::fake::*;
use crate::transport::*;
use bytes::Bytes;
use std::sync::Arc;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpStream, UnixStream};

async fn exchange(server: &Server, request: &str) -> String {
    let mut socket = TcpStream::connect(server.address).await.unwrap();
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut response = String::new();
    socket.read_to_string(&mut response).await.unwrap();
    response
}

#[tokio::test]
async fn http_1_is_served_on_the_same_port() {
    let server = Server::start();
    let response = exchange(
        &server,
        "GET /health HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(
        response.starts_with("HTTP/1.1 200 OK\r\n") && response.ends_with("GET /health 0"),
        "{response}"
    );
    let request = "POST /v3/kv/put HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 5\r\n\r\nhello";
    assert!(
        exchange(&server, request)
            .await
            .ends_with("POST /v3/kv/put 5")
    );
    // Not everything that begins like HTTP/2 is.
    let response = exchange(
        &server,
        "PROPFIND / HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n",
    )
    .await;
    assert!(response.ends_with("PROPFIND / 0"), "{response}");
    let client = server.client().await;
    assert_eq!(call(&client, "/t.T/Echo", b"x").await.answer(), b"x");
}

#[tokio::test]
async fn bodies_above_the_limit_are_refused() {
    let limits = Limits {
        http_body_bytes_max: 1000,
        plain_http2: true,
        ..Limits::default()
    };
    let server = Server::with(limits);
    let request = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nconnection: close\r\ncontent-length: 1001\r\n\r\n{}",
        "x".repeat(1001)
    );
    assert!(
        exchange(&server, &request)
            .await
            .starts_with("HTTP/1.1 413")
    );
    let client = server.client().await;
    let plain = with_headers("/", &[("content-type", "text/plain")]);
    let outcome = call_request(&client, plain, vec![1; 1001].into())
        .await
        .unwrap();
    assert_eq!(outcome.http, 413);
}

#[tokio::test]
async fn plain_requests_over_http_2_are_served_where_allowed() {
    let limits = Limits {
        plain_http2: true,
        ..Limits::default()
    };
    let server = Server::with(limits);
    let client = server.client().await;
    let plain = |path| with_headers(path, &[("content-type", "application/json")]);
    let outcome = call_request(&client, plain("/v3/kv/range"), Bytes::from_static(b"{}"))
        .await
        .unwrap();
    assert_eq!(
        (outcome.http, &outcome.data[..]),
        (200, &b"POST /v3/kv/range 2"[..])
    );
    assert!(!outcome.headers.contains_key("connection"));
    let outcome = call_request(&client, plain("/long"), Bytes::new())
        .await
        .unwrap();
    assert_eq!(outcome.data.len(), 3_000_000);
    assert_eq!(call(&client, "/t.T/Echo", b"x").await.answer(), b"x");
}

#[tokio::test]
async fn a_unix_socket_serves_as_well() {
    let server = Server::start();
    let path = std::env::temp_dir().join(format!("quorate-transport-{}.sock", std::process::id()));
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let endpoint = Endpoint {
        service: Arc::new(Fake::new(events)),
        limits: Arc::default(),
        secure: None,
    };
    server
        .transport
        .listen(Listener::Unix(listener), endpoint)
        .unwrap();
    let socket = UnixStream::connect(&path).await.unwrap();
    std::fs::remove_file(&path).unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move {
        // Ends with the server's.
        let _ended = connection.await;
    });
    assert_eq!(call(&client, "/t.T/Echo", b"x").await.answer(), b"x");
    let outcome = call(&client, "/t.T/Context", b"").await;
    assert!(outcome.answer().ends_with(b"false"));
}

struct Fussy;

impl Secure for Fussy {
    fn secure(&self, socket: Socket, mut peer: Peer) -> Secured {
        Box::pin(async move {
            let Socket::Tcp(mut socket) = socket else {
                panic!("TCP is served")
            };
            let mut hello = [0; 5];
            socket.read_exact(&mut hello).await?;
            if &hello != b"hello" {
                return Err(std::io::ErrorKind::PermissionDenied.into());
            }
            peer.tls = Some(TlsIdentity {
                common_name: "root".to_owned(),
            });
            Ok((Box::new(socket) as BoxedDuplex, peer))
        })
    }
}

#[tokio::test]
async fn a_handshake_comes_first_where_there_is_one() {
    let server = Server::start();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (events, _heard) = tokio::sync::mpsc::unbounded_channel();
    let secure: Arc<dyn Secure> = Arc::new(Fussy);
    let endpoint = Endpoint {
        service: Arc::new(Fake::new(events)),
        limits: Arc::default(),
        secure: Some(secure),
    };
    server
        .transport
        .listen(Listener::Tcp(listener), endpoint)
        .unwrap();
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"hello").await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(async move {
        // Ends with the server's.
        let _ended = connection.await;
    });
    assert_eq!(call(&client, "/t.T/Echo", b"x").await.answer(), b"x");
    let mut socket = TcpStream::connect(address).await.unwrap();
    socket.write_all(b"hallo").await.unwrap();
    assert_eq!(socket.read(&mut [0; 1]).await.unwrap(), 0);
}
