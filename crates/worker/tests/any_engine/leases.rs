//! Leases are kept while handlers run, and their loss is told.

use std::sync::Arc;
use std::time::Duration;

use duebox_core::OutboxRecord;
use duebox_worker::Job;
use tokio::sync::Semaphore;

use crate::chapter;
use crate::stage::{LEASE, Stage, reports};

chapter!(leases:
    a_lease_is_extended_while_its_handler_runs,
    a_handler_whose_lease_was_lost_is_told_and_its_result_is_discarded,
    a_worker_that_stalled_takes_nothing_from_who_came_after_it,
    two_workers_share_a_queue_without_running_a_row_twice,
    what_a_dead_worker_held_comes_back_when_its_lease_ends,
);

async fn rival(stage: &Stage) -> Vec<OutboxRecord> {
    let (now, until) = (stage.in_seconds(0), stage.in_seconds(600));
    let claimed = stage.outbox.claim_due(&*stage.db, &now, &until, 100).await;
    claimed.expect("claim")
}

/// Waits until the row's lease is another than `before`.
async fn extended(stage: &Stage, id: &str, before: &str) -> String {
    loop {
        let until = stage.entry(id).await.locked_until.expect("a lease");
        if until != before {
            return until;
        }
        tokio::task::yield_now().await;
    }
}

async fn a_lease_is_extended_while_its_handler_runs(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let (gate, open) = {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::clone(&gate), gate)
    };
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            let gate = Arc::clone(&gate);
            sender.send(job.id().to_owned()).expect("the test reads");
            async move { gate.acquire().await.expect("open").forget() }
        })
        .start()
        .await
        .expect("start");
    started.next().await;
    let mut until = stage.entry("r1").await.locked_until.expect("a lease");
    assert_eq!(until, stage.in_seconds(30));
    for round in 1..=6 {
        // A lease is extended in its second third.
        stage.time.advance(LEASE / 3);
        if round % 2 == 0 {
            until = extended(&stage, "r1", &until).await;
            assert_eq!(until, stage.in_seconds(30));
        }
        assert!(rival(&stage).await.is_empty(), "it is under lease");
    }
    open.add_permits(1);
    worker.settled().await.expect("it settles");
    assert_eq!(stage.left().await, (0, 0));
    stage.stop(worker).await;
}

async fn a_handler_whose_lease_was_lost_is_told_and_its_result_is_discarded(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let (sender, mut told) = reports();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            let sender = sender.clone();
            async move {
                sender.send("started").expect("the test reads");
                job.lost().cancelled().await;
                sender.send("lost").expect("the test reads");
            }
        })
        .start()
        .await
        .expect("start");
    assert_eq!(told.next().await, "started");
    let released = stage.outbox.release(&*stage.db, &["r1"]).await;
    assert_eq!(released.expect("release"), 1);
    assert_eq!(rival(&stage).await.len(), 1);
    stage.time.advance(LEASE / 3);
    stage.time.advance(LEASE / 3);
    assert_eq!(told.next().await, "lost");
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert!(row.locked_until.is_some(), "the row is the rival's");
    let stopped = worker.shutdown(Duration::from_mins(1)).await;
    assert_eq!(stopped.expect("it stops").interrupted, 0);
}

async fn a_worker_that_stalled_takes_nothing_from_who_came_after_it(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    stage.enqueue("t", "r2").await;
    let (gate, open) = {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::clone(&gate), gate)
    };
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            let gate = Arc::clone(&gate);
            sender.send(job.id().to_owned()).expect("the test reads");
            async move {
                gate.acquire().await.expect("open").forget();
                match job.id() {
                    "r1" => Ok(()),
                    _ => Err("no"),
                }
            }
        })
        .start()
        .await
        .expect("start");
    started.next().await;
    started.next().await;
    // Another took both before this one came to extend its leases.
    let released = stage.outbox.release(&*stage.db, &["r1", "r2"]).await;
    assert_eq!(released.expect("release"), 2);
    let theirs = rival(&stage).await;
    assert_eq!(theirs.len(), 2);
    open.add_permits(2);
    worker.settled().await.expect("it settles");
    for record in theirs {
        let row = stage.entry(&record.id).await;
        assert_eq!((row.claims, row.attempts), (2, 0), "as the rival has it");
        assert_eq!(row.last_error, None);
        let done = stage
            .outbox
            .complete_claimed(&*stage.db, &[record.lease])
            .await;
        assert!(done.expect("complete")[0].is_held());
    }
    stage.stop(worker).await;
}

async fn two_workers_share_a_queue_without_running_a_row_twice(stage: Arc<Stage>) {
    stage.enqueue_many("t", "r", 500).await;
    let (sender, mut started) = reports();
    let mut workers = Vec::new();
    for _ in 0..2 {
        let sender = sender.clone();
        let db = stage.place.connect().await;
        let worker = stage
            .worker_on(db)
            .concurrency(20)
            .handle("t", move |job: Job| {
                sender.send(job.id().to_owned()).expect("the test reads");
                async {}
            });
        workers.push(worker.start().await.expect("start"));
    }
    let mut ids = Vec::new();
    for _ in 0..500 {
        ids.push(started.next().await);
    }
    for worker in &workers {
        worker.settled().await.expect("it settles");
    }
    ids.extend(started.rest());
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 500);
    assert_eq!(stage.left().await, (0, 0));
    for worker in workers {
        stage.stop(worker).await;
    }
}

async fn what_a_dead_worker_held_comes_back_when_its_lease_ends(stage: Arc<Stage>) {
    stage.enqueue_many("t", "r", 5).await;
    // Its process dies with the rows in hand.
    assert_eq!(
        stage
            .outbox
            .claim_due(&*stage.db, &stage.in_seconds(0), &stage.in_seconds(30), 10)
            .await
            .expect("claim")
            .len(),
        5
    );
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            sender.send(job.attempt()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    stage
        .time
        .advance(LEASE.saturating_sub(Duration::from_micros(1)));
    worker.settled().await.expect("it settles");
    assert_eq!(started.rest(), [0; 0]);
    stage.time.advance(Duration::from_micros(1));
    worker.settled().await.expect("it settles");
    assert_eq!(started.rest(), [1; 5], "no attempt was counted");
    stage.stop(worker).await;
}
