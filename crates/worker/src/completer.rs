//! Writes how runs ended, many at a time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duebox_core::{DbError, Kind, Lease, LeaseOutcome, Retry};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::time::{Instant, timeout_at};

use crate::db::{Pauses, bounded};
use crate::shared::{End, Ended, Shared};

/// How long an end waits for others to be written with.
const GATHER: Duration = Duration::from_millis(2);
/// The most that are written at once.
const MOST: usize = 1_024;

/// Writes until nobody can send any more.
pub(crate) async fn complete(shared: Arc<Shared>, mut ends: UnboundedReceiver<Ended>) {
    let mut batch = Vec::with_capacity(MOST);
    while ends.recv_many(&mut batch, MOST).await > 0 {
        gather(&shared, &mut ends, &mut batch).await;
        let written = batch.len();
        write(&shared, std::mem::take(&mut batch)).await;
        shared.unwritten.fetch_sub(written, Ordering::AcqRel);
        shared.bell.touch();
    }
}

/// Waits a moment for more, if more can come.
async fn gather(shared: &Shared, ends: &mut UnboundedReceiver<Ended>, batch: &mut Vec<Ended>) {
    let until = Instant::now() + GATHER;
    let enough = shared.settings.batch.min(MOST);
    while batch.len() < enough
        && shared.running.load(Ordering::Acquire) > 0
        && !shared.stopping.is_cancelled()
    {
        let room = MOST - batch.len();
        match timeout_at(until, ends.recv_many(batch, room)).await {
            Ok(more) if more > 0 => {}
            _ => break,
        }
    }
}

/// Ends that are written by one call.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Call {
    Complete,
    Retry,
    Park(String),
    Reschedule(String),
    Release(String),
}

#[derive(Default)]
struct Group {
    leases: Vec<Lease>,
    /// Of retries, when and why.
    each: Vec<(String, String)>,
}

async fn write(shared: &Shared, ends: Vec<Ended>) {
    #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
    shared.telemetry.ended_rows.record(ends.len() as f64);
    let mut groups: BTreeMap<Call, Group> = BTreeMap::new();
    for Ended { lease, end } in ends {
        let (call, each) = match end {
            End::Complete => (Call::Complete, None),
            End::Retry { at, error } => (Call::Retry, Some((at, error))),
            End::Park { error } => (Call::Park(error), None),
            End::Reschedule { at } => (Call::Reschedule(at), None),
            End::Release { at } => (Call::Release(at), None),
        };
        let group = groups.entry(call).or_default();
        group.leases.push(lease);
        group.each.extend(each);
    }
    for (call, group) in groups {
        insist(shared, &call, &group).await;
    }
}

/// Writes one group, however long the database is away. Sent again, a call
/// acts on nothing twice.
async fn insist(shared: &Shared, call: &Call, group: &Group) {
    let mut pauses = Pauses::default();
    let mut unanswered = false;
    loop {
        match bounded(send(shared, call, group)).await {
            Ok(outcomes) => {
                let lost = outcomes.iter().filter(|outcome| !outcome.is_held()).count();
                // After an answer that did not come, what was done reads as lost.
                if lost > 0 && !unanswered {
                    shared.telemetry.leases_lost.increment(lost as u64);
                    tracing::warn!(
                        outbox = shared.outbox.table(),
                        leases = lost,
                        "leases were lost, and the results of their jobs discarded"
                    );
                }
                return;
            }
            Err(error) => {
                shared.telemetry.failed_calls.increment(1);
                tracing::warn!(
                    outbox = shared.outbox.table(),
                    rows = group.leases.len(),
                    %error,
                    "the ends of jobs were not written"
                );
                if error.kind() == Kind::InvalidArgument {
                    // It will never be taken; the leases lapse.
                    return;
                }
                unanswered |= error.outcome() == duebox_core::Outcome::Unknown;
                shared.clock.sleep(pauses.next()).await;
            }
        }
    }
}

async fn send(shared: &Shared, call: &Call, group: &Group) -> Result<Vec<LeaseOutcome>, DbError> {
    let (outbox, db, leases) = (&shared.outbox, &*shared.db, &group.leases[..]);
    match call {
        Call::Complete => outbox.complete_claimed(db, leases).await,
        Call::Retry => {
            let retries: Vec<Retry<'_>> = leases
                .iter()
                .zip(&group.each)
                .map(|(lease, (at, error))| Retry {
                    lease,
                    next_attempt_at: at,
                    error,
                })
                .collect();
            outbox.retry_claimed(db, &shared.now(), &retries).await
        }
        Call::Park(error) => outbox.park_claimed(db, leases, &shared.now(), error).await,
        Call::Reschedule(at) => outbox.reschedule_claimed(db, leases, at).await,
        Call::Release(at) => outbox.release_claimed(db, leases, at).await,
    }
}
