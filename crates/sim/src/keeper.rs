//! Clients that keep leases alive: each takes one, renews it for a while, and then ends it or lets it
//! go.

use crate::client::Asker;
use crate::cluster::{Cluster, Event};
use crate::history::{Asked, OpId, Outcome};
use crate::machine::{Input, Token, Work};
use crate::model::{Answer, Request};
use crate::network::Slot;
use crate::random::Random;
use quorate_node::Reply;
use quorate_node::store::lease::Renewal;

/// A keeper.
pub struct Keeper {
    random: Random,
    /// What it waits for.
    pub(crate) current: Option<OpId>,
    lease: Option<i64>,
    ttl_s: i64,
    /// Renewals that it still means to make.
    renewals_left: u64,
    attempt: u64,
}

impl Keeper {
    /// One without a lease.
    pub fn new(random: Random) -> Keeper {
        Keeper {
            random,
            current: None,
            lease: None,
            ttl_s: 0,
            renewals_left: 0,
            attempt: 0,
        }
    }
}

impl Cluster {
    /// A keeper takes the next step with its lease.
    pub(crate) fn keeper_goes_on(&mut self, me: usize) {
        if self.calm {
            return;
        }
        let members = self.machines.len() as u64;
        let keeper = &mut self.keepers[me];
        if keeper.current.is_some() {
            return;
        }
        let slot = keeper.random.below(members) as Slot;
        let Some(lease) = keeper.lease else {
            let id = 1 + keeper.random.below(1 << 40) as i64;
            keeper.ttl_s = keeper.random.between(1, 3) as i64;
            keeper.renewals_left = keeper.random.below(20);
            let ttl_s = keeper.ttl_s;
            keeper.lease = Some(id);
            let request = Request::Grant { id, ttl_s };
            self.keeper_asks(me, slot, request);
            return;
        };
        if keeper.renewals_left > 0 {
            keeper.renewals_left -= 1;
            keeper.attempt += 1;
            let attempt = keeper.attempt;
            let pause_us = keeper.ttl_s as u64 * 300_000;
            let pause_us = keeper.random.around(pause_us);
            let guess = keeper.random.chance(700);
            self.schedule.after(pause_us, Event::Keeper(me));
            // Mostly it knows who the leader is, or who thinks to be.
            let leaders = (0..self.machines.len()).filter(|slot| {
                let process = self.machines[*slot].process.as_ref();
                process.is_some_and(|process| process.led.is_some())
            });
            let leaders: Vec<Slot> = leaders.collect();
            let slot = match leaders.is_empty() || !guess {
                true => slot,
                false => *self.keepers[me].random.pick(&leaders),
            };
            if self.machines[slot].process.is_some() {
                let there_us = self.random.around(300);
                self.later(slot, there_us, Work::KeepAlive(me, attempt));
            }
            return;
        }
        keeper.lease = None;
        self.known_leases.retain(|known| *known != lease);
        if self.keepers[me].random.chance(500) {
            self.keeper_asks(me, slot, Request::Revoke(lease));
        } else {
            let pause_us = self.keepers[me].random.around(500_000);
            self.schedule.after(pause_us, Event::Keeper(me));
        }
    }

    fn keeper_asks(&mut self, me: usize, slot: Slot, request: Request) {
        self.next_request += 1;
        let asked = Asked::Write(self.next_request, request);
        let operation = self.ask(Asker::Keeper(me), slot, asked);
        self.keepers[me].current = Some(operation);
    }

    /// A keeper hears what became of a grant or a revocation.
    pub(crate) fn keeper_hears(&mut self, me: usize, outcome: &Outcome) {
        let keeper = &mut self.keepers[me];
        keeper.current = None;
        match (outcome, keeper.lease) {
            (Outcome::Written(Answer::Granted(ttl_s)), Some(lease)) => {
                keeper.ttl_s = *ttl_s;
                self.known_leases.push(lease);
            }
            // It may be there or not; someone else's trouble.
            _ => keeper.lease = None,
        }
        let pause_us = self.keepers[me].random.around(200_000);
        self.schedule.after(pause_us, Event::Keeper(me));
    }

    /// A process takes a keep-alive: the primary makes sure first that it still is.
    pub(crate) fn serve_keep_alive(&mut self, slot: Slot, keeper: usize, attempt: u64) {
        let process = self.machines[slot].running();
        if process.member.lessor().is_primary() {
            let token = Token::KeepAlive(keeper, attempt);
            self.take_input(slot, Input::Read(token));
        }
    }

    /// The primary was confirmed, or not.
    pub(crate) fn keep_alive(&mut self, slot: Slot, keeper: usize, attempt: u64, reply: &Reply) {
        let keeper = &self.keepers[keeper];
        let Some(lease) = keeper.lease else { return };
        if !matches!(reply, Reply::Ready) || keeper.attempt != attempt {
            return;
        }
        let now_us = self.now_us();
        let member = &mut self.machines[slot].running().member;
        let now_ms = member.now_ms();
        let renewal = member.lessor().renew(lease, now_ms);
        self.trace.event(
            now_us,
            format_args!("{slot} keeps lease {lease:x} alive at its {now_ms} ms: {renewal:?}"),
        );
        if let Renewal::Renewed { ttl_s, .. } = renewal {
            self.counts.renewed += 1;
            let readings = self.readings();
            self.leases.renewed(lease, ttl_s, readings, now_us);
        }
    }
}
