//! What a watch has seen, and where it goes on after a break: a pure state machine.
//!
//! Invariants:
//! - `next_revision` is the first revision of which not everything was handed out. A watch that is
//!   opened anew begins there, so nothing is missed; events of revisions that were handed out are
//!   dropped, so nothing comes twice.
//! - A watch from now on goes on, after a break, behind the revision that the server named when it
//!   had made it. etcd names one that it reads after the watch is there, so an event of that revision
//!   may still come on the first stream, and is handed out.
//! - Events are handed out by whole revisions: fragments are put together first, and those that a
//!   break left incomplete are thrown away. Together they are no larger than one answer may be.

use crate::Error;
use prost::Message;
use quorate_api::error::Code;
use quorate_api::etcdserverpb::{WatchCreateRequest, WatchResponse};
use quorate_api::mvccpb::Event;
use quorate_api::{Error as Known, Method};

/// A watch, however many streams it takes.
#[derive(Debug)]
pub(crate) struct Resumption {
    create: WatchCreateRequest,
    /// 0 until it is known, for a watch from now on.
    next_revision: i64,
    /// Revisions below it were handed out, or are not asked for.
    handed_out_below: i64,
    /// Of the answer that comes in fragments.
    fragments: Vec<Event>,
    fragments_bytes: usize,
    /// The most that they may have.
    answer_bytes_max: usize,
}

/// What an answer is for the watch.
#[derive(Debug)]
pub(crate) enum Step {
    /// Nothing that is to be handed out.
    Nothing,
    /// The server has the watch.
    Created,
    /// Events, or none and the revision up to which there were none.
    Deliver(WatchResponse),
    /// The token was refused when the watch was opened, with this.
    BadToken(Known),
    /// The server gave it up for good.
    Ended(Error),
}

impl Resumption {
    pub(crate) fn new(create: WatchCreateRequest, answer_bytes_max: usize) -> Resumption {
        Resumption {
            next_revision: create.start_revision.max(0),
            handed_out_below: create.start_revision.max(0),
            fragments: Vec::new(),
            fragments_bytes: 0,
            answer_bytes_max,
            create,
        }
    }

    /// What a new stream begins with.
    pub(crate) fn reopen(&mut self) -> WatchCreateRequest {
        self.forget_fragments();
        WatchCreateRequest {
            start_revision: self.next_revision,
            ..self.create.clone()
        }
    }

    /// The first revision that is still to come; 0 where that is not known yet.
    pub(crate) fn next_revision(&self) -> i64 {
        self.next_revision
    }

    fn forget_fragments(&mut self) {
        self.fragments = Vec::new();
        self.fragments_bytes = 0;
    }

    /// Takes an answer of the stream.
    pub(crate) fn accept(&mut self, mut answer: WatchResponse) -> Step {
        if answer.canceled {
            return ended(&answer);
        }
        let revision = answer.header.as_ref().map_or(0, |header| header.revision);
        if answer.created {
            if self.next_revision == 0 {
                self.next_revision = revision.saturating_add(1);
            }
            return Step::Created;
        }
        if answer.fragment || !self.fragments.is_empty() {
            self.fragments_bytes += answer.encoded_len();
            if self.fragments_bytes > self.answer_bytes_max {
                let found = self.fragments_bytes;
                self.forget_fragments();
                return Step::Ended(too_large(found, self.answer_bytes_max));
            }
            self.fragments.append(&mut answer.events);
            if answer.fragment {
                return Step::Nothing;
            }
            answer.events = std::mem::take(&mut self.fragments);
            self.forget_fragments();
        }
        if answer.events.is_empty() {
            // The server has handed out everything up to here.
            self.hand_out(revision);
            return Step::Deliver(answer);
        }
        let below = self.handed_out_below;
        answer.events.retain(|event| revision_of(event) >= below);
        let Some(last) = answer.events.last() else {
            return Step::Nothing;
        };
        self.hand_out(revision_of(last));
        Step::Deliver(answer)
    }

    /// Everything up to this revision is handed out.
    fn hand_out(&mut self, revision: i64) {
        self.handed_out_below = self.handed_out_below.max(revision.saturating_add(1));
        self.next_revision = self.next_revision.max(self.handed_out_below);
    }
}

fn too_large(found: usize, limit: usize) -> Error {
    Error::Status {
        method: Method::WatchWatch.path(),
        code: Code::ResourceExhausted as i32,
        text: format!("grpc: received message larger than max ({found} vs. {limit})"),
    }
}

fn revision_of(event: &Event) -> i64 {
    event.kv.as_ref().map_or(0, |pair| pair.mod_revision)
}

fn ended(answer: &WatchResponse) -> Step {
    if answer.compact_revision > 0 {
        return Step::Ended(Error::Compacted {
            compact_revision: answer.compact_revision,
        });
    }
    // The reason is the text of an error, with or without its code before it.
    let known = Known::ALL
        .iter()
        .copied()
        .find(|known| answer.cancel_reason.ends_with(known.text()));
    match known {
        Some(known @ (Known::InvalidAuthToken | Known::AuthOldRevision | Known::UserEmpty)) => {
            Step::BadToken(known)
        }
        Some(known) => Step::Ended(Error::Known(known)),
        None => Step::Ended(Error::WatchCanceled {
            reason: answer.cancel_reason.clone(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_api::etcdserverpb::ResponseHeader;
    use quorate_api::mvccpb::KeyValue;

    fn answer(revision: i64, events: &[i64]) -> WatchResponse {
        WatchResponse {
            header: Some(ResponseHeader {
                revision,
                ..ResponseHeader::default()
            }),
            events: events.iter().map(|&revision| event(revision)).collect(),
            ..WatchResponse::default()
        }
    }

    fn event(mod_revision: i64) -> Event {
        Event {
            kv: Some(KeyValue {
                mod_revision,
                ..KeyValue::default()
            }),
            ..Event::default()
        }
    }

    fn created(revision: i64) -> WatchResponse {
        WatchResponse {
            created: true,
            ..answer(revision, &[])
        }
    }

    fn from(start_revision: i64) -> Resumption {
        let create = WatchCreateRequest {
            start_revision,
            ..WatchCreateRequest::default()
        };
        Resumption::new(create, 1 << 20)
    }

    fn delivered(step: Step) -> Vec<i64> {
        match step {
            Step::Deliver(answer) => answer.events.iter().map(revision_of).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_watch_from_now_resumes_from_when_it_was_created() {
        let mut watch = from(0);
        assert_eq!(watch.reopen().start_revision, 0);
        assert!(matches!(watch.accept(created(5)), Step::Created));
        assert_eq!(watch.reopen().start_revision, 6);
        // What the second stream says at its creation is no progress.
        assert!(matches!(watch.accept(created(9)), Step::Created));
        assert_eq!(watch.reopen().start_revision, 6);
    }

    #[test]
    fn progress_moves_on_and_events_by_their_own_revision() {
        let mut watch = from(3);
        // The store is at 20, and the watch at 4.
        assert_eq!(delivered(watch.accept(answer(20, &[3, 4, 4]))), [3, 4, 4]);
        assert_eq!(watch.reopen().start_revision, 5);
        assert_eq!(delivered(watch.accept(answer(20, &[]))), []);
        assert_eq!(watch.reopen().start_revision, 21);
        assert_eq!(delivered(watch.accept(answer(7, &[]))), []);
        assert_eq!(watch.next_revision(), 21);
    }

    #[test]
    fn a_watch_from_now_has_what_happens_while_it_is_made() {
        let mut watch = from(0);
        watch.accept(created(5));
        assert_eq!(delivered(watch.accept(answer(5, &[5]))), [5]);
        assert_eq!(watch.reopen().start_revision, 6);
        assert!(matches!(watch.accept(answer(5, &[5])), Step::Nothing));
        assert_eq!(delivered(watch.accept(answer(6, &[6]))), [6]);
    }

    #[test]
    fn what_was_handed_out_does_not_come_again() {
        let mut watch = from(3);
        assert_eq!(delivered(watch.accept(answer(5, &[3, 5]))), [3, 5]);
        watch.reopen();
        assert_eq!(delivered(watch.accept(answer(6, &[5, 6]))), [6]);
        assert!(matches!(watch.accept(answer(6, &[6])), Step::Nothing));
    }

    #[test]
    fn fragments_come_as_one_and_are_thrown_away_by_a_break() {
        let mut watch = from(1);
        let fragment = |events: &[i64]| WatchResponse {
            fragment: true,
            ..answer(9, events)
        };
        assert!(matches!(watch.accept(fragment(&[1, 2])), Step::Nothing));
        assert_eq!(watch.reopen().start_revision, 1);
        assert!(matches!(watch.accept(fragment(&[1, 2])), Step::Nothing));
        assert!(matches!(watch.accept(fragment(&[2])), Step::Nothing));
        assert_eq!(delivered(watch.accept(answer(9, &[2, 3]))), [1, 2, 2, 2, 3]);
        assert_eq!(watch.next_revision(), 4);
    }

    #[test]
    fn fragments_are_no_larger_than_an_answer_may_be() {
        let piece = WatchResponse {
            fragment: true,
            ..answer(9, &[1; 64])
        };
        let mut watch = Resumption::new(WatchCreateRequest::default(), 3 * piece.encoded_len());
        for _ in 0..2 {
            for _ in 0..3 {
                assert!(matches!(watch.accept(piece.clone()), Step::Nothing));
            }
            assert!(matches!(
                watch.accept(piece.clone()),
                Step::Ended(Error::Status { code: 8, .. })
            ));
        }
        // Each answer has the whole of it.
        for _ in 0..9 {
            assert!(matches!(watch.accept(piece.clone()), Step::Nothing));
            watch.reopen();
        }
    }

    #[test]
    fn an_end_has_its_reason() {
        let canceled = |compact_revision, reason: &str| WatchResponse {
            canceled: true,
            compact_revision,
            cancel_reason: reason.to_owned(),
            ..WatchResponse::default()
        };
        let mut watch = from(1);
        let step = watch.accept(canceled(7, Known::Compacted.text()));
        assert!(matches!(
            step,
            Step::Ended(Error::Compacted {
                compact_revision: 7
            })
        ));
        let denied = "rpc error: code = PermissionDenied desc = etcdserver: permission denied";
        let step = watch.accept(canceled(0, denied));
        assert!(matches!(
            step,
            Step::Ended(Error::Known(Known::PermissionDenied))
        ));
        for known in [
            Known::InvalidAuthToken,
            Known::AuthOldRevision,
            Known::UserEmpty,
        ] {
            let step = watch.accept(canceled(0, known.text()));
            assert!(matches!(step, Step::BadToken(found) if found == known));
        }
        let step = watch.accept(canceled(0, "why not"));
        assert!(
            matches!(step, Step::Ended(Error::WatchCanceled { reason }) if reason == "why not")
        );
    }

    /// A server that breaks the stream at every place, against the plain sequence.
    #[test]
    fn whatever_breaks_every_event_comes_once() {
        let mut source = fastrand::Rng::with_seed(1);
        for _ in 0..500 {
            let last = source.i64(1..40);
            let mut watch = from(1);
            let mut seen = Vec::new();
            while watch.next_revision() <= last {
                let mut next = watch.reopen().start_revision;
                watch.accept(created(last));
                // Events in pieces of its choice, until it breaks.
                while next <= last && source.u8(..) > 40 {
                    let until = source.i64(next..=last);
                    let piece: Vec<i64> = (next..=until).collect();
                    let fragment = source.bool();
                    let step = watch.accept(WatchResponse {
                        fragment,
                        ..answer(last, &piece)
                    });
                    if let Step::Deliver(answer) = step {
                        seen.extend(answer.events.iter().map(revision_of));
                    }
                    next = until + 1;
                }
            }
            assert_eq!(seen, (1..=last).collect::<Vec<_>>());
        }
    }
}
