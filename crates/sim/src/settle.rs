//! The end of a run: trouble is over, everything must come to agree, and the history is judged.

use crate::client::Asker;
use crate::cluster::Cluster;
use crate::history::{Asked, OpId, Outcome};
use crate::model::{Keys, Kv, Op, Request};
use crate::network::Slot;
use crate::oracle::agreement::{self, Standing};
use crate::oracle::{Violation, acknowledged, ensure, linearizable};
use crate::wire;
use quorate_node::store::hash::hash_by_revision;
use quorate_node::store::index::KeyRange;
use quorate_node::store::range::{Kvs, range};

/// Time in which a cluster without trouble must come to agree, in microseconds.
const SETTLE_US: u64 = 60_000_000;
/// Pause before a member is asked again, in microseconds.
const PAUSE_US: u64 = 500_000;
/// How often a member is asked before it counts as one that does not serve.
const ROUNDS: usize = 4;
/// The oracle that wants progress.
const LIVENESS: &str = "liveness";

impl Cluster {
    /// Lets everything calm down, and sees that each member serves and all agree.
    pub(crate) fn settle(&mut self) -> Result<(), Violation> {
        self.calm_down();
        self.until("agree", Cluster::is_level)?;
        let mut waiting = self.members();
        let mut told = Vec::new();
        // A request may still meet a retry of a full disk, or its answer a snapshot that overtakes it.
        for _ in 0..ROUNDS {
            let probes: Vec<(Slot, [OpId; 2])> = waiting
                .iter()
                .map(|slot| (*slot, self.probe(*slot)))
                .collect();
            self.until("answer", |cluster| {
                let all = probes.iter().flat_map(|(_, probes)| probes);
                all.clone()
                    .all(|probe| cluster.history.has_returned(*probe))
            })?;
            let operations = self.history.operations();
            let served = |probe: &OpId| {
                let outcome = &operations[*probe].outcome;
                matches!(outcome, Outcome::Written(_) | Outcome::Read { .. })
            };
            told.clear();
            waiting.clear();
            for (slot, probes) in probes {
                if !probes.iter().all(served) {
                    waiting.push(slot);
                    let failed = probes.iter().filter(|probe| !served(probe));
                    told.extend(failed.map(|probe| operations[*probe].outcome.clone()));
                }
            }
            if waiting.is_empty() {
                break;
            }
            self.pass(PAUSE_US)?;
        }
        ensure!(
            waiting.is_empty(),
            LIVENESS,
            "in calm, members {waiting:?} do not serve: {told:?}"
        );
        self.until("agree again", Cluster::is_level)?;
        self.compare()
    }

    /// Asks a member to write and to read.
    fn probe(&mut self, slot: Slot) -> [OpId; 2] {
        self.next_request += 1;
        let put = Op::Put {
            key: format!("probe{slot}").into_bytes(),
            value: b"still here".to_vec(),
            lease: 0,
        };
        let write = Asked::Write(self.next_request, Request::One(put));
        let read = Asked::Read {
            keys: all_keys(),
            at: 0,
            linearizable: true,
        };
        [write, read].map(|asked| self.ask(Asker::Probe, slot, asked))
    }

    /// Lets time go on.
    fn pass(&mut self, for_us: u64) -> Result<(), Violation> {
        let until_us = self.now_us() + for_us;
        while self.now_us() < until_us {
            self.happen()?;
        }
        Ok(())
    }

    fn until(
        &mut self,
        what: &str,
        mut done: impl FnMut(&mut Cluster) -> bool,
    ) -> Result<(), Violation> {
        let deadline_us = self.now_us() + SETTLE_US;
        while !done(self) {
            self.pass(20_000)?;
            if self.now_us() > deadline_us {
                let standings = (0..self.machines.len()).map(|slot| {
                    let Some(process) = &self.machines[slot].process else {
                        return format!("{slot} is down");
                    };
                    let status = process.member.status();
                    format!(
                        "{slot} ({:x}) is in term {} under {:x}, has applied {} of {}, {} pending",
                        self.machines[slot].id,
                        status.term,
                        status.leader,
                        status.applied,
                        status.committed,
                        status.pending
                    )
                });
                let standings: Vec<String> = standings.collect();
                return Err(Violation {
                    oracle: LIVENESS,
                    what: format!(
                        "in calm, members {:?} do not {what}: {}",
                        self.members(),
                        standings.join("; ")
                    ),
                });
            }
        }
        Ok(())
    }

    /// Places of those who belong to the cluster, as the one sees it that has applied most.
    fn members(&self) -> Vec<Slot> {
        let views = self.machines.iter().filter_map(|machine| {
            let process = machine.process.as_ref()?;
            Some(process.member.view().clone())
        });
        let Some(newest) = views.max_by_key(|view| view.applied_index) else {
            return Vec::new();
        };
        let slots = 0..self.machines.len();
        slots
            .filter(|slot| newest.members.get(self.machines[*slot].id).is_some())
            .collect()
    }

    /// Whether all members run, stand at the same place, and watchers know of everything.
    fn is_level(&mut self) -> bool {
        let mut statuses = Vec::new();
        let members = self.members();
        if members.is_empty() {
            return false;
        }
        // Those who were removed have helped for long enough once the others have a leader.
        let leads = |slot: &Slot| {
            let process = self.machines[*slot].process.as_ref();
            process.is_some_and(|process| process.led.is_some())
        };
        if members.iter().any(leads) {
            for slot in 0..self.machines.len() {
                let runs = self.machines[slot].process.is_some();
                if runs && !members.contains(&slot) {
                    self.die(slot);
                }
            }
        }
        for slot in &members {
            let Some(process) = &self.machines[*slot].process else {
                return false;
            };
            let status = process.member.status();
            if status.leader == 0 || status.pending > 0 || status.applied != status.committed {
                return false;
            }
            statuses.push((status.term, status.leader, status.applied));
        }
        let revision = self.machines[members[0]].running().member.view().revision;
        let waits = |current: &Option<OpId>| current.is_some();
        statuses.windows(2).all(|pair| pair[0] == pair[1])
            && statuses[0].2 == self.ledger.last()
            && self
                .watchers
                .iter()
                .all(|watcher| watcher.is_level(revision))
            && !self.clients.iter().any(|client| waits(&client.current))
            && !self.keepers.iter().any(|keeper| waits(&keeper.current))
    }

    /// Shows what each member holds to the oracle of agreement.
    pub(crate) fn compare(&mut self) -> Result<(), Violation> {
        for slot in 0..self.machines.len() {
            if !self.machines[slot].is_awake() {
                continue;
            }
            let member = &mut self.machines[slot].running().member;
            let view = member.view().clone();
            if view.applied_index != member.status().applied {
                continue;
            }
            let hash = hash_by_revision(&view, &view.hashes, 0);
            let hash = hash.map_err(|error| Violation {
                oracle: agreement::NAME,
                what: format!("member {slot} cannot hash what it holds: {error}"),
            })?;
            let mut leases = member.lessor().ids();
            leases.sort_unstable();
            let everything = KeyRange {
                start: b"",
                end: None,
            };
            let standing = Standing {
                applied: view.applied_index,
                revision: view.revision,
                compact_revision: view.compact_revision,
                hash: (view.root.count(everything) > 0).then_some(hash.hash),
                leases,
            };
            self.agreement.stands(slot, standing)?;
        }
        Ok(())
    }

    /// Judges the whole history.
    pub(crate) fn judge(&mut self) -> Result<(), Violation> {
        acknowledged::check(&self.history, &self.requests)?;
        let model = linearizable::check(&self.history, &self.requests)?;
        for watcher in &self.watchers {
            if let Some(watched) = watcher.watched() {
                watched.check(&model)?;
            }
        }
        for slot in self.members() {
            let process = self.machines[slot].running();
            let view = process.member.view().clone();
            ensure!(
                view.revision == model.revision() && view.compact_revision == model.compacted(),
                agreement::NAME,
                "member {slot} stands at revision {} compacted at {}, the log at {} and {}",
                view.revision,
                view.compact_revision,
                model.revision(),
                model.compacted()
            );
            let mut leases = process.member.lessor().ids();
            leases.sort_unstable();
            ensure!(
                leases == model.leases(),
                agreement::NAME,
                "member {slot} has leases {leases:x?}, the log {:x?}",
                model.leases()
            );
            for at in model.compacted().max(1)..=model.revision() {
                let held = self.held(slot, at)?;
                let expected = model.all(at);
                ensure!(
                    held == expected,
                    agreement::NAME,
                    "member {slot} holds {held:?} at revision {at}, not {expected:?}"
                );
            }
            let check = self.machines[slot].running().commit.db().check();
            let sound = check.as_ref().is_ok_and(|check| check.is_ok());
            ensure!(
                sound,
                agreement::NAME,
                "member {slot}'s file is not sound: {check:?}"
            );
        }
        Ok(())
    }

    fn held(&mut self, slot: usize, at: i64) -> Result<Vec<Kv>, Violation> {
        let view = self.machines[slot].running().member.view().clone();
        let request = wire::range_of(&all_keys(), at);
        let answer = range(&view, &request, None, None).map_err(|error| Violation {
            oracle: agreement::NAME,
            what: format!("member {slot} cannot read revision {at}: {error}"),
        })?;
        let mut bytes = Vec::new();
        if let Some(answer) = answer {
            match answer.kvs {
                Kvs::Ready(ready) => bytes = ready,
                Kvs::Spliced(mut splice) => {
                    while let Some(chunk) = splice.next_chunk(1 << 16) {
                        bytes.extend_from_slice(&chunk);
                    }
                }
            }
        }
        Ok(wire::kvs_from_range(&bytes))
    }
}

/// Every key that anyone uses.
fn all_keys() -> Keys {
    Keys {
        start: b"a".to_vec(),
        end: Some(b"z".to_vec()),
    }
}
