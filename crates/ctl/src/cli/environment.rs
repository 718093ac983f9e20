//! The variables ETCDCTL_*: each flag of all commands has one. A variable and its flag at once
//! are a conflict that ends the program; one that belongs to no flag is warned about.

use crate::exit::{self, Exit};
use crate::go::json::string;
use crate::print::write_err;
use std::collections::BTreeMap;
use std::time::{SystemTime, UNIX_EPOCH};

const PREFIX: &str = "ETCDCTL_";

/// The variables of a process, in the order of their names.
#[derive(Clone, Debug, Default)]
pub struct Environment(BTreeMap<String, String>);

impl Environment {
    /// Those of this process that have to do with us.
    pub fn of_process() -> Environment {
        let ours = std::env::vars_os().filter_map(|(name, value)| {
            let name = name.into_string().ok()?;
            name.starts_with(PREFIX)
                .then(|| (name, value.to_string_lossy().into_owned()))
        });
        Environment(ours.collect())
    }

    /// These.
    #[cfg(test)]
    pub fn of(variables: &[(&str, &str)]) -> Environment {
        let owned = variables
            .iter()
            .map(|(name, value)| ((*name).into(), (*value).into()));
        Environment(owned.collect())
    }

    /// The value of a variable that is there and not empty.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .get(name)
            .map(String::as_str)
            .filter(|value| !value.is_empty())
    }
}

/// The variable of a flag.
pub fn variable(flag: &str) -> String {
    format!("{PREFIX}{}", flag.to_uppercase().replace('-', "_"))
}

/// Refuses a variable whose flag is set, and warns about those of no flag.
pub fn verify(variables: &Environment, known: &[String], set: &[String]) -> Result<(), Exit> {
    let conflict = set
        .iter()
        .map(|flag| variable(flag))
        .find(|name| variables.0.contains_key(name));
    if let Some(name) = conflict {
        log("fatal", CONFLICT, &name);
        return Err(Exit::silent(exit::ERROR));
    }
    for (name, value) in &variables.0 {
        let used = known.iter().any(|flag| variable(flag) == *name) && !value.is_empty();
        if !used {
            log(
                "warn",
                "unrecognized environment variable",
                &format!("{name}={value}"),
            );
        }
    }
    Ok(())
}

/// Tools look for this line.
const CONFLICT: &str = "conflicting environment variable is shadowed by corresponding command-line flag (either unset environment variable or disable flag))";

/// A line in the form of etcd's log.
fn log(level: &str, message: &str, variable: &str) {
    let (message, variable) = (string(message), string(variable));
    let line = format!(
        "{{\"level\":\"{level}\",\"ts\":\"{}\",\"caller\":\"flags/flag.go\",\"msg\":{message},\"environment-variable\":{variable}}}\n",
        now()
    );
    write_err(line.as_bytes());
}

/// The time in UTC, as RFC 3339 with microseconds.
fn now() -> String {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    let (days, seconds) = (since.as_secs() / 86400, since.as_secs() % 86400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}.{:06}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60,
        since.subsec_micros()
    )
}

/// Year, month and day of a day after 1970-01-01 (the method of Howard Hinnant's days_from_civil,
/// turned round: years that begin in March, in eras of 400).
fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let march_month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * march_month + 2) / 5 + 1;
    let month = match march_month {
        0..10 => march_month + 3,
        _ => march_month - 9,
    };
    (era * 400 + year + u64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_become_dates() {
        assert_eq!(civil(0), (1970, 1, 1));
        assert_eq!(civil(11_016), (2000, 2, 29));
        assert_eq!(civil(20_088), (2024, 12, 31));
    }

    #[test]
    fn variables_are_named_after_flags() {
        assert_eq!(variable("dial-timeout"), "ETCDCTL_DIAL_TIMEOUT");
    }
}
