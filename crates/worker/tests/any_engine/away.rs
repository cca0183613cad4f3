//! A database that is away, and clocks that are wrong.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{Database, DbError, Dialect, Enqueue, Kind, ReadThenWrite, Row, Statement};
use duebox_worker::{Clock, Isolation, Job, Worker};
use tokio::sync::Semaphore;

use crate::chapter;
use crate::stage::{Stage, in_time, reports};

chapter!(away:
    a_database_that_was_away_for_30_seconds_costs_no_job,
    a_shutdown_says_what_it_could_not_give_back,
    wrong_clocks_of_machines_neither_steal_nor_starve_nor_delay,
);

/// A database that can be out of reach, and whose clock another machine would
/// call wrong.
pub(crate) struct Far {
    db: Arc<dyn Database>,
    pub(crate) away: AtomicBool,
    ahead: TimeDelta,
}

impl Far {
    pub(crate) fn new(db: Arc<dyn Database>, ahead: TimeDelta) -> Arc<Self> {
        Arc::new(Self {
            db,
            away: AtomicBool::new(false),
            ahead,
        })
    }

    fn reach(&self) -> Result<&dyn Database, DbError> {
        if self.away.load(Ordering::SeqCst) {
            Err(DbError::new(
                Kind::Unavailable,
                "the test's database is away",
            ))
        } else {
            Ok(&*self.db)
        }
    }
}

#[async_trait]
impl Database for Far {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        self.reach()?.execute(statement).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        self.reach()?.query(statement).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        self.reach()?.batch_atomic(statements).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        Ok(self.reach()?.now().await? + self.ahead)
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        self.reach()?.read_then_write(step).await
    }
}

async fn a_database_that_was_away_for_30_seconds_costs_no_job(stage: Arc<Stage>) {
    let far = Far::new(Arc::clone(&stage.db), TimeDelta::zero());
    stage.enqueue_many("t", "a", 3).await;
    let (gate, open) = {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::clone(&gate), gate)
    };
    let (sender, mut started) = reports();
    let worker = stage
        .worker_on(Arc::clone(&far) as _)
        .handle("t", move |job: Job| {
            let gate = Arc::clone(&gate);
            sender.send(job.id().to_owned()).expect("the test reads");
            async move { gate.acquire().await.expect("open").forget() }
        })
        .start()
        .await
        .expect("start");
    for _ in 0..3 {
        started.next().await;
    }
    far.away.store(true, Ordering::SeqCst);
    open.add_permits(100);
    stage.enqueue_many("t", "b", 3).await;
    worker.nudge();
    in_time(async {
        // It goes on asking, at a pause of 5 seconds at most.
        for _ in 0..30 {
            stage.time.advance(Duration::from_secs(1));
            tokio::task::yield_now().await;
        }
        while worker.health().failed_claims < 2 {
            stage.time.advance(Duration::from_millis(100));
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(stage.left().await.0, 6, "nothing could be written");
    far.away.store(false, Ordering::SeqCst);
    in_time(async {
        // A second passes only now and then, or leases would end before anything is written.
        for look in 0_u64.. {
            if stage.left().await.0 == 0 {
                break;
            }
            if look % 20 == 0 {
                stage.time.advance(Duration::from_secs(1));
            }
        }
    })
    .await;
    let health = worker.health();
    assert!(health.alive && health.failed_claims == 0, "{health:?}");
    stage.stop(worker).await;
}

async fn a_shutdown_says_what_it_could_not_give_back(stage: Arc<Stage>) {
    let far = Far::new(Arc::clone(&stage.db), TimeDelta::zero());
    stage.enqueue_many("t", "r", 2).await;
    let (sender, mut started) = reports();
    let worker = stage
        .worker_on(Arc::clone(&far) as _)
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            std::future::pending::<()>()
        })
        .start()
        .await
        .expect("start");
    started.next().await;
    started.next().await;
    far.away.store(true, Ordering::SeqCst);
    let unfinished = worker.shutdown(Duration::from_millis(400)).await;
    assert_eq!(
        unfinished.expect_err("the database is away"),
        duebox_worker::WorkerError::Unfinished { left: 2 }
    );
    assert_eq!(stage.left().await, (2, 2), "they lapse");
}

async fn wrong_clocks_of_machines_neither_steal_nor_starve_nor_delay(stage: Arc<Stage>) {
    // To a machine whose clock is slow the database's is ahead, and the other way round. Nothing
    // but the database's counts, so all three here agree, whoever's clock is wrong.
    for ahead in [TimeDelta::minutes(10), TimeDelta::minutes(-10)] {
        let far = Far::new(Arc::clone(&stage.db), ahead);
        let producer = Clock::start(Arc::clone(&far) as _).await.expect("a clock");
        let (sender, mut started) = reports();
        let (gate, open) = {
            let gate = Arc::new(Semaphore::new(0));
            (Arc::clone(&gate), gate)
        };
        let mut workers = Vec::new();
        for _ in 0..2 {
            let (sender, gate) = (sender.clone(), Arc::clone(&gate));
            let worker = Worker::builder(stage.outbox.clone(), Arc::clone(&far) as _)
                .isolation(Isolation::Worker)
                .handle("t", move |job: Job| {
                    let gate = Arc::clone(&gate);
                    sender.send(job.record().claims).expect("the test reads");
                    async move { gate.acquire().await.expect("open").forget() }
                });
            workers.push(worker.start().await.expect("start"));
        }
        let at = producer.now();
        let work = Enqueue::new("t").id("r1").at(at);
        stage
            .db
            .batch_atomic(&[stage.outbox.enqueue(work)])
            .await
            .expect("enqueue");
        workers[0].nudge();
        assert_eq!(started.next().await, 1, "no delay");
        // The lease is one of the database's time, and the other worker sees that it holds.
        let until = stage.entry("r1").await.locked_until.expect("a lease");
        let until = duebox_core::parse_time(&until).expect("a time");
        let lease = until - at;
        assert!(lease >= TimeDelta::seconds(30), "{lease}");
        assert!(lease < TimeDelta::minutes(2), "{lease}");
        let other = workers.iter().find(|worker| worker.health().running == 0);
        let other = other.expect("one of the two runs it");
        other.settled().await.expect("it settles");
        assert_eq!(started.rest(), [0; 0], "no early steal");
        open.add_permits(1);
        for worker in workers {
            worker.settled().await.expect("it settles");
            worker
                .shutdown(Duration::from_mins(1))
                .await
                .expect("it stops");
        }
        assert_eq!(stage.left().await, (0, 0));
    }
}
