//! `quorate`: a server that speaks etcd 3.7.

use quorate::config::{Config, NO_ADVERTISED_URLS, Refusal};
use quorate::logging::{FATAL, Logger};
use std::process::ExitCode;

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

#[allow(clippy::print_stdout)]
fn main() -> ExitCode {
    let config = match Config::parse(std::env::args().skip(1), |name| std::env::var(name).ok()) {
        Ok(config) => config,
        Err(Refusal::Text(text)) => {
            print!("{text}");
            return ExitCode::SUCCESS;
        }
        Err(Refusal::Usage(what)) => {
            eprintln!("{what}\nUsage:\n\n  quorate [flags]\n    See 'quorate --help'.");
            return ExitCode::from(2);
        }
        Err(Refusal::Invalid(what)) => return refuse(&what),
    };
    #[cfg(feature = "failpoints")]
    if let Err(error) = quorate_failpoints::start() {
        eprintln!("{error}");
        return ExitCode::FAILURE;
    }
    let text = |name| config.text(name);
    match Logger::new(text("log-level"), text("log-format"), text("log-outputs")) {
        Ok(logger) => logger.install(),
        Err(error) => return refuse(&error.to_string()),
    }
    match quorate::server::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!(target: FATAL, error = %error, "{}", error.headline());
            ExitCode::FAILURE
        }
    }
}

/// Says what is wrong with the flags. They have not been taken, so the log is the default one.
fn refuse(what: &str) -> ExitCode {
    if let Ok(logger) = Logger::new("info", "json", "default") {
        logger.install();
    }
    tracing::warn!("error" = what, "failed to verify flags");
    if what == NO_ADVERTISED_URLS {
        tracing::warn!("error" = what, "advertise client URLs are not set");
    }
    ExitCode::FAILURE
}
