//! Endpoints as people write them: `host:port`, `http(s)://host:port`, `unix(s)://path`.
//!
//! Source: the endpoint forms of etcd's client; a socket's file name stands for the host where a
//! certificate is checked.

use crate::{Error, Result};
use http::Uri;
use std::path::PathBuf;

/// Where a connection goes, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Address {
    /// As it was given.
    pub(crate) text: String,
    pub(crate) target: Target,
    pub(crate) security: Security,
    /// The name that a certificate is checked against.
    pub(crate) host: String,
    /// What requests name as their authority.
    pub(crate) authority: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Tcp { host: String, port: u16 },
    Unix(PathBuf),
}

/// What the scheme says about TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Security {
    Always,
    Never,
    /// TLS if it is configured.
    AsConfigured,
}

impl Address {
    pub(crate) fn parse(text: &str) -> Result<Address> {
        let (scheme, rest) = split(text);
        let security = match scheme {
            "https" | "unixs" => Security::Always,
            "http" => Security::Never,
            "" | "unix" => Security::AsConfigured,
            _ => return Err(refused(text, format!("{scheme} is no scheme of etcd's"))),
        };
        match scheme {
            "unix" | "unixs" => unix(text, rest, security),
            _ => tcp(text, rest, security),
        }
    }

    /// Whether connections are to be encrypted.
    pub(crate) fn is_secure(&self, tls_configured: bool) -> bool {
        match self.security {
            Security::Always => true,
            Security::Never => false,
            Security::AsConfigured => tls_configured,
        }
    }

    /// Scheme and authority of requests.
    pub(crate) fn origin(&self, secure: bool) -> Result<Uri> {
        let scheme = if secure { "https" } else { "http" };
        Uri::builder()
            .scheme(scheme)
            .authority(self.authority.as_str())
            .path_and_query("/")
            .build()
            .map_err(|error| refused(&self.text, error.to_string()))
    }
}

fn refused(text: &str, reason: impl Into<String>) -> Error {
    Error::Endpoint {
        endpoint: text.to_owned(),
        reason: reason.into(),
    }
}

/// Scheme and what is behind it. Sockets may be written without the slashes.
fn split(text: &str) -> (&str, &str) {
    if let Some((scheme, rest)) = text.split_once("://") {
        return (scheme, rest);
    }
    for scheme in ["unix", "unixs"] {
        if let Some(rest) = text.strip_prefix(scheme).and_then(|t| t.strip_prefix(':')) {
            return (scheme, rest);
        }
    }
    ("", text)
}

fn unix(text: &str, path: &str, security: Security) -> Result<Address> {
    let name = path.rsplit('/').next().unwrap_or(path);
    if name.is_empty() {
        return Err(refused(text, "it names no socket"));
    }
    let host = match name.rsplit_once(':') {
        Some((host, port)) if port.bytes().all(|b| b.is_ascii_digit()) && !host.is_empty() => host,
        _ => name,
    };
    // A file may have a name that no host has.
    let authority = match name.parse::<http::uri::Authority>() {
        Ok(_) => name.to_owned(),
        Err(_) => "localhost".to_owned(),
    };
    Ok(Address {
        text: text.to_owned(),
        target: Target::Unix(PathBuf::from(path)),
        security,
        host: unbracketed(host).to_owned(),
        authority,
    })
}

fn tcp(text: &str, rest: &str, security: Security) -> Result<Address> {
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let parsed: http::uri::Authority = authority
        .parse()
        .map_err(|error: http::uri::InvalidUri| refused(text, error.to_string()))?;
    let host = unbracketed(parsed.host());
    if host.is_empty() {
        return Err(refused(text, "it names no host"));
    }
    let Some(port) = parsed.port_u16() else {
        return Err(refused(text, "it names no port"));
    };
    Ok(Address {
        text: text.to_owned(),
        target: Target::Tcp {
            host: host.to_owned(),
            port,
        },
        security,
        host: host.to_owned(),
        authority: authority.rsplit('@').next().unwrap_or(authority).to_owned(),
    })
}

fn unbracketed(host: &str) -> &str {
    host.strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'))
        .unwrap_or(host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        Address::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn hosts_and_ports() {
        for (text, host, port, security) in [
            ("127.0.0.1:2379", "127.0.0.1", 2379, Security::AsConfigured),
            ("http://a.b:1", "a.b", 1, Security::Never),
            ("https://a:65535/", "a", 65535, Security::Always),
            ("[::1]:2379", "::1", 2379, Security::AsConfigured),
            ("https://[fe80::1]:9", "fe80::1", 9, Security::Always),
        ] {
            let address = parsed(text);
            let host = host.to_owned();
            assert_eq!(address.host, host, "{text}");
            assert_eq!(address.target, Target::Tcp { host, port }, "{text}");
            assert_eq!(address.security, security, "{text}");
        }
    }

    #[test]
    fn sockets() {
        for (text, path, host, security) in [
            (
                "unix:///run/e.sock",
                "/run/e.sock",
                "e.sock",
                Security::AsConfigured,
            ),
            (
                "unix://localhost:21",
                "localhost:21",
                "localhost",
                Security::AsConfigured,
            ),
            (
                "unixs://d/127.0.0.1:2",
                "d/127.0.0.1:2",
                "127.0.0.1",
                Security::Always,
            ),
            ("unix:e", "e", "e", Security::AsConfigured),
            ("unixs:/x", "/x", "x", Security::Always),
        ] {
            let address = parsed(text);
            assert_eq!(address.target, Target::Unix(path.into()), "{text}");
            assert_eq!(address.host, host, "{text}");
            assert_eq!(address.security, security, "{text}");
        }
    }

    #[test]
    fn what_is_no_endpoint() {
        for text in [
            "",
            "ftp://a:1",
            "http://",
            "http://a b:1",
            "a",
            "a:65536",
            "unix://",
            ":1",
        ] {
            let answer = Address::parse(text);
            assert!(
                matches!(&answer, Err(Error::Endpoint { endpoint, .. }) if endpoint == text),
                "{text}: {answer:?}"
            );
        }
    }

    #[test]
    fn a_scheme_decides_on_tls_before_the_configuration() {
        assert!(parsed("https://a:1").is_secure(false));
        assert!(!parsed("http://a:1").is_secure(true));
        assert!(parsed("a:1").is_secure(true) && !parsed("a:1").is_secure(false));
    }
}
