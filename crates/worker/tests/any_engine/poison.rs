//! A row that kills its process is found, and its neighbours are not blamed.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duebox_core::PARKED;
use duebox_worker::{Job, Worker};
use tokio::sync::mpsc::UnboundedSender;

use crate::chapter;
use crate::stage::{LEASE, Stage, reports, runtime};

chapter!(poison:
    one_killer_among_99_good_rows_is_parked_and_they_are_delivered,
    two_killers_are_both_found,
    a_suspect_that_lives_is_no_suspect_any_more,
);

/// What a handler of these tests says.
enum Said {
    Ran(String),
    /// The process of the worker is to die now.
    Kill(usize),
}

/// A worker in a runtime of its own, which dies as a process does: whatever
/// it is at stays as it is.
async fn start(
    stage: &Stage,
    process: usize,
    said: UnboundedSender<Said>,
) -> (tokio::runtime::Runtime, Worker) {
    let runtime = runtime();
    let db = stage.place.connect().await;
    let beside = Arc::new(Mutex::new(BTreeSet::new()));
    let worker = stage
        .worker_on(db)
        .concurrency(100)
        .handle("t", move |job: Job| {
            let (said, beside) = (said.clone(), Arc::clone(&beside));
            async move {
                let id = job.id().to_owned();
                beside.lock().expect("no panic").insert(id.clone());
                if job.record().lapses >= 2 {
                    // What runs beside a suspect would be killed with it.
                    let beside = beside.lock().expect("no panic").clone();
                    assert_eq!(beside, BTreeSet::from([id.clone()]), "it runs alone");
                }
                if id.starts_with("killer") {
                    said.send(Said::Kill(process)).expect("the test reads");
                    std::future::pending::<()>().await;
                }
                beside.lock().expect("no panic").remove(&id);
                said.send(Said::Ran(id)).expect("the test reads");
            }
        });
    let worker = runtime
        .spawn(worker.start())
        .await
        .expect("no panic")
        .expect("start");
    (runtime, worker)
}

/// Lets processes live and die until nothing is left to do; returns what was
/// delivered, and how many died.
async fn live_and_die(stage: &Stage) -> (Vec<String>, usize) {
    let (sender, mut said) = reports();
    let mut delivered = Vec::new();
    for process in 0..20 {
        let (runtime, worker) = start(stage, process, sender.clone()).await;
        loop {
            tokio::select! {
                settled = worker.settled() => {
                    settled.expect("it settles");
                    for each in said.rest() {
                        if let Said::Ran(id) = each {
                            delivered.push(id);
                        }
                    }
                    stage.stop(worker).await;
                    runtime.shutdown_background();
                    return (delivered, process);
                }
                each = said.next() => match each {
                    Said::Ran(id) => delivered.push(id),
                    Said::Kill(of) if of == process => break,
                    Said::Kill(_) => {}
                },
            }
        }
        // The worker's own stop must not get to run: its process is gone.
        std::mem::forget(worker);
        // Until its threads have ended it might act at a time that it does not live to see.
        let death = move || runtime.shutdown_timeout(Duration::from_secs(30));
        tokio::task::spawn_blocking(death).await.expect("no panic");
        stage.time.advance(LEASE);
    }
    panic!("20 processes died");
}

async fn one_killer_among_99_good_rows_is_parked_and_they_are_delivered(stage: Arc<Stage>) {
    stage.enqueue_many("t", "good", 50).await;
    stage.enqueue("t", "killer").await;
    stage.enqueue_many("t", "more", 49).await;
    let (mut delivered, deaths) = live_and_die(&stage).await;
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered.len(), 99);
    let row = stage.entry("killer").await;
    assert_eq!(row.next_attempt_at, PARKED);
    let why = row.last_error.expect("a reason");
    assert!(why.contains("while it ran alone"), "{why}");
    assert_eq!(stage.left().await, (1, 0));
    // Twice in a crowd, once alone.
    assert_eq!(deaths, 3);
    // An operator may give it another chance.
    let unparked = stage
        .outbox
        .unpark(&*stage.db, &["killer"], &stage.in_seconds(0))
        .await;
    assert_eq!(unparked.expect("unpark"), 1);
    let (_, deaths) = live_and_die(&stage).await;
    assert_eq!(deaths, 3);
}

async fn two_killers_are_both_found(stage: Arc<Stage>) {
    stage.enqueue("t", "killer1").await;
    stage.enqueue_many("t", "good", 20).await;
    stage.enqueue("t", "killer2").await;
    let (mut delivered, deaths) = live_and_die(&stage).await;
    delivered.sort_unstable();
    delivered.dedup();
    assert_eq!(delivered.len(), 20);
    for id in ["killer1", "killer2"] {
        assert_eq!(stage.entry(id).await.next_attempt_at, PARKED);
    }
    assert!((4..=6).contains(&deaths), "{deaths} processes died");
}

async fn a_suspect_that_lives_is_no_suspect_any_more(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    for _ in 0..4 {
        let (now, until) = (stage.in_seconds(0), stage.in_seconds(1));
        let claimed = stage.outbox.claim_due(&*stage.db, &now, &until, 1).await;
        assert_eq!(claimed.expect("claim").len(), 1);
        stage.time.advance(Duration::from_secs(1));
    }
    assert_eq!(stage.entry("r1").await.lapses, 3);
    let (sender, mut ran) = reports();
    let worker = stage
        .worker()
        .concurrency(1)
        .handle("t", move |job: Job| {
            sender.send(job.record().lapses).expect("the test reads");
            async move {
                match job.attempt() {
                    1 => Err("later"),
                    _ => Ok(()),
                }
            }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    assert_eq!(ran.rest(), [4]);
    let row = stage.entry("r1").await;
    assert_eq!((row.attempts, row.lapses), (1, 0));
    assert_eq!(row.last_error.as_deref(), Some("later"));
    stage.time.advance(Duration::from_secs(1));
    worker.settled().await.expect("it settles");
    assert_eq!(ran.rest(), [0]);
    assert_eq!(stage.left().await, (0, 0));
    stage.stop(worker).await;
}
