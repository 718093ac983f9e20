//! The confchange traces: configurations and the changes between them.

use quorate_raft::{Changer, InflightLimits, Membership, ProgressMap};

use crate::datadriven::Command;
use crate::proto::parse_changes;

pub fn start() -> Changer {
    Changer {
        membership: Membership::default(),
        progress: ProgressMap::new(),
        limits: InflightLimits {
            count_max: 10,
            bytes_max: 0,
        },
        last_index: 0,
    }
}

pub fn run(changer: &mut Changer, command: &Command) -> Result<String, String> {
    let changes = parse_changes(&command.input)?;
    let current = changer.clone();
    changer.last_index += 1;
    let changed = match command.name.as_str() {
        "simple" => current.simple(&changes),
        "enter-joint" => {
            let auto_leave = match command.value("autoleave") {
                None | Some("false") => false,
                Some("true") => true,
                Some(other) => return Err(format!("autoleave={other}")),
            };
            current.enter_joint(auto_leave, &changes)
        }
        "leave-joint" if changes.is_empty() => current.leave_joint(),
        other => return Err(format!("cannot run {other} with {changes:?}")),
    };
    Ok(match changed {
        Err(error) => format!("{error}\n"),
        Ok(changed) => {
            changer.membership = changed.membership;
            changer.progress = changed.progress;
            format!(
                "{}\n{}",
                changer.membership,
                print_progress(&changer.progress)
            )
        }
    })
}

pub fn print_progress(progress: &ProgressMap) -> String {
    progress
        .iter()
        .map(|(id, progress)| format!("{id}: {progress}\n"))
        .collect()
}
