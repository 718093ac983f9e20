//! What goes between members: messages, databases, and who belongs to the cluster.

use crate::cluster::{Cluster, Event};
use crate::machine::{Input, Machine, Work, directories, settings_of_store, url_of};
use crate::network::Slot;
use crate::oracle::durable_log::DurableLog;
use crate::sabotage::{self, Sabotage};
use quorate_node::disk::{Disk, Mode};
use quorate_node::raft::Message;
use quorate_node::store::membership::Member as ClusterMember;
use quorate_node::wal::snap;
use quorate_node::{Error, MemberChange, Note, Received, SnapshotToSend};
use std::io;
use std::sync::Arc;

/// Machines at most, those of members that were removed among them.
const MACHINES_MAX: usize = 8;
/// Bytes of a received database that are written at a time.
const PIECE_BYTES: usize = 16 * 1024;
/// Lost messages that the sender's transport notices, of a thousand.
const NOTICED: u64 = 100;

impl Cluster {
    /// Lets a message go.
    pub(crate) fn send(&mut self, from: Slot, message: Message) {
        if self.sabotage == Some(Sabotage::UnconfirmedRead)
            && let Some(answer) = sabotage::confirmation(&message)
        {
            self.take_input(from, Input::Message(answer));
        }
        let Some(to) = self.slot_of(message.to) else {
            return;
        };
        let delays = match self.network.connects(from, to) {
            true => self.network.send(&mut self.random, &message),
            false => Vec::new(),
        };
        if delays.is_empty() && self.random.chance(NOTICED) {
            let delay_us = self.random.around(2_000);
            let input = Input::Unreachable(message.to);
            self.later(from, delay_us, Work::Input(input));
        }
        for delay_us in delays {
            let message = message.clone();
            self.schedule
                .after(delay_us, Event::Deliver { from, to, message });
        }
    }

    /// A message arrives.
    pub(crate) fn deliver(&mut self, from: Slot, to: Slot, message: Message) {
        if self.machines[to].process.is_none() || !self.network.connects(from, to) {
            return;
        }
        let now_us = self.now_us();
        self.trace.event(
            now_us,
            format_args!(
                "{to} < {from} {} term {} index {} entries {} commit {} reject {}",
                message.kind,
                message.term,
                message.index,
                message.entries.len(),
                message.commit,
                message.reject
            ),
        );
        self.later(to, 0, Work::Input(Input::Message(message)));
    }

    /// Reads a database out and lets it go.
    pub(crate) fn send_snapshot(&mut self, from: Slot, snapshot: SnapshotToSend) {
        let SnapshotToSend { message, view } = snapshot;
        let mut database = Vec::new();
        let read = view.file.write_to(&mut |piece| {
            database.extend_from_slice(piece);
            Ok(())
        });
        read.expect("a sound file can be read");
        drop(view);
        let life = self.machines[from].life;
        let to = self.slot_of(message.to);
        let lost = self.random.chance(self.network.weather.loss);
        match to.filter(|to| self.network.connects(from, *to) && !lost) {
            None => self.snapshot_sent((from, life), message.to, false),
            Some(to) => {
                let delay_us = self.random.around(20_000);
                self.schedule.after(
                    delay_us,
                    Event::DeliverSnapshot {
                        from: (from, life),
                        to,
                        message,
                        database,
                    },
                );
            }
        }
    }

    /// A database arrives.
    pub(crate) fn deliver_snapshot(
        &mut self,
        from: (Slot, u64),
        to: Slot,
        message: Message,
        database: Vec<u8>,
    ) {
        if self.machines[to].process.is_none() || !self.network.connects(from.0, to) {
            return self.snapshot_sent(from, message.to, false);
        }
        let work = Work::Receive {
            from,
            message,
            database,
        };
        self.later(to, 0, work);
    }

    /// Stores a database that arrived.
    pub(crate) fn receive_snapshot(
        &mut self,
        slot: Slot,
        from: (Slot, u64),
        message: Message,
        database: &[u8],
    ) -> Result<(), Error> {
        self.arm(slot);
        let disk = self.machines[slot].disk.clone();
        let index = index_of(&message);
        let dir = directories().snap();
        let part = snap::database_tmp_path(&dir, index);
        let saved = save(&*disk, &part, database);
        let sent = match saved {
            Ok(()) => {
                let path = snap::database_path(&dir, index);
                // One that is there already is as good, and may be in use.
                if disk.exists(&path).map_err(failing("look for", &path))? {
                    disk.remove(&part).map_err(failing("remove", &part))?;
                } else {
                    snap::publish_database(&*disk, &dir, index)?;
                }
                self.disarm(slot)?;
                let delay_us = self.random.around(3_000);
                self.later(slot, delay_us, Work::OpenReceived(message.clone()));
                true
            }
            Err(error) if error.kind() == io::ErrorKind::StorageFull => {
                disk.remove(&part).map_err(failing("remove", &part))?;
                self.disarm(slot)?;
                false
            }
            Err(error) => return Err(failing("write", &part)(error)),
        };
        // The sender may not hear of it.
        let heard = !self.random.chance(self.network.weather.loss);
        self.snapshot_sent(from, message.to, sent && heard);
        Ok(())
    }

    /// Opens a received database and checks it.
    pub(crate) fn open_received(&mut self, slot: Slot, message: Message) -> Result<(), Error> {
        let disk: Arc<dyn Disk> = self.machines[slot].disk.clone();
        let index = index_of(&message);
        let path = snap::database_path(&directories().snap(), index);
        // The log stage tidies up behind the member, which may have caught up from the log.
        let is_old = self.machines[slot].running().member.status().committed >= index;
        if is_old && !disk.exists(&path).map_err(failing("look for", &path))? {
            return Ok(());
        }
        let opened = Received::open(&disk, &directories(), index, settings_of_store());
        let received = match opened {
            // It came twice: the one that came first is on its way into the member.
            Err(error) if error.is_locked() => return Ok(()),
            opened => opened?,
        };
        self.take_input(slot, Input::Snapshot(Box::new((message, received))));
        Ok(())
    }

    /// The sender hears what became of a database.
    pub(crate) fn snapshot_sent(&mut self, from: (Slot, u64), to: u64, sent: bool) {
        let delay_us = self.random.around(1_000);
        let work = Work::Input(Input::SnapshotSent(to, sent));
        let (slot, life) = from;
        self.schedule
            .after(delay_us, Event::Work { slot, life, work });
    }

    /// Tells a member who is connected.
    pub(crate) fn tell_connections(&mut self, slot: Slot) {
        for other in 0..self.machines.len() {
            let connected = self.machines[other].is_awake()
                && self.network.connects(slot, other)
                && self.network.connects(other, slot);
            let id = self.machines[other].id;
            if other != slot {
                let member = &mut self.machines[slot].running().member;
                member.peer_active(id, connected);
            }
        }
    }

    /// Takes in what a member says of the membership.
    pub(crate) fn hear_of_members(&mut self, note: &Note) {
        match note {
            Note::Adopted { .. } => self.counts.snapshots += 1,
            Note::MemberAdded { .. } | Note::MemberRemoved { .. } => self.counts.changes += 1,
            _ => {}
        }
        if let Note::MemberAdded { id, .. } = note
            && let Some(slot) = self.slot_of(*id)
            && !std::mem::replace(&mut self.machines[slot].added, true)
        {
            let delay_us = self.random.around(300_000);
            self.schedule.after(delay_us, Event::Boot(slot));
        }
    }

    /// An operator changes the membership, in a way that leaves a cluster.
    pub(crate) fn change_members(&mut self, at: Slot) {
        let Some(process) = &self.machines[at].process else {
            return;
        };
        let members = process.member.view().members.clone();
        let ids: Vec<(u64, bool)> = members.iter().map(|m| (m.id, m.is_learner)).collect();
        if ids.is_empty() {
            return; // it knows of nobody yet
        }
        let learner = ids.iter().find(|(_, learns)| *learns).map(|(id, _)| *id);
        let voters = ids.iter().filter(|(_, learns)| !learns).count();
        let (some, _) = *self.random.pick(&ids);
        let change = match (self.random.below(10), learner) {
            (0..=4, Some(learner)) => MemberChange::Promote(learner),
            (0..=5, _) if voters < 5 && self.machines.len() < MACHINES_MAX => {
                let slot = self.machines.len();
                let mut machine = Machine::new(slot, &mut self.random);
                machine.joins = true;
                machine.added = false;
                let member = ClusterMember {
                    id: machine.id,
                    peer_urls: vec![url_of(slot)],
                    is_learner: self.random.chance(500),
                    ..Default::default()
                };
                self.machines.push(machine);
                self.durable.push(DurableLog::default());
                MemberChange::Add(member)
            }
            (0..=8, _) if voters > 1 => MemberChange::Remove(some),
            _ => MemberChange::Update {
                id: some,
                peer_urls: vec!["http://elsewhere:2380".into()],
            },
        };
        let now_us = self.now_us();
        self.trace.event(
            now_us,
            format_args!("{at} is to make the change {change:?}"),
        );
        self.later(at, 0, Work::Input(Input::Change(Box::new(change))));
    }
}

fn index_of(message: &Message) -> u64 {
    let snapshot = message.snapshot.as_ref();
    snapshot.map_or(0, |snapshot| snapshot.metadata.index)
}

fn failing(
    action: &'static str,
    path: &std::path::Path,
) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Io {
        action,
        path,
        source,
    }
}

fn save(disk: &dyn Disk, path: &std::path::Path, database: &[u8]) -> io::Result<()> {
    let file = disk.open(path, Mode::Create)?;
    file.set_len(0)?;
    let mut at = 0;
    for piece in database.chunks(PIECE_BYTES) {
        file.write_all_at(piece, at)?;
        at += piece.len() as u64;
    }
    file.sync_all()
}
