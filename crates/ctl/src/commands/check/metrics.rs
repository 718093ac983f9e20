//! One figure from a member's metrics page.

use quorate_go::system;
use std::io;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

const NAME: &str = "process_resident_memory_bytes";
const LIMIT: Duration = Duration::from_secs(10);
/// More than any member's page has.
const PAGE_BYTES_MAX: u64 = 16 << 20;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The page cannot be had.
    #[error("fetch error: Get \"{url}\": {reason}")]
    Fetch { url: String, reason: String },
    /// The page has not the figure.
    #[error("could not find: {NAME}")]
    Missing,
    /// The figure is no number.
    #[error("parse error: {0}")]
    Parse(#[from] std::num::ParseFloatError),
}

/// The memory that the member behind an endpoint uses. Members that want TLS are not asked.
pub async fn resident_bytes(endpoint: &str) -> Result<f64, Error> {
    let (scheme, address) = endpoint.split_once("://").unwrap_or(("http", endpoint));
    let fetch = |reason: String| Error::Fetch {
        url: format!("{scheme}://{address}/metrics"),
        reason,
    };
    if scheme != "http" {
        return Err(fetch("only http is spoken".to_owned()));
    }
    let page = match timeout(LIMIT, get(address)).await {
        Ok(page) => page.map_err(|error| fetch(system::text(&error)))?,
        Err(_) => return Err(fetch("no answer in time".to_owned())),
    };
    figure(&String::from_utf8_lossy(&page))
}

/// The page. The answer to a request of HTTP/1.0 ends with the connection.
async fn get(address: &str) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut page = Vec::new();
    stream.take(PAGE_BYTES_MAX).read_to_end(&mut page).await?;
    Ok(page)
}

fn figure(page: &str) -> Result<f64, Error> {
    let value = page
        .lines()
        .find_map(|line| line.strip_prefix(NAME))
        .ok_or(Error::Missing)?;
    Ok(value.trim().parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figure_is_found() {
        let page =
            "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 2.5e+07\n";
        assert!(figure(page).is_ok_and(|bytes| (bytes - 2.5e7).abs() < 0.5));
        assert!(matches!(figure("a 1\n"), Err(Error::Missing)));
        assert!(matches!(
            figure("process_resident_memory_bytes x"),
            Err(Error::Parse(_))
        ));
    }
}
