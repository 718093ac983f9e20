//! URLs of listeners and members.

use std::collections::BTreeMap;

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenAddress {
    /// Host (a name or an address; empty for all) and port.
    Tcp(String, u16),
    /// A socket in the file system: the host and port of the URL, side by side, are its name.
    Unix(String),
}

/// A URL to listen at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// As given.
    pub url: String,
    /// Where that is.
    pub address: ListenAddress,
}

/// Splits a list of URLs and checks each.
pub fn parse_urls(flag: &str, list: &str) -> Result<Vec<String>, String> {
    let mut urls = Vec::new();
    for url in list.split(',').map(str::trim).filter(|url| !url.is_empty()) {
        parse_url(flag, url)?;
        urls.push(url.to_owned());
    }
    urls.sort();
    Ok(urls)
}

/// Splits a list of URLs to listen at.
pub fn parse_listen_urls(flag: &str, list: &str) -> Result<Vec<Endpoint>, String> {
    list.split(',')
        .map(str::trim)
        .filter(|url| !url.is_empty())
        .map(|url| {
            Ok(Endpoint {
                url: url.to_owned(),
                address: parse_url(flag, url)?,
            })
        })
        .collect()
}

fn parse_url(flag: &str, url: &str) -> Result<ListenAddress, String> {
    let bad = |what: &str| format!("invalid value {url:?} for flag -{flag}: {what}: {url}");
    let (scheme, rest) = url
        .split_once("://")
        .ok_or_else(|| bad("URL scheme must be http, https, unix, or unixs"))?;
    match scheme {
        "http" => {}
        "https" | "unixs" => return Err(bad("TLS is not supported yet")),
        "unix" => return Ok(ListenAddress::Unix(rest.to_owned())),
        _ => return Err(bad("URL scheme must be http, https, unix, or unixs")),
    }
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    if rest.contains('/') {
        return Err(bad("URL must not contain a path"));
    }
    let (host, port) = rest
        .rsplit_once(':')
        .ok_or_else(|| bad("URL address does not have the form \"host:port\""))?;
    let port = port
        .parse()
        .map_err(|_| bad("the port is no number below 65536"))?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Ok(ListenAddress::Tcp(host.to_owned(), port))
}

/// Reads `name=url,name=url`; several URLs of one name are one member's.
pub fn parse_cluster(spec: &str) -> Result<Vec<(String, Vec<String>)>, String> {
    let mut members: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for part in spec
        .split(',')
        .map(str::trim)
        .filter(|part| !part.is_empty())
    {
        let (name, url) = part
            .split_once('=')
            .ok_or_else(|| format!("error setting up initial cluster: {part:?} is not NAME=URL"))?;
        parse_url("initial-cluster", url)?;
        members
            .entry(name.to_owned())
            .or_default()
            .push(url.to_owned());
    }
    for urls in members.values_mut() {
        urls.sort();
    }
    Ok(members.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_and_what_is_wrong_with_them() {
        let tcp = |url| parse_listen_urls("f", url).map(|urls| urls[0].address.clone());
        assert_eq!(
            tcp("http://127.0.0.1:2379"),
            Ok(ListenAddress::Tcp("127.0.0.1".into(), 2379))
        );
        assert_eq!(
            tcp("http://[::1]:80/"),
            Ok(ListenAddress::Tcp("::1".into(), 80))
        );
        assert_eq!(
            tcp("unix://localhost:1"),
            Ok(ListenAddress::Unix("localhost:1".into()))
        );
        for bad in [
            "localhost:1",
            "ftp://h:1",
            "http://h",
            "http://h:x",
            "http://h:1/path",
        ] {
            assert!(tcp(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn members_of_a_cluster() {
        let members = parse_cluster("b=http://h:2,a=http://h:1,b=http://h:3").unwrap();
        assert_eq!(
            members[1],
            ("b".into(), vec!["http://h:2".into(), "http://h:3".into()])
        );
        assert!(parse_cluster("http://h:1").is_err());
    }
}
