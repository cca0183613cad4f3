use std::fmt;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use duebox_core::{
    DeviceRegistry, PendingReceiptStore, PushReceiptSource, ReceiptPoll, ReceiptPollCause,
    poll_pending_receipts,
};
use metrics::counter;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::Clock;
use crate::db::Pauses;

/// Asks for the receipts of push notifications as they fall due, and does what
/// follows from them: [`poll_pending_receipts`], again and again.
///
/// Any number of pollers may run, in one process or in many: no two are given
/// one ticket at a time. It makes one call to the store at a time, and uses one
/// connection. Dropping it ends it; whatever it was doing, no ticket is lost.
///
/// ```no_run
/// use std::sync::Arc;
/// use duebox_core::{DeviceRegistry, PendingReceiptStore, PushReceiptSource};
/// use duebox_worker::{Clock, ReceiptPoller};
///
/// # async fn example(
/// #     source: Arc<dyn PushReceiptSource>,
/// #     pending: Arc<dyn PendingReceiptStore>,
/// #     registry: Arc<dyn DeviceRegistry>,
/// #     clock: Clock,
/// # ) {
/// let poller = ReceiptPoller::builder(source, pending, registry, clock).start();
/// // …
/// poller.shutdown().await;
/// # }
/// ```
pub struct ReceiptPoller {
    stop: CancellationToken,
    task: JoinHandle<()>,
    rounds: watch::Receiver<u64>,
}

/// How a [`ReceiptPoller`] polls; made by [`ReceiptPoller::builder`].
#[must_use = "nothing is polled before `start`"]
pub struct ReceiptPollerBuilder {
    source: Arc<dyn PushReceiptSource>,
    pending: Arc<dyn PendingReceiptStore>,
    registry: Arc<dyn DeviceRegistry>,
    clock: Clock,
    every: Duration,
    limit: NonZeroU32,
}

impl ReceiptPoller {
    /// A poller of these tickets, at this source, for this registry. The clock
    /// is the database's; a worker has one.
    pub fn builder(
        source: Arc<dyn PushReceiptSource>,
        pending: Arc<dyn PendingReceiptStore>,
        registry: Arc<dyn DeviceRegistry>,
        clock: Clock,
    ) -> ReceiptPollerBuilder {
        ReceiptPollerBuilder {
            source,
            pending,
            registry,
            clock,
            every: Duration::from_mins(1),
            limit: NonZeroU32::new(1_000).unwrap_or(NonZeroU32::MIN),
        }
    }

    /// Waits until it has done all that is due, once more than it has now.
    pub async fn next_round(&self) {
        let mut rounds = self.rounds.clone();
        let now = *rounds.borrow_and_update();
        // If it has ended there will be none.
        let _ = rounds.wait_for(|round| *round > now).await;
    }

    /// Ends it. A batch that it has taken is finished first.
    pub async fn shutdown(mut self) {
        self.stop.cancel();
        // A panic is that of a port; tickets come back by themselves.
        let _ = (&mut self.task).await;
    }
}

impl Drop for ReceiptPoller {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl fmt::Debug for ReceiptPoller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiptPoller")
            .field("rounds", &*self.rounds.borrow())
            .finish_non_exhaustive()
    }
}

impl ReceiptPollerBuilder {
    /// How long to wait when nothing is due: a minute unless it is said.
    pub fn every(mut self, pause: Duration) -> Self {
        self.every = pause.max(Duration::from_secs(1));
        self
    }

    /// How many tickets are taken at a time: 1 000 unless it is said.
    pub fn limit(mut self, tickets: NonZeroU32) -> Self {
        self.limit = tickets;
        self
    }

    /// Starts the poller.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with its clock enabled.
    #[must_use]
    pub fn start(self) -> ReceiptPoller {
        let stop = CancellationToken::new();
        let (report, rounds) = watch::channel(0);
        ReceiptPoller {
            task: tokio::spawn(self.run(stop.clone(), report)),
            stop,
            rounds,
        }
    }

    async fn run(self, stop: CancellationToken, rounds: watch::Sender<u64>) {
        let mut pauses = Pauses::default();
        while !stop.is_cancelled() {
            let pause = match self.poll().await {
                Ok(poll) => {
                    pauses.reset();
                    if poll.taken >= u64::from(self.limit.get()) {
                        continue;
                    }
                    rounds.send_modify(|rounds| *rounds += 1);
                    self.every
                }
                Err(asked) => {
                    rounds.send_modify(|rounds| *rounds += 1);
                    // Other tickets are due meanwhile, but whoever has just failed fails them too.
                    asked
                        .unwrap_or_default()
                        .max(pauses.next())
                        .max(self.every / 4)
                }
            };
            tokio::select! {
                () = stop.cancelled() => {}
                () = self.clock.sleep(pause) => {}
            }
        }
    }

    /// One batch; an error is how long the provider asks us to wait.
    async fn poll(&self) -> Result<ReceiptPoll, Option<Duration>> {
        let polled = poll_pending_receipts(
            &*self.source,
            &*self.pending,
            &*self.registry,
            self.clock.now(),
            self.limit,
        );
        match polled.await {
            Ok(poll) => {
                count(&poll);
                if poll.taken > 0 {
                    tracing::debug!(
                        taken = poll.taken,
                        delivered = poll.delivered,
                        rejected = poll.rejected,
                        unsettled = poll.unsettled,
                        "receipts were polled"
                    );
                }
                Ok(poll)
            }
            Err(error) => {
                count(&error.poll);
                counter!("duebox_receipt_polls_failed_total").increment(1);
                tracing::warn!(%error, "a poll of receipts failed");
                Err(match error.cause {
                    ReceiptPollCause::Source(error) => error.retry_after(),
                    _ => None,
                })
            }
        }
    }
}

fn count(poll: &ReceiptPoll) {
    let by_result = [
        ("delivered", poll.delivered),
        ("rejected", poll.rejected),
        ("unsettled", poll.unsettled),
        ("purged", poll.purged),
    ];
    for (result, number) in by_result {
        counter!("duebox_receipts_total", "result" => result).increment(number);
    }
    counter!("duebox_devices_invalidated_total").increment(poll.invalidated);
}

impl fmt::Debug for ReceiptPollerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReceiptPollerBuilder")
            .field("every", &self.every)
            .field("limit", &self.limit)
            .finish_non_exhaustive()
    }
}
