//! Where a peer URL leads.

use std::fmt;

/// A place to connect to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum PeerAddress {
    /// Host (a name or an address) and port.
    Tcp(String, u16),
    /// A socket in the file system.
    Unix(String),
}

/// A peer URL, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PeerUrl {
    /// As given, without a slash at the end.
    pub url: String,
    /// What the Host header says.
    pub authority: String,
    /// Where to connect to.
    pub address: PeerAddress,
}

/// A URL that no peer can be reached by.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AddressError {
    /// https and unixs.
    #[error("peer URL {0}: TLS is not supported yet")]
    Tls(String),
    /// Another scheme, or none.
    #[error("peer URL {0}: the scheme is none of http, https, unix and unixs")]
    Scheme(String),
    /// It is more than scheme and address, or less.
    #[error("peer URL {0}: what follows the scheme is no address")]
    Form(String),
}

impl PeerUrl {
    pub fn parse(url: &str) -> Result<PeerUrl, AddressError> {
        let form = || AddressError::Form(url.to_owned());
        let url_without_slash = url.strip_suffix('/').unwrap_or(url);
        let (scheme, rest) = url_without_slash
            .split_once("://")
            .ok_or_else(|| AddressError::Scheme(url.to_owned()))?;
        let unix = match scheme {
            "http" => false,
            "unix" => true,
            "https" | "unixs" => return Err(AddressError::Tls(url.to_owned())),
            _ => return Err(AddressError::Scheme(url.to_owned())),
        };
        let visible = |c: char| c.is_ascii_graphic() && !matches!(c, '?' | '#' | '@' | '"');
        if rest.is_empty() || !rest.chars().all(visible) {
            return Err(form());
        }
        let address = if unix {
            PeerAddress::Unix(rest.to_owned())
        } else {
            if rest.contains('/') {
                return Err(form());
            }
            let (host, port) = rest.rsplit_once(':').ok_or_else(form)?;
            let host = match host.strip_prefix('[') {
                Some(inner) => inner.strip_suffix(']').ok_or_else(form)?,
                None if host.contains(':') => return Err(form()),
                None => host,
            };
            if host.is_empty() {
                return Err(form());
            }
            PeerAddress::Tcp(host.to_owned(), port.parse().map_err(|_| form())?)
        };
        let authority = match unix && rest.contains('/') {
            // A path is no host.
            true => "localhost".to_owned(),
            false => rest.to_owned(),
        };
        Ok(PeerUrl {
            url: url_without_slash.to_owned(),
            authority,
            address,
        })
    }
}

impl fmt::Display for PeerUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.url)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lead_to_sockets() {
        let tcp = |host: &str, port| Ok(PeerAddress::Tcp(host.into(), port));
        let unix = |path: &str| Ok(PeerAddress::Unix(path.into()));
        for (url, address) in [
            ("http://127.0.0.1:2380", tcp("127.0.0.1", 2380)),
            ("http://m0.example:1/", tcp("m0.example", 1)),
            ("http://[::1]:80", tcp("::1", 80)),
            ("unix://localhost:m0", unix("localhost:m0")),
            ("unix:///run/m0.sock", unix("/run/m0.sock")),
        ] {
            assert_eq!(PeerUrl::parse(url).map(|parsed| parsed.address), address);
        }
        let authority = |url| PeerUrl::parse(url).map(|parsed| parsed.authority);
        assert_eq!(authority("http://[::1]:80"), Ok("[::1]:80".into()));
        assert_eq!(authority("unix://localhost:m0"), Ok("localhost:m0".into()));
        assert_eq!(authority("unix:///run/m0"), Ok("localhost".into()));
    }

    #[test]
    fn what_is_no_peer_url_is_refused() {
        for url in [
            "",
            "http://",
            "127.0.0.1:1",
            "ftp://h:1",
            "http://h",
            "http://:1",
            "http://h:x",
            "http://h:70000",
            "http://h:1/path",
            "http://h:1?x",
            "http://u@h:1",
            "http://::1:80",
            "http://[::1:80",
            "http://a b:80",
            "http://a\r\nX-Y: z:80",
        ] {
            assert!(PeerUrl::parse(url).is_err(), "{url:?}");
        }
        assert_eq!(
            PeerUrl::parse("https://h:1"),
            Err(AddressError::Tls("https://h:1".into()))
        );
    }
}
