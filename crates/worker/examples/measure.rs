//! Measures how soon a worker starts what was enqueued, beside what a plain claim
//! takes, and on PostgreSQL what it asks for while it is idle. How much it gets
//! done is measured by the scenario `worker` of `duebox-bench`.
//!
//! ```text
//! cargo run --release -p duebox-worker --example measure -- sqlite
//! cargo run --release -p duebox-worker --example measure -- postgres://…
//! ```

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{
    Claim, Database, DbError, Dialect, Enqueue, Outbox, Row, Statement, WakeFuture, WakeSink,
    format_time,
};
use duebox_postgres::{PostgresDatabase, PostgresOptions, PostgresWakeSink, PostgresWakeSource};
use duebox_worker::{Job, Nudger, Worker, WorkerBuilder};
use tokio::sync::mpsc;

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

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
    claims(&db, &outbox).await?;
    if url.starts_with("postgres") {
        idle(&url, &outbox).await?;
        notifications().await?;
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
    say(what, took);
    worker.shutdown(Duration::from_secs(10)).await?;
    Ok(())
}

/// What is under a worker's latency: the library's claim of one row, and the
/// commit of its lease, on a table that is as idle.
async fn claims(db: &Arc<dyn Database>, outbox: &Outbox) -> Fallible<()> {
    let mut took = Vec::new();
    for _ in 0..JOBS {
        let now = db.now().await?;
        db.batch_atomic(&[outbox.enqueue(Enqueue::new("t").payload("{}").at(now))])
            .await?;
        let (now, until) = (
            format_time(now)?,
            format_time(now + Duration::from_mins(1))?,
        );
        let claim = Claim::new(now, until).limit(32);
        let enqueued = Instant::now();
        let records = outbox.claim(&**db, &claim).await?;
        took.push(enqueued.elapsed());
        let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
        outbox.complete_claimed(&**db, &leases).await?;
        tokio::time::sleep(Duration::from_millis(60)).await;
    }
    say("a plain claim", took);
    Ok(())
}

fn say(what: &str, mut took: Vec<Duration>) {
    took.sort_unstable();
    println!(
        "{what}: median {:?}, 99th {:?} of {}",
        took[took.len() / 2],
        took[took.len() * 99 / 100],
        took.len()
    );
}

/// What an idle worker asks the database for in a minute while it listens.
async fn idle(url: &str, outbox: &Outbox) -> Fallible<()> {
    let counted = Arc::new(Counted {
        db: PostgresDatabase::connect(url).await?,
        claims: AtomicU64::new(0),
        others: AtomicU64::new(0),
    });
    let source = PostgresWakeSource::new(PostgresOptions::new(url)?, outbox);
    let worker = Worker::builder(outbox.clone(), Arc::clone(&counted) as Arc<dyn Database>)
        .wake_on(source)
        .handle("t", |_: Job| async {})
        .start()
        .await?;
    // Until its pauses have grown to their longest.
    tokio::time::sleep(Duration::from_secs(15)).await;
    let calls = || {
        let claims = counted.claims.load(Ordering::Relaxed);
        (claims, counted.others.load(Ordering::Relaxed))
    };
    let before = calls();
    tokio::time::sleep(Duration::from_mins(1)).await;
    let after = calls();
    println!(
        "an idle worker that listens: {} claims and {} other calls a minute",
        after.0 - before.0,
        after.1 - before.1
    );
    worker.shutdown(Duration::from_secs(10)).await?;
    Ok(())
}

/// What 10 000 nudges a second become between processes.
async fn notifications() -> Fallible<()> {
    const SECONDS: u64 = 5;
    let sink = Arc::new(Sink::default());
    let nudger = Nudger::across(Arc::clone(&sink) as Arc<dyn WakeSink>);
    let mut each = tokio::time::interval(Duration::from_millis(1));
    let mut sent = 0;
    let began = Instant::now();
    while began.elapsed() < Duration::from_secs(SECONDS) {
        each.tick().await;
        for _ in 0..10 {
            nudger.nudge();
            sent += 1;
        }
    }
    println!(
        "{} nudges a second: {} notifications a second",
        sent / SECONDS,
        sink.0.load(Ordering::Relaxed).div_ceil(SECONDS)
    );
    Ok(())
}

#[derive(Default)]
struct Sink(AtomicU64);

impl WakeSink for Sink {
    fn wake(&self) -> WakeFuture<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Counts the calls that a worker makes.
struct Counted {
    db: PostgresDatabase,
    claims: AtomicU64,
    others: AtomicU64,
}

#[async_trait]
impl Database for Counted {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        self.others.fetch_add(1, Ordering::Relaxed);
        self.db.execute(statement).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        let claims = statement.sql().is_ok_and(|sql| sql.contains("SKIP LOCKED"));
        let count = if claims { &self.claims } else { &self.others };
        count.fetch_add(1, Ordering::Relaxed);
        self.db.query(statement).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        self.others.fetch_add(1, Ordering::Relaxed);
        self.db.batch_atomic(statements).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.others.fetch_add(1, Ordering::Relaxed);
        self.db.now().await
    }
}
