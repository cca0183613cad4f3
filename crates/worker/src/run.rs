//! Runs one handler to its end.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use duebox_core::parse_time;
use tokio::sync::mpsc::UnboundedSender;
use tracing::Instrument;

use crate::clock::later;
use crate::held::Claimed;
use crate::shared::{End, Ended, Shared, Topic};
use crate::telemetry::Ending;
use crate::{Job, Outcome};

/// Takes the place of a run among those that may run at once.
pub(crate) struct Slot {
    shared: Arc<Shared>,
    topic: Arc<Topic>,
    ends: UnboundedSender<Ended>,
    key: u64,
    bytes: u64,
    failures: u64,
    started: Duration,
}

impl Slot {
    pub(crate) fn take(
        shared: &Arc<Shared>,
        topic: &Arc<Topic>,
        ends: &UnboundedSender<Ended>,
        claimed: &Claimed,
    ) -> Self {
        shared.running.fetch_add(1, Ordering::AcqRel);
        topic.running.fetch_add(1, Ordering::AcqRel);
        Self {
            shared: Arc::clone(shared),
            topic: Arc::clone(topic),
            ends: ends.clone(),
            key: claimed.key,
            bytes: claimed.record.payload.len() as u64,
            failures: claimed.record.attempts.saturating_add(1),
            started: shared.clock.elapsed(),
        }
    }

    /// Runs the handler, and sends off how that ended.
    pub(crate) async fn run(self, claimed: Claimed) {
        let Claimed { record, lost, .. } = claimed;
        let now = self.shared.clock.now();
        if record.claims == 1
            && let Ok(created_at) = parse_time(&record.created_at)
        {
            let delay = (now - created_at).to_std().unwrap_or_default();
            self.topic.telemetry.started(delay);
        }
        let span = tracing::info_span!(
            "duebox.job",
            outbox = self.shared.outbox.table(),
            topic = record.topic,
            id = record.id,
            attempt = self.failures,
        );
        let job = Job::new(record, later(now, self.topic.timeout), lost);
        self.ended(job).instrument(span).await;
    }

    async fn ended(self, job: Job) {
        let handler = Arc::clone(&self.topic.handler);
        let time_is_up = self.started.saturating_add(self.topic.timeout);
        let outcome = {
            let run = catching(async move { handler.handle(job).await });
            tokio::select! {
                biased;
                outcome = run => outcome.map_err(|()| Ending::Panicked),
                () = self.shared.clock.sleep_until(time_is_up) => Err(Ending::TimedOut),
                () = self.shared.abort.cancelled() => Err(Ending::Released),
            }
        };
        let (ending, end) = self.end_of(outcome);
        let took = self.shared.clock.elapsed().saturating_sub(self.started);
        if ending != Ending::Released {
            self.topic.pace.took(took);
        }
        let parked = matches!(end, Some(End::Park { .. }));
        self.topic.telemetry.ended(ending, took, parked);
        let level_is_low = matches!(ending, Ending::Done | Ending::Rescheduled);
        if level_is_low {
            tracing::debug!(outcome = ending.name(), "a job has ended");
        } else {
            tracing::info!(outcome = ending.name(), parked, "a job has ended");
        }
        if let Some(end) = end {
            self.send(end);
        } else if self.shared.held.end(self.key).is_none() {
            self.shared.telemetry.leases_lost.increment(1);
        }
        // The slot is given back as it is dropped.
    }

    fn send(&self, end: End) {
        // A lease that is known to be lost has nothing to be written.
        if let Some(lease) = self.shared.held.end(self.key) {
            self.shared.unwritten.fetch_add(1, Ordering::AcqRel);
            // It fails only if the worker was ended, and then the lease lapses.
            let _ = self.ends.send(Ended { lease, end });
        }
    }

    fn end_of(&self, outcome: Result<Outcome, Ending>) -> (Ending, Option<End>) {
        match outcome {
            Ok(Outcome::Done) => (Ending::Done, Some(End::Complete)),
            Ok(Outcome::Ended) => (Ending::Done, None),
            Ok(Outcome::RunAgainAt(at)) => {
                let at = self.shared.not_before_now(at);
                (Ending::Rescheduled, Some(End::Reschedule { at }))
            }
            Ok(Outcome::Park(error)) => {
                let error = error.into_owned();
                (Ending::Parked, Some(End::Park { error }))
            }
            Ok(Outcome::Retry(error)) => {
                let end = self.failure(error.into_owned(), || self.backed_off());
                (Ending::Retried, Some(end))
            }
            Ok(Outcome::RetryAt(at, error)) => {
                let end = self.failure(error.into_owned(), || self.shared.not_before_now(at));
                (Ending::Retried, Some(end))
            }
            Err(Ending::Panicked) => {
                let end = self.failure("the handler panicked".into(), || self.backed_off());
                (Ending::Panicked, Some(end))
            }
            Err(Ending::TimedOut) => {
                let error = format!("the handler took longer than {:?}", self.topic.timeout);
                let end = self.failure(error, || self.backed_off());
                (Ending::TimedOut, Some(end))
            }
            Err(_) => {
                let at = self.shared.now();
                (Ending::Released, Some(End::Release { at }))
            }
        }
    }

    fn backed_off(&self) -> String {
        self.shared.after(self.topic.backoff.delay(self.failures))
    }

    fn failure(&self, error: String, at: impl FnOnce() -> String) -> End {
        if self.topic.backoff.is_exhausted(self.failures) {
            End::Park { error }
        } else {
            End::Retry { at: at(), error }
        }
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What a handler leaves behind panicked as it was dropped.
            let end = self.failure("the handler panicked".into(), || self.backed_off());
            self.send(end);
        }
        self.shared.bytes.fetch_sub(self.bytes, Ordering::AcqRel);
        self.topic.running.fetch_sub(1, Ordering::AcqRel);
        self.shared.running.fetch_sub(1, Ordering::AcqRel);
        self.shared.bell.touch();
    }
}

/// The future's output, or that it panicked. The text of a panic may quote
/// anything, and is not looked at.
async fn catching<T>(future: impl Future<Output = T>) -> Result<T, ()> {
    let mut future = pin!(future);
    std::future::poll_fn(move |context| {
        match catch_unwind(AssertUnwindSafe(|| future.as_mut().poll(context))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(output)) => Poll::Ready(Ok(output)),
            Err(_) => Poll::Ready(Err(())),
        }
    })
    .await
}
