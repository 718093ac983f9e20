//! Runs the compactor: gives it the time, proposes what it asks for, and tells the operator in etcd's
//! words.

use crate::compactor::{Compaction, Compactor, Retention};
use crate::config::Config;
use crate::driver::Handle;
use quorate_api::Error;
use quorate_go::duration;
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// The compactor and its way to the member.
pub struct AutoCompaction {
    member: Handle,
    compactor: Compactor,
    under_way: Option<UnderWay>,
}

struct UnderWay {
    compaction: Compaction,
    /// Its outcome and how long it took.
    outcome: Receiver<(Result<(), Error>, Duration)>,
}

/// The compactor that the flags ask for.
pub fn auto_compaction(config: &Config, member: &Handle) -> Option<AutoCompaction> {
    let retention = Retention::parse(
        config.text("auto-compaction-mode"),
        config.text("auto-compaction-retention"),
    );
    let retention = retention.expect("the configuration was checked")?;
    Some(AutoCompaction {
        compactor: Compactor::new(retention, member.now_ms(), member.view().revision),
        member: member.clone(),
        under_way: None,
    })
}

impl AutoCompaction {
    /// Looks whether something is due or done; to be called a few times a second.
    pub fn step(&mut self) {
        let (now_ms, revision) = (self.member.now_ms(), self.member.view().revision);
        if let Some(UnderWay {
            compaction,
            outcome,
        }) = &self.under_way
        {
            let (outcome, took) = match outcome.try_recv() {
                Ok(outcome) => outcome,
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => (Err(Error::Stopped), Duration::ZERO),
            };
            self.tell(compaction.revision, took, outcome);
            let done = matches!(outcome, Ok(()) | Err(Error::Compacted));
            self.compactor.finished(*compaction, done, now_ms, revision);
            self.under_way = None;
        }
        let leads = self.member.leads();
        let Some(compaction) = self.compactor.step(now_ms, revision, leads) else {
            return;
        };
        match self.compactor.retention() {
            Retention::Period(period) => tracing::info!(
                "revision" = compaction.revision,
                "compact-period" = %duration::format(period),
                "starting auto periodic compaction"
            ),
            Retention::Revisions(kept) => tracing::info!(
                "revision" = compaction.revision,
                "revision-compaction-retention" = kept,
                "starting auto revision compaction"
            ),
        }
        let (sender, outcome) = channel();
        self.member.compact(compaction.revision, sender);
        self.under_way = Some(UnderWay {
            compaction,
            outcome,
        });
    }

    fn tell(&self, revision: i64, took: Duration, outcome: Result<(), Error>) {
        let took = duration::format(took);
        let retry = duration::format(self.compactor.look_interval());
        let failed = match outcome {
            Ok(()) | Err(Error::Compacted) => None,
            Err(error) => Some(error),
        };
        match (self.compactor.retention(), failed) {
            (Retention::Period(period), None) => tracing::info!(
                "revision" = revision,
                "compact-period" = %duration::format(period),
                "took" = %took,
                "completed auto periodic compaction"
            ),
            (Retention::Revisions(kept), None) => tracing::info!(
                "revision" = revision,
                "revision-compaction-retention" = kept,
                "took" = %took,
                "completed auto revision compaction"
            ),
            (Retention::Period(period), Some(error)) => tracing::warn!(
                "revision" = revision,
                "compact-period" = %duration::format(period),
                "retry-interval" = %retry,
                "error" = %error,
                "failed auto periodic compaction"
            ),
            (Retention::Revisions(kept), Some(error)) => tracing::warn!(
                "revision" = revision,
                "revision-compaction-retention" = kept,
                "retry-interval" = %retry,
                "error" = %error,
                "failed auto revision compaction"
            ),
        }
    }
}
