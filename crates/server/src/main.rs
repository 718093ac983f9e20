//! `quorate`: a server that speaks etcd 3.7.

use quorate::config::{Config, Refusal};
use quorate::logging::Logger;
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
            eprintln!("{what}");
            return ExitCode::from(2);
        }
        Err(Refusal::Invalid(what)) => {
            eprintln!("error verifying flags, {what}. See 'quorate --help'.");
            return ExitCode::FAILURE;
        }
    };
    let text = |name| config.text(name);
    match Logger::new(text("log-level"), text("log-format"), text("log-outputs")) {
        Ok(logger) => logger.install(),
        Err(error) => {
            eprintln!("cannot open {}: {error}", text("log-outputs"));
            return ExitCode::FAILURE;
        }
    }
    match quorate::server::run(&config) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("error" = %error, "the server failed");
            ExitCode::FAILURE
        }
    }
}
