//! The interaction traces: a group of members, messages between them, and storage that a trace
//! works by hand.

use bytes::Bytes;
use quorate_raft::{
    ConfChange, ConfChangeTransition, ConfChangeV2, ConfState, Config, Entry, EntryKind, HardState,
    Level, MemoryStorage, Message, MessageKind, RawNode, ReadOnlyOption, Snapshot, StepError,
    Storage, StorageError, describe_entries, describe_message, describe_ready, is_local_target,
};

use crate::changes::print_progress;
use crate::datadriven::{Command, number};
use crate::proto::{decode, encode_v1, encode_v2, parse_changes};

/// Log levels, as the traces name them; the last silences everything.
const LEVELS: &[&str] = &["debug", "info", "warn", "error", "fatal", "none"];
const QUIET: usize = 5;

/// Memory, but for snapshots: the newest is the state after the last entry applied.
struct TraceStorage {
    memory: MemoryStorage,
    history: Vec<Snapshot>,
}

impl Storage for TraceStorage {
    fn initial_state(&self) -> (HardState, ConfState) {
        self.memory.initial_state()
    }
    fn entries(&self, lo: u64, hi: u64, max_size: u64) -> Result<Vec<Entry>, StorageError> {
        self.memory.entries(lo, hi, max_size)
    }
    fn term(&self, index: u64) -> Result<u64, StorageError> {
        self.memory.term(index)
    }
    fn first_index(&self) -> u64 {
        self.memory.first_index()
    }
    fn last_index(&self) -> u64 {
        self.memory.last_index()
    }
    fn snapshot(&self) -> Result<Snapshot, StorageError> {
        self.history
            .last()
            .cloned()
            .ok_or(StorageError::SnapshotTemporarilyUnavailable)
    }
}

struct Member {
    node: RawNode<TraceStorage>,
    is_async: bool,
    append_work: Vec<Message>,
    apply_work: Vec<Message>,
}

impl Member {
    fn store(
        &mut self,
        state: Option<HardState>,
        entries: &[Entry],
        snapshot: Option<&Snapshot>,
    ) -> Result<(), String> {
        let memory = &mut self.node.storage_mut().memory;
        if let Some(state) = state.filter(|state| !state.is_empty()) {
            memory.set_hard_state(state);
        }
        match snapshot.filter(|snapshot| !snapshot.is_empty()) {
            None => memory.append(entries),
            Some(_) if !entries.is_empty() => {
                return Err("can't apply snapshot and entries at the same time".to_owned());
            }
            Some(snapshot) => {
                memory
                    .apply_snapshot(snapshot.clone())
                    .map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// The state machine appends what it is given.
    fn apply(&mut self, entries: &[Entry]) -> Result<(), String> {
        for entry in entries {
            let mut snapshot = self
                .node
                .storage()
                .history
                .last()
                .expect("never empty")
                .clone();
            let mut data = snapshot.data.to_vec();
            if entry.kind == EntryKind::Normal {
                data.extend_from_slice(&entry.data);
            } else {
                let change = decode(entry.kind, &entry.data).ok_or("unreadable conf change")?;
                let state = self.node.apply_conf_change(entry.index, &change);
                snapshot.metadata.conf_state = state.map_err(|error| error.to_string())?;
                data.extend_from_slice(&change.context);
            }
            snapshot.data = data.into();
            snapshot.metadata.index = entry.index;
            snapshot.metadata.term = entry.term;
            self.node.storage_mut().history.push(snapshot);
        }
        Ok(())
    }
}

/// A stage of a member that a command works.
type Process = fn(&mut Group, usize) -> Result<(), String>;

/// A group, and what the command under way has printed.
#[derive(Default)]
pub struct Group {
    members: Vec<Member>,
    messages: Vec<Message>,
    output: String,
    level: usize,
}

/// Runs `$what` on a group with its output indented.
macro_rules! indented {
    ($group:ident, $what:expr) => {{
        let before = std::mem::take(&mut $group.output);
        let result = $what;
        let inner = std::mem::replace(&mut $group.output, before);
        for line in inner.lines() {
            $group.output += &format!("  {line}\n");
        }
        result
    }};
}

impl Group {
    pub fn run(&mut self, command: &Command) -> Result<String, String> {
        self.output.clear();
        let result = self.execute(command)?;
        if let Err(error) = result {
            if self.level == QUIET {
                return Ok(error);
            }
            self.output += &error;
        }
        if self.output.is_empty() {
            return Ok("ok".to_owned());
        }
        Ok(std::mem::take(&mut self.output))
    }

    fn print(&mut self, text: &str) {
        if self.level != QUIET {
            self.output += text;
        }
    }

    /// Prints what member `at` has noted.
    fn drain(&mut self, at: usize) {
        for line in self.members[at].node.take_journal() {
            let level = match line.level {
                Level::Debug => 0,
                Level::Info => 1,
                Level::Warn => 2,
                Level::Error => 3,
            };
            if self.level <= level {
                self.print(&format!("{} {}\n", line.level, line.text));
            }
        }
    }

    fn places(&self, command: &Command) -> Result<Vec<usize>, String> {
        let place = |id: u64| {
            let place = usize::try_from(id).ok().and_then(|id| id.checked_sub(1));
            place
                .filter(|place| *place < self.members.len())
                .ok_or(format!("no member {id}"))
        };
        command.numbers()?.into_iter().map(place).collect()
    }

    /// The outer error is one of the trace or of this program, the inner one part of the output.
    fn execute(&mut self, command: &Command) -> Result<Result<(), String>, String> {
        if command.name == "add-nodes" {
            return self.add_nodes(command);
        }
        if command.name == "log-level" {
            let (name, _) = command.arguments.first().ok_or("no level")?;
            self.set_level(name)?;
            return Ok(Ok(()));
        }
        if command.name == "deliver-msgs" {
            return self.deliver_command(command).map(Ok);
        }
        if command.name == "compact" {
            let at = usize::try_from(command.number(0)?).map_err(|error| error.to_string())? - 1;
            let index = command.number(1)?;
            if let Err(error) = self.members[at].node.storage_mut().memory.compact(index) {
                return Ok(Err(error.to_string()));
            }
            self.print_log(at);
            return Ok(Ok(()));
        }
        if command.name == "propose" {
            // The data may look like a number.
            let id = number(&command.arguments.first().ok_or("no member")?.0)?;
            let data = command.arguments.get(1).ok_or("no data")?.0.clone();
            let at = usize::try_from(id).map_err(|error| error.to_string())? - 1;
            let proposed = self.members[at].node.propose(Bytes::from(data));
            self.drain(at);
            return Ok(proposed.map_err(|error| error.to_string()));
        }
        let places = self.places(command)?;
        let first = places.first().copied();
        let at = || first.ok_or("no member given".to_owned());
        let stepped = |result: Result<(), StepError>| result.map_err(|error| error.to_string());
        match command.name.as_str() {
            "campaign" => {
                let result = self.members[at()?].node.campaign();
                self.drain(at()?);
                return Ok(stepped(result));
            }
            "process-ready" | "process-append-thread" | "process-apply-thread" => {
                return Ok(self.process_each(&command.name, &places));
            }
            "raft-log" => self.print_log(at()?),
            "raft-state" => self.print_states(),
            "set-randomized-election-timeout" => {
                let ticks = number(command.value("timeout").ok_or("no timeout")?)?;
                let ticks = u32::try_from(ticks).map_err(|error| error.to_string())?;
                self.members[at()?]
                    .node
                    .set_randomized_election_ticks(ticks);
            }
            "stabilize" => {
                let before = self.level;
                if let Some(level) = command.value("log-level") {
                    self.set_level(level)?;
                }
                let all: Vec<usize> = (0..self.members.len()).collect();
                let result = self.stabilize(if places.is_empty() { &all } else { &places });
                self.level = before;
                return Ok(result);
            }
            "status" => {
                let text = print_progress(&self.members[at()?].node.status().progress);
                self.print(&text);
            }
            "tick-election" | "tick-heartbeat" => {
                let config = self.members[at()?].node.config();
                let ticks = if command.name == "tick-election" {
                    config.election_ticks
                } else {
                    config.heartbeat_ticks
                };
                for _ in 0..ticks {
                    self.members[at()?].node.tick();
                    self.drain(at()?);
                }
            }
            "transfer-leadership" => {
                let from = number(command.value("from").ok_or("no from")?)?;
                let to = number(command.value("to").ok_or("no to")?)?;
                let at = usize::try_from(from).map_err(|error| error.to_string())? - 1;
                self.members[at].node.transfer_leader(to);
                self.drain(at);
            }
            "forget-leader" => {
                self.members[at()?].node.forget_leader();
                self.drain(at()?);
            }
            "send-snapshot" => {
                let [from, to] = places[..] else {
                    return Err("two members are needed".to_owned());
                };
                self.send_snapshot(from, to)?;
            }
            "propose-conf-change" => return self.propose_conf_change(at()?, command),
            "report-unreachable" => {
                let [reporter, reported] = places[..] else {
                    return Err("two members are needed".to_owned());
                };
                let id = self.members[reported].node.id();
                self.members[reporter].node.report_unreachable(id);
                self.drain(reporter);
            }
            other => return Err(format!("unknown command {other}")),
        }
        Ok(Ok(()))
    }

    fn set_level(&mut self, name: &str) -> Result<(), String> {
        let position = LEVELS
            .iter()
            .position(|level| level.eq_ignore_ascii_case(name));
        self.level = position.ok_or(format!("unknown level {name}"))?;
        Ok(())
    }

    fn add_nodes(&mut self, command: &Command) -> Result<Result<(), String>, String> {
        let flag = |value: &str| value.parse::<bool>().map_err(|error| error.to_string());
        let mut snapshot = Snapshot::default();
        let mut template = Config::new(1, decode);
        template.election_ticks = 3;
        template.heartbeat_ticks = 1;
        template.max_inflight_messages = i32::MAX as usize;
        template.journal_floor = Level::Debug;
        let mut is_async = false;
        for (key, values) in &command.arguments {
            for value in values {
                let conf_state = &mut snapshot.metadata.conf_state;
                match key.as_str() {
                    "voters" => conf_state.voters.push(number(value)?),
                    "learners" => conf_state.learners.push(number(value)?),
                    "inflight" => template.max_inflight_messages = number(value)? as usize,
                    "index" => {
                        snapshot.metadata.index = number(value)?;
                        template.applied = snapshot.metadata.index;
                    }
                    "content" => snapshot.data = Bytes::from(value.clone()),
                    "async-storage-writes" => is_async = flag(value)?,
                    "prevote" => template.pre_vote = flag(value)?,
                    "checkquorum" => template.check_quorum = flag(value)?,
                    "max-committed-size-per-ready" => template.max_committed_size = number(value)?,
                    "disable-conf-change-validation" => {
                        template.disable_conf_change_validation = flag(value)?;
                    }
                    "read-only" if value == "safe" => template.read_only = ReadOnlyOption::Safe,
                    "read-only" if value == "lease-based" => {
                        template.read_only = ReadOnlyOption::LeaseBased;
                    }
                    "step-down-on-removal" => template.step_down_on_removal = flag(value)?,
                    other => return Err(format!("unknown argument {other}={value}")),
                }
            }
        }
        let bootstrap = snapshot != Snapshot::default();
        for _ in 0..command.number(0)? {
            let mut memory = MemoryStorage::new();
            if bootstrap {
                if snapshot.metadata.index <= 1 {
                    return Ok(Err(
                        "index must be specified as > 1 due to bootstrap".to_owned()
                    ));
                }
                snapshot.metadata.term = 1;
                memory
                    .apply_snapshot(snapshot.clone())
                    .map_err(|error| error.to_string())?;
            }
            let mut config = template.clone();
            config.id = self.members.len() as u64 + 1;
            config.seed = config.id;
            let storage = TraceStorage {
                memory,
                history: vec![snapshot.clone()],
            };
            let node =
                RawNode::new(config, storage, is_async).map_err(|error| error.to_string())?;
            self.members.push(Member {
                node,
                is_async,
                append_work: Vec::new(),
                apply_work: Vec::new(),
            });
            self.drain(self.members.len() - 1);
        }
        Ok(Ok(()))
    }

    fn deliver_command(&mut self, command: &Command) -> Result<(), String> {
        let mut kind = None;
        let mut receivers = Vec::new();
        for (key, values) in &command.arguments {
            if values.is_empty() {
                receivers.push((number(key)?, false));
            }
            for value in values {
                match key.as_str() {
                    "drop" => receivers.push((number(value)?, true)),
                    "type" => {
                        let found = MessageKind::ALL.iter().find(|kind| kind.name() == value);
                        kind = Some(*found.ok_or(format!("unknown message {value}"))?);
                    }
                    other => return Err(format!("unknown argument {other}")),
                }
            }
        }
        let mut count = 0;
        for (id, is_drop) in receivers {
            count += self.deliver(id, kind, is_drop);
        }
        if count == 0 {
            self.print("no messages\n");
        }
        Ok(())
    }

    /// Those of a kind for a member; local messages are never to be dropped.
    fn select(message: &Message, to: u64, kind: Option<MessageKind>, is_drop: bool) -> bool {
        let is_local = message.from == message.to
            || is_local_target(message.from)
            || is_local_target(message.to);
        message.to == to && !(is_drop && is_local) && kind.is_none_or(|kind| message.kind == kind)
    }

    fn deliver(&mut self, to: u64, kind: Option<MessageKind>, is_drop: bool) -> usize {
        let all = std::mem::take(&mut self.messages);
        let (selected, rest): (Vec<Message>, Vec<Message>) = all
            .into_iter()
            .partition(|message| Group::select(message, to, kind, is_drop));
        self.messages = rest;
        let count = selected.len();
        for message in selected {
            let dropped = if is_drop { "dropped: " } else { "" };
            self.print(&format!(
                "{dropped}{}\n",
                describe_message(&message, decode)
            ));
            if is_drop {
                continue;
            }
            let at = to as usize - 1;
            let result = self.members[at].node.step(message);
            self.drain(at);
            if let Err(error) = result {
                self.print(&format!("{error}\n"));
            }
        }
        count
    }

    fn process_each(&mut self, name: &str, places: &[usize]) -> Result<(), String> {
        for at in places {
            let (title, process): (&str, Process) = match name {
                "process-ready" => ("handling Ready", Group::process_ready),
                "process-append-thread" => ("processing append thread", Group::process_append),
                _ => ("processing apply thread", Group::process_apply),
            };
            if places.len() > 1 {
                self.print(&format!("> {} {title}\n", at + 1));
                indented!(self, process(self, *at))?;
            } else {
                process(self, *at)?;
            }
        }
        Ok(())
    }

    fn process_ready(&mut self, at: usize) -> Result<(), String> {
        let ready = self.members[at].node.ready();
        self.drain(at);
        self.print(&describe_ready(&ready, decode));
        let member = &mut self.members[at];
        let is_async = member.is_async;
        if !is_async {
            member.store(ready.hard_state, &ready.entries, ready.snapshot.as_ref())?;
            let applied = member.apply(&ready.committed_entries);
            self.drain(at);
            applied?;
        }
        for message in ready.messages {
            let member = &mut self.members[at];
            match message.kind {
                MessageKind::StorageAppend => member.append_work.push(message),
                MessageKind::StorageApply => member.apply_work.push(message),
                _ => self.messages.push(message),
            }
        }
        if !is_async {
            self.members[at].node.advance();
            self.drain(at);
        }
        Ok(())
    }

    fn process_append(&mut self, at: usize) -> Result<(), String> {
        if self.members[at].append_work.is_empty() {
            self.print("no append work to perform");
            return Ok(());
        }
        let mut work = self.members[at].append_work.remove(0);
        let responses = std::mem::take(&mut work.responses);
        self.print(&format!(
            "Processing:\n{}\n",
            describe_message(&work, decode)
        ));
        let state = HardState {
            term: work.term,
            vote: work.vote,
            commit: work.commit,
        };
        self.members[at].store(Some(state), &work.entries, work.snapshot.as_deref())?;
        self.respond(responses);
        Ok(())
    }

    fn process_apply(&mut self, at: usize) -> Result<(), String> {
        if self.members[at].apply_work.is_empty() {
            self.print("no apply work to perform");
            return Ok(());
        }
        let mut work = self.members[at].apply_work.remove(0);
        let responses = std::mem::take(&mut work.responses);
        self.print(&format!(
            "Processing:\n{}\n",
            describe_message(&work, decode)
        ));
        let applied = self.members[at].apply(&work.entries);
        self.drain(at);
        applied?;
        self.respond(responses);
        Ok(())
    }

    fn respond(&mut self, responses: Vec<Message>) {
        self.print("Responses:\n");
        for response in &responses {
            self.print(&format!("{}\n", describe_message(response, decode)));
        }
        self.messages.extend(responses);
    }

    /// Rounds of everything for everyone, until nothing is left.
    fn stabilize(&mut self, places: &[usize]) -> Result<(), String> {
        loop {
            let mut is_done = true;
            for at in places {
                if self.members[*at].node.has_ready() {
                    self.print(&format!("> {} handling Ready\n", at + 1));
                    indented!(self, self.process_ready(*at))?;
                    is_done = false;
                }
            }
            for at in places {
                let id = *at as u64 + 1;
                if self.messages.iter().any(|message| message.to == id) {
                    self.print(&format!("> {id} receiving messages\n"));
                    indented!(self, self.deliver(id, None, false));
                    is_done = false;
                }
            }
            for at in places {
                if !self.members[*at].append_work.is_empty() {
                    self.print(&format!("> {} processing append thread\n", at + 1));
                    while !self.members[*at].append_work.is_empty() {
                        indented!(self, self.process_append(*at))?;
                    }
                    is_done = false;
                }
            }
            for at in places {
                if !self.members[*at].apply_work.is_empty() {
                    self.print(&format!("> {} processing apply thread\n", at + 1));
                    while !self.members[*at].apply_work.is_empty() {
                        indented!(self, self.process_apply(*at))?;
                    }
                    is_done = false;
                }
            }
            if is_done {
                return Ok(());
            }
        }
    }

    fn print_log(&mut self, at: usize) {
        let storage = self.members[at].node.storage();
        let (first, last) = (storage.first_index(), storage.last_index());
        let text = if last < first {
            format!("log is empty: first index={first}, last index={last}")
        } else {
            match storage.entries(first, last + 1, u64::MAX) {
                Ok(entries) => describe_entries(&entries, decode),
                Err(error) => error.to_string(),
            }
        };
        self.print(&text);
    }

    fn print_states(&mut self) {
        for at in 0..self.members.len() {
            let status = self.members[at].node.status();
            let (basic, voters) = (status.basic, &status.membership.voters);
            let voter = if voters.contains(basic.id) {
                "(Voter)"
            } else {
                "(Non-Voter)"
            };
            let text = format!(
                "{}: {} {voter} Term:{} Lead:{}\n",
                basic.id, basic.soft_state.role, basic.hard_state.term, basic.soft_state.lead
            );
            self.print(&text);
        }
    }

    fn send_snapshot(&mut self, from: usize, to: usize) -> Result<(), String> {
        let node = &self.members[from].node;
        let mut message = Message::new(MessageKind::Snap, to as u64 + 1);
        message.from = from as u64 + 1;
        message.term = node.hard_state().term;
        let snapshot = node
            .storage()
            .snapshot()
            .map_err(|error| error.to_string())?;
        message.snapshot = Some(Box::new(snapshot));
        self.print(&describe_message(&message, decode));
        self.messages.push(message);
        Ok(())
    }

    fn propose_conf_change(
        &mut self,
        at: usize,
        command: &Command,
    ) -> Result<Result<(), String>, String> {
        let is_v1 = command.value("v1") == Some("true");
        let transition = match command.value("transition") {
            None | Some("auto") => ConfChangeTransition::Auto,
            Some("implicit") => ConfChangeTransition::JointImplicit,
            Some("explicit") => ConfChangeTransition::JointExplicit,
            Some(other) => return Err(format!("unknown transition {other}")),
        };
        let changes = parse_changes(&command.input)?;
        let (kind, data) = if is_v1 {
            let [single] = changes[..] else {
                return Err("a v1 change has one operation".to_owned());
            };
            let change = ConfChange {
                kind: single.kind,
                node_id: single.node_id,
                ..ConfChange::default()
            };
            (EntryKind::ConfChange, encode_v1(&change))
        } else {
            let change = ConfChangeV2 {
                transition,
                changes,
                context: Bytes::new(),
            };
            (EntryKind::ConfChangeV2, encode_v2(&change))
        };
        let proposed = self.members[at].node.propose_conf_change(kind, data);
        self.drain(at);
        Ok(proposed.map_err(|error| error.to_string()))
    }
}
