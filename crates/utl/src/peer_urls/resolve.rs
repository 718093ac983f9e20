//! Whether two lists of URLs lead to the same places, names resolved.
//!
//! Source: etcd's `netutil.URLStringsEqual`.

use super::PeerUrl;
use crate::log;
use quorate_go::quote::quote;
use quorate_go::system;
use std::net::{SocketAddr, ToSocketAddrs};
use std::thread;
use std::time::{Duration, Instant};

/// How long a name is asked for.
const LIMIT: Duration = Duration::from_secs(30);
/// Time between two tries.
const RETRY: Duration = Duration::from_secs(1);

/// Compares two sorted lists; the error says how they differ.
pub fn same(these: &[PeerUrl], those: &[PeerUrl]) -> Result<(), String> {
    if these.len() != those.len() {
        return Err(format!("len({}) != len({})", quoted(these), quoted(those)));
    }
    if these.iter().zip(those).all(|(a, b)| leads_alike(a, b)) {
        return Ok(());
    }
    let deadline = Instant::now() + LIMIT;
    let these = resolve_all(these, deadline)?;
    let those = resolve_all(those, deadline)?;
    match these.iter().zip(&those).find(|(a, b)| !leads_alike(a, b)) {
        None => Ok(()),
        Some((a, b)) => Err(format!(
            "resolved urls: {} != {}",
            quote(a.text.as_bytes()),
            quote(b.text.as_bytes())
        )),
    }
}

fn quoted(urls: &[PeerUrl]) -> String {
    let texts: Vec<String> = urls.iter().map(|url| quote(url.text.as_bytes())).collect();
    format!("[{}]", texts.join(" "))
}

fn leads_alike(a: &PeerUrl, b: &PeerUrl) -> bool {
    let address = |url: &PeerUrl| url.host.parse::<SocketAddr>().ok();
    let same_host = match (address(a), address(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a.host == b.host,
    };
    // What is behind the host is empty, but for sockets of the file system.
    a.scheme == b.scheme && same_host && (a.scheme.starts_with("http") || a.text == b.text)
}

fn resolve_all(urls: &[PeerUrl], deadline: Instant) -> Result<Vec<PeerUrl>, String> {
    let mut resolved = urls
        .iter()
        .map(|url| resolve(url, deadline))
        .collect::<Result<Vec<_>, _>>()?;
    resolved.sort_by(|a, b| a.text.cmp(&b.text));
    Ok(resolved)
}

fn resolve(url: &PeerUrl, deadline: Instant) -> Result<PeerUrl, String> {
    let local = url.host.starts_with("localhost:");
    if !url.scheme.starts_with("http") || local {
        return Ok(url.clone());
    }
    loop {
        let why = match url.host.to_socket_addrs() {
            Ok(found) => {
                let found: Vec<SocketAddr> = found.collect();
                let first = found.iter().find(|a| a.is_ipv4()).or(found.first());
                match first {
                    Some(address) => {
                        let host = address.to_string();
                        log::info!("resolved URL Host", "url" => url.text, "host" => url.host, "resolved-addr" => host);
                        return Ok(PeerUrl {
                            text: format!("{}://{host}", url.scheme),
                            scheme: url.scheme.clone(),
                            host,
                        });
                    }
                    None => "no such host".to_owned(),
                }
            }
            Err(error) => system::text(&error),
        };
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            log::warning!("failed to resolve URL Host; returning", "url" => url.text, "host" => url.host, "retry-interval" => "1s", "error" => why);
            return Err(format!(
                "failed to resolve {} ({why})",
                quote(url.text.as_bytes())
            ));
        }
        log::warning!("failed to resolve URL Host", "url" => url.text, "host" => url.host, "retry-interval" => "1s", "error" => why);
        thread::sleep(RETRY.min(left));
    }
}
