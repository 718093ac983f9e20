//! From flags to a client that is signed in, and a printer.

use crate::cli::Globals;
use crate::failure::Failure;
use crate::print::{Answer, Printer};
use crate::{discovery, terminal};
use prost::Message;
use quorate_cli::Invocation;
use quorate_cli::exit::{self, Exit};
use quorate_client::api::Method;
use quorate_client::{Client, Credentials, Error, Options, Tls};
use std::fs::File;
use std::future::Future;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// A command's way to the cluster and to its reader.
#[derive(Clone, Debug)]
pub struct Session {
    /// All endpoints.
    pub client: Client,
    /// The output form.
    pub printer: Printer,
    /// All flags of all commands.
    pub globals: Globals,
    deadline: Instant,
}

/// What is known before there is a connection: everything that can be wrong without one.
#[derive(Clone, Debug)]
pub struct Setting {
    /// All flags of all commands.
    pub globals: Globals,
    /// The output form.
    pub printer: Printer,
    /// Of `--endpoints`, or those that the domain names.
    pub endpoints: Vec<String>,
    options: Options,
}

impl Setting {
    /// Reads flags and variables, asks for a password where one is wanted.
    pub async fn of(invocation: &Invocation) -> Result<Setting, Exit> {
        let globals = Globals::resolve(&invocation.path, &invocation.given)?;
        let endpoints = discovery::endpoints(&globals).await?;
        let credentials = credentials(&globals)?;
        let printer = globals.printer()?;
        let mut options = options(&globals)?;
        options.credentials = credentials;
        Ok(Setting {
            globals,
            printer,
            endpoints,
            options,
        })
    }

    /// A session with these endpoints.
    pub async fn connect(&self, endpoints: &[String]) -> Result<Session, Exit> {
        let client = connected(endpoints, &self.options, self.globals.dial_timeout).await?;
        Ok(self.session(client))
    }

    fn session(&self, client: Client) -> Session {
        Session {
            client,
            printer: self.printer,
            globals: self.globals.clone(),
            deadline: Instant::now() + self.globals.command_timeout,
        }
    }
}

impl Session {
    /// A session with all endpoints.
    pub async fn open(invocation: &Invocation) -> Result<Session, Exit> {
        let setting = Setting::of(invocation).await?;
        setting.connect(&setting.endpoints).await
    }

    /// A call, within the command's time.
    pub async fn call<Q, A>(&self, method: Method, request: Q) -> Result<A, Failure>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let left = self.deadline.saturating_duration_since(Instant::now());
        let client = self.client.with_timeout(left);
        self.within(client.call(method, request)).await
    }

    /// Something of the client, within the command's time.
    pub async fn within<T>(
        &self,
        work: impl Future<Output = quorate_client::Result<T>>,
    ) -> Result<T, Failure> {
        match timeout_at(self.deadline, work).await {
            Ok(result) => result.map_err(Failure::from),
            Err(_) => Err(Failure::Deadline),
        }
    }

    /// Writes an answer.
    pub fn print(&self, answer: &Answer) -> Result<(), Exit> {
        self.printer.print(answer)
    }
}

/// A client of these endpoints that has signed in, where there is a password.
pub async fn connected(
    endpoints: &[String],
    options: &Options,
    limit: Duration,
) -> Result<Client, Exit> {
    let texts: Vec<&str> = endpoints.iter().map(String::as_str).collect();
    let client = Client::new(&texts, options).map_err(|error| unusable(error, options))?;
    let refused = |failure: Failure| Exit::new(exit::BAD_CONNECTION, failure);
    match tokio::time::timeout(limit, client.sign_in()).await {
        Ok(result) => result.map_err(|error| refused(Failure::from(error)))?,
        Err(_) => return Err(refused(Failure::Deadline)),
    }
    Ok(client)
}

/// The end of a command whose endpoints or files cannot be used.
fn unusable(error: Error, options: &Options) -> Exit {
    let ca_file = options.tls.as_ref().and_then(|tls| tls.ca_file.as_ref());
    match &error {
        // Where nothing can ever be connected, etcdctl waits until the command's time is over.
        Error::Endpoint { .. } => Exit::error(error),
        Error::Tls { file, .. } if ca_file.is_some_and(|ca| ca.as_os_str() == file.as_str()) => {
            Exit::error(error)
        }
        Error::Tls { reason, .. } if reason.contains("KeyMismatch") => {
            Exit::bad_arguments("tls: private key does not match public key")
        }
        Error::Tls { .. } => Exit::bad_arguments(error),
        _ => Exit::new(exit::BAD_CONNECTION, Failure::from(error)),
    }
}

/// Who calls.
fn credentials(globals: &Globals) -> Result<Option<Credentials>, Exit> {
    if !globals.token.is_empty() {
        return Ok(Some(Credentials::Token(globals.token.clone())));
    }
    user(&globals.user, &globals.password, "Password: ")
}

/// A user with its password, which is asked for where it is not there.
pub fn user(user: &str, password: &str, prompt: &str) -> Result<Option<Credentials>, Exit> {
    if user.is_empty() {
        return Ok(None);
    }
    let (user, password) = match (password, user.split_once(':')) {
        ("", Some((user, password))) => (user, password.to_owned()),
        ("", None) => (user, terminal::ask_password(prompt).map_err(Exit::error)?),
        (password, _) => (user, password.to_owned()),
    };
    // Nobody signs in without a name or with an empty password.
    Ok(
        (!user.is_empty() && !password.is_empty()).then(|| Credentials::Password {
            user: user.to_owned(),
            password,
        }),
    )
}

/// How to connect.
fn options(globals: &Globals) -> Result<Options, Exit> {
    let server_name = match globals.insecure_discovery {
        true => String::new(),
        false => globals.discovery_domain.clone(),
    };
    let files = Files {
        ca: &globals.ca_file,
        cert: &globals.cert_file,
        key: &globals.key_file,
    };
    let tls = tls(
        &files,
        &server_name,
        globals.insecure_transport,
        globals.insecure_skip_verify,
    )?;
    connection(globals, tls)
}

/// How to connect with this TLS.
pub fn connection(globals: &Globals, tls: Option<Tls>) -> Result<Options, Exit> {
    let (send, receive) = (globals.request_bytes_max, globals.answer_bytes_max);
    if receive > 0 && send > receive {
        return Err(Exit::new(
            exit::BAD_CONNECTION,
            format_args!(
                "gRPC message recv limit ({receive} bytes) must be greater than send limit ({send} bytes)"
            ),
        ));
    }
    let bytes = |limit: i64, default: usize| match usize::try_from(limit) {
        Ok(limit) if limit > 0 => limit,
        _ => default,
    };
    let defaults = Options::default();
    let keepalive = globals.keepalive_time;
    Ok(Options {
        connect_timeout: match globals.dial_timeout {
            Duration::ZERO => defaults.connect_timeout,
            limit => limit,
        },
        // Servers take more frequent pings for an attack.
        keepalive_time: (!keepalive.is_zero()).then(|| keepalive.max(KEEPALIVE_MIN)),
        keepalive_timeout: globals.keepalive_timeout,
        tls,
        request_bytes_max: bytes(send, defaults.request_bytes_max),
        answer_bytes_max: bytes(receive, defaults.answer_bytes_max),
        ..defaults
    })
}

const KEEPALIVE_MIN: Duration = Duration::from_secs(10);

/// Files of keys and certificates; empty where there is none.
pub struct Files<'a> {
    /// Of the authorities.
    pub ca: &'a str,
    /// Of the client's certificate.
    pub cert: &'a str,
    /// Of its key.
    pub key: &'a str,
}

/// TLS, where something asks for it. Files that cannot be read are found here, before anything is
/// connected.
pub fn tls(
    files: &Files<'_>,
    server_name: &str,
    insecure_transport: bool,
    insecure_skip_verify: bool,
) -> Result<Option<Tls>, Exit> {
    let (cert, key) = (files.cert, files.key);
    if cert.is_empty() != key.is_empty() {
        return Err(Exit::bad_arguments(format_args!(
            "KeyFile and CertFile must both be present[key: {key}, cert: {cert}]"
        )));
    }
    for file in [files.cert, files.key, files.ca] {
        if !file.is_empty() {
            File::open(file).map_err(|error| {
                Exit::bad_arguments(format_args!(
                    "open {file}: {}",
                    quorate_go::system::text(&error)
                ))
            })?;
        }
    }
    let wanted = !cert.is_empty() || !files.ca.is_empty() || !server_name.is_empty();
    if !wanted && insecure_transport && !insecure_skip_verify {
        return Ok(None);
    }
    let given = |text: &str| (!text.is_empty()).then(|| text.into());
    Ok(Some(Tls {
        ca_file: given(files.ca),
        cert_file: given(cert),
        key_file: given(key),
        server_name: (!server_name.is_empty()).then(|| server_name.to_owned()),
        insecure_skip_verify,
    }))
}
