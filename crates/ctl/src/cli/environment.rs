//! The variables ETCDCTL_*: each flag of all commands has one. A variable and its flag at once
//! are a conflict that ends the program; one that belongs to no flag is warned about.

use quorate_cli::exit::{self, Exit};
use quorate_cli::streams::write_err;
use quorate_go::json::string;
use quorate_go::time;
use std::collections::BTreeMap;

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
        time::micros(time::now())
    );
    write_err(line.as_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_are_named_after_flags() {
        assert_eq!(variable("dial-timeout"), "ETCDCTL_DIAL_TIMEOUT");
    }
}
