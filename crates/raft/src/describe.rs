//! Text forms of messages, entries and states, as etcd's traces and tools print them.

use std::fmt::Write;

use crate::conf_change::{
    ConfChangeKind, ConfChangeSingle, ConfChangeV2, DecodeConfChange, decode,
};
use crate::message::Message;
use crate::raw_node::Ready;
use crate::types::{
    ConfState, Entry, EntryKind, HardState, LOCAL_APPEND_THREAD, LOCAL_APPLY_THREAD, NONE,
    ReadState, Snapshot, SoftState,
};

/// `Term:1 Vote:2 Commit:3`, without a vote that was not given.
pub fn describe_hard_state(state: &HardState) -> String {
    let mut text = format!("Term:{}", state.term);
    if state.vote != NONE {
        text += &format!(" Vote:{}", state.vote);
    }
    text + &format!(" Commit:{}", state.commit)
}

/// `Lead:1 State:StateFollower`.
pub fn describe_soft_state(state: &SoftState) -> String {
    format!("Lead:{} State:{}", state.lead, state.role)
}

fn spaced<T: ToString>(items: impl IntoIterator<Item = T>) -> String {
    let items: Vec<String> = items.into_iter().map(|item| item.to_string()).collect();
    format!("[{}]", items.join(" "))
}

/// Each set of a configuration.
pub fn describe_conf_state(state: &ConfState) -> String {
    format!(
        "Voters:{} VotersOutgoing:{} Learners:{} LearnersNext:{} AutoLeave:{}",
        spaced(&state.voters),
        spaced(&state.voters_outgoing),
        spaced(&state.learners),
        spaced(&state.learners_next),
        state.auto_leave
    )
}

/// Where a snapshot stands.
pub fn describe_snapshot(snapshot: &Snapshot) -> String {
    let metadata = &snapshot.metadata;
    format!(
        "Index:{} Term:{} ConfState:{}",
        metadata.index,
        metadata.term,
        describe_conf_state(&metadata.conf_state)
    )
}

/// `v1 l2 r3 u4`: the changes in short.
pub fn describe_changes(changes: &[ConfChangeSingle]) -> String {
    let short = |change: &ConfChangeSingle| {
        let letter = match change.kind {
            ConfChangeKind::AddNode => 'v',
            ConfChangeKind::AddLearnerNode => 'l',
            ConfChangeKind::RemoveNode => 'r',
            ConfChangeKind::UpdateNode => 'u',
        };
        format!("{letter}{}", change.node_id)
    };
    changes.iter().map(short).collect::<Vec<_>>().join(" ")
}

/// A change in full.
pub fn describe_conf_change(change: &ConfChangeV2) -> String {
    let mut text = format!("transition:{}", change.transition);
    for single in &change.changes {
        text += &format!(
            " changes:{{type:{} node_id:{}}}",
            single.kind, single.node_id
        );
    }
    if !change.context.is_empty() {
        text += &format!(" context:{}", quoted(&change.context));
    }
    text
}

/// Bytes in quotes, what cannot be printed escaped.
pub fn quoted(bytes: &[u8]) -> String {
    let mut text = String::from("\"");
    for chunk in bytes.utf8_chunks() {
        for char in chunk.valid().chars() {
            match char {
                '"' => text.push_str("\\\""),
                '\\' => text.push_str("\\\\"),
                '\n' => text.push_str("\\n"),
                '\r' => text.push_str("\\r"),
                '\t' => text.push_str("\\t"),
                char if char.is_control() && char.is_ascii() => {
                    write!(text, "\\x{:02x}", u32::from(char)).expect("a String takes all");
                }
                char => text.push(char),
            }
        }
        for byte in chunk.invalid() {
            write!(text, "\\x{byte:02x}").expect("a String takes all");
        }
    }
    text + "\""
}

/// Term, index, kind and contents of an entry.
pub fn describe_entry(entry: &Entry, decode_conf_change: DecodeConfChange) -> String {
    let contents = match entry.kind {
        EntryKind::Normal => quoted(&entry.data),
        kind => match decode(decode_conf_change, kind, &entry.data) {
            Some(change) => describe_changes(&change.changes),
            None => "unreadable conf change".to_owned(),
        },
    };
    let space = if contents.is_empty() { "" } else { " " };
    format!(
        "{}/{} {}{space}{contents}",
        entry.term, entry.index, entry.kind
    )
}

/// Entries, one a line.
pub fn describe_entries(entries: &[Entry], decode_conf_change: DecodeConfChange) -> String {
    let line = |entry| describe_entry(entry, decode_conf_change) + "\n";
    entries.iter().map(line).collect()
}

fn describe_target(id: u64) -> String {
    match id {
        NONE => "None".to_owned(),
        LOCAL_APPEND_THREAD => "AppendThread".to_owned(),
        LOCAL_APPLY_THREAD => "ApplyThread".to_owned(),
        id => format!("{id:x}"),
    }
}

/// A message on one line, or on several if it has several entries, a snapshot or responses.
pub fn describe_message(message: &Message, decode_conf_change: DecodeConfChange) -> String {
    let mut text = String::new();
    write_message(&mut text, "", message, decode_conf_change);
    text
}

fn write_message(text: &mut String, indent: &str, message: &Message, decode: DecodeConfChange) {
    *text += &format!(
        "{indent}{}->{} {} Term:{} Log:{}/{}",
        describe_target(message.from),
        describe_target(message.to),
        message.kind,
        message.term,
        message.log_term,
        message.index
    );
    if message.reject {
        *text += &format!(" Rejected (Hint: {})", message.reject_hint);
    }
    if message.commit != 0 {
        *text += &format!(" Commit:{}", message.commit);
    }
    if message.vote != NONE {
        *text += &format!(" Vote:{}", message.vote);
    }
    match message.entries.as_slice() {
        [] => {}
        [entry] => *text += &format!(" Entries:[{}]", describe_entry(entry, decode)),
        entries => {
            *text += " Entries:[";
            for entry in entries {
                *text += &format!("\n{indent}  {}", describe_entry(entry, decode));
            }
            *text += &format!("\n{indent}]");
        }
    }
    if let Some(snapshot) = message
        .snapshot
        .as_ref()
        .filter(|snapshot| !snapshot.is_empty())
    {
        *text += &format!("\n{indent}  Snapshot: {}", describe_snapshot(snapshot));
    }
    if !message.responses.is_empty() {
        *text += " Responses:[";
        for response in &message.responses {
            *text += "\n";
            write_message(text, &format!("{indent}  "), response, decode);
        }
        *text += &format!("\n{indent}]");
    }
}

fn describe_read_state(state: &ReadState) -> String {
    format!("{{{} {}}}", state.index, spaced(state.context.iter()))
}

/// All that a [`Ready`] holds.
pub fn describe_ready(ready: &Ready, decode: DecodeConfChange) -> String {
    let mut text = String::new();
    if let Some(state) = &ready.soft_state {
        text += &format!("{}\n", describe_soft_state(state));
    }
    if let Some(state) = &ready.hard_state {
        text += &format!("HardState {}\n", describe_hard_state(state));
    }
    if !ready.read_states.is_empty() {
        let states = ready.read_states.iter().map(describe_read_state);
        text += &format!("ReadStates {}\n", spaced(states));
    }
    if !ready.entries.is_empty() {
        text += &format!("Entries:\n{}", describe_entries(&ready.entries, decode));
    }
    if let Some(snapshot) = &ready.snapshot {
        text += &format!("Snapshot {}\n", describe_snapshot(snapshot));
    }
    if !ready.committed_entries.is_empty() {
        let entries = describe_entries(&ready.committed_entries, decode);
        text += &format!("CommittedEntries:\n{entries}");
    }
    if !ready.messages.is_empty() {
        text += "Messages:\n";
        for message in &ready.messages {
            write_message(&mut text, "", message, decode);
            text += "\n";
        }
    }
    if text.is_empty() {
        return "<empty Ready>".to_owned();
    }
    format!("Ready MustSync={}:\n{text}", ready.must_sync)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_quoted() {
        assert_eq!(
            quoted(b"a\"\\\n\x01\xff\xc3\xa9"),
            "\"a\\\"\\\\\\n\\x01\\xff\u{e9}\""
        );
    }
}
