//! Waiting for the member from an asynchronous task: questions, barriers, proposals.
//!
//! Each is a callback on the loop that completes a one-shot channel, so a task that is dropped
//! while it waits costs nothing but the unheard answer.

use super::{Handle, Waiter};
use quorate_api::Error;
use quorate_api::etcdserverpb::alarm_request::AlarmAction;
use quorate_api::etcdserverpb::{AlarmRequest, AlarmType, InternalRaftRequest};
use quorate_node::{Member, Reply};
use tokio::sync::oneshot;

/// What a reply comes to for whoever waits for nothing but success.
fn outcome(reply: Reply) -> Result<(), Error> {
    match reply {
        Reply::Ready | Reply::Outcome(Ok(_)) => Ok(()),
        Reply::Outcome(Err(error)) | Reply::Failed(error) => Err(error),
    }
}

impl Handle {
    /// Asks the member on its loop, where the question must be brief.
    pub async fn answer<R: Send + 'static>(
        &self,
        question: impl FnOnce(&mut Member<Waiter>) -> R + Send + 'static,
    ) -> Result<R, Error> {
        let (sender, receiver) = oneshot::channel();
        self.ask(Box::new(move |member, _| {
            let _unheard = sender.send(question(member));
        }))?;
        receiver.await.map_err(|_| Error::Stopped)
    }

    /// Has the member begin something on its loop, and waits for what becomes of it.
    pub async fn done(
        &self,
        begin: impl FnOnce(&mut Member<Waiter>, Waiter) + Send + 'static,
    ) -> Result<(), Error> {
        let (sender, receiver) = oneshot::channel();
        let waiter = Waiter::Then(Box::new(move |reply, _| {
            let _unheard = sender.send(outcome(reply));
        }));
        self.ask(Box::new(move |member, _| begin(member, waiter)))?;
        receiver.await.map_err(|_| Error::Stopped)?
    }

    /// Waits until the newest view covers all that was acknowledged, by any member, before.
    pub async fn linearized(&self) -> Result<(), Error> {
        if self.reads_are_local() {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        self.linearizable(Box::new(move |reply, _| {
            let _unheard = sender.send(outcome(reply));
        }));
        self.flush();
        receiver.await.map_err(|_| Error::Stopped)?
    }

    /// Waits until all that this member knows to be committed is applied.
    pub async fn caught_up(&self) -> Result<(), Error> {
        self.done(|member, waiter| member.when_applied(waiter))
            .await
    }

    /// Proposes an alarm for a member; it leaves with the next [`Handle::flush`].
    pub fn raise_alarm(&self, member_id: u64, alarm: AlarmType, token: Option<Waiter>) {
        let request = InternalRaftRequest {
            alarm: Some(AlarmRequest {
                action: AlarmAction::Activate as i32,
                member_id,
                alarm: alarm as i32,
            }),
            ..Default::default()
        };
        self.propose_own(request, token);
    }
}
