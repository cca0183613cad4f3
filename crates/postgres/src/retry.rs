//! Running short work again after a deadlock or a serialization failure.

use std::future::Future;
use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use duebox_core::DbError;

use crate::error::{Failure, Rerun};

/// How often work is run at most. Where four sessions lock the same rows in opposite
/// order all the time, eight were not always enough.
const ATTEMPTS: u32 = 12;

/// Runs `work` until it succeeds, or fails in a way that running it again would
/// not mend or could repeat, or has failed often enough.
pub(crate) async fn retried<T, F>(work: impl Fn() -> F + Send + Sync) -> Result<T, DbError>
where
    F: Future<Output = Result<T, Failure>> + Send,
{
    for attempt in 1.. {
        let failure = match work().await {
            Ok(done) => return Ok(done),
            Err(failure) => failure,
        };
        match failure.rerun {
            Rerun::Contention if attempt < ATTEMPTS => tokio::time::sleep(pause(attempt)).await,
            Rerun::Elsewhere if attempt < ATTEMPTS => {}
            _ => return Err(failure.error),
        }
    }
    unreachable!("the last attempt has returned")
}

/// Half and up to the whole of 2, 4, 8, … 512 milliseconds, so that those who met do
/// not meet again, also where a run takes long.
fn pause(attempt: u32) -> Duration {
    let most = 2_000_u64 << attempt.saturating_sub(1).min(8);
    Duration::from_micros(most / 2 + random() % (most / 2))
}

/// A number that nobody can foresee, without a crate for it.
pub(crate) fn random() -> u64 {
    RandomState::new().hash_one(0)
}
