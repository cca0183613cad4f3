use std::time::Duration;

use duebox_core::PushError;

use crate::config::Inner;

/// The first wait; the official Node SDK begins with 1 s and doubles, too.
const FIRST_WAIT: Duration = Duration::from_secs(1);
/// No wait is longer. What the service asks for beyond that is left to the
/// caller, by [`PushError::retry_after`].
const LONGEST_WAIT: Duration = Duration::from_secs(30);

impl Inner {
    /// Waits before retry number `done` (from 0), or says that there is none.
    pub(crate) async fn wait_to_retry(&self, error: &PushError, done: u32) -> bool {
        if done >= self.max_retries {
            return false;
        }
        let backoff = FIRST_WAIT
            .saturating_mul(2_u32.saturating_pow(done))
            .min(LONGEST_WAIT);
        let wait = match error.retry_after() {
            Some(asked) if asked > LONGEST_WAIT => return false,
            Some(asked) => asked.max(backoff.mul_f64(0.5)),
            None => backoff.mul_f64(0.5 + 0.5 * fastrand::f64()),
        };
        self.clock.sleep(wait).await;
        true
    }
}
