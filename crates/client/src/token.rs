//! The token that says who calls.
//!
//! Invariants:
//! - A password is sent only for a first token and after a refusal; callers that meet a refusal
//!   together share one new token.
//! - A cluster without authentication gives none, and calls go without.

use crate::options::Credentials;
use crate::{Error, Result};
use quorate_api::Error as Known;
use tokio::sync::{Mutex, MutexGuard};

/// What is known of the token.
#[derive(Debug)]
pub(crate) struct Tokens {
    credentials: Option<Credentials>,
    newest: Mutex<Option<Token>>,
}

/// A token, or that there is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) value: Option<String>,
    /// Counts what was asked for.
    number: u64,
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
            newest: Mutex::new(None),
        }
    }

    pub(crate) fn has_password(&self) -> bool {
        matches!(self.credentials, Some(Credentials::Password { .. }))
    }

    pub(crate) fn has_fixed_token(&self) -> bool {
        matches!(self.credentials, Some(Credentials::Token(_)))
    }

    /// The token to send, or what to ask for one with; a new one where `refused` is the newest.
    pub(crate) async fn get(&self, refused: Option<&Token>) -> Held<'_> {
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
        let newest = self.newest.lock().await;
        match &*newest {
            Some(token) if refused != Some(token) => Held::Known(token.clone()),
            _ => Held::Wanted(Wanted {
                user,
                password,
                newest,
            }),
        }
    }
}

/// What there is of a token.
pub(crate) enum Held<'a> {
    Known(Token),
    Wanted(Wanted<'a>),
}

/// A token that is to be asked for; nobody else asks meanwhile.
pub(crate) struct Wanted<'a> {
    pub(crate) user: &'a str,
    pub(crate) password: &'a str,
    newest: MutexGuard<'a, Option<Token>>,
}

impl Wanted<'_> {
    /// Keeps what the cluster answered.
    pub(crate) fn keep(mut self, answer: Result<String>) -> Result<Token> {
        let value = match answer {
            Ok(value) => Some(value),
            Err(Error::Known(Known::AuthNotEnabled)) => None,
            Err(error) => return Err(error),
        };
        let number = self.newest.as_ref().map_or(0, |token| token.number) + 1;
        let token = Token { value, number };
        *self.newest = Some(token.clone());
        Ok(token)
    }
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
                assert_eq!((wanted.user, wanted.password), ("u", "p"));
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
    async fn without_authentication_there_is_no_token() {
        let tokens = tokens();
        let refused = Err(Error::Known(Known::AuthNotEnabled));
        let token = asked(&tokens, None, refused).await.expect("an answer");
        assert_eq!(token.value, None);
        let wrong = Err(Error::Known(Known::AuthFailed));
        assert!(asked(&tokens, Some(&token), wrong).await.is_err());
        assert_eq!(known(&tokens, None).await, Some(token));
    }

    #[tokio::test]
    async fn a_token_from_elsewhere_is_kept() {
        let tokens = Tokens::new(Some(Credentials::Token("jwt".to_owned())));
        let token = known(&tokens, None).await.expect("a token");
        assert_eq!(known(&tokens, Some(&token)).await, Some(token));
    }
}
