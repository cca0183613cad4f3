//! What a worker tells `metrics`. The names are in the crate's documentation.

use std::time::Duration;

use duebox_core::OutboxStats;
use metrics::{Counter, Gauge, Histogram, counter, gauge, histogram};

/// How a run ended, as the label `outcome` and the field of the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Done,
    Retried,
    Parked,
    Rescheduled,
    Panicked,
    TimedOut,
    Released,
}

impl Ending {
    const ALL: [Self; 7] = [
        Self::Done,
        Self::Retried,
        Self::Parked,
        Self::Rescheduled,
        Self::Panicked,
        Self::TimedOut,
        Self::Released,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Retried => "retried",
            Self::Parked => "parked",
            Self::Rescheduled => "rescheduled",
            Self::Panicked => "panicked",
            Self::TimedOut => "timed_out",
            Self::Released => "released",
        }
    }
}

/// Handles that are found once, since looking one up costs more than using it.
pub(crate) struct Telemetry {
    pub(crate) claimed_rows: Histogram,
    pub(crate) ended_rows: Histogram,
    pub(crate) leases_lost: Counter,
    pub(crate) without_handler: Counter,
    pub(crate) failed_calls: Counter,
    rows: [Gauge; 4],
    oldest_due: Gauge,
}

impl Telemetry {
    pub(crate) fn new(outbox: &str) -> Self {
        let outbox = outbox.to_owned();
        let rows = |state: &'static str| gauge!("duebox_rows", "outbox" => outbox.clone(), "state" => state);
        Self {
            claimed_rows: histogram!("duebox_claimed_rows", "outbox" => outbox.clone()),
            ended_rows: histogram!("duebox_ended_rows", "outbox" => outbox.clone()),
            leases_lost: counter!("duebox_leases_lost_total", "outbox" => outbox.clone()),
            without_handler: counter!("duebox_without_handler_total", "outbox" => outbox.clone()),
            failed_calls: counter!("duebox_failed_calls_total", "outbox" => outbox.clone()),
            rows: [rows("waiting"), rows("due"), rows("leased"), rows("parked")],
            oldest_due: gauge!("duebox_oldest_due_seconds", "outbox" => outbox),
        }
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a gauge of fewer than 2^52 rows"
    )]
    pub(crate) fn sampled(&self, stats: &OutboxStats) {
        let counts = [stats.waiting, stats.due, stats.leased, stats.parked];
        for (gauge, count) in self.rows.iter().zip(counts) {
            gauge.set(count as f64);
        }
        let oldest = stats.oldest_due.and_then(|age| age.to_std().ok());
        self.oldest_due.set(oldest.unwrap_or_default());
    }
}

/// The same for one topic that has a handler. Others have no metrics of their
/// own, so that a stranger's topics make no new series.
pub(crate) struct TopicTelemetry {
    start_delay: Histogram,
    run_time: Histogram,
    endings: [Counter; Ending::ALL.len()],
    parked: Counter,
}

impl TopicTelemetry {
    pub(crate) fn new(outbox: &str, topic: &str) -> Self {
        let labels = [("outbox", outbox.to_owned()), ("topic", topic.to_owned())];
        Self {
            start_delay: histogram!("duebox_start_delay_seconds", &labels),
            run_time: histogram!("duebox_job_seconds", &labels),
            endings: Ending::ALL.map(|ending| {
                counter!("duebox_jobs_total", "outbox" => outbox.to_owned(),
                    "topic" => topic.to_owned(), "outcome" => ending.name())
            }),
            parked: counter!("duebox_parked_total", &labels),
        }
    }

    pub(crate) fn started(&self, delay: Duration) {
        self.start_delay.record(delay);
    }

    pub(crate) fn parked_unrun(&self) {
        self.parked.increment(1);
    }

    pub(crate) fn ended(&self, ending: Ending, took: Duration, parked: bool) {
        self.run_time.record(took);
        if let Some(counter) = self.endings.get(ending as usize) {
            counter.increment(1);
        }
        if parked {
            self.parked.increment(1);
        }
    }
}
