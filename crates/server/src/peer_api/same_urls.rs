//! Whether two lists of URLs lead to the same places: as text, by address, and at last by name.
//!
//! Source: etcd's pkg/netutil.

use super::urls::{PeerUrl, parse};
use std::future::Future;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;
use tokio::time::{Instant, sleep};

/// An address to come, spelled as `host:port`.
pub type Resolved<'a> = Pin<Box<dyn Future<Output = Result<String, String>> + Send + 'a>>;

/// Finds the address of a name.
pub trait Resolve: Sync {
    /// The address of host and port.
    fn resolve<'a>(&'a self, host: &'a str, port: &'a str) -> Resolved<'a>;
}

/// Time between two tries.
const RETRY: Duration = Duration::from_secs(1);

/// The system's resolver, asked anew until a deadline.
pub struct SystemResolver {
    deadline: Instant,
}

impl SystemResolver {
    /// Names may take as long as this.
    pub fn within(patience: Duration) -> SystemResolver {
        SystemResolver {
            deadline: Instant::now() + patience,
        }
    }

    async fn look_up(&self, host: &str, port: &str) -> Result<String, String> {
        let number: u16 = port
            .parse()
            .map_err(|_| format!("lookup tcp/{port}: unknown port"))?;
        loop {
            let found = tokio::net::lookup_host((host, number)).await;
            let error = match found.map(|mut addresses| addresses.next()) {
                Ok(Some(address)) => return Ok(address.to_string()),
                Ok(None) => format!("lookup {host}: no such host"),
                Err(error) => error.to_string(),
            };
            tracing::warn!(
                "host" = format!("{host}:{port}"),
                "retry-interval" = "1s",
                "error" = error.as_str(),
                "failed to resolve URL Host"
            );
            if Instant::now() + RETRY >= self.deadline {
                return Err(error);
            }
            sleep(RETRY).await;
        }
    }
}

impl Resolve for SystemResolver {
    fn resolve<'a>(&'a self, host: &'a str, port: &'a str) -> Resolved<'a> {
        Box::pin(self.look_up(host, port))
    }
}

/// Host and port with an address in its shortest form; a name as it is.
fn normal(host: &str) -> String {
    let (only, port) = match host.rsplit_once(':') {
        Some((only, port)) if host.parse::<IpAddr>().is_err() => (only, Some(port)),
        _ => (host, None),
    };
    let Ok(address) = only.trim_matches(['[', ']']).parse::<IpAddr>() else {
        return host.to_owned();
    };
    // An IPv4 address in IPv6's clothes is that address.
    let address = address.to_canonical();
    match (address, port) {
        (IpAddr::V4(_), None) => address.to_string(),
        (IpAddr::V4(_), Some(port)) => format!("{address}:{port}"),
        (IpAddr::V6(_), None) => format!("[{address}]"),
        (IpAddr::V6(_), Some(port)) => format!("[{address}]:{port}"),
    }
}

fn is_same(a: &PeerUrl, b: &PeerUrl) -> bool {
    a.scheme == b.scheme && normal(&a.host) == normal(&b.host) && a.path() == b.path()
}

/// A list as Go's `%q` spells it.
fn quote(urls: &[String]) -> String {
    let quoted: Vec<String> = urls.iter().map(|url| format!("{url:?}")).collect();
    format!("[{}]", quoted.join(" "))
}

fn parse_all(urls: &[String]) -> Result<Vec<PeerUrl>, String> {
    let mut parsed = Vec::with_capacity(urls.len());
    for url in urls {
        parsed.push(parse(url).ok_or_else(|| format!("failed to parse string to URL: {url:?}"))?);
    }
    parsed.sort_by_key(PeerUrl::to_string);
    Ok(parsed)
}

async fn resolve_all(urls: &mut [PeerUrl], resolver: &dyn Resolve) -> Result<(), String> {
    for url in urls.iter_mut().filter(|url| !url.is_unix()) {
        let failed = |error: &str| format!("failed to resolve {:?} ({error})", url.to_string());
        let Some((host, port)) = url.host_and_port() else {
            let error = format!("address {}: missing port in address", url.host);
            return Err(failed(&error));
        };
        if host == "localhost" {
            continue;
        }
        let is_address = host.parse::<IpAddr>().is_ok();
        let address = if is_address {
            normal(&url.host)
        } else {
            resolver
                .resolve(host, port)
                .await
                .map_err(|error| failed(&error))?
        };
        // A zone or another oddity stays as it is.
        let address = address
            .parse::<SocketAddr>()
            .map_or(address, |address| address.to_string());
        url.host = address;
    }
    urls.sort_by_key(PeerUrl::to_string);
    Ok(())
}

/// Whether they are the same; `Err` says what differs, or what could not be found out.
pub async fn same_urls(a: &[String], b: &[String], resolver: &dyn Resolve) -> Result<(), String> {
    if a.len() != b.len() {
        return Err(format!("len({}) != len({})", quote(a), quote(b)));
    }
    let (mut a, mut b) = (parse_all(a)?, parse_all(b)?);
    if a.iter().zip(&b).all(|(a, b)| is_same(a, b)) {
        return Ok(());
    }
    resolve_all(&mut a, resolver).await?;
    resolve_all(&mut b, resolver).await?;
    match a.iter().zip(&b).find(|(a, b)| !is_same(a, b)) {
        None => Ok(()),
        Some((a, b)) => Err(format!(
            "resolved urls: {:?} != {:?}",
            a.to_string(),
            b.to_string()
        )),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::exchange::tests::run;
    use super::*;

    /// Knows two names.
    pub struct Names;

    impl Resolve for Names {
        fn resolve<'a>(&'a self, host: &'a str, port: &'a str) -> Resolved<'a> {
            let found = match host {
                "a.example" => Ok(format!("10.0.0.1:{port}")),
                "b.example" => Ok(format!("10.0.0.2:{port}")),
                _ => Err(format!("lookup {host}: no such host")),
            };
            Box::pin(async { found })
        }
    }

    fn same(a: &[&str], b: &[&str]) -> Result<(), String> {
        let owned = |urls: &[&str]| urls.iter().map(|url| (*url).to_owned()).collect::<Vec<_>>();
        run(same_urls(&owned(a), &owned(b), &Names))
    }

    #[test]
    fn as_text_by_address_and_by_name() {
        for (a, b) in [
            (
                &["http://x:1", "http://y:1"][..],
                &["http://y:1", "http://x:1"][..],
            ),
            (&["http://[::1]:1"], &["http://[0:0::1]:1"]),
            (&["http://a.example:1"], &["http://10.0.0.1:1"]),
            (
                &["http://b.example:1", "http://a.example:1"],
                &["http://10.0.0.1:1", "http://10.0.0.2:1"],
            ),
            (&["unix://localhost:1"], &["unix://localhost:1"]),
            (&["http://localhost:1"], &["http://localhost:1"]),
        ] {
            assert_eq!(same(a, b), Ok(()), "{a:?} {b:?}");
        }
    }

    #[test]
    fn what_differs_is_told_in_etcds_words() {
        let differs = |a: &[&str], b: &[&str], what: &str| {
            assert_eq!(same(a, b), Err(what.to_owned()));
        };
        differs(
            &["http://a.example:1", "http://x:1"],
            &["http://a.example:1"],
            r#"len(["http://a.example:1" "http://x:1"]) != len(["http://a.example:1"])"#,
        );
        differs(
            &["http://a.example:1"],
            &["http://b.example:1"],
            r#"resolved urls: "http://10.0.0.1:1" != "http://10.0.0.2:1""#,
        );
        differs(
            &["http://c.example:1"],
            &["http://b.example:1"],
            r#"failed to resolve "http://c.example:1" (lookup c.example: no such host)"#,
        );
        differs(
            &["https://a.example:1"],
            &["http://a.example:1"],
            r#"resolved urls: "https://10.0.0.1:1" != "http://10.0.0.1:1""#,
        );
        differs(
            &["http://x y:1"],
            &["http://x:1"],
            r#"failed to parse string to URL: "http://x y:1""#,
        );
    }
}
