//! One HTTP/2 connection to one endpoint: made, probed with pings, and lent to calls.
//!
//! Invariant: an error says whether the request can have reached the server. [`Broken::unsent`] is
//! true only where hyper gave the request back, or the server refused its stream (RFC 9113,
//! 8.7: such a request was not processed).

use crate::address::{Address, Target};
use crate::error::chain;
use crate::greeting::Greeted;
use crate::options::{Options, Tls};
use crate::transport::Transport;
use crate::{Error, Result, tls};
use http::Uri;
use hyper::body::Incoming;
use hyper::client::conn::http2::{Builder, Connection, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::net::{TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;
use tonic::body::Body;

/// Servers take more frequent pings for an attack; gRPC's clients have the same bound.
const PING_EVERY_MIN: Duration = Duration::from_secs(10);

/// HTTP/2, as a TLS handshake names it.
const HTTP2: &[u8] = b"h2";

/// Makes connections to one endpoint.
#[derive(Debug)]
pub(crate) struct Dialer {
    address: Address,
    origin: Uri,
    tls: Option<Tls>,
    options: Arc<Options>,
}

/// The half of a connection that moves its bytes; to be polled until it ends.
pub(crate) type Driver =
    Pin<Box<Connection<TokioIo<Greeted<Box<dyn Transport>>>, Body, TokioExecutor>>>;

impl Dialer {
    /// A dialer of this endpoint; its TLS files are read once to see that they can be used.
    pub(crate) fn new(text: &str, options: &Arc<Options>) -> Result<Dialer> {
        let address = Address::parse(text)?;
        let secure = address.is_secure(options.tls.is_some());
        let dialer = Dialer {
            origin: address.origin(secure)?,
            tls: secure.then(|| options.tls.clone().unwrap_or_default()),
            options: options.clone(),
            address,
        };
        if let Some(files) = &dialer.tls {
            tls::configuration(files, HTTP2)?;
            dialer.server_name(files)?;
        }
        Ok(dialer)
    }

    pub(crate) fn endpoint(&self) -> &str {
        &self.address.text
    }

    /// Whether its connections are encrypted.
    pub(crate) fn is_secure(&self) -> bool {
        self.tls.is_some()
    }

    /// How long a connection may take to come up.
    pub(crate) fn limit(&self) -> Duration {
        self.options.connect_timeout
    }

    /// Scheme and authority for requests.
    pub(crate) fn origin(&self) -> &Uri {
        &self.origin
    }

    /// Connects; what goes wrong is told as text, for it is known by no code.
    pub(crate) async fn dial(&self) -> std::result::Result<(Lane, Driver), String> {
        let limit = self.options.connect_timeout;
        match tokio::time::timeout(limit, self.connect()).await {
            Ok(made) => made,
            Err(_) => Err(format!("no connection within {limit:?}")),
        }
    }

    /// A stream of bytes to the endpoint, secured where it is to be, that speaks this protocol.
    pub(crate) async fn open(
        &self,
        protocol: &'static [u8],
    ) -> std::result::Result<Box<dyn Transport>, String> {
        let plain = self.reach().await?;
        let Some(files) = &self.tls else {
            return Ok(plain);
        };
        let (files, name) = (files.clone(), self.server_name(files));
        // Files are read on a thread that may wait for them.
        let read = tokio::task::spawn_blocking(move || tls::configuration(&files, protocol));
        let configuration: Arc<ClientConfig> = read
            .await
            .map_err(|error| error.to_string())?
            .map_err(|error| chain(&error))?;
        let name = name.map_err(|error| chain(&error))?;
        let secured = TlsConnector::from(configuration)
            .connect(name, plain)
            .await
            .map_err(|error| format!("TLS handshake: {error}"))?;
        Ok(Box::new(secured))
    }

    async fn connect(&self) -> std::result::Result<(Lane, Driver), String> {
        let stream = self.open(HTTP2).await?;
        let (stream, heard) = Greeted::new(stream);
        let (sender, driver) = self
            .http2()
            .handshake(TokioIo::new(stream))
            .await
            .map_err(|error| chain(&error))?;
        let mut driver = Box::pin(driver);
        tokio::select! {
            () = heard.notified() => {}
            ended = &mut driver => {
                return Err(match ended {
                    Ok(()) => "the server closed the connection".to_owned(),
                    Err(error) => chain(&error),
                });
            }
        }
        let lane = Lane {
            sender,
            origin: self.origin.clone(),
        };
        Ok((lane, driver))
    }

    async fn reach(&self) -> std::result::Result<Box<dyn Transport>, String> {
        if let Some(connector) = &self.options.connector {
            let endpoint = &self.address.text;
            let connecting = connector.connect(endpoint);
            return connecting
                .await
                .map_err(|error| format!("dial {endpoint}: {error}"));
        }
        match &self.address.target {
            Target::Tcp { host, port } => {
                let stream = TcpStream::connect((host.as_str(), *port))
                    .await
                    .map_err(|error| format!("dial tcp {host}:{port}: {error}"))?;
                // It only costs latency if it cannot be set.
                let _ = stream.set_nodelay(true);
                Ok(Box::new(stream))
            }
            Target::Unix(path) => {
                let stream = UnixStream::connect(path)
                    .await
                    .map_err(|error| format!("dial unix {}: {error}", path.display()))?;
                Ok(Box::new(stream))
            }
        }
    }

    fn http2(&self) -> Builder<TokioExecutor> {
        let mut http2 = Builder::new(TokioExecutor::new());
        http2
            .timer(TokioTimer::new())
            .initial_stream_window_size(self.options.stream_window_bytes)
            .initial_connection_window_size(self.options.connection_window_bytes)
            .keep_alive_interval(
                self.options
                    .keepalive_time
                    .map(|time| time.max(PING_EVERY_MIN)),
            )
            .keep_alive_timeout(self.options.keepalive_timeout)
            .keep_alive_while_idle(self.options.keepalive_while_idle);
        http2
    }

    fn server_name(&self, files: &Tls) -> Result<ServerName<'static>> {
        let name = files.server_name.as_ref().unwrap_or(&self.address.host);
        ServerName::try_from(name.clone()).map_err(|error| Error::Endpoint {
            endpoint: self.address.text.clone(),
            reason: format!("{name}: {error}"),
        })
    }
}

/// A connection, as calls use it; clones share it.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    sender: SendRequest<Body>,
    origin: Uri,
}

impl Lane {
    pub(crate) fn is_closed(&self) -> bool {
        self.sender.is_closed()
    }

    /// Scheme and authority for its requests.
    pub(crate) fn origin(&self) -> Uri {
        self.origin.clone()
    }
}

/// A request that got no answer.
#[derive(Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Broken {
    /// The server has not seen it, or said that it did nothing with it.
    pub(crate) unsent: bool,
    reason: String,
}

type Answer = std::result::Result<http::Response<Incoming>, Broken>;

impl tonic::client::GrpcService<Body> for Lane {
    type ResponseBody = Incoming;
    type Error = Broken;
    type Future = Pin<Box<dyn Future<Output = Answer> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<std::result::Result<(), Broken>> {
        self.sender.poll_ready(context).map_err(|error| Broken {
            unsent: true,
            reason: chain(&error),
        })
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let sent = self.sender.try_send_request(request);
        Box::pin(async move {
            sent.await.map_err(|error| Broken {
                unsent: error.message().is_some() || was_refused(error.error()),
                reason: chain(error.error()),
            })
        })
    }
}

/// Whether the server refused the stream before it looked at it.
fn was_refused(error: &hyper::Error) -> bool {
    std::error::Error::source(error)
        .and_then(|source| source.downcast_ref::<h2::Error>())
        .is_some_and(|error| {
            error.is_remote() && error.reason() == Some(h2::Reason::REFUSED_STREAM)
        })
}
