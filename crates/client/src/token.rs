//! The token that says who calls.
//!
//! Invariants:
//! - A password is sent only for a first token and after a refusal; callers that meet a refusal
//!   together share one new token.
//! - Who waits for a token holds nothing that others need: a call that is kept without being polled
//!   holds nobody up.
//! - A cluster without authentication gives none, and calls go without.

use crate::options::Credentials;
use crate::{Error, Result};
use quorate_api::Error as Known;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::watch;

/// What is known of the token.
#[derive(Debug)]
pub(crate) struct Tokens {
    credentials: Option<Credentials>,
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    newest: Option<Token>,
    /// Closed once nobody asks for a new one any more.
    asking: Option<watch::Receiver<()>>,
}

/// A token, or that there is none. Whoever reads it can call as its user: it is not shown.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) value: Option<String>,
    /// Counts what was asked for.
    number: u64,
}

impl std::fmt::Debug for Token {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Token")
            .field("number", &self.number)
            .finish_non_exhaustive()
    }
}

impl Token {
    pub(crate) fn none() -> Token {
        Token {
            value: None,
            number: 0,
        }
    }
}

impl Tokens {
    pub(crate) fn new(credentials: Option<Credentials>) -> Tokens {
        Tokens {
            credentials,
            state: Arc::default(),
        }
    }

    /// The same, for a client that asks elsewhere from now on: it begins with the newest token, and
    /// neither waits for the other.
    pub(crate) fn apart(&self) -> Tokens {
        let newest = locked(&self.state).newest.clone();
        let state = State {
            newest,
            asking: None,
        };
        Tokens {
            credentials: self.credentials.clone(),
            state: Arc::new(Mutex::new(state)),
        }
    }

    pub(crate) fn has_password(&self) -> bool {
        matches!(self.credentials, Some(Credentials::Password { .. }))
    }

    pub(crate) fn has_fixed_token(&self) -> bool {
        matches!(self.credentials, Some(Credentials::Token(_)))
    }

    /// The token to send, or what to ask for one with; a new one where `refused` is the newest.
    pub(crate) async fn get(&self, refused: Option<&Token>) -> Held {
        let (user, password) = match &self.credentials {
            None => return Held::Known(Token::none()),
            Some(Credentials::Token(value)) => {
                return Held::Known(Token {
                    value: Some(value.clone()),
                    number: 0,
                });
            }
            Some(Credentials::Password { user, password }) => (user, password),
        };
        loop {
            let mut asking = {
                let mut state = locked(&self.state);
                match (&state.newest, &state.asking) {
                    (Some(token), _) if refused != Some(token) => {
                        return Held::Known(token.clone());
                    }
                    (_, Some(asking)) if asking.has_changed().is_ok() => asking.clone(),
                    _ => {
                        let (done, asking) = watch::channel(());
                        state.asking = Some(asking);
                        return Held::Wanted(Wanted {
                            user: user.clone(),
                            password: password.clone(),
                            state: self.state.clone(),
                            _done: done,
                        });
                    }
                }
            };
            // Nothing is ever sent: it returns when the asking is over.
            let _ = asking.changed().await;
        }
    }
}

/// What there is of a token.
pub(crate) enum Held {
    Known(Token),
    Wanted(Wanted),
}

/// A token that is to be asked for; nobody else asks while this lives.
pub(crate) struct Wanted {
    pub(crate) user: String,
    pub(crate) password: String,
    state: Arc<Mutex<State>>,
    _done: watch::Sender<()>,
}

impl Wanted {
    /// Keeps what the cluster answered.
    pub(crate) fn keep(self, answer: Result<String>) -> Result<Token> {
        let value = match answer {
            Ok(value) => Some(value),
            Err(Error::Known(Known::AuthNotEnabled)) => None,
            Err(error) => return Err(error),
        };
        let mut state = locked(&self.state);
        let number = state.newest.as_ref().map_or(0, |token| token.number) + 1;
        let token = Token { value, number };
        state.newest = Some(token.clone());
        Ok(token)
    }
}

fn locked(state: &Mutex<State>) -> MutexGuard<'_, State> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tokens() -> Tokens {
        Tokens::new(Some(Credentials::Password {
            user: "u".to_owned(),
            password: "p".to_owned(),
        }))
    }

    async fn known(tokens: &Tokens, refused: Option<&Token>) -> Option<Token> {
        match tokens.get(refused).await {
            Held::Known(token) => Some(token),
            Held::Wanted(_) => None,
        }
    }

    async fn asked(
        tokens: &Tokens,
        refused: Option<&Token>,
        answer: Result<String>,
    ) -> Result<Token> {
        match tokens.get(refused).await {
            Held::Known(token) => panic!("{token:?} is there"),
            Held::Wanted(wanted) => {
                assert_eq!((wanted.user.as_str(), wanted.password.as_str()), ("u", "p"));
                wanted.keep(answer)
            }
        }
    }

    #[tokio::test]
    async fn one_refusal_gives_one_new_token() {
        let tokens = tokens();
        let first = asked(&tokens, None, Ok("1".to_owned()))
            .await
            .expect("a token");
        assert_eq!(known(&tokens, None).await.as_ref(), Some(&first));
        // Two that were refused with the first.
        let second = asked(&tokens, Some(&first), Ok("2".to_owned()))
            .await
            .expect("a token");
        assert_eq!(known(&tokens, Some(&first)).await.as_ref(), Some(&second));
        assert_eq!(second.value.as_deref(), Some("2"));
    }

    #[tokio::test]
    async fn what_is_asked_for_apart_changes_nothing_here() {
        let tokens = tokens();
        let first = asked(&tokens, None, Ok("1".to_owned()))
            .await
            .expect("a token");
        let apart = tokens.apart();
        assert_eq!(known(&apart, None).await.as_ref(), Some(&first));
        let wanted = tokens.get(Some(&first)).await;
        let second = asked(&apart, Some(&first), Ok("2".to_owned())).await;
        assert!(second.is_ok_and(|second| second != first));
        drop(wanted);
        assert_eq!(known(&tokens, None).await, Some(first));
    }

    #[tokio::test]
    async fn without_authentication_there_is_no_token() {
        let tokens = tokens();
        let refused = Err(Error::Known(Known::AuthNotEnabled));
        let token = asked(&tokens, None, refused).await.expect("an answer");
        assert_eq!(token.value, None);
        let wrong = Err(Error::Known(Known::AuthFailed));
        assert!(asked(&tokens, Some(&token), wrong).await.is_err());
        assert_eq!(known(&tokens, None).await, Some(token));
    }

    #[test]
    fn a_token_is_not_shown() {
        let value = Some("secret".to_owned());
        let token = Token { value, number: 1 };
        assert!(!format!("{token:?}").contains("secret"));
    }

    #[tokio::test]
    async fn a_token_from_elsewhere_is_kept() {
        let tokens = Tokens::new(Some(Credentials::Token("jwt".to_owned())));
        let token = known(&tokens, None).await.expect("a token");
        assert_eq!(known(&tokens, Some(&token)).await, Some(token));
    }
}
