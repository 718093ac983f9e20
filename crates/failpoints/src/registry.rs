//! The failpoints of a process and what they are set to.

use super::terms::{Action, ParseError, Terms};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Why something could not be done to a failpoint; the texts are gofail's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PointError {
    /// There is none of that name.
    #[error("failpoint: failpoint does not exist")]
    Unknown,
    /// It is not set to anything.
    #[error("failpoint: failpoint is disabled")]
    Disabled,
    /// It was to be set to something that makes no sense.
    #[error(transparent)]
    Terms(#[from] ParseError),
}

/// All failpoints, sorted by name.
pub struct Registry {
    names: &'static [&'static str],
    points: Vec<Point>,
}

#[derive(Default)]
struct Point {
    /// Whether there are terms: all that a place costs as long as there are none.
    armed: AtomicBool,
    terms: Mutex<Option<Arc<Terms>>>,
}

impl Point {
    fn lock(&self) -> MutexGuard<'_, Option<Arc<Terms>>> {
        // Only whole values are put there.
        self.terms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Registry {
    /// The failpoints of these names, none of them set.
    pub fn new(names: &'static [&'static str]) -> Registry {
        let points = names.iter().map(|_| Point::default()).collect();
        Registry { names, points }
    }

    /// The failpoints' names.
    pub fn names(&self) -> &'static [&'static str] {
        self.names
    }

    fn point(&self, name: &str) -> Result<&Point, PointError> {
        let index = self.names.iter().position(|known| *known == name);
        Ok(&self.points[index.ok_or(PointError::Unknown)?])
    }

    /// What the failpoint of this number is to do now.
    pub fn reach(&self, index: usize) -> Action {
        let point = &self.points[index];
        if !point.armed.load(Ordering::Relaxed) {
            return Action::Off;
        }
        let terms = point.lock().clone();
        terms.map_or(Action::Off, |terms| terms.evaluate())
    }

    /// Sets a failpoint.
    pub fn enable(&self, name: &str, text: &str) -> Result<(), PointError> {
        let point = self.point(name)?;
        let terms = Terms::parse(text)?;
        *point.lock() = Some(Arc::new(terms));
        point.armed.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Sets it to nothing.
    pub fn disable(&self, name: &str) -> Result<(), PointError> {
        let point = self.point(name)?;
        point.armed.store(false, Ordering::Relaxed);
        point.lock().take().map(drop).ok_or(PointError::Disabled)
    }

    /// What it is set to.
    pub fn terms(&self, name: &str) -> Result<Arc<Terms>, PointError> {
        self.point(name)?.lock().clone().ok_or(PointError::Disabled)
    }
}

/// It is not `name=terms;name=terms`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("bad failpoint {0:?}")]
pub struct ListError(String);

/// Reads `name=terms;name=terms`.
pub fn parse_list(text: &str) -> Result<Vec<(&str, &str)>, ListError> {
    let entries = text.split(';').filter(|entry| !entry.is_empty());
    entries
        .map(|entry| match entry.split_once('=') {
            Some((name, terms)) if !terms.contains('=') => Ok((name, terms)),
            _ => Err(ListError(entry.to_owned())),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: &[&str] = &["first", "second"];

    #[test]
    fn a_failpoint_acts_while_it_is_set() {
        let registry = Registry::new(NAMES);
        assert_eq!(registry.reach(1), Action::Off);
        registry.enable("second", "print").expect("terms");
        assert_eq!(registry.reach(0), Action::Off);
        assert_eq!(registry.reach(1), Action::Print);
        let terms = registry.terms("second").expect("it is set");
        assert_eq!((terms.text(), terms.acted()), ("print", 1));
        registry.disable("second").expect("it is set");
        assert_eq!(registry.reach(1), Action::Off);
        assert_eq!(registry.disable("second"), Err(PointError::Disabled));
    }

    #[test]
    fn what_cannot_be_set_is_told() {
        let registry = Registry::new(NAMES);
        assert_eq!(registry.enable("third", "off"), Err(PointError::Unknown));
        let bad = registry.enable("first", "jump");
        assert_eq!(bad, Err(PointError::Terms(ParseError)));
        assert_eq!(registry.reach(0), Action::Off);
    }

    #[test]
    fn lists_are_read() {
        let list = parse_list("a=panic;b=sleep(1)->off;").expect("a list");
        assert_eq!(list, [("a", "panic"), ("b", "sleep(1)->off")]);
        assert_eq!(parse_list(""), Ok(Vec::new()));
        let error = parse_list("a=panic;b").expect_err("b has no terms");
        assert_eq!(error.to_string(), r#"bad failpoint "b""#);
        assert!(parse_list("a=b=c").is_err());
    }
}
