use std::hash::{BuildHasher, RandomState};
use std::time::{Duration, Instant};

use duebox_core::Outcome;
use sqlx::MySqlPool;

use crate::error::Failure;

/// How often work is run again of which nothing was done.
pub(crate) struct Reruns {
    begun: Instant,
    runs: u32,
    /// Connections of the pool that the server may have closed unseen.
    stale: u32,
}

impl Reruns {
    const MOST: u32 = 8;
    /// No further run begins later than this; a lock wait can take long.
    const WITHIN: Duration = Duration::from_secs(5);

    pub(crate) fn new(pool: &MySqlPool) -> Self {
        Self {
            begun: Instant::now(),
            runs: 0,
            stale: pool.options().get_max_connections(),
        }
    }

    /// Whether to run again; waits a little, each time longer, before it says so.
    pub(crate) async fn allow(&mut self, failure: &Failure) -> bool {
        if failure.error.outcome() != Outcome::NotApplied {
            return false;
        }
        // The server had closed the connection; another is taken at once.
        if failure.unheard && self.stale > 0 {
            self.stale -= 1;
            return true;
        }
        if !failure.passing || self.runs == Self::MOST {
            return false;
        }
        let pause = Duration::from_millis(2 << self.runs);
        // Between half and all of it, so that two that collided part.
        let random = RandomState::new().hash_one(self.runs) % 1_000;
        let pause = pause.mul_f64(0.5 + f64::from(u16::try_from(random).unwrap_or(0)) / 2_000.0);
        self.runs += 1;
        if self.begun.elapsed() + pause > Self::WITHIN {
            return false;
        }
        tokio::time::sleep(pause).await;
        true
    }
}
