//! Measures how soon a worker starts what was enqueued, and how much it gets
//! done beside a plain loop over the same calls.
//!
//! ```text
//! cargo run --release -p duebox-worker --example measure -- sqlite
//! cargo run --release -p duebox-worker --example measure -- postgres://…
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duebox_core::{Claim, Database, Enqueue, Outbox, Statement, format_time, parse_time};
use duebox_postgres::{PostgresDatabase, PostgresOptions, PostgresWakeSink, PostgresWakeSource};
use duebox_worker::{Job, Nudger, Worker, WorkerBuilder};
use tokio::sync::mpsc;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

const ROWS: usize = 20_000;
const JOBS: usize = 400;

#[tokio::main]
async fn main() -> Fallible<()> {
    let url = std::env::args().nth(1).ok_or("which database?")?;
    let db: Arc<dyn Database> = if url == "sqlite" {
        let folder = std::env::temp_dir().join(format!("duebox-measure-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        Arc::new(duebox_sqlite::SqliteDatabase::open(folder.join("m.db")).await?)
    } else if url.starts_with("postgres") {
        Arc::new(PostgresDatabase::connect(&url).await?)
    } else {
        Arc::new(duebox_mysql::MySqlDatabase::connect(&url).await?)
    };
    let outbox = Outbox::new("worker_measure");
    db.execute(&Statement::new("DROP TABLE IF EXISTS worker_measure"))
        .await?;
    db.execute(&Statement::new(outbox.create_table_sql()))
        .await?;

    let worker = Worker::builder(outbox.clone(), Arc::clone(&db));
    latency(&db, &outbox, worker, None, "in-process nudge").await?;
    if url.starts_with("postgres") {
        let source = PostgresWakeSource::new(PostgresOptions::new(&url)?, &outbox);
        let worker = Worker::builder(
            outbox.clone(),
            Arc::new(PostgresDatabase::connect(&url).await?),
        )
        .wake_on(source);
        let sink = PostgresWakeSink::new(Arc::clone(&db), &outbox);
        latency(
            &db,
            &outbox,
            worker,
            Some(Nudger::across(Arc::new(sink))),
            "NOTIFY",
        )
        .await?;
    }
    for round in 1..=3 {
        let by_loop = plain(&db, &outbox).await?;
        let by_worker = drained(&db, &outbox).await?;
        println!(
            "round {round}: worker {by_worker:.0} rows/s, plain loop {by_loop:.0} rows/s, ratio {:.2}",
            by_worker / by_loop
        );
    }
    db.execute(&Statement::new("DROP TABLE worker_measure"))
        .await?;
    Ok(())
}

/// From the enqueue's return to the handler's start, on an idle worker.
async fn latency(
    db: &Arc<dyn Database>,
    outbox: &Outbox,
    worker: WorkerBuilder,
    nudger: Option<Nudger>,
    what: &str,
) -> Fallible<()> {
    let (sender, mut started) = mpsc::unbounded_channel();
    let worker = worker
        .sample_every(None)
        .handle("t", move |_: Job| {
            let _ = sender.send(Instant::now());
            async {}
        })
        .start()
        .await?;
    let nudger = nudger.unwrap_or_else(|| worker.nudger());
    tokio::time::sleep(Duration::from_millis(500)).await;
    let mut took = Vec::new();
    for _ in 0..JOBS {
        let work = Enqueue::new("t").payload("{}").at(worker.clock().now());
        db.batch_atomic(&[outbox.enqueue(work)]).await?;
        let enqueued = Instant::now();
        nudger.nudge();
        let at = started.recv().await.ok_or("the worker ended")?;
        took.push(at.saturating_duration_since(enqueued));
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    took.sort_unstable();
    println!(
        "{what}: median {:?}, 99th {:?} of {JOBS}",
        took[JOBS / 2],
        took[JOBS * 99 / 100]
    );
    worker.shutdown(Duration::from_secs(10)).await?;
    Ok(())
}

async fn seed(db: &Arc<dyn Database>, outbox: &Outbox) -> Fallible<()> {
    let at = parse_time("2026-01-01T00:00:00Z")?;
    for part in 0..ROWS / 5_000 {
        let work = (0..5_000).map(|row| {
            Enqueue::new("t")
                .id(format!("01J{:023}", part * 5_000 + row))
                .payload("x".repeat(200))
                .at(at)
        });
        db.execute(&outbox.enqueue_many_statement(work)).await?;
    }
    Ok(())
}

#[expect(clippy::cast_precision_loss, reason = "a few thousand rows")]
fn rate(took: Duration) -> f64 {
    ROWS as f64 / took.as_secs_f64()
}

/// Claims and completes by hundreds, on one task.
async fn plain(db: &Arc<dyn Database>, outbox: &Outbox) -> Fallible<f64> {
    seed(db, outbox).await?;
    let now = db.now().await?;
    let (now, until) = (
        format_time(now)?,
        format_time(now + Duration::from_mins(10))?,
    );
    let began = Instant::now();
    loop {
        let claim = Claim::new(&now, &until).limit(100);
        let records = outbox.claim(&**db, &claim).await?;
        if records.is_empty() {
            return Ok(rate(began.elapsed()));
        }
        let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
        outbox.complete_claimed(&**db, &leases).await?;
    }
}

/// The same rows through a worker.
async fn drained(db: &Arc<dyn Database>, outbox: &Outbox) -> Fallible<f64> {
    seed(db, outbox).await?;
    let done = Arc::new(AtomicU64::new(0));
    let count = Arc::clone(&done);
    let began = Instant::now();
    let worker = Worker::builder(outbox.clone(), Arc::clone(db))
        .sample_every(None)
        .concurrency(1_000)
        .batch(500)
        .handle("t", move |_: Job| {
            count.fetch_add(1, Ordering::Relaxed);
            async {}
        })
        .start()
        .await?;
    worker.settled().await?;
    let took = began.elapsed();
    worker.shutdown(Duration::from_secs(10)).await?;
    if done.load(Ordering::Relaxed) < ROWS as u64 {
        return Err("not all were drained".into());
    }
    Ok(rate(took))
}
