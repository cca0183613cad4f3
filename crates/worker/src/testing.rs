//! For a service's own tests: do all that is due, and see what is enqueued.
//!
//! Freeze the time with a [`ManualClock`](crate::ManualClock), give its clock
//! to the worker and take `at` from it; then nothing depends on how fast a test
//! runs.

use duebox_core::{Database, DbError, ListOptions, Outbox, OutboxEntry, format_time};

use crate::{Clock, WorkerBuilder, WorkerError};

/// Starts this worker, lets it do all that is due now, jobs that these enqueue
/// included, and stops it.
///
/// # Errors
///
/// Why it did not start, or how it ended.
pub async fn drain_once(worker: WorkerBuilder) -> Result<(), WorkerError> {
    let worker = worker.start().await?;
    worker.settled().await?;
    worker
        .shutdown(std::time::Duration::from_secs(10))
        .await
        .map(drop)
}

/// The rows of a topic that are there, with their payloads, in order of id.
///
/// # Errors
///
/// What the database says.
pub async fn enqueued(
    db: &dyn Database,
    outbox: &Outbox,
    clock: &Clock,
    topic: &str,
) -> Result<Vec<OutboxEntry>, DbError> {
    let now = format_time(clock.now())?;
    let options = ListOptions::new().topic(topic).limit(10_000);
    let mut rows = Vec::new();
    for row in outbox.list(db, &now, &options).await? {
        rows.extend(outbox.get(db, &row.id).await?);
    }
    Ok(rows)
}

/// Returns the one row of a topic, with its payload.
///
/// # Panics
///
/// If there is another number of rows of the topic, or the database cannot be
/// asked.
pub async fn assert_enqueued(
    db: &dyn Database,
    outbox: &Outbox,
    clock: &Clock,
    topic: &str,
) -> OutboxEntry {
    let mut rows = match enqueued(db, outbox, clock, topic).await {
        Ok(rows) => rows,
        Err(error) => panic!("rows of the topic {topic:?}: {error}"),
    };
    assert_eq!(rows.len(), 1, "one row of the topic {topic:?} is enqueued");
    rows.remove(0)
}
