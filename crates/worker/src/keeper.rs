use std::sync::Arc;
use std::time::Duration;

use crate::clock::later;
use crate::db::bounded;
use crate::shared::{Shared, stamp};

/// Extends leases before they end, for as long as their runs last, and tells
/// the handlers of those that were lost.
pub(crate) fn keep(shared: Arc<Shared>) -> impl Future<Output = ()> + Send {
    let lease = shared.settings.lease;
    // A lease is extended in the second third of its time, and again and again
    // in what is left of it if that fails.
    let (usual, again) = (lease / 3, lease / 12);
    let mut next = shared.clock.elapsed() + usual;
    async move {
        loop {
            shared.clock.sleep_until(next).await;
            if extend(&shared, lease).await {
                // Of the times that a process that stood still has missed, the last counts.
                next = (next + usual).max(shared.clock.elapsed());
            } else {
                next = shared.clock.elapsed() + again;
            }
        }
    }
}

async fn extend(shared: &Shared, lease: Duration) -> bool {
    let now = shared.clock.now();
    let (keys, leases) = shared.held.ending_before(later(now, lease / 3 * 2));
    if leases.is_empty() {
        return true;
    }
    let until = later(now, lease);
    let ends_at = stamp(until);
    let call = shared.outbox.extend_claimed(&*shared.db, &leases, &ends_at);
    match bounded(call).await {
        Ok(outcomes) => {
            let lost = shared.held.extended(&keys, &outcomes, until);
            if lost > 0 {
                shared.telemetry.leases_lost.increment(lost);
                tracing::warn!(
                    outbox = shared.outbox.table(),
                    leases = lost,
                    "leases were lost"
                );
            }
            true
        }
        Err(error) => {
            shared.telemetry.failed_calls.increment(1);
            tracing::warn!(outbox = shared.outbox.table(), %error, "leases were not extended");
            false
        }
    }
}
