//! Peer URLs and the initial cluster, as flags spell them.
//!
//! Source: etcd's `types.URLs`, `URLsMap` and `VerifyBootstrap`; of Go's URL parser, what tells a URL
//! that a peer can have from others, with its complaints.

mod resolve;

use crate::error::Failure;
use quorate_go::quote::quote;
use std::collections::{BTreeMap, BTreeSet};

/// A peer's URL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PeerUrl {
    scheme: String,
    /// Host and port.
    host: String,
    /// All of it, the scheme in lower case.
    text: String,
}

fn refuse(text: String) -> Failure {
    Failure::Reason(text)
}

impl PeerUrl {
    fn parse(text: &str) -> Result<PeerUrl, Failure> {
        let text = text.trim();
        let parts = Parts::parse(text)
            .map_err(|why| refuse(format!("parse {}: {why}", quote(text.as_bytes()))))?;
        match &parts.scheme[..] {
            "http" | "https" => {
                if !has_port(parts.host) {
                    return Err(refuse(format!(
                        "URL address does not have the form \"host:port\": {text}"
                    )));
                }
                if !parts.path.is_empty() {
                    return Err(refuse(format!("URL must not contain a path: {text}")));
                }
            }
            "unix" | "unixs" => {}
            _ => {
                return Err(refuse(format!(
                    "URL scheme must be http, https, unix, or unixs: {text}"
                )));
            }
        }
        let behind = &text[parts.scheme.len()..];
        Ok(PeerUrl {
            text: format!("{}{behind}", parts.scheme),
            host: parts.host.to_owned(),
            scheme: parts.scheme,
        })
    }
}

/// A URL taken apart.
struct Parts<'a> {
    /// In lower case.
    scheme: String,
    host: &'a str,
    path: &'a str,
}

impl Parts<'_> {
    fn parse(text: &str) -> Result<Parts<'_>, String> {
        if text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err("net/url: invalid control character in URL".into());
        }
        let text = text.split('#').next().unwrap_or_default();
        let (scheme, rest) = split_scheme(text)?;
        let rest = rest.split('?').next().unwrap_or_default();
        let Some(authority) = rest.strip_prefix("//") else {
            let segment = rest.split('/').next().unwrap_or_default();
            if scheme.is_empty() && segment.contains(':') {
                return Err("first path segment in URL cannot contain colon".into());
            }
            return Ok(Parts {
                scheme: scheme.to_ascii_lowercase(),
                host: "",
                path: rest,
            });
        };
        let end = authority.find('/').unwrap_or(authority.len());
        let (authority, path) = authority.split_at(end);
        let host = authority.rsplit('@').next().unwrap_or_default();
        check_host(host)?;
        Ok(Parts {
            scheme: scheme.to_ascii_lowercase(),
            host,
            path,
        })
    }
}

fn split_scheme(text: &str) -> Result<(&str, &str), String> {
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' => {}
            b'0'..=b'9' | b'+' | b'-' | b'.' if at > 0 => {}
            b':' if at == 0 => return Err("missing protocol scheme".into()),
            b':' => return Ok((&text[..at], &text[at + 1..])),
            _ => break,
        }
    }
    Ok(("", text))
}

fn check_host(host: &str) -> Result<(), String> {
    let port = if host.starts_with('[') {
        let end = host.rfind(']').ok_or("missing ']' in host")?;
        &host[end + 1..]
    } else {
        host.find(':').map_or("", |colon| &host[colon..])
    };
    let digits = port.strip_prefix(':');
    let valid = port.is_empty() || digits.is_some_and(|d| d.bytes().all(|b| b.is_ascii_digit()));
    if !valid {
        return Err(format!(
            "invalid port {} after host",
            quote(port.as_bytes())
        ));
    }
    if let Some(at) = host.find('%')
        && !host.starts_with('[')
    {
        let escape: String = host[at..].chars().take(3).collect();
        return Err(format!("invalid URL escape {}", quote(escape.as_bytes())));
    }
    if let Some(odd) = host.chars().find(|c| {
        matches!(
            c,
            ' ' | '<' | '>' | '"' | '^' | '`' | '{' | '}' | '|' | '\\'
        )
    }) {
        return Err(format!(
            "invalid character {} in host name",
            quote(odd.to_string().as_bytes())
        ));
    }
    Ok(())
}

fn has_port(host: &str) -> bool {
    match host.rfind(':') {
        Some(colon) => host.rfind(']').is_none_or(|bracket| bracket < colon),
        None => false,
    }
}

/// Reads URLs; they come back sorted.
fn parse_all(texts: &[&str]) -> Result<Vec<PeerUrl>, Failure> {
    let mut urls = texts
        .iter()
        .map(|text| PeerUrl::parse(text))
        .collect::<Result<Vec<_>, _>>()?;
    urls.sort_by(|a, b| a.text.cmp(&b.text));
    Ok(urls)
}

/// The members that a cluster begins with: name and URLs.
#[derive(Debug)]
pub struct InitialCluster(BTreeMap<String, Vec<PeerUrl>>);

impl InitialCluster {
    fn parse(text: &str) -> Result<InitialCluster, Failure> {
        let mut texts: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for member in text.split(',').filter(|member| !member.is_empty()) {
            let (name, url) = member.split_once('=').unwrap_or((member, ""));
            texts.entry(name).or_default().push(url);
        }
        let parsed = texts
            .into_iter()
            .map(|(name, urls)| Ok((name.to_owned(), parse_all(&urls)?)));
        Ok(InitialCluster(parsed.collect::<Result<_, Failure>>()?))
    }

    /// The cluster of the flags, which the local member `name` with these URLs must be part of.
    pub fn of(name: &str, advertised: &str, cluster: &str) -> Result<InitialCluster, Failure> {
        let advertised: Vec<&str> = advertised.split(',').collect();
        let advertised = parse_all(&advertised)?;
        let cluster = InitialCluster::parse(cluster)?;
        let Some(own) = cluster.0.get(name) else {
            return Err(refuse(format!(
                "couldn't find local name {} in the initial cluster configuration",
                quote(name.as_bytes())
            )));
        };
        if let Err(why) = resolve::same(&advertised, own) {
            return Err(refuse(mismatch(name, &advertised, own, &why)));
        }
        let all = cluster.0.values().flatten();
        let distinct: BTreeSet<&str> = all.clone().map(|url| &url.text[..]).collect();
        if distinct.len() < all.count() {
            return Err(refuse(format!(
                "initial cluster {} has duplicate url",
                cluster.text()
            )));
        }
        Ok(cluster)
    }

    fn text(&self) -> String {
        let members = self.0.iter();
        let pairs = members.flat_map(|(name, urls)| with_name(name, urls));
        let mut pairs: Vec<String> = pairs.collect();
        pairs.sort();
        pairs.join(",")
    }

    /// Names and URLs.
    pub fn members(&self) -> impl Iterator<Item = (&str, Vec<String>)> {
        self.0.iter().map(|(name, urls)| {
            let texts = urls.iter().map(|url| url.text.clone()).collect();
            (&name[..], texts)
        })
    }
}

fn with_name(name: &str, urls: &[PeerUrl]) -> Vec<String> {
    urls.iter()
        .map(|url| format!("{name}={}", url.text))
        .collect()
}

/// What is said where the two lists of the member's URLs differ.
fn mismatch(name: &str, advertised: &[PeerUrl], own: &[PeerUrl], why: &str) -> String {
    let lacking = |these: &[PeerUrl], those: &[PeerUrl]| -> Vec<PeerUrl> {
        let lacks = |url: &&PeerUrl| !those.iter().any(|other| other.text == url.text);
        these.iter().filter(lacks).cloned().collect()
    };
    let texts: Vec<&str> = advertised.iter().map(|url| &url.text[..]).collect();
    let texts = texts.join(",");
    let as_cluster = with_name(name, advertised).join(",");
    let missing = lacking(own, advertised);
    if !missing.is_empty() {
        let missing = with_name(name, &missing).join(",");
        return format!(
            "--initial-cluster has {missing} but missing from --initial-advertise-peer-urls={texts} ({why})"
        );
    }
    let missing = lacking(advertised, own);
    if !missing.is_empty() {
        let missing: Vec<&str> = missing.iter().map(|url| &url.text[..]).collect();
        return format!(
            "--initial-advertise-peer-urls has {} but missing from --initial-cluster={as_cluster}",
            missing.join(",")
        );
    }
    format!("failed to resolve {texts} to match --initial-cluster={as_cluster} ({why})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(advertised: &str, cluster: &str) -> String {
        InitialCluster::of("default", advertised, cluster)
            .unwrap_err()
            .to_string()
    }

    #[test]
    fn members_with_sorted_urls() {
        let cluster = InitialCluster::of(
            "a",
            "http://127.0.0.1:1,HTTP://127.0.0.1:3",
            "a=http://127.0.0.1:3,b=unix://b:1,a=http://127.0.0.1:1",
        )
        .unwrap();
        let members: Vec<_> = cluster.members().collect();
        assert_eq!(members[0].0, "a");
        assert_eq!(members[0].1, ["http://127.0.0.1:1", "http://127.0.0.1:3"]);
        assert_eq!(members[1], ("b", vec!["unix://b:1".to_owned()]));
    }

    #[test]
    fn complaints_in_etcds_words() {
        let of = |url: &str| error("http://localhost:2380", &format!("default={url}"));
        assert_eq!(
            of("http://x"),
            "URL address does not have the form \"host:port\": http://x"
        );
        assert_eq!(
            of("http://x:1/p"),
            "URL must not contain a path: http://x:1/p"
        );
        assert_eq!(
            of("ftp://x:1"),
            "URL scheme must be http, https, unix, or unixs: ftp://x:1"
        );
        assert_eq!(
            of("http://[::1:2380"),
            "parse \"http://[::1:2380\": missing ']' in host"
        );
        assert_eq!(
            of("http://a:b:c"),
            "parse \"http://a:b:c\": invalid port \":b:c\" after host"
        );
        assert_eq!(of(":80"), "parse \":80\": missing protocol scheme");
        assert_eq!(
            of("http://a%zz:1"),
            "parse \"http://a%zz:1\": invalid URL escape \"%zz\""
        );
        assert_eq!(
            of("localhost"),
            "URL scheme must be http, https, unix, or unixs: localhost"
        );
        assert_eq!(
            error("http://127.0.0.1:3", "b=http://127.0.0.1:3"),
            "couldn't find local name \"default\" in the initial cluster configuration"
        );
        assert_eq!(
            error(
                "http://127.0.0.1:3",
                "default=http://127.0.0.1:3,b=http://127.0.0.1:3"
            ),
            "initial cluster b=http://127.0.0.1:3,default=http://127.0.0.1:3 has duplicate url"
        );
        assert_eq!(
            error(
                "http://127.0.0.1:1",
                "default=http://127.0.0.1:1,default=http://127.0.0.1:2"
            ),
            "--initial-cluster has default=http://127.0.0.1:2 but missing from \
             --initial-advertise-peer-urls=http://127.0.0.1:1 \
             (len([\"http://127.0.0.1:1\"]) != len([\"http://127.0.0.1:1\" \"http://127.0.0.1:2\"]))"
        );
        assert_eq!(
            error(
                "http://127.0.0.1:1,http://127.0.0.1:2",
                "default=http://127.0.0.1:1"
            ),
            "--initial-advertise-peer-urls has http://127.0.0.1:2 but missing from \
             --initial-cluster=default=http://127.0.0.1:1,default=http://127.0.0.1:2"
        );
        assert_eq!(
            error("http://127.0.0.1:3", "default=http://localhost:2380"),
            "--initial-cluster has default=http://localhost:2380 but missing from \
             --initial-advertise-peer-urls=http://127.0.0.1:3 \
             (resolved urls: \"http://127.0.0.1:3\" != \"http://localhost:2380\")"
        );
    }
}
