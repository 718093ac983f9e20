//! The quorum traces: committed indexes and votes of majorities and joint configurations, with the
//! extra checks that print something only if they find a difference.

use std::collections::BTreeMap;

use quorate_raft::{IdSet, JointConfig};

use crate::datadriven::{Command, number};

pub fn run(command: &Command) -> Result<String, String> {
    let mut is_joint = false;
    let (mut ids, mut outgoing_ids) = (Vec::new(), Vec::new());
    // By voter in order of mention; 0 where the voter said nothing. Votes: 1 no, 2 yes.
    let (mut indexes, mut votes) = (Vec::new(), Vec::new());
    for (key, values) in &command.arguments {
        for value in values {
            match (key.as_str(), value.as_str()) {
                ("cfg", id) => ids.push(number(id)?),
                ("cfgj", "zero") => is_joint = true,
                ("cfgj", id) => {
                    is_joint = true;
                    outgoing_ids.push(number(id)?);
                }
                ("idx", "_") => indexes.push(0),
                ("idx", index) => indexes.push(number(index)?),
                ("votes", "y") => votes.push(2),
                ("votes", "n") => votes.push(1),
                ("votes", "_") => votes.push(0),
                other => return Err(format!("unknown argument {other:?}")),
            }
        }
    }
    let config = JointConfig {
        incoming: ids.iter().copied().collect(),
        outgoing: outgoing_ids.iter().copied().collect(),
    };
    let turned = JointConfig {
        incoming: config.outgoing.clone(),
        outgoing: config.incoming.clone(),
    };
    let said = match command.name.as_str() {
        "committed" => indexes,
        "vote" => votes,
        other => return Err(format!("unknown command {other}")),
    };
    if config.ids().len() != said.len() {
        let voters: Vec<String> = config.ids().iter().map(|id| format!("{id}:{{}}")).collect();
        let said: Vec<String> = said.iter().map(u64::to_string).collect();
        return Ok(format!(
            "error: mismatched input (explicit or _) for voters map[{}]: [{}]",
            voters.join(" "),
            said.join(" ")
        ));
    }
    let mut by_id = BTreeMap::new();
    let mut left = said.into_iter();
    for id in ids.iter().chain(&outgoing_ids) {
        by_id.entry(*id).or_insert_with(|| left.next().unwrap_or(0));
    }
    by_id.retain(|_, said| *said != 0);
    let lookup = |id: u64| by_id.get(&id).copied();

    let mut output = String::new();
    if command.name == "vote" {
        let vote = |id: u64| lookup(id).map(|said| said == 2);
        let result = if is_joint {
            config.vote_result(vote)
        } else {
            config.incoming.vote_result(vote)
        };
        if turned.vote_result(vote) != result {
            output += &format!("{} <-- via symmetry\n", turned.vote_result(vote));
        }
        return Ok(output + &format!("{result}\n"));
    }
    let index = if is_joint {
        output += &config.describe(lookup);
        config.committed_index(lookup)
    } else {
        output += &config.incoming.describe(lookup);
        let index = config.incoming.committed_index(lookup);
        check_majority(&mut output, &config.incoming, &by_id, index);
        index
    };
    if turned.committed_index(lookup) != index {
        output += &format!(
            "{} <-- via symmetry\n",
            shown(turned.committed_index(lookup))
        );
    }
    Ok(output + &format!("{}\n", shown(index)))
}

fn shown(index: u64) -> String {
    if index == u64::MAX {
        "∞".to_owned()
    } else {
        index.to_string()
    }
}

fn check_majority(output: &mut String, voters: &IdSet, acked: &BTreeMap<u64, u64>, index: u64) {
    let lookup = |id: u64| acked.get(&id).copied();
    let with_itself = JointConfig {
        incoming: voters.clone(),
        outgoing: voters.clone(),
    };
    if with_itself.committed_index(lookup) != index {
        *output += &format!(
            "{} <-- via self-joint quorum\n",
            with_itself.committed_index(lookup)
        );
    }
    // Each acknowledged index carries those at or above it; the best with a majority wins.
    let counted = acked
        .values()
        .filter(|candidate| {
            let at_or_above = acked.values().filter(|other| other >= candidate).count();
            at_or_above > voters.len() / 2
        })
        .max()
        .copied()
        .unwrap_or(if voters.is_empty() { u64::MAX } else { 0 });
    if counted != index {
        *output += &format!("{} <-- via alternative computation\n", shown(counted));
    }
    // A voter below the committed index makes no difference by falling further back.
    for (id, own) in acked.iter().filter(|(_, own)| **own < index) {
        for lower in [own - 1, 0] {
            let fallen = |other: u64| {
                if other == *id {
                    Some(lower)
                } else {
                    lookup(other)
                }
            };
            if voters.committed_index(fallen) != index {
                *output += &format!(
                    "{} <-- overlaying {id}->{lower}",
                    voters.committed_index(fallen)
                );
            }
        }
    }
}
