use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duebox_core::{WakeSink, WakeSource};
use tokio::sync::{Notify, mpsc};

use crate::db::Pauses;
use crate::shared::Shared;

/// Between wake-ups that leave this process, so that there are at most 20 a
/// second, however many jobs are enqueued.
const APART: Duration = Duration::from_millis(52);

/// Tells workers that there is new work, so that it starts at once.
///
/// Call [`nudge`](Self::nudge) after the commit, once or for every job: nudges
/// are cheap, and many are as good as one. A forgotten one delays work by at
/// most one poll.
///
/// A worker's own [`nudger`](crate::Worker::nudger) reaches that worker. One
/// made with a [`WakeSink`] reaches the workers of other processes that listen
/// to the same database, by at most 20 messages a second that carry no data:
///
/// ```no_run
/// use std::sync::Arc;
/// use duebox_core::WakeSink;
/// use duebox_worker::Nudger;
///
/// # async fn example(sink: Arc<dyn WakeSink>) {
/// let nudger = Nudger::across(sink);
/// // … enqueue and commit …
/// nudger.nudge();
/// # }
/// ```
#[derive(Clone)]
pub struct Nudger {
    local: Option<Arc<Bell>>,
    across: Option<mpsc::Sender<()>>,
}

impl Nudger {
    /// Reaches workers in other processes, by a task that sends to them and
    /// that ends with the last clone. A message that cannot be sent is dropped.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime.
    #[must_use]
    pub fn across(sink: Arc<dyn WakeSink>) -> Self {
        let (across, nudges) = mpsc::channel(1);
        tokio::spawn(send(sink, nudges));
        Self {
            local: None,
            across: Some(across),
        }
    }

    pub(crate) fn local(bell: Arc<Bell>) -> Self {
        Self {
            local: Some(bell),
            across: None,
        }
    }

    /// One that reaches both those that this reaches and those that `other`
    /// does; of two workers, or of two sinks, that of `other` is not reached.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self {
            local: self.local.or(other.local),
            across: self.across.or(other.across),
        }
    }

    /// Says that there is new work. Neither blocks nor fails.
    pub fn nudge(&self) {
        if let Some(bell) = &self.local {
            bell.ring();
        }
        if let Some(across) = &self.across {
            // If it is full, one that was not sent yet tells of this work too.
            let _ = across.try_send(());
        }
    }
}

impl fmt::Debug for Nudger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Nudger")
            .field("local", &self.local.is_some())
            .field("across", &self.across.is_some())
            .finish()
    }
}

async fn send(sink: Arc<dyn WakeSink>, mut nudges: mpsc::Receiver<()>) {
    while nudges.recv().await.is_some() {
        let next = tokio::time::Instant::now() + APART;
        if let Err(error) = sink.wake().await {
            tracing::debug!(%error, "a wake-up was not sent");
        }
        tokio::time::sleep_until(next).await;
    }
}

/// Wakes the loop of one worker.
#[derive(Default)]
pub(crate) struct Bell {
    nudged: AtomicBool,
    changed: Notify,
}

impl Bell {
    /// There may be new work.
    pub(crate) fn ring(&self) {
        if !self.nudged.swap(true, Ordering::AcqRel) {
            self.changed.notify_one();
        }
    }

    /// Something has changed in the worker itself.
    pub(crate) fn touch(&self) {
        self.changed.notify_one();
    }

    pub(crate) async fn changed(&self) {
        self.changed.notified().await;
    }

    pub(crate) fn is_nudged(&self) -> bool {
        self.nudged.load(Ordering::Acquire)
    }

    /// Called as a claim begins, which sees what was committed before.
    pub(crate) fn answer(&self) -> bool {
        self.nudged.swap(false, Ordering::AcqRel)
    }
}

/// Rings the bell whenever the source tells of work.
pub(crate) async fn listen(shared: Arc<Shared>, mut source: Box<dyn WakeSource>) {
    let mut pauses = Pauses::default();
    loop {
        match source.wait().await {
            Ok(()) => {
                pauses.reset();
                shared.listening.store(true, Ordering::Release);
                shared.bell.ring();
            }
            Err(error) => {
                shared.listening.store(false, Ordering::Release);
                shared.bell.ring();
                tracing::warn!(
                    outbox = shared.outbox.table(),
                    %error,
                    "no wake-ups are heard; polling instead"
                );
                shared.clock.sleep(pauses.next()).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;

    use duebox_core::WakeFuture;

    use super::*;

    #[derive(Default)]
    struct Counted(AtomicU32);

    impl WakeSink for Counted {
        fn wake(&self) -> WakeFuture<'_> {
            self.0.fetch_add(1, Ordering::SeqCst);
            Box::pin(async { Ok(()) })
        }
    }

    #[tokio::test]
    async fn ten_thousand_nudges_a_second_are_at_most_20_messages() {
        tokio::time::pause();
        let sink = Arc::new(Counted::default());
        let nudger = Nudger::across(Arc::clone(&sink) as _);
        nudger.nudge();
        tokio::task::yield_now().await;
        assert_eq!(sink.0.load(Ordering::SeqCst), 1, "the first goes at once");
        for _ in 0..1_000 {
            for _ in 0..10 {
                nudger.nudge();
            }
            tokio::time::advance(Duration::from_millis(1)).await;
        }
        let sent = sink.0.load(Ordering::SeqCst);
        assert!((10..=20).contains(&sent), "{sent}");
        // The last nudge is told of, too.
        tokio::time::advance(APART).await;
        tokio::task::yield_now().await;
        assert!(sink.0.load(Ordering::SeqCst) > sent);
    }
}
