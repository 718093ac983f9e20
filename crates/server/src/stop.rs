//! The way down: leadership goes to another, then everything goes to disk.
//!
//! A member that was removed from its cluster ends well, and one that cannot write what it holds ends
//! too: the log has everything.

use crate::config::Config;
use crate::driver::Started;
use crate::server::ServerError;
use quorate_go::duration;
use quorate_node::Reply;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// Before a stop: hands leadership over, where this member has it, so that nobody waits for an
/// election.
pub fn hand_over(started: &Started, config: &Config) {
    let member = &started.handle;
    let (began, own) = (Instant::now(), format!("{:x}", member.member_id()));
    let leader = member.status().leader;
    if leader != member.member_id() {
        tracing::info!(
            "local-member-id" = own,
            "current-leader-member-id" = format!("{leader:x}"),
            "skipped leadership transfer; local server is not leader"
        );
        return;
    }
    if member.view().members.voters().count() <= 1 {
        tracing::info!(
            "local-member-id" = own,
            "current-leader-member-id" = format!("{leader:x}"),
            "skipped leadership transfer for single voting member cluster"
        );
        return;
    }
    tracing::info!(
        "local-member-id" = own.as_str(),
        "current-leader-member-id" = own.as_str(),
        "leadership transfer starting"
    );
    let (sender, receiver) = channel();
    member.hand_over(Box::new(move |reply, _| {
        // Whoever waits may have given up.
        let _unheard = sender.send(reply);
    }));
    let patience = Duration::from_millis(6_000 + 2 * config.count("election-timeout"));
    match receiver.recv_timeout(patience) {
        Ok(Reply::Ready | Reply::Outcome(Ok(_))) => tracing::info!(
            "local-member-id" = own.as_str(),
            "old-leader-member-id" = own.as_str(),
            "new-leader-member-id" = format!("{:x}", member.status().leader),
            "took" = %duration::format(began.elapsed()),
            "leadership transfer finished"
        ),
        Ok(Reply::Failed(error) | Reply::Outcome(Err(error))) => tracing::warn!(
            "local-member-id" = own,
            "error" = %error,
            "leadership transfer failed"
        ),
        Err(_) => tracing::warn!(
            "local-member-id" = own,
            "error" = "no answer",
            "leadership transfer failed"
        ),
    }
}

pub fn finish(
    started: Started,
    config: &Config,
    outcome: Result<(), ServerError>,
) -> Result<(), ServerError> {
    let stopped = outcome.and_then(|()| {
        let (sender, receiver) = channel();
        started.handle.stop(sender);
        // A full disk must not keep the process from ending: the log has everything.
        stop_of(
            receiver.recv_timeout(Duration::from_secs(10)),
            &started.failed,
        )
    });
    match stopped {
        Ok(Stop::Durable) => {}
        Ok(Stop::CommitUnderWay) => {
            tracing::warn!("ending with a commit under way; the log has what it lacks");
            return Ok(());
        }
        Err(error @ ServerError::Member(quorate_node::Error::Removed)) => {
            tracing::warn!("error" = %error, "server error");
            tracing::warn!(
                "data-dir" = %config.data_dir.display(),
                "data-dir used by this member must be removed"
            );
            started.peers.stop();
            return Ok(());
        }
        Err(error) => return Err(error),
    }
    let Started {
        handle,
        threads,
        peers,
        ..
    } = started;
    peers.stop();
    drop(handle);
    for thread in threads {
        if thread.join().is_err() {
            tracing::error!("a thread panicked");
        }
    }
    tracing::info!(
        "name" = config.name.as_str(),
        "data-dir" = %config.data_dir.display(),
        "closed etcd server"
    );
    Ok(())
}

/// How a member stopped that was asked to.
#[derive(Debug)]
enum Stop {
    /// With everything in the database.
    Durable,
    /// Not in time.
    CommitUnderWay,
}

/// Tells from the answer to a stop how the member stopped. One that gives none had failed, perhaps
/// just before it was asked: then that is why the server ends, whatever came first.
fn stop_of(
    answer: Result<(), RecvTimeoutError>,
    failed: &std::sync::mpsc::Receiver<quorate_node::Error>,
) -> Result<Stop, ServerError> {
    match answer {
        Ok(()) => Ok(Stop::Durable),
        Err(RecvTimeoutError::Timeout) => Ok(Stop::CommitUnderWay),
        Err(RecvTimeoutError::Disconnected) => Err(match failed.try_recv() {
            Ok(error) => error.into(),
            Err(_) => ServerError::NotReady("the member ended"),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quorate_node::Error;

    #[test]
    fn a_failure_just_before_a_stop_is_what_ends_the_server() {
        let (sender, failed) = channel();
        sender.send(Error::Removed).unwrap();
        let stop = stop_of(Err(RecvTimeoutError::Disconnected), &failed);
        assert!(matches!(stop, Err(ServerError::Member(Error::Removed))));
    }

    #[test]
    fn a_stop_that_takes_too_long_is_no_failure() {
        let (_sender, failed) = channel();
        assert!(matches!(
            stop_of(Err(RecvTimeoutError::Timeout), &failed),
            Ok(Stop::CommitUnderWay)
        ));
        assert!(matches!(stop_of(Ok(()), &failed), Ok(Stop::Durable)));
    }
}
