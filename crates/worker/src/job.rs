use std::fmt;
use std::sync::Arc;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Lease, OutboxRecord};
use tokio_util::sync::CancellationToken;

/// One unit of work, as its handler sees it.
///
/// `Debug` shows neither payload nor subject.
#[derive(Clone)]
pub struct Job(Arc<Inner>);

struct Inner {
    record: OutboxRecord,
    deadline: DateTime<Utc>,
    lost: CancellationToken,
}

impl Job {
    pub(crate) fn new(
        record: OutboxRecord,
        deadline: DateTime<Utc>,
        lost: CancellationToken,
    ) -> Self {
        Self(Arc::new(Inner {
            record,
            deadline,
            lost,
        }))
    }

    /// The row's id: the same for every attempt, thus a key for calls that
    /// must take effect once.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.record.id
    }

    /// What kind of work this is.
    #[must_use]
    pub fn topic(&self) -> &str {
        &self.0.record.topic
    }

    /// What the work needs to know.
    #[must_use]
    pub fn payload(&self) -> &str {
        &self.0.record.payload
    }

    /// The payload as a model, read from JSON.
    ///
    /// # Errors
    ///
    /// Where it cannot be read, without quoting it; a handler that returns
    /// this error retries.
    #[cfg(feature = "json")]
    pub fn json<T: serde::de::DeserializeOwned>(&self) -> Result<T, crate::handler::NotJson> {
        serde_json::from_str(self.payload()).map_err(Into::into)
    }

    /// The person the work is for.
    #[must_use]
    pub fn subject(&self) -> Option<&str> {
        self.0.record.subject.as_deref()
    }

    /// Which attempt this is, from 1. A run that ended with its process counts
    /// none, so an attempt may begin more than once.
    #[must_use]
    pub fn attempt(&self) -> u64 {
        self.0.record.attempts.saturating_add(1)
    }

    /// When the handler is timed out, by the [`Clock`](crate::Clock).
    #[must_use]
    pub fn deadline(&self) -> DateTime<Utc> {
        self.0.deadline
    }

    /// Cancelled once the lease is lost, because an operator took it or the
    /// process stood still for longer than it: somebody else may be at this
    /// work, and whatever this run returns is discarded.
    #[must_use]
    pub fn lost(&self) -> &CancellationToken {
        &self.0.lost
    }

    /// The lease, for a handler that ends it in its own transaction and
    /// returns [`Outcome::Ended`](crate::Outcome::Ended).
    #[must_use]
    pub fn lease(&self) -> &Lease {
        &self.0.record.lease
    }

    /// The row as it was claimed.
    #[must_use]
    pub fn record(&self) -> &OutboxRecord {
        &self.0.record
    }
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Job")
            .field("record", &self.0.record)
            .field("deadline", &self.0.deadline)
            .field("lost", &self.0.lost.is_cancelled())
            .finish()
    }
}
