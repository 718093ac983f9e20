//! A handle on a cluster, and the three shapes of a call.

use crate::answers::Answers;
use crate::balancer::{Asked, Balancer};
use crate::codec;
use crate::connection::{Dialer, Lane};
use crate::namespace::Namespace;
use crate::options::Options;
use crate::ordering::{Order, Reading};
use crate::queue::Places;
use crate::retry::{Jitter, Repeat, Situation, Verdict, judge, wait_before};
use crate::token::{Held, Token, Tokens, Wanted};
use crate::{Error, Result};
use bytes::Bytes;
use http::uri::PathAndQuery;
use prost::Message;
use quorate_api::Method;
use quorate_api::error::Code;
use quorate_api::etcdserverpb::{AuthenticateRequest, AuthenticateResponse};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio_stream::{Stream, StreamExt};
use tonic::Request;
use tonic::client::Grpc;
use tonic::metadata::MetadataValue;

/// The version of the API that requests say they speak.
const API_VERSION: &str = "3.7";

/// How long a member may take to check a password, at the first attempt.
const AUTHENTICATION: Duration = Duration::from_secs(5);

/// Longer limits are none, and gRPC cannot tell all of them.
const TIMEOUT_TOLD_MAX: Duration = Duration::from_secs(365 * 24 * 3600);

/// A handle on a cluster or one of its members; clones share the connections.
///
/// Calls go to the endpoints that are up in turn. What failed is tried again as
/// [`Options::retry`] says: calls that only read, or can be done twice, whenever no member could
/// answer; writes only if they surely did nothing; and any call with a new token when the old one is
/// refused.
#[derive(Clone, Debug)]
pub struct Client {
    shared: Arc<Shared>,
    require_leader: bool,
    /// How long a call may take, with all its attempts.
    time_limit: Option<Duration>,
    /// Where its keys are.
    pub(crate) namespace: Namespace,
    /// Set where reads must not go back.
    order: Option<Order>,
}

#[derive(Debug)]
struct Shared {
    balancer: Balancer,
    options: Arc<Options>,
    jitter: Arc<Jitter>,
    tokens: Tokens,
    places: Places,
}

impl Client {
    /// A client of these endpoints: `host:port`, `http://…`, `https://…`, `unix://path` or
    /// `unixs://path` each. Connections are made when first needed, by tasks of the Tokio runtime
    /// that then runs.
    pub fn new(endpoints: &[&str], options: &Options) -> Result<Client> {
        let options = Arc::new(options.clone());
        let tokens = Tokens::new(options.credentials.clone());
        Client::with(endpoints, options, tokens)
    }

    fn with(endpoints: &[&str], options: Arc<Options>, tokens: Tokens) -> Result<Client> {
        let dialers = dialers(endpoints, &options)?;
        let jitter = Arc::new(Jitter::new(options.retry.seed));
        Ok(Client {
            require_leader: options.require_leader,
            time_limit: options.request_timeout,
            namespace: Namespace::default(),
            order: None,
            shared: Arc::new(Shared {
                balancer: Balancer::new(dialers, jitter.clone()),
                options,
                jitter,
                tokens,
                places: Places::default(),
            }),
        })
    }

    /// A client of one endpoint, with the options and the token of this one: for what is asked of
    /// one member (status, hash, defragmentation, a transfer of leadership). A token that is refused
    /// it renews for itself, at its endpoint.
    pub fn endpoint(&self, endpoint: &str) -> Result<Client> {
        let shared = &self.shared;
        let one = Client::with(&[endpoint], shared.options.clone(), shared.tokens.apart())?;
        Ok(Client {
            shared: one.shared,
            ..self.clone()
        })
    }

    /// The same client, whose calls and streams fail while their member has no leader.
    pub fn require_leader(&self) -> Client {
        Client {
            require_leader: true,
            ..self.clone()
        }
    }

    /// The same client, of which each call ends within `limit` instead of
    /// [`Options::request_timeout`], with [`Error::Deadline`] if need be; servers are told, and leave
    /// off as well. Streams have no limit.
    pub fn with_timeout(&self, limit: Duration) -> Client {
        Client {
            time_limit: Some(limit),
            ..self.clone()
        }
    }

    /// The same client, whose keys all lie under `prefix` (and under that of this one) without
    /// being named with it: in [`Client::range`], [`Client::range_stream`], [`Client::put`],
    /// [`Client::delete_range`], [`Client::txn`], [`Client::watcher`],
    /// [`Client::lease_time_to_live`], and what is built on them. [`Client::call`] and [`Client::watch`] send what they are given.
    pub fn namespace(&self, prefix: impl AsRef<[u8]>) -> Client {
        Client {
            namespace: self.namespace.within(prefix.as_ref()),
            ..self.clone()
        }
    }

    /// The same client, whose reads and transactions are never answered from an older revision than
    /// one before them: an answer that is older is asked for again, of other members, and is
    /// [`Error::NotFresh`] if none is new enough. Clones of the returned client share the order.
    pub fn ordered(&self) -> Client {
        Client {
            order: Some(Order::default()),
            ..self.clone()
        }
    }

    /// The endpoints that calls go to.
    pub fn endpoints(&self) -> Vec<String> {
        self.shared.balancer.endpoints()
    }

    /// Takes other endpoints, for all clones. Those that stay keep their connections; calls and
    /// streams that are under way over those that go are not disturbed.
    pub fn set_endpoints(&self, endpoints: &[&str]) -> Result<()> {
        let dialers = dialers(endpoints, &self.shared.options)?;
        self.shared.balancer.replace(dialers);
        Ok(())
    }

    /// Why endpoints are down, where some are.
    pub fn unreachable(&self) -> Option<String> {
        self.shared.balancer.unreachable()
    }

    /// What the client was made with.
    pub fn options(&self) -> &Options {
        &self.shared.options
    }

    /// Asks for a token now, if one is needed and not there, so that wrong credentials are found
    /// before the first call.
    pub async fn sign_in(&self) -> Result<()> {
        let token = self.token(None);
        self.within_limit(Method::AuthAuthenticate, token).await?;
        Ok(())
    }

    /// Asks for another token, where there is a password to do so with.
    pub async fn refresh_token(&self) -> Result<()> {
        let renewed = async {
            let token = self.token(None).await?;
            self.token(Some(&token)).await
        };
        self.within_limit(Method::AuthAuthenticate, renewed).await?;
        Ok(())
    }

    /// One request, one answer.
    pub async fn call<Q, A>(&self, method: Method, request: Q) -> Result<A>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = self.encode(method, &request)?;
        let answer = self.answer(method, request);
        self.within_limit(method, answer).await
    }

    /// Something of a call, within its time.
    async fn within_limit<T>(
        &self,
        method: Method,
        work: impl Future<Output = Result<T>>,
    ) -> Result<T> {
        match self.time_limit {
            Some(limit) => within(limit, method, work).await,
            None => work.await,
        }
    }

    /// One request, a stream of answers. Returns when the server has begun to answer.
    pub async fn receive<Q, A>(&self, method: Method, request: Q) -> Result<Answers<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
    {
        let request = self.encode(method, &request)?;
        let mut attempts = Attempts::new(self, method);
        let mut token = self.token(None).await?;
        loop {
            let (mut grpc, lane) = self.lane(method, None).await?;
            let sent = self.request(&token, request.clone());
            let answers = grpc
                .server_streaming(sent, path(method), codec::Answers::new())
                .await;
            let error = match answers {
                Ok(response) => {
                    return Ok(Answers::new(method, response.into_inner(), lane, self));
                }
                Err(status) => Error::from_status(method.path(), &status),
            };
            if attempts.again(error).await? == Next::WithNewToken {
                token = self.token(Some(&token)).await?;
            }
        }
    }

    /// A stream of requests, a stream of answers. Returns when the server has begun to answer,
    /// which it may do only after the first request. It is not tried again.
    pub async fn exchange<Q, A, S>(&self, method: Method, requests: S) -> Result<Answers<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        let token = self.token(None).await?;
        self.exchange_with(&token, method, requests, None).await
    }

    /// The same with this token, rather with a member that was not asked.
    pub(crate) async fn exchange_with<Q, A, S>(
        &self,
        token: &Token,
        method: Method,
        requests: S,
        asked: Option<&Asked>,
    ) -> Result<Answers<A>>
    where
        Q: Message + 'static,
        A: Message + Default + 'static,
        S: Stream<Item = Q> + Send + 'static,
    {
        let (mut grpc, lane) = self.lane(method, asked).await?;
        let requests = requests.map(|request| Bytes::from(request.encode_to_vec()));
        grpc.streaming(
            self.request(token, requests),
            path(method),
            codec::Answers::new(),
        )
        .await
        .map(|response| Answers::new(method, response.into_inner(), lane, self))
        .map_err(|status| Error::from_status(method.path(), &status))
    }

    pub(crate) fn begin_reading(&self) -> Reading {
        Reading::begin(self.order.as_ref(), self.shared.balancer.len())
    }

    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.time_limit
    }

    /// A dialer of any endpoint, with this client's options.
    pub(crate) fn dialer(&self, endpoint: &str) -> Result<Dialer> {
        Dialer::new(endpoint, &self.shared.options)
    }

    pub(crate) fn jitter(&self) -> &Jitter {
        &self.shared.jitter
    }

    pub(crate) fn places(&self) -> &Places {
        &self.shared.places
    }

    pub(crate) fn has_password(&self) -> bool {
        self.shared.tokens.has_password()
    }

    pub(crate) fn has_fixed_token(&self) -> bool {
        self.shared.tokens.has_fixed_token()
    }

    /// Tries until there is an answer, the failure is final, or the attempts are used up.
    async fn answer<A>(&self, method: Method, request: Bytes) -> Result<A>
    where
        A: Message + Default + 'static,
    {
        let mut attempts = Attempts::new(self, method);
        let mut token = self.token(None).await?;
        loop {
            let attempt = self.attempt(method, &token, request.clone(), None).await;
            let error = match attempt {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if attempts.again(error).await? == Next::WithNewToken {
                token = self.token(Some(&token)).await?;
            }
        }
    }

    /// One attempt; with `limit`, a member that has not answered by then is given up.
    async fn attempt<A>(
        &self,
        method: Method,
        token: &Token,
        request: Bytes,
        limit: Option<Duration>,
    ) -> Result<A>
    where
        A: Message + Default + 'static,
    {
        let (mut grpc, _lane) = self.lane(method, None).await?;
        let mut request = self.request(token, request);
        let told = limit.or(self.time_limit);
        if let Some(told) = told.filter(|told| *told < TIMEOUT_TOLD_MAX) {
            request.set_timeout(told);
        }
        let answer = async {
            grpc.unary(request, path(method), codec::Answers::new())
                .await
                .map(tonic::Response::into_inner)
                .map_err(|status| Error::from_status(method.path(), &status))
        };
        match limit {
            Some(limit) => within(limit, method, answer).await,
            None => answer.await,
        }
    }

    /// The token to call with; a new one if this one was refused.
    pub(crate) async fn token(&self, refused: Option<&Token>) -> Result<Token> {
        let wanted = match self.shared.tokens.get(refused).await {
            Held::Known(token) => return Ok(token),
            Held::Wanted(wanted) => wanted,
        };
        // By a task: others wait for it, also while the caller does not.
        let client = self.clone();
        let asked = async move { client.authenticate(wanted).await };
        let mut task = JoinSet::new();
        task.spawn(asked);
        match task.join_next().await {
            Some(Ok(token)) => token,
            Some(Err(error)) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
            _ => Err(Error::Connection {
                method: Method::AuthAuthenticate.path(),
                unsent: true,
                reason: "the runtime has ended".to_owned(),
            }),
        }
    }

    async fn authenticate(&self, wanted: Wanted) -> Result<Token> {
        let method = Method::AuthAuthenticate;
        let request = AuthenticateRequest {
            name: wanted.user.clone(),
            password: wanted.password.clone(),
        };
        let request = self.encode(method, &request)?;
        let mut attempts = Attempts::new(self, method);
        attempts.situation.has_password = false;
        loop {
            // Others wait for this one: a member that hangs must not hold all of them up.
            // One that is only slow gets more time with each attempt.
            let limit = Some(AUTHENTICATION * 2u32.pow(attempts.made.min(6)));
            let answer: Result<AuthenticateResponse> = self
                .attempt(method, &Token::none(), request.clone(), limit)
                .await;
            match answer {
                Ok(answer) => return wanted.keep(Ok(answer.token)),
                Err(error) => match attempts.again(error).await {
                    Ok(_) => {}
                    Err(error) => return wanted.keep(Err(error)),
                },
            }
        }
    }

    /// A connection that is up, rather to a member that was not asked.
    async fn lane(&self, method: Method, asked: Option<&Asked>) -> Result<(Grpc<Lane>, Lane)> {
        let wait = self.shared.options.wait_for_ready;
        loop {
            let picked = self.shared.balancer.pick(method.path(), wait, asked);
            let lane = picked.await?;
            let mut grpc = Grpc::with_origin(lane.clone(), lane.origin())
                .max_decoding_message_size(self.shared.options.answer_bytes_max);
            // It may have broken since it was picked; another is there or is being made.
            if grpc.ready().await.is_ok() {
                return Ok((grpc, lane));
            }
        }
    }

    fn encode(&self, method: Method, request: &impl Message) -> Result<Bytes> {
        let (length, most) = (request.encoded_len(), self.shared.options.request_bytes_max);
        if length > most {
            return Err(Error::Status {
                method: method.path(),
                code: Code::ResourceExhausted as i32,
                text: format!("trying to send message larger than max ({length} vs. {most})"),
            });
        }
        Ok(request.encode_to_vec().into())
    }

    fn request<T>(&self, token: &Token, body: T) -> Request<T> {
        let mut request = Request::new(body);
        let metadata = request.metadata_mut();
        metadata.insert(
            "client-api-version",
            MetadataValue::from_static(API_VERSION),
        );
        if self.require_leader {
            metadata.insert("hasleader", MetadataValue::from_static("true"));
        }
        // A token that no header can carry is none of the cluster's.
        if let Some(token) = &token.value
            && let Ok(value) = token.parse()
        {
            metadata.insert("token", value);
        }
        request
    }
}

/// The attempts of one call.
struct Attempts<'a> {
    client: &'a Client,
    repeat: Repeat,
    situation: Situation,
    made: u32,
}

/// How an attempt is made after one that failed.
#[derive(PartialEq, Eq)]
enum Next {
    AsBefore,
    WithNewToken,
}

impl Attempts<'_> {
    fn new(client: &Client, method: Method) -> Attempts<'_> {
        let shared = &client.shared;
        Attempts {
            client,
            repeat: Repeat::of(method),
            situation: Situation {
                endpoints: shared.balancer.len(),
                has_password: shared.tokens.has_password(),
                has_fixed_token: shared.tokens.has_fixed_token(),
            },
            made: 0,
        }
    }

    /// Returns when the next attempt is to be made, or gives the error back.
    async fn again(&mut self, error: Error) -> Result<Next> {
        let shared = &self.client.shared;
        let retry = &shared.options.retry;
        self.made += 1;
        let verdict = judge(&error, self.repeat, self.situation);
        if verdict == Verdict::Return || self.made >= retry.attempts_max {
            return Err(error);
        }
        let wait = wait_before(self.made, self.situation.endpoints, retry, &shared.jitter);
        tokio::time::sleep(wait).await;
        match verdict {
            Verdict::Reauthenticate => Ok(Next::WithNewToken),
            _ => Ok(Next::AsBefore),
        }
    }
}

fn dialers(endpoints: &[&str], options: &Arc<Options>) -> Result<Vec<Dialer>> {
    if endpoints.is_empty() {
        return Err(Error::NoEndpoint);
    }
    endpoints
        .iter()
        .map(|text| Dialer::new(text, options))
        .collect()
}

/// What `work` gives, or that it took too long.
async fn within<T>(
    limit: Duration,
    method: Method,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    let late = Error::Deadline {
        method: method.path(),
    };
    tokio::time::timeout(limit, work).await.unwrap_or(Err(late))
}

fn path(method: Method) -> PathAndQuery {
    PathAndQuery::from_static(method.path())
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::{StatusRequest, StatusResponse};

    #[test]
    fn calls_may_be_made_by_any_task() {
        fn sendable<T: Send>(_: T) {}
        let client = Client::new(&["127.0.0.1:1"], &Options::default()).expect("an endpoint");
        sendable(
            client.call::<_, StatusResponse>(Method::MaintenanceStatus, StatusRequest::default()),
        );
        sendable(
            client
                .receive::<_, StatusResponse>(Method::MaintenanceStatus, StatusRequest::default()),
        );
        sendable(client.status());
    }

    #[test]
    fn endpoints_are_checked() {
        let client = |endpoints: &[&str]| Client::new(endpoints, &Options::default());
        assert!(matches!(client(&[]), Err(Error::NoEndpoint)));
        for bad in ["ftp://a", "http://", "http://a b"] {
            let answer = client(&[bad]);
            assert!(
                matches!(&answer, Err(Error::Endpoint { endpoint, .. }) if endpoint == bad),
                "{bad}: {answer:?}"
            );
        }
        let two = client(&["127.0.0.1:1", "http://localhost:2"]).expect("endpoints");
        assert_eq!(two.endpoints(), ["127.0.0.1:1", "http://localhost:2"]);
        assert!(two.set_endpoints(&[]).is_err());
        two.set_endpoints(&["https://a:3"]).expect("an endpoint");
        assert_eq!(two.clone().endpoints(), ["https://a:3"]);
    }

    #[test]
    fn a_request_that_is_too_large_is_not_sent() {
        let options = Options {
            request_bytes_max: 1,
            ..Options::default()
        };
        let client = Client::new(&["127.0.0.1:1"], &options).expect("an endpoint");
        let large = AuthenticateRequest {
            name: "abc".to_owned(),
            password: String::new(),
        };
        match client.encode(Method::AuthAuthenticate, &large) {
            Err(Error::Status { code: 8, text, .. }) => assert!(text.ends_with("(5 vs. 1)")),
            other => panic!("{other:?}"),
        }
    }

    #[tokio::test]
    async fn a_closed_port_is_a_connection_error() {
        // Bound and never listening: nobody else can be behind it.
        let socket = tokio::net::TcpSocket::new_v4().expect("a socket");
        socket
            .bind("127.0.0.1:0".parse().expect("an address"))
            .expect("a free port");
        let address = socket.local_addr().expect("bound").to_string();
        let options = Options {
            wait_for_ready: false,
            retry: crate::Retry {
                attempts_max: 1,
                ..crate::Retry::default()
            },
            ..Options::default()
        };
        let client = Client::new(&[&address], &options).expect("an endpoint");
        let answer: Result<StatusResponse> = client
            .call(Method::MaintenanceStatus, StatusRequest::default())
            .await;
        assert!(
            matches!(&answer, Err(Error::Connection { method, unsent: true, .. }) if method.ends_with("/Status")),
            "{answer:?}"
        );
    }
}
