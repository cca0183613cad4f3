use std::time::Duration;

/// How long a failed job waits before its next attempt, and when it has had
/// enough of them.
///
/// The wait doubles with each failure up to a cap, and by *full jitter* is a
/// random part of that: jobs that failed together do not come back together.
/// By default the first wait is of up to a second, the longest of up to an
/// hour, and the 25th failure parks the job, which is after half a day or so.
///
/// ```
/// use std::time::Duration;
/// use duebox_worker::Backoff;
///
/// let backoff = Backoff::default()
///     .base(Duration::from_secs(2))
///     .cap(Duration::from_secs(60))
///     .max_attempts(10)
///     .without_jitter();
/// assert_eq!(backoff.delay(1), Duration::from_secs(2));
/// assert_eq!(backoff.delay(3), Duration::from_secs(8));
/// assert_eq!(backoff.delay(9), Duration::from_secs(60));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub struct Backoff {
    base: Duration,
    cap: Duration,
    max_attempts: u64,
    jitter: bool,
}

impl Default for Backoff {
    fn default() -> Self {
        Self {
            base: Duration::from_secs(1),
            cap: Duration::from_hours(1),
            max_attempts: 25,
            jitter: true,
        }
    }
}

impl Backoff {
    /// The longest wait after the first failure.
    pub fn base(mut self, base: Duration) -> Self {
        self.base = base;
        self
    }

    /// The longest wait after any failure.
    pub fn cap(mut self, cap: Duration) -> Self {
        self.cap = cap;
        self
    }

    /// After how many failures a job is parked: at least one. [`u64::MAX`]
    /// never parks for their number.
    pub fn max_attempts(mut self, attempts: u64) -> Self {
        self.max_attempts = attempts.max(1);
        self
    }

    /// Waits the full time: for tests.
    pub fn without_jitter(mut self) -> Self {
        self.jitter = false;
        self
    }

    /// How long to wait after this many failures, the latest included.
    #[must_use]
    pub fn delay(&self, failures: u64) -> Duration {
        let doublings = u32::try_from(failures.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let longest = self.base.saturating_mul(factor).min(self.cap);
        if self.jitter {
            longest.mul_f64(fastrand::f64())
        } else {
            longest
        }
    }

    /// Whether a job that failed so often has had enough.
    pub(crate) fn is_exhausted(&self, failures: u64) -> bool {
        self.max_attempts != u64::MAX && failures >= self.max_attempts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn the_wait_doubles_up_to_the_cap_and_overflows_nowhere() {
        let backoff = Backoff::default().without_jitter();
        let waits: Vec<_> = (1..=4).map(|n| backoff.delay(n).as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 8]);
        for failures in [13, 33, 34, u64::MAX] {
            assert_eq!(backoff.delay(failures), SECOND * 3_600);
        }
        assert_eq!(backoff.delay(0), SECOND);
    }

    #[test]
    fn jitter_spreads_the_wait_over_all_of_it_and_never_beyond() {
        fastrand::seed(7);
        let backoff = Backoff::default();
        let waits: Vec<_> = (0..1_000).map(|_| backoff.delay(4)).collect();
        assert!(waits.iter().all(|wait| *wait <= SECOND * 8));
        assert!(waits.iter().any(|wait| *wait < SECOND));
        assert!(waits.iter().any(|wait| *wait > SECOND * 7));
    }

    #[test]
    fn a_job_is_exhausted_by_its_last_attempt() {
        let backoff = Backoff::default().max_attempts(3);
        assert!(!backoff.is_exhausted(2));
        assert!(backoff.is_exhausted(3));
        assert!(!backoff.max_attempts(u64::MAX).is_exhausted(u64::MAX));
    }
}
