//! The network between members: what becomes of a message.
//!
//! Links are one-way and each has its own state, so a partition may cut one direction alone. Messages
//! are delayed one by one and so overtake each other; some are lost, and some come twice. A forwarded
//! proposal never comes twice: nothing in the protocol makes it idempotent, and a stream of bytes, which
//! the members' real transport is, repeats nothing.

use crate::random::Random;
use quorate_node::raft::{Message, MessageKind};
use std::collections::BTreeSet;

/// A number of a member's place, from 0.
pub type Slot = usize;

/// How the network behaves, for a while.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Weather {
    /// Mean delay in microseconds.
    pub delay_us: u64,
    /// Messages that are lost, of a thousand.
    pub loss: u64,
    /// Messages that come twice, of a thousand.
    pub doubled: u64,
    /// Messages that take much longer than others, of a thousand.
    pub stray: u64,
}

impl Weather {
    /// A network that works.
    pub fn fair() -> Weather {
        Weather {
            delay_us: 500,
            loss: 0,
            doubled: 0,
            stray: 0,
        }
    }
}

/// The links between members.
#[derive(Debug)]
pub struct Network {
    /// How it behaves now.
    pub weather: Weather,
    cut: BTreeSet<(Slot, Slot)>,
}

impl Network {
    /// A network where everything is connected.
    pub fn new() -> Network {
        Network {
            weather: Weather::fair(),
            cut: BTreeSet::new(),
        }
    }

    /// Whether messages from one member reach another.
    pub fn connects(&self, from: Slot, to: Slot) -> bool {
        !self.cut.contains(&(from, to))
    }

    /// Cuts a direction.
    pub fn cut(&mut self, from: Slot, to: Slot) {
        self.cut.insert((from, to));
    }

    /// Connects everything.
    pub fn heal(&mut self) {
        self.cut.clear();
    }

    /// Delays after which copies of a message arrive; none: it is lost.
    pub fn send(&self, random: &mut Random, message: &Message) -> Vec<u64> {
        let weather = &self.weather;
        if random.chance(weather.loss) {
            return Vec::new();
        }
        let twice = random.chance(weather.doubled) && message.kind != MessageKind::Prop;
        let copies = 1 + usize::from(twice);
        let delay = |random: &mut Random| {
            let slow = if random.chance(weather.stray) { 50 } else { 1 };
            random.around(weather.delay_us * slow)
        };
        (0..copies).map(|_| delay(random)).collect()
    }
}

impl Default for Network {
    fn default() -> Network {
        Network::new()
    }
}
