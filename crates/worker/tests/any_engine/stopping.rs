//! A worker ends within its time and leaves nothing under lease.

use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_worker::{Job, WorkerError};
use tokio::sync::Semaphore;

use crate::chapter;
use crate::stage::{Stage, in_time, reports};

chapter!(stopping:
    a_shutdown_waits_for_what_runs_and_starts_nothing,
    a_shutdown_gives_back_what_does_not_end_in_its_time,
    a_worker_that_is_dropped_gives_back_what_it_held,
    settings_that_make_no_sense_are_refused,
);

async fn a_shutdown_waits_for_what_runs_and_starts_nothing(stage: Arc<Stage>) {
    stage.enqueue_many("t", "r", 20).await;
    let (gate, open) = {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::clone(&gate), gate)
    };
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .concurrency(4)
        .handle("t", move |job: Job| {
            let gate = Arc::clone(&gate);
            sender.send(job.id().to_owned()).expect("the test reads");
            async move { gate.acquire().await.expect("open").forget() }
        })
        .start()
        .await
        .expect("start");
    for _ in 0..4 {
        started.next().await;
    }
    let end = tokio::spawn(worker.shutdown(Duration::from_mins(1)));
    tokio::task::yield_now().await;
    open.add_permits(4);
    let stopped = in_time(end).await.expect("no panic").expect("it stops");
    assert_eq!(stopped.interrupted, 0);
    // A handler that ended before the worker heard of its end may have made room for another.
    let ran = 4 + started.rest().len() as u64;
    assert_eq!(stage.left().await, (20 - ran, 0));
}

async fn a_shutdown_gives_back_what_does_not_end_in_its_time(stage: Arc<Stage>) {
    stage.enqueue_many("t", "r", 10).await;
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .concurrency(6)
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            std::future::pending::<()>()
        })
        .start()
        .await
        .expect("start");
    for _ in 0..6 {
        started.next().await;
    }
    let grace = Duration::from_secs(2);
    let began = Instant::now();
    let stopped = worker.shutdown(grace).await.expect("it stops");
    assert!(began.elapsed() <= grace + Duration::from_millis(100));
    assert_eq!(stopped.interrupted, 6);
    assert_eq!(stage.left().await, (10, 0));
    for id in ["r000", "r005", "r009"] {
        let row = stage.entry(id).await;
        assert_eq!((row.attempts, row.lapses), (0, 0), "nothing is counted");
        assert_eq!(row.next_attempt_at, stage.in_seconds(0));
    }
}

async fn a_worker_that_is_dropped_gives_back_what_it_held(stage: Arc<Stage>) {
    stage.enqueue_many("t", "r", 3).await;
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            std::future::pending::<()>()
        })
        .start()
        .await
        .expect("start");
    for _ in 0..3 {
        started.next().await;
    }
    drop(worker);
    in_time(async {
        while stage.left().await != (3, 0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert_eq!(stage.entry("r000").await.attempts, 0);
}

async fn settings_that_make_no_sense_are_refused(stage: Arc<Stage>) {
    let twice = stage
        .worker()
        .handle("t", |_: Job| async {})
        .handle("t", |_: Job| async {});
    let stray = stage.worker().topic_concurrency("t", 1);
    let nameless = stage.worker().name("");
    for worker in [twice, stray, nameless] {
        let refused = worker.start().await.expect_err("it is refused");
        assert!(matches!(refused, WorkerError::Settings(_)), "{refused}");
    }
}
