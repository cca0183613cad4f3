use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::clock::ExpoClock;

/// Spreads notifications over time. A request of `n` keeps the next one away
/// for `n / rate` seconds.
pub(crate) struct Pace {
    rate: u32,
    free_at: Mutex<Duration>,
}

impl Pace {
    pub(crate) fn new(rate: u32) -> Self {
        Self {
            rate,
            free_at: Mutex::new(Duration::ZERO),
        }
    }

    pub(crate) async fn take(&self, count: usize, clock: &dyn ExpoClock) {
        let now = clock.elapsed();
        let wait = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let start = now.max(*free_at);
            let count = u32::try_from(count).unwrap_or(u32::MAX);
            *free_at = start + Duration::from_secs(count.into()) / self.rate;
            start.saturating_sub(now)
        };
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
    }
}
