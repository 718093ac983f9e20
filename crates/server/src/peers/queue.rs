//! Messages that wait to be sent on one way.

use quorate_node::raft::Message;
use quorate_node::wal::raftpb::message_len;
use std::collections::VecDeque;

/// Bytes that may wait on one way, however few messages they are.
const BYTES_MAX: usize = 128 << 20;

/// A bounded queue.
pub(super) struct Queue {
    messages: VecDeque<(Message, usize)>,
    bytes: usize,
    messages_max: usize,
}

impl Queue {
    pub fn new(messages_max: usize) -> Queue {
        Queue {
            messages: VecDeque::new(),
            bytes: 0,
            messages_max,
        }
    }

    /// Adds a message, or gives it back. One that is too large for any queue goes alone.
    #[must_use]
    pub fn push(&mut self, message: Message) -> Option<Message> {
        let len = message_len(&message);
        let full = self.messages.len() >= self.messages_max
            || (self.bytes + len > BYTES_MAX && !self.messages.is_empty());
        if full {
            return Some(message);
        }
        self.bytes += len;
        self.messages.push_back((message, len));
        None
    }

    /// Takes the oldest message and its encoded length.
    pub fn pop(&mut self) -> Option<(Message, usize)> {
        let (message, len) = self.messages.pop_front()?;
        self.bytes -= len;
        Some((message, len))
    }

    pub fn is_empty(&self) -> bool {
        self.messages.is_empty()
    }

    pub fn clear(&mut self) {
        self.messages = VecDeque::new();
        self.bytes = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;
    use quorate_node::raft::MessageKind;

    fn of_bytes(context: usize) -> Message {
        Message {
            context: Bytes::from(vec![0; context]),
            ..Message::new(MessageKind::App, 1)
        }
    }

    #[test]
    fn it_is_bounded_by_number_and_by_bytes() {
        let mut queue = Queue::new(3);
        for _ in 0..3 {
            assert!(queue.push(of_bytes(0)).is_none());
        }
        assert_eq!(queue.push(of_bytes(1)), Some(of_bytes(1)));
        assert!(queue.pop().is_some());
        assert!(queue.push(of_bytes(1)).is_none());
        queue.clear();
        assert!(queue.is_empty());

        assert!(queue.push(of_bytes(BYTES_MAX)).is_none());
        assert!(queue.push(of_bytes(0)).is_some());
        assert!(queue.pop().is_some());
        assert!(queue.push(of_bytes(BYTES_MAX / 2)).is_none());
        assert!(queue.push(of_bytes(BYTES_MAX / 2)).is_some());
        assert!(queue.push(of_bytes(1000)).is_none());
    }
}
