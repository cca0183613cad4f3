use std::time::Duration;

use tokio::sync::Mutex;

use crate::clock::ExpoClock;

/// Spreads notifications over time. A request of `n` keeps the next one away
/// for `n / rate` seconds.
pub(crate) struct Pace {
    rate: u32,
    /// Held while its holder waits, so that the others wait behind it, in order. One
    /// that gives up leaves no gap.
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
        let mut free_at = self.free_at.lock().await;
        let wait = free_at.saturating_sub(clock.elapsed());
        if !wait.is_zero() {
            clock.sleep(wait).await;
        }
        let count = u32::try_from(count).unwrap_or(u32::MAX);
        let start = free_at.max(clock.elapsed());
        *free_at = start + Duration::from_secs(count.into()) / self.rate;
    }
}
