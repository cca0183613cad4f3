use std::time::{Duration, Instant, SystemTime};

use duebox_core::PushFuture;

/// The time that waits are measured by, so that a test need not sleep.
///
/// The timeouts of connections and requests are not of it: they go by the
/// runtime's own.
pub trait ExpoClock: Send + Sync {
    /// The time since an instant of the clock's own choice; never decreases.
    fn elapsed(&self) -> Duration;
    /// The time of day, against which a `Retry-After` with a date is read.
    fn now(&self) -> SystemTime;
    /// Waits this long.
    fn sleep(&self, time: Duration) -> PushFuture<'_, ()>;
}

/// The clock of the system, with the timer of tokio.
#[derive(Clone, Copy, Debug)]
pub struct SystemExpoClock {
    start: Instant,
}

impl Default for SystemExpoClock {
    fn default() -> Self {
        Self {
            start: Instant::now(),
        }
    }
}

impl ExpoClock for SystemExpoClock {
    fn elapsed(&self) -> Duration {
        self.start.elapsed()
    }

    fn now(&self) -> SystemTime {
        SystemTime::now()
    }

    fn sleep(&self, time: Duration) -> PushFuture<'_, ()> {
        Box::pin(tokio::time::sleep(time))
    }
}
