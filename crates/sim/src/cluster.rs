//! A whole cluster and its clients in one thread: the world that a seed unfolds.
//!
//! Everything that happens is an event of the schedule; handling one may schedule others, and nothing
//! else moves time or draws randomness. So a seed replays exactly.

use crate::client::{Asker, Client};
pub use crate::counts::Counts;
use crate::history::{History, OpId, Outcome};
use crate::keeper::Keeper;
use crate::machine::{Machine, Work};
use crate::model::Request;
use crate::network::{Network, Slot};
use crate::oracle::agreement::Agreement;
use crate::oracle::committed::Ledger;
use crate::oracle::durable_log::DurableLog;
use crate::oracle::election::Election;
use crate::oracle::lease::{Leases, Reading};
use crate::oracle::log_matching::Logs;
use crate::oracle::{Violation, durable_log};
use crate::random::Random;
use crate::sabotage::Sabotage;
use crate::scenario::{Scenario, Trouble};
use crate::schedule::Schedule;
use crate::trace::Trace;
use crate::troubles::Relief;
use crate::watcher::Watcher;
use quorate_node::raft::Message;

/// Something that happens.
pub enum Event {
    /// A step on a machine, of the process that was started as the `life`th.
    Work {
        /// Which machine.
        slot: Slot,
        /// Which process.
        life: u64,
        /// What.
        work: Work,
    },
    /// A peer's message arrives.
    Deliver {
        /// Where from.
        from: Slot,
        /// Where.
        to: Slot,
        /// The message.
        message: Message,
    },
    /// A database arrives, from a process.
    DeliverSnapshot {
        /// Where from, and from which process.
        from: (Slot, u64),
        /// Where.
        to: Slot,
        /// The message.
        message: Message,
        /// The database.
        database: Vec<u8>,
    },
    /// A machine's process starts.
    Boot(Slot),
    /// A client goes on.
    Client(usize),
    /// A request arrives.
    Arrive {
        /// Which.
        operation: OpId,
        /// Where.
        slot: Slot,
    },
    /// Whoever asked hears what became of it.
    Hear {
        /// Which operation.
        operation: OpId,
        /// What.
        outcome: Outcome,
    },
    /// A keeper goes on.
    Keeper(usize),
    /// A watcher goes on.
    Watcher(usize),
    /// Something goes wrong.
    Trouble(Trouble),
    /// Something is well again.
    Relief(Relief),
    /// A look at whether members agree.
    Compare,
}

/// A cluster under a seed.
pub struct Cluster {
    pub(crate) scenario: Scenario,
    pub(crate) sabotage: Option<Sabotage>,
    pub(crate) schedule: Schedule<Event>,
    pub(crate) random: Random,
    pub(crate) trace: Trace,
    pub(crate) machines: Vec<Machine>,
    pub(crate) network: Network,
    pub(crate) history: History,
    /// Who asked for each operation, and where.
    pub(crate) askers: Vec<(Asker, Slot)>,
    pub(crate) clients: Vec<Client>,
    pub(crate) keepers: Vec<Keeper>,
    pub(crate) watchers: Vec<Watcher>,
    /// Leases that are there, as far as the keepers know.
    pub(crate) known_leases: Vec<i64>,
    /// Whether trouble is over, and no more comes.
    pub(crate) calm: bool,
    pub(crate) next_request: u64,
    pub(crate) next_stream: u64,
    // What the oracles know.
    pub(crate) election: Election,
    pub(crate) logs: Logs,
    pub(crate) ledger: Ledger,
    pub(crate) durable: Vec<DurableLog>,
    pub(crate) leases: Leases,
    pub(crate) agreement: Agreement,
    /// Committed requests that the model knows, in the order of the log.
    pub(crate) requests: Vec<(u64, Request)>,
    /// Up to where the ledger was read.
    pub(crate) read_up_to: u64,
    pub(crate) counts: Counts,
}

/// Ids of clients' requests begin here, beyond any that a member draws.
const FIRST_REQUEST: u64 = 0xfffe << 48;

impl Cluster {
    /// A cluster that is about to start.
    pub fn new(seed: u64, sabotage: Option<Sabotage>, print: bool) -> Cluster {
        let mut random = Random::new(seed);
        let scenario = Scenario::draw(&mut random);
        let machines: Vec<Machine> = (0..scenario.members)
            .map(|slot| Machine::new(slot, &mut random))
            .collect();
        let clients = (0..scenario.clients).map(|_| Client::new(random.fork()));
        let clients = clients.collect();
        let keepers = (0..scenario.keepers).map(|_| Keeper::new(random.fork()));
        let keepers = keepers.collect();
        let watchers = (0..scenario.watchers).map(|_| Watcher::new(random.fork()));
        let watchers = watchers.collect();
        let durable = machines.iter().map(|_| DurableLog::default()).collect();
        let mut trace = Trace::new(print);
        trace.event(0, format_args!("{scenario:?}"));
        Cluster {
            scenario,
            sabotage,
            schedule: Schedule::new(),
            random,
            trace,
            machines,
            network: Network::new(),
            history: History::new(),
            askers: Vec::new(),
            clients,
            keepers,
            watchers,
            known_leases: Vec::new(),
            calm: false,
            next_request: FIRST_REQUEST,
            next_stream: 1,
            election: Election::default(),
            logs: Logs::default(),
            ledger: Ledger::default(),
            durable,
            leases: Leases::default(),
            agreement: Agreement::default(),
            requests: Vec::new(),
            read_up_to: 0,
            counts: Counts::default(),
        }
    }

    /// The simulation's time.
    pub(crate) fn now_us(&self) -> u64 {
        self.schedule.now_us()
    }

    /// The trace's hash.
    pub fn trace_hash(&self) -> u64 {
        self.trace.hash()
    }

    /// What it went through.
    pub fn counts(&self) -> Counts {
        let answered = self.history.operations().iter();
        let answered = answered
            .filter(|operation| !matches!(operation.outcome, Outcome::Unknown | Outcome::Refused));
        Counts {
            terms: self.election.terms() as u64,
            committed: self.ledger.last(),
            operations: self.history.operations().len() as u64,
            answered: answered.count() as u64,
            told: self.watchers.iter().map(Watcher::told).sum(),
            expired: self.leases.expired(),
            compared: self.agreement.compared(),
            ..self.counts
        }
    }

    /// Lets it run: trouble, then calm, in which everything must come to agree.
    pub fn run(&mut self) -> Result<(), Violation> {
        self.begin();
        while self.now_us() < self.scenario.trouble_us {
            self.happen()?;
        }
        self.settle()?;
        self.judge()
    }

    fn begin(&mut self) {
        for slot in 0..self.machines.len() {
            let delay_us = self.random.below(20_000);
            self.schedule.after(delay_us, Event::Boot(slot));
        }
        for client in 0..self.clients.len() {
            let delay_us = self.random.below(500_000);
            self.schedule.after(delay_us, Event::Client(client));
        }
        for keeper in 0..self.keepers.len() {
            let delay_us = self.random.below(900_000);
            self.schedule.after(delay_us, Event::Keeper(keeper));
        }
        for watcher in 0..self.watchers.len() {
            let delay_us = self.random.below(2_000_000);
            self.schedule.after(delay_us, Event::Watcher(watcher));
        }
        for (trouble, mean_us) in self.scenario.troubles.clone() {
            let delay_us = self.random.around(mean_us);
            self.schedule.after(delay_us, Event::Trouble(trouble));
        }
        self.schedule.after(300_000, Event::Compare);
    }

    /// Lets the next event happen.
    pub(crate) fn happen(&mut self) -> Result<(), Violation> {
        let event = self.schedule.next().expect("members tick for ever");
        match event {
            Event::Work { slot, life, work } => self.work(slot, life, work)?,
            Event::Deliver { from, to, message } => self.deliver(from, to, message),
            Event::DeliverSnapshot {
                from,
                to,
                message,
                database,
            } => self.deliver_snapshot(from, to, message, database),
            Event::Boot(slot) => self.boot(slot)?,
            Event::Client(client) => self.client_goes_on(client),
            Event::Arrive { operation, slot } => self.arrive(operation, slot),
            Event::Hear { operation, outcome } => self.hear(operation, outcome),
            Event::Keeper(keeper) => self.keeper_goes_on(keeper),
            Event::Watcher(watcher) => self.watcher_goes_on(watcher),
            Event::Trouble(trouble) => self.trouble(trouble),
            Event::Relief(relief) => self.relieve(relief),
            Event::Compare => {
                self.compare()?;
                let delay_us = self.random.around(200_000);
                self.schedule.after(delay_us, Event::Compare);
            }
        }
        Ok(())
    }

    /// Schedules a step of the process that runs on a machine now.
    pub(crate) fn later(&mut self, slot: Slot, delay_us: u64, work: Work) {
        let life = self.machines[slot].life;
        self.schedule
            .after(delay_us, Event::Work { slot, life, work });
    }

    /// What all clocks show.
    pub(crate) fn readings(&self) -> Vec<Reading> {
        let now_us = self.now_us();
        let readings = self.machines.iter().map(|machine| machine.reading(now_us));
        readings.collect()
    }

    /// The member with an id.
    pub(crate) fn slot_of(&self, id: u64) -> Option<Slot> {
        self.machines.iter().position(|machine| machine.id == id)
    }

    /// Takes in what the ledger has that is new.
    pub(crate) fn read_ledger(&mut self) -> Result<(), Violation> {
        while self.read_up_to < self.ledger.last() {
            self.read_up_to += 1;
            let entry = self.ledger.entry(self.read_up_to).clone();
            if entry.kind != quorate_node::raft::EntryKind::Normal || entry.data.is_empty() {
                continue;
            }
            let (id, request) = crate::wire::decode(&entry.data);
            let Some(request) = request else { continue };
            match &request {
                Request::Revoke(_) if self.history.of_request(id).is_none() => {
                    self.leases.revoked(id)?;
                }
                Request::Grant { id: lease, ttl_s } => {
                    let (readings, now_us) = (self.readings(), self.now_us());
                    let ttl_s = (*ttl_s).max(crate::model::MIN_TTL_S);
                    self.leases.renewed(*lease, ttl_s, readings, now_us);
                }
                _ => {}
            }
            self.requests.push((id, request));
        }
        Ok(())
    }
}

/// A failure of a member that nothing explains.
pub(crate) fn unexplained(slot: Slot, error: &quorate_node::Error) -> Violation {
    Violation {
        oracle: "member",
        what: format!("member {slot} failed: {error}"),
    }
}

/// The log that a machine's disk holds.
pub(crate) fn log_on(
    slot: Slot,
    disk: &dyn quorate_node::disk::Disk,
) -> Result<Option<durable_log::OnDisk>, Violation> {
    let dir = crate::machine::directories().wal();
    durable_log::read(disk, &dir).map_err(|error| Violation {
        oracle: durable_log::NAME,
        what: format!("member {slot}'s log cannot be read: {error}"),
    })
}
