//! One figure from a member's metrics page.

use quorate_client::{Client, Error as ClientError};
use std::time::Duration;

const NAME: &str = "process_resident_memory_bytes";
const LIMIT: Duration = Duration::from_secs(10);

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

/// The memory that the member behind an endpoint uses.
pub async fn resident_bytes(client: &Client, endpoint: &str) -> Result<f64, Error> {
    let page = client.with_timeout(LIMIT).page(endpoint, "/metrics").await;
    let (_status, page) = page.map_err(|error| match error {
        ClientError::Page { url, reason } => Error::Fetch { url, reason },
        other => Error::Fetch {
            url: endpoint.to_owned(),
            reason: other.to_string(),
        },
    })?;
    figure(&String::from_utf8_lossy(&page))
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
