//! How another member is asked something: one HTTP request, one answer.
//!
//! The trait is what this module needs of the peer transport, and what its tests stand in for.
//! Redirects are not followed, and an answer of any status is an answer.

use bytes::Bytes;
use http::{Method, Request, Response};
use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

/// An answer to come. `Err` tells why there is none.
pub type Answered<'a> = Pin<Box<dyn Future<Output = Result<Response<Bytes>, String>> + Send + 'a>>;

/// Carries requests to the peer ports of members.
pub trait Exchange: Send + Sync + 'static {
    /// Sends a request, whose URI is a path, to the member at `url`; gives up after `timeout`. An
    /// answer's body is at most [`ANSWER_BYTES_MAX`] long.
    fn send<'a>(&'a self, url: &'a str, request: Request<Bytes>, timeout: Duration)
    -> Answered<'a>;
}

/// Most bytes of an answer that are taken; the largest ones name every key of a lease.
pub const ANSWER_BYTES_MAX: usize = 100 * 1024 * 1024;

/// A GET of a path.
pub(super) fn get(path: &'static str) -> Request<Bytes> {
    let mut request = Request::new(Bytes::new());
    *request.uri_mut() = http::Uri::from_static(path);
    request
}

/// A POST of protobuf to a path.
pub(super) fn post(path: &'static str, body: Vec<u8>) -> Request<Bytes> {
    let mut request = Request::new(Bytes::from(body));
    *request.method_mut() = Method::POST;
    *request.uri_mut() = http::Uri::from_static(path);
    request.headers_mut().insert(
        http::header::CONTENT_TYPE,
        http::HeaderValue::from_static("application/protobuf"),
    );
    request
}

/// An answer's body as text, for an error that tells of it.
pub(super) fn text(answer: &Response<Bytes>) -> String {
    String::from_utf8_lossy(answer.body()).into_owned()
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use http::StatusCode;
    use std::collections::HashMap;
    use std::sync::{Mutex, PoisonError};

    type Scripted = Result<(StatusCode, &'static [(&'static str, &'static str)], Vec<u8>), String>;

    /// Answers by URL and path, and notes what it was asked.
    #[derive(Default)]
    pub struct Script {
        answers: HashMap<String, Scripted>,
        pub asked: Mutex<Vec<(String, Method, Bytes)>>,
    }

    impl Script {
        pub fn answer(mut self, at: &str, status: u16, body: impl Into<Vec<u8>>) -> Script {
            let status = StatusCode::from_u16(status).unwrap();
            self.answers
                .insert(at.to_owned(), Ok((status, &[], body.into())));
            self
        }

        pub fn answer_with(
            mut self,
            at: &str,
            headers: &'static [(&'static str, &'static str)],
            body: impl Into<Vec<u8>>,
        ) -> Script {
            self.answers
                .insert(at.to_owned(), Ok((StatusCode::OK, headers, body.into())));
            self
        }
    }

    impl Exchange for Script {
        fn send<'a>(&'a self, url: &'a str, request: Request<Bytes>, _: Duration) -> Answered<'a> {
            let at = format!("{url}{}", request.uri());
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push((at.clone(), request.method().clone(), request.into_body()));
            let unreachable = || Err("connection refused".to_owned());
            let scripted = self.answers.get(&at).cloned().unwrap_or_else(unreachable);
            Box::pin(async move {
                let (status, headers, body) = scripted?;
                let mut answer = Response::new(Bytes::from(body));
                *answer.status_mut() = status;
                for (name, value) in headers {
                    let value = http::HeaderValue::from_static(value);
                    answer.headers_mut().insert(*name, value);
                }
                Ok(answer)
            })
        }
    }

    /// Runs a future whose waits are all over at once.
    pub fn run<F: Future>(future: F) -> F::Output {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        runtime.block_on(future)
    }
}
