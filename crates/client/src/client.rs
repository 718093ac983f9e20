//! The channel and the three shapes of a call.

use crate::codec::Messages;
use crate::error::chain;
use crate::{Error, Result};
use http::uri::PathAndQuery;
use prost::Message;
use quorate_api::Method;
use std::time::Duration;
use tokio_stream::Stream;
use tonic::client::Grpc;
use tonic::transport::{Channel, Endpoint};
use tonic::{Request, Streaming};

/// How to connect.
#[derive(Clone, Debug)]
pub struct Options {
    /// How long a connection may take to come up.
    pub connect_timeout: Duration,
    /// The HTTP/2 window of one stream, in bytes.
    pub stream_window_bytes: u32,
    /// The HTTP/2 window of a connection, in bytes.
    pub connection_window_bytes: u32,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            connect_timeout: Duration::from_secs(5),
            stream_window_bytes: 1 << 20,
            connection_window_bytes: 4 << 20,
        }
    }
}

/// A handle on a server or a cluster; clones share the connections.
#[derive(Clone, Debug)]
pub struct Client {
    channel: Channel,
}

impl Client {
    /// A client of these endpoints, `http://host:port` or `host:port` each; with several, calls
    /// are spread over those that can be reached. Connections are made when first needed, within
    /// the Tokio runtime that this is called in.
    pub fn new(endpoints: &[&str], options: &Options) -> Result<Client> {
        let mut parsed = endpoints
            .iter()
            .map(|text| endpoint(text, options))
            .collect::<Result<Vec<Endpoint>>>()?;
        let channel = match parsed.len() {
            0 => return Err(Error::NoEndpoint),
            1 => parsed.remove(0).connect_lazy(),
            _ => Channel::balance_list(parsed.into_iter()),
        };
        Ok(Client { channel })
    }

    /// One request, one answer.
    pub async fn call<Q, A>(&self, method: Method, request: Q) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(method).await?;
        let codec = Messages::<Q, A>::new();
        grpc.unary(Request::new(request), path(method), codec)
            .await
            .map(tonic::Response::into_inner)
            .map_err(|status| Error::from_status(method.path(), &status))
    }

    /// One request, a stream of answers. Returns when the server has begun to answer.
    pub async fn receive<Q, A>(&self, method: Method, request: Q) -> Result<Answers<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let mut grpc = self.ready(method).await?;
        let codec = Messages::<Q, A>::new();
        grpc.server_streaming(Request::new(request), path(method), codec)
            .await
            .map(|response| Answers::new(method, response.into_inner()))
            .map_err(|status| Error::from_status(method.path(), &status))
    }

    /// A stream of requests, a stream of answers. Returns when the server has begun to answer,
    /// which it may do only after the first request.
    pub async fn exchange<Q, A, S>(&self, method: Method, requests: S) -> Result<Answers<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        let mut grpc = self.ready(method).await?;
        let codec = Messages::<Q, A>::new();
        grpc.streaming(Request::new(requests), path(method), codec)
            .await
            .map(|response| Answers::new(method, response.into_inner()))
            .map_err(|status| Error::from_status(method.path(), &status))
    }

    async fn ready(&self, method: Method) -> Result<Grpc<Channel>> {
        let mut grpc = Grpc::new(self.channel.clone())
            .max_decoding_message_size(usize::MAX)
            .max_encoding_message_size(usize::MAX);
        match grpc.ready().await {
            Ok(()) => Ok(grpc),
            Err(error) => Err(Error::Connection {
                method: method.path(),
                reason: chain(&error),
            }),
        }
    }
}

/// The answers of a streaming call.
#[derive(Debug)]
pub struct Answers<A> {
    method: Method,
    stream: Streaming<A>,
}

impl<A> Answers<A> {
    fn new(method: Method, stream: Streaming<A>) -> Answers<A> {
        Answers { method, stream }
    }

    /// The next answer; `None` when the server has ended the stream well.
    pub async fn next(&mut self) -> Result<Option<A>> {
        self.stream
            .message()
            .await
            .map_err(|status| Error::from_status(self.method.path(), &status))
    }

    /// The next answer, where the protocol has one.
    pub(crate) async fn expect(&mut self) -> Result<A> {
        self.next().await?.ok_or(Error::Ended {
            method: self.method.path(),
        })
    }
}

fn path(method: Method) -> PathAndQuery {
    PathAndQuery::from_static(method.path())
}

fn endpoint(text: &str, options: &Options) -> Result<Endpoint> {
    let url = match text.contains("://") {
        true => text.to_owned(),
        false => format!("http://{text}"),
    };
    let refused = |reason: String| Error::Endpoint {
        endpoint: text.to_owned(),
        reason,
    };
    if !url.starts_with("http://") {
        return Err(refused("only http:// is spoken".to_owned()));
    }
    let endpoint = Endpoint::from_shared(url).map_err(|error| refused(chain(&error)))?;
    if endpoint.uri().host().is_none_or(str::is_empty) {
        return Err(refused("it names no host".to_owned()));
    }
    Ok(endpoint
        .connect_timeout(options.connect_timeout)
        .initial_stream_window_size(options.stream_window_bytes)
        .initial_connection_window_size(options.connection_window_bytes)
        .tcp_nodelay(true))
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::{StatusRequest, StatusResponse};

    fn client(endpoints: &[&str]) -> Result<Client> {
        Client::new(endpoints, &Options::default())
    }

    #[tokio::test]
    async fn endpoints_are_checked() {
        assert!(matches!(client(&[]), Err(Error::NoEndpoint)));
        for bad in ["https://a:1", "ftp://a", "http://", "http://a b"] {
            let answer = client(&[bad]);
            assert!(
                matches!(&answer, Err(Error::Endpoint { endpoint, .. }) if endpoint == bad),
                "{bad}: {answer:?}"
            );
        }
        assert!(client(&["127.0.0.1:1", "http://localhost:2"]).is_ok());
    }

    #[tokio::test]
    async fn a_closed_port_is_a_connection_error() {
        // Bound and never listening: nobody else can be behind it.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket
            .bind("127.0.0.1:0".parse().expect("an address"))
            .expect("a free port");
        let address = socket.local_addr().expect("bound").to_string();
        let client = client(&[&address]).expect("an endpoint");
        let answer: Result<StatusResponse> = client
            .call(Method::MaintenanceStatus, StatusRequest::default())
            .await;
        assert!(
            matches!(&answer, Err(Error::Connection { method, .. }) if method.ends_with("/Status")),
            "{answer:?}"
        );
    }
}
