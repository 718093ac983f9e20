//! The flags and arguments that a command was given.

use crate::flags::ARGUMENTS;
use clap::ArgMatches;
use clap::parser::ValueSource;
use quorate_go::duration::of_nanos;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::time::Duration;

/// The flags and arguments that were given. Every flag has a default, so a value is always there;
/// asking for a flag under another type than its own, or that the command has not, is a bug.
#[derive(Clone, Debug)]
pub struct Given(pub(crate) ArgMatches);

impl Given {
    fn one<T: Clone + Send + Sync + 'static>(&self, name: &str) -> T {
        self.0
            .get_one::<T>(name)
            .cloned()
            .unwrap_or_else(|| unreachable!("--{name} has a default"))
    }

    /// Whether a flag is on the line.
    pub fn is_set(&self, name: &str) -> bool {
        self.0.value_source(name) == Some(ValueSource::CommandLine)
    }

    /// A boolean.
    pub fn flag(&self, name: &str) -> bool {
        self.one(name)
    }

    /// A text.
    pub fn text(&self, name: &str) -> String {
        self.one(name)
    }

    /// A text of bytes.
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        self.one::<OsString>(name).into_vec()
    }

    /// The texts of several flags of a name, each as it stands.
    pub fn lists(&self, name: &str) -> Vec<String> {
        self.0
            .get_many::<String>(name)
            .map(|lists| lists.cloned().collect())
            .unwrap_or_default()
    }

    /// A number.
    pub fn int(&self, name: &str) -> i64 {
        self.one(name)
    }

    /// A number that is not negative.
    pub fn uint(&self, name: &str) -> u64 {
        self.one(name)
    }

    /// A duration; a negative one, which only means "already over", is zero.
    pub fn duration(&self, name: &str) -> Duration {
        of_nanos(self.nanos(name))
    }

    /// A duration in nanoseconds, for which zero and "already over" are two things.
    pub fn nanos(&self, name: &str) -> i64 {
        self.one(name)
    }

    /// What is no flag, as bytes.
    pub fn arguments(&self) -> Vec<Vec<u8>> {
        self.0
            .get_many::<OsString>(ARGUMENTS)
            .map(|values| values.map(|value| value.clone().into_vec()).collect())
            .unwrap_or_default()
    }

    /// What is no flag, as text; bytes that are not UTF-8 are replaced.
    pub fn texts(&self) -> Vec<String> {
        self.arguments()
            .iter()
            .map(|argument| String::from_utf8_lossy(argument).into_owned())
            .collect()
    }
}
