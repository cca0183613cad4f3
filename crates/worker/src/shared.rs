//! What the tasks of one worker share.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, Lease, Outbox, PARKED, format_time};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::alone::Gate;
use crate::claims::Polls;
use crate::clock::later;
use crate::held::Held;
use crate::pace::Pace;
use crate::telemetry::{Telemetry, TopicTelemetry};
use crate::wake::Bell;
use crate::{Backoff, Clock, Handler};

pub(crate) struct Shared {
    pub(crate) outbox: Outbox,
    pub(crate) db: Arc<dyn Database>,
    pub(crate) clock: Clock,
    pub(crate) settings: Settings,
    pub(crate) topics: HashMap<String, Arc<Topic>>,
    /// All topics that are not among these, if they are handled.
    pub(crate) any: Option<Arc<Topic>>,
    pub(crate) held: Held,
    pub(crate) gate: Gate,
    pub(crate) telemetry: Telemetry,
    pub(crate) bell: Arc<Bell>,
    /// Handlers that run.
    pub(crate) running: AtomicUsize,
    /// The bytes of the payloads of rows that were claimed and have not ended.
    pub(crate) bytes: AtomicU64,
    /// Ends of runs that were not written yet.
    pub(crate) unwritten: AtomicUsize,
    /// Whether a source of wake-ups is heard.
    pub(crate) listening: AtomicBool,
    /// When rows fall due that this worker has put off, by the elapsed time.
    pub(crate) own_due: Mutex<BTreeSet<Duration>>,
    /// No more claims.
    pub(crate) stopping: CancellationToken,
    /// No more handlers.
    pub(crate) abort: CancellationToken,
    pub(crate) pulse: Mutex<Pulse>,
    pub(crate) settling: Settling,
}

#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) name: String,
    pub(crate) concurrency: usize,
    pub(crate) batch: usize,
    pub(crate) max_bytes: u64,
    pub(crate) lease: Duration,
    pub(crate) polls: Polls,
    pub(crate) sample_every: Option<Duration>,
}

pub(crate) struct Topic {
    pub(crate) handler: Arc<dyn Handler>,
    pub(crate) limit: Option<usize>,
    pub(crate) timeout: Duration,
    pub(crate) backoff: Backoff,
    pub(crate) running: AtomicUsize,
    pub(crate) pace: Pace,
    pub(crate) telemetry: TopicTelemetry,
}

impl Topic {
    pub(crate) fn has_room(&self) -> bool {
        self.limit
            .is_none_or(|limit| self.running.load(Ordering::Acquire) < limit)
    }
}

/// When the database was last heard.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pulse {
    pub(crate) last_claim: Option<(DateTime<Utc>, Duration)>,
    pub(crate) failures: u64,
}

/// Those who wait until there is nothing to do.
pub(crate) struct Settling {
    pub(crate) waiting: AtomicUsize,
    /// Claims that have begun.
    pub(crate) begun: AtomicU64,
    /// The last claim that found nothing while nothing was being done.
    pub(crate) settled: watch::Sender<u64>,
}

/// How the run of a row ended, to be written.
pub(crate) struct Ended {
    pub(crate) lease: Lease,
    pub(crate) end: End,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Complete,
    Retry { at: String, error: String },
    Park { error: String },
    Reschedule { at: String },
    Release { at: String },
}

impl Shared {
    /// What handles this topic.
    pub(crate) fn topic(&self, name: &str) -> Option<&Arc<Topic>> {
        self.topics.get(name).or(self.any.as_ref())
    }

    pub(crate) fn is_settling(&self) -> bool {
        self.settling.waiting.load(Ordering::Acquire) > 0
    }

    /// The time as the database takes it.
    pub(crate) fn now(&self) -> String {
        stamp(self.clock.now())
    }

    /// A time this far ahead, of which our own loop will be reminded.
    pub(crate) fn after(&self, delay: Duration) -> String {
        self.remind(delay);
        stamp(later(self.clock.now(), delay))
    }

    /// A time that a handler has chosen; not one that has passed.
    pub(crate) fn not_before_now(&self, at: DateTime<Utc>) -> String {
        let now = self.clock.now();
        if let Ok(delay) = (at - now).to_std() {
            self.remind(delay);
        } else {
            self.remind(Duration::ZERO);
        }
        stamp(at.max(now))
    }

    fn remind(&self, delay: Duration) {
        const MOST: usize = 1_024;
        const GRAIN: u128 = 5_000_000;
        let due = self.clock.elapsed().saturating_add(delay).as_nanos();
        // Up to a grain late, so that many rows are claimed by one claim.
        let due = due.div_ceil(GRAIN).saturating_mul(GRAIN);
        let due = Duration::from_nanos(u64::try_from(due).unwrap_or(u64::MAX));
        let mut own = self.own_due.lock().unwrap_or_else(PoisonError::into_inner);
        own.insert(due);
        if own.len() > MOST {
            // A poll will find it.
            own.pop_last();
        }
    }
}

/// A time as text; one that has none is the last that is no parking.
pub(crate) fn stamp(time: DateTime<Utc>) -> String {
    match format_time(time) {
        Ok(text) if text != PARKED => text,
        _ => "9999-12-31T23:59:59.999998Z".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_time_that_a_handler_can_name_parks_or_fails() {
        assert_eq!(
            stamp(DateTime::<Utc>::MAX_UTC),
            "9999-12-31T23:59:59.999998Z"
        );
        let parked = duebox_core::parse_time(PARKED).expect("a time");
        assert_eq!(stamp(parked), "9999-12-31T23:59:59.999998Z");
    }
}
