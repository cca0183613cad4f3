use std::sync::Arc;
use std::time::Duration;

use crate::db::bounded;
use crate::shared::Shared;

/// Counts of a queue may cost this part of the time at most.
const SHARE: u32 = 50;

/// Sets the gauges of what waits, now and then.
pub(crate) async fn sample(shared: Arc<Shared>, every: Duration) {
    let mut pause = every;
    loop {
        shared.clock.sleep(pause).await;
        let began = shared.clock.elapsed();
        let now = shared.now();
        // A sample that fails is not missed: the loop's own calls tell of the database.
        if let Ok(stats) = bounded(shared.outbox.stats(&*shared.db, &now)).await {
            shared.telemetry.sampled(&stats);
        }
        let took = shared.clock.elapsed().saturating_sub(began);
        pause = every.max(took * SHARE);
    }
}
