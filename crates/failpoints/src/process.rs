//! The failpoints of this process.

use super::NAMES;
use super::http;
use super::registry::{ListError, Registry, parse_list};
use super::terms::{Action, Value};
use std::io::{self, Write};
use std::net::TcpListener;
use std::process::abort;
use std::sync::{LazyLock, PoisonError};
use std::thread;

static REGISTRY: LazyLock<Registry> = LazyLock::new(|| Registry::new(NAMES));

/// Why the failpoints could not be started.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// `GOFAIL_FAILPOINTS` makes no sense.
    #[error("fail to parse failpoint: {0}")]
    List(#[from] ListError),
    /// The address of `GOFAIL_HTTP` cannot be listened to.
    #[error("listen {address}: {error}")]
    Listen {
        /// The address.
        address: String,
        /// Why.
        error: io::Error,
    },
}

/// Does as the environment says: arms the failpoints of `GOFAIL_FAILPOINTS`, and serves gofail's
/// protocol on `GOFAIL_HTTP` from a thread of its own, for as long as the process lives. A
/// failpoint of the list that there is not, or whose terms make no sense, is passed over, as gofail
/// does.
pub fn start() -> Result<(), StartError> {
    if let Ok(list) = std::env::var("GOFAIL_FAILPOINTS") {
        for (name, terms) in parse_list(&list)? {
            if let Err(error) = REGISTRY.enable(name, terms) {
                tell(&format!("failed to enable \"{name}={terms}\" ({error})"));
            }
        }
    }
    match std::env::var("GOFAIL_HTTP") {
        Ok(address) if !address.is_empty() => {
            let listen = |error| StartError::Listen {
                address: address.clone(),
                error,
            };
            let listener = TcpListener::bind(&address).map_err(listen)?;
            thread::Builder::new()
                .name("failpoints".to_owned())
                .spawn(move || http::serve(listener.incoming(), &REGISTRY))
                .map_err(listen)?;
        }
        _ => {}
    }
    Ok(())
}

/// Does what the failpoint of this number is set to; gives the value that it returns, if it does.
pub fn hit(index: usize) -> Option<Value> {
    match REGISTRY.reach(index) {
        Action::Off => None,
        Action::Return(value) => Some(value),
        Action::Sleep(duration) => {
            thread::sleep(duration);
            None
        }
        Action::Print => {
            tell(&format!("failpoint print: {}", NAMES[index]));
            None
        }
        Action::Panic(value) => {
            // A request that is being answered gets its answer first.
            let _served = http::SERVING.lock().unwrap_or_else(PoisonError::into_inner);
            let value = value.unwrap_or(Value::Nothing);
            tell(&format!(
                "panic: failpoint panic: {value} [{}]",
                NAMES[index]
            ));
            abort();
        }
    }
}

/// Prints a line to standard error, past any lock that a thread may hold for good.
fn tell(line: &str) {
    // There is nobody to tell that it failed.
    let _ = writeln!(io::stderr(), "{line}");
}
