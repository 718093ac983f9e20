//! Where the endpoints are: in `--endpoints`, or in the SRV records of a domain.

mod dns;

use crate::cli::Globals;
use quorate_cli::exit::Exit;
use quorate_cli::streams::write_err;

/// The endpoints. A domain that names none leaves it to `--endpoints`.
pub async fn endpoints(globals: &Globals) -> Result<Vec<String>, Exit> {
    if globals.discovery_domain.is_empty() {
        return Ok(globals.endpoints.clone());
    }
    let found = of_domain(&globals.discovery_domain, &globals.discovery_service).await?;
    let mut endpoints = Vec::new();
    for endpoint in found {
        if !globals.insecure_discovery && endpoint.starts_with("http://") {
            let quoted = quorate_go::quote::quote(endpoint.as_bytes());
            write_err(format!("ignoring discovered insecure endpoint {quoted}\n").as_bytes());
        } else {
            endpoints.push(endpoint);
        }
    }
    match endpoints.is_empty() {
        true => Ok(globals.endpoints.clone()),
        false => Ok(endpoints),
    }
}

/// Both kinds of endpoints of a domain, those with TLS first. One kind is enough.
async fn of_domain(domain: &str, suffix: &str) -> Result<Vec<String>, Exit> {
    let with_tls = of_service("https", domain, suffix).await;
    let without = of_service("http", domain, suffix).await;
    match (with_tls, without) {
        (Err(one), Err(other)) => Err(Exit::error(format_args!(
            "dns lookup errors: {one} and {other}"
        ))),
        (one, other) => Ok(one
            .unwrap_or_default()
            .into_iter()
            .chain(other.unwrap_or_default())
            .collect()),
    }
}

async fn of_service(scheme: &str, domain: &str, suffix: &str) -> Result<Vec<String>, dns::Error> {
    let tls = if scheme == "https" { "-ssl" } else { "" };
    let suffix = match suffix {
        "" => String::new(),
        suffix => format!("-{suffix}"),
    };
    let name = format!("_etcd-client{tls}{suffix}._tcp.{domain}");
    let records = dns::lookup_srv(&name).await?;
    Ok(records
        .into_iter()
        .map(|record| format!("{scheme}://{}:{}", record.target, record.port))
        .collect())
}
