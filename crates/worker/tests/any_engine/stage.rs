use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{Database, Enqueue, Outbox, OutboxEntry, format_time};
use duebox_worker::{Backoff, Clock, Isolation, ManualClock, Worker, WorkerBuilder};
use tokio::sync::mpsc;

use crate::place::{Engine, Place};

pub(crate) const LEASE: Duration = Duration::from_secs(30);

/// Runs a test against a new outbox of this engine.
pub(crate) fn run<F>(engine: Engine, test: fn(Arc<Stage>) -> F) -> Result<(), String>
where
    F: Future<Output = ()>,
{
    run_on(runtime(), engine, test)
}

/// The same on this runtime.
pub(crate) fn run_on<F>(
    runtime: tokio::runtime::Runtime,
    engine: Engine,
    test: impl FnOnce(Arc<Stage>) -> F,
) -> Result<(), String>
where
    F: Future<Output = ()>,
{
    let whole = async {
        let place = Place::new(engine);
        let db = place.connect().await;
        place.make(&*db).await;
        let stage = Arc::new(Stage::new(place, db));
        in_time(test(Arc::clone(&stage))).await;
        stage.place.remove(&*stage.db).await;
        stage.place.clean();
    };
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(whole)));
    runtime.shutdown_background();
    outcome.map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        said.or_else(|| panic.downcast_ref::<&str>().copied())
            .unwrap_or("panicked")
            .to_owned()
    })
}

pub(crate) fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime")
}

/// What the long form of the kill test may take beside.
fn long_form() -> Duration {
    let said = |variable: &str| {
        let text = std::env::var(variable).ok();
        text.and_then(|text| text.parse::<u64>().ok()).unwrap_or(0)
    };
    let round = said("DUEBOX_TEST_KILL_EVERY_MS") + 1_000;
    Duration::from_millis(said("DUEBOX_TEST_KILL_ROUNDS") * round)
}

/// Fails rather than hang. It measures nothing.
pub(crate) async fn in_time<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_mins(2) + long_form(), future)
        .await
        .expect("the test hangs")
}

/// An outbox, and a time that stands still.
pub(crate) struct Stage {
    pub(crate) place: Place,
    pub(crate) db: Arc<dyn Database>,
    pub(crate) outbox: Outbox,
    pub(crate) time: ManualClock,
    pub(crate) clock: Clock,
}

impl Stage {
    fn new(place: Place, db: Arc<dyn Database>) -> Self {
        let time = ManualClock::new("2026-03-01T00:00:00Z".parse().expect("a time"));
        Self {
            outbox: place.outbox(),
            place,
            db,
            clock: time.clock(),
            time,
        }
    }

    /// A worker on the test's connections and its time.
    pub(crate) fn worker(&self) -> WorkerBuilder {
        self.worker_on(Arc::clone(&self.db))
    }

    pub(crate) fn worker_on(&self, db: Arc<dyn Database>) -> WorkerBuilder {
        Worker::builder(self.outbox.clone(), db)
            .clock(self.clock.clone())
            // Tests run beside each other in one process.
            .isolation(Isolation::Worker)
            .lease(LEASE)
            .sample_every(None)
            .retry(Backoff::default().without_jitter())
    }

    pub(crate) fn now(&self) -> DateTime<Utc> {
        self.clock.now()
    }

    /// The present as text, so many seconds later.
    pub(crate) fn in_seconds(&self, seconds: i64) -> String {
        format_time(self.now() + TimeDelta::seconds(seconds)).expect("a time")
    }

    /// Enqueues a row that is due now.
    pub(crate) async fn enqueue(&self, topic: &str, id: &str) {
        self.enqueue_at(topic, id, self.now()).await;
    }

    pub(crate) async fn enqueue_at(&self, topic: &str, id: &str, at: DateTime<Utc>) {
        let work = Enqueue::new(topic).id(id).payload(id).at(at);
        self.db
            .batch_atomic(&[self.outbox.enqueue(work)])
            .await
            .expect("enqueue");
    }

    /// Enqueues `prefix000` and so on, all due now.
    pub(crate) async fn enqueue_many(&self, topic: &str, prefix: &str, rows: usize) {
        let work = (0..rows).map(|number| {
            Enqueue::new(topic)
                .id(format!("{prefix}{number:03}"))
                .at(self.now())
        });
        self.db
            .batch_atomic(&[self.outbox.enqueue_many_statement(work)])
            .await
            .expect("enqueue");
    }

    pub(crate) async fn row(&self, id: &str) -> Option<OutboxEntry> {
        self.outbox.get(&*self.db, id).await.expect("get")
    }

    /// The row, which must be there.
    pub(crate) async fn entry(&self, id: &str) -> OutboxEntry {
        self.row(id).await.expect("the row is there")
    }

    /// How many rows are not done, and how many of them are under lease,
    /// lapsed or not.
    pub(crate) async fn left(&self) -> (u64, u64) {
        let stats = self
            .outbox
            .stats(&*self.db, &self.in_seconds(0))
            .await
            .expect("stats");
        let all = stats.waiting + stats.due + stats.leased + stats.parked;
        let rows = self
            .db
            .query(&duebox_core::Statement::new(format!(
                "SELECT COUNT(*) AS n FROM {} WHERE locked_until IS NOT NULL",
                self.outbox.table()
            )))
            .await
            .expect("count");
        let leased: i64 = rows[0].get("n").expect("a count");
        (all, leased.unsigned_abs())
    }

    /// Ends a worker that has time enough.
    pub(crate) async fn stop(&self, worker: Worker) {
        let stopped = worker.shutdown(Duration::from_mins(1)).await;
        assert_eq!(stopped.expect("it stops").interrupted, 0);
        assert_eq!(self.left().await.1, 0, "nothing is left under lease");
    }
}

/// What handlers report, in the order in which they do.
pub(crate) struct Reports<T>(mpsc::UnboundedReceiver<T>);

pub(crate) fn reports<T>() -> (mpsc::UnboundedSender<T>, Reports<T>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (sender, Reports(receiver))
}

impl<T> Reports<T> {
    pub(crate) async fn next(&mut self) -> T {
        in_time(self.0.recv()).await.expect("a handler reports")
    }

    /// What was reported and not read yet.
    pub(crate) fn rest(&mut self) -> Vec<T> {
        std::iter::from_fn(|| self.0.try_recv().ok()).collect()
    }
}
