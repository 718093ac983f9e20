//! Many watchers on a few streams, and what they receive.

use crate::connection::Answer;
use crate::fleet::Fleet;
use crate::process::Server;
use prost::Message;
use prost::encoding::{DecodeContext, WireType, decode_key, decode_varint, skip_field};
use quorate_api::Method;
use quorate_api::etcdserverpb::watch_request::RequestUnion;
use quorate_api::etcdserverpb::{WatchCreateRequest, WatchRequest};
use std::io;
use std::time::{Duration, Instant};

/// What one watch answer says, without its events' contents.
#[derive(Debug, Default, PartialEq, Eq)]
struct Seen {
    watch_id: u64,
    created: bool,
    canceled: bool,
    events: u64,
}

/// Watchers that were all created.
pub struct Watchers {
    /// One stream for each connection.
    pub fleet: Fleet,
    /// Events by stream, then by watcher id.
    received: Vec<Vec<u64>>,
    created: usize,
    /// All events.
    pub events: u64,
    /// Watchers that have received [`Watchers::goal`] events.
    pub done: usize,
    goal: u64,
    failure: Option<String>,
}

impl Watchers {
    /// Opens the streams and creates the watchers, `count` in all; returns when all are created,
    /// while events may have come already. `create` gets a watcher's place in its stream. One is done with `goal` events.
    pub fn open(
        server: &Server,
        streams: usize,
        count: usize,
        goal: u64,
        create: &dyn Fn(usize) -> WatchCreateRequest,
    ) -> io::Result<Watchers> {
        let message = |number| {
            let request = WatchRequest {
                request_union: Some(RequestUnion::CreateRequest(create(number))),
            };
            request.encode_to_vec()
        };
        let mut fleet = Fleet::open(server.address(), streams)?;
        for connection in &mut fleet.connections {
            let id = connection.start(Method::WatchWatch, &message(0), false, Answer::Take, 0);
            for number in 1..count / streams {
                connection.send(id, &message(number), false);
            }
        }
        fleet.flush()?;
        let mut watchers = Watchers {
            fleet,
            received: vec![vec![0; count]; streams],
            created: 0,
            events: 0,
            done: 0,
            goal,
            failure: None,
        };
        let deadline = Instant::now() + Duration::from_secs(60);
        while watchers.created < count {
            if Instant::now() > deadline {
                return Err(io::Error::other(
                    "watchers were not created within a minute",
                ));
            }
            watchers.wait(deadline)?;
        }
        Ok(watchers)
    }

    /// Waits until something is there, or the deadline, and counts it.
    pub fn wait(&mut self, deadline: Instant) -> io::Result<()> {
        let Watchers {
            fleet,
            received,
            created,
            events,
            done,
            goal,
            failure,
        } = self;
        let mut finished = Vec::new();
        fleet.wait(deadline, &mut finished, &mut |stream, _, message| {
            let seen = match look(message) {
                Ok(seen) => seen,
                Err(error) => {
                    *failure = Some(format!("the server sent no watch answer: {error}"));
                    return;
                }
            };
            if seen.canceled {
                *failure = Some("the server cancelled a watcher".to_owned());
            }
            *created += usize::from(seen.created);
            *events += seen.events;
            let Some(of_watcher) = received[stream].get_mut(seen.watch_id as usize) else {
                *failure = Some(format!("there is no watcher {}", seen.watch_id));
                return;
            };
            let before = *of_watcher;
            *of_watcher += seen.events;
            *done += usize::from(before < *goal && *of_watcher >= *goal);
        })?;
        match failure.take() {
            Some(what) => Err(io::Error::other(what)),
            None if !finished.is_empty() => Err(io::Error::other("a watch stream ended")),
            None => Ok(()),
        }
    }
}

/// Reads a WatchResponse's own fields and counts its events.
fn look(mut message: &[u8]) -> Result<Seen, prost::DecodeError> {
    let mut seen = Seen::default();
    while !message.is_empty() {
        let (tag, wire) = decode_key(&mut message)?;
        match (tag, wire) {
            (2, WireType::Varint) => seen.watch_id = decode_varint(&mut message)?,
            (3, WireType::Varint) => seen.created = decode_varint(&mut message)? != 0,
            (4, WireType::Varint) => seen.canceled = decode_varint(&mut message)? != 0,
            _ => {
                seen.events += u64::from(tag == 11);
                skip_field(wire, tag, &mut message, DecodeContext::default())?;
            }
        }
    }
    Ok(seen)
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::{ResponseHeader, WatchResponse};
    use quorate_api::mvccpb::{Event, KeyValue};

    #[test]
    fn events_are_counted_without_decoding_them() {
        let event = Event {
            kv: Some(KeyValue {
                key: "k".into(),
                value: vec![7; 300].into(),
                ..KeyValue::default()
            }),
            ..Event::default()
        };
        let answer = WatchResponse {
            header: Some(ResponseHeader {
                revision: 9,
                ..ResponseHeader::default()
            }),
            watch_id: 300,
            events: vec![event; 5],
            ..WatchResponse::default()
        };
        let seen = look(&answer.encode_to_vec()).expect("a message");
        let expected = Seen {
            watch_id: 300,
            events: 5,
            ..Seen::default()
        };
        assert_eq!(seen, expected);
        assert!(look(&[0x5a, 200]).is_err());
    }
}
