//! Sockets to listen at, by their URLs.

use crate::config::{Endpoint, ListenAddress};
use crate::transport::Listener;
use quorate_go::system;
use std::io::{self, ErrorKind};
use std::net::{TcpListener, ToSocketAddrs};
use std::os::unix::net::UnixListener;

/// A socket could not be listened at.
#[derive(Debug, thiserror::Error)]
#[error("listen {at}: {action}: {}", system::text(source))]
pub struct ListenError {
    /// Network and address.
    pub at: String,
    /// What was tried.
    pub action: &'static str,
    /// The system's answer.
    pub source: io::Error,
}

/// Listens at all of them.
pub fn bind_all(endpoints: &[Endpoint]) -> Result<Vec<Listener>, ListenError> {
    endpoints.iter().map(bind).collect()
}

fn bind(endpoint: &Endpoint) -> Result<Listener, ListenError> {
    match &endpoint.address {
        ListenAddress::Tcp(host, port) => {
            let failed = |at: String, action| move |source| ListenError { at, action, source };
            let host = if host.is_empty() { "0.0.0.0" } else { host };
            let at = format!("tcp {host}:{port}");
            let resolved = (host, *port).to_socket_addrs();
            let addresses: Vec<_> = resolved.map_err(failed(at.clone(), "lookup"))?.collect();
            // A name with several addresses is listened to at its IPv4 one, as Go does.
            let address = addresses.iter().find(|a| a.is_ipv4()).or(addresses.first());
            let address =
                address.ok_or_else(|| failed(at, "lookup")(ErrorKind::NotFound.into()))?;
            let at = || format!("tcp {address}");
            let listener = TcpListener::bind(address).map_err(failed(at(), "bind"))?;
            let ready = listener.set_nonblocking(true);
            ready.map_err(failed(at(), "set nonblocking"))?;
            Ok(Listener::Tcp(listener))
        }
        ListenAddress::Unix(path) => {
            let failed = |action| {
                move |source| ListenError {
                    at: format!("unix {path}"),
                    action,
                    source,
                }
            };
            match std::fs::remove_file(path) {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(failed("remove")(error)),
            }
            let listener = UnixListener::bind(path).map_err(failed("bind"))?;
            listener
                .set_nonblocking(true)
                .map_err(failed("set nonblocking"))?;
            Ok(Listener::Unix(listener))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse_listen_urls;

    #[test]
    fn a_port_in_use_is_told_as_etcd_tells_it() {
        let taken = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = taken.local_addr().unwrap().port();
        let url = format!("http://localhost:{port}");
        let endpoints = parse_listen_urls("listen-client-urls", &url).unwrap();
        let Err(error) = bind_all(&endpoints) else {
            panic!("two sockets listen at one port");
        };
        assert_eq!(
            error.to_string(),
            format!("listen tcp 127.0.0.1:{port}: bind: address already in use")
        );
    }
}
