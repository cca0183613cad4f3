//! How long the plan of a prepared statement is kept.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// How long, in seconds.
///
/// The server keeps a plan until it has counted the table again. One that was made
/// while an outbox was empty reads the whole table and sorts it, and until the server
/// comes by to count, a minute perhaps, a burst makes every claim slower. A plan that
/// is made anew goes by the table's size.
pub(crate) const KEPT: u64 = 5;

/// The age of the plans of a handle's connections.
pub(crate) struct Plans {
    begun: Instant,
    /// In which of the spans of [`KEPT`] they were made.
    made: AtomicU64,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            begun: Instant::now(),
            made: AtomicU64::new(0),
        }
    }
}

impl Plans {
    /// The number of the span that it is now.
    pub(crate) fn span(&self) -> u64 {
        self.begun.elapsed().as_secs() / KEPT
    }

    /// Whether the plans are of an earlier span: true once in each.
    pub(crate) fn are_old(&self) -> bool {
        let now = self.span();
        self.made.load(Ordering::Relaxed) != now && self.made.swap(now, Ordering::Relaxed) != now
    }
}
