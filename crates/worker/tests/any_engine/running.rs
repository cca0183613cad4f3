//! What runs, when, and how much of it at once.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duebox_core::chrono::TimeDelta;
use duebox_core::{Enqueue, LeaseOutcome};
use duebox_worker::{Backoff, Job, Outcome};
use tokio::sync::{Barrier, Semaphore};

use crate::chapter;
use crate::stage::{Stage, reports};

chapter!(running:
    rows_start_oldest_first,
    no_more_run_at_once_than_may,
    a_topic_that_is_full_does_not_stand_before_others,
    a_handler_sees_its_job,
    a_nudge_starts_work_at_once,
    a_forgotten_nudge_costs_one_poll,
    a_row_that_is_not_due_waits_until_it_is,
    recurring_work_runs_again_uncounted,
    a_handler_can_end_its_job_in_its_own_batch,
    a_topic_without_a_handler_is_left_uncounted_for_longer_and_longer,
    what_has_no_handler_of_its_own_is_run_by_the_one_for_any_topic,
    a_worker_takes_all_of_a_long_queue_once,
    payloads_are_kept_within_their_bytes,
);

async fn rows_start_oldest_first(stage: Arc<Stage>) {
    for number in [3, 0, 4, 1, 2] {
        let at = stage.now() - TimeDelta::seconds(100 - number);
        stage.enqueue_at("t", &format!("r{number}"), at).await;
    }
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .concurrency(1)
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    assert_eq!(started.rest(), ["r0", "r1", "r2", "r3", "r4"]);
    stage.stop(worker).await;
}

async fn no_more_run_at_once_than_may(stage: Arc<Stage>) {
    stage.enqueue_many("t", "r", 30).await;
    // Three at a time, never fewer and never more.
    let (barrier, running, most) = (
        Arc::new(Barrier::new(3)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let seen = Arc::clone(&most);
    let worker = stage
        .worker()
        .concurrency(3)
        .handle("t", move |_: Job| {
            let (barrier, running, most) = (
                Arc::clone(&barrier),
                Arc::clone(&running),
                Arc::clone(&most),
            );
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                barrier.wait().await;
                running.fetch_sub(1, Ordering::SeqCst);
            }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    assert_eq!(seen.load(Ordering::SeqCst), 3);
    assert_eq!(stage.left().await, (0, 0));
    stage.stop(worker).await;
}

async fn a_topic_that_is_full_does_not_stand_before_others(stage: Arc<Stage>) {
    stage.enqueue_many("slow", "a", 60).await;
    stage.enqueue_many("fast", "b", 10).await;
    let (gate, running, most) = (
        Arc::new(Semaphore::new(0)),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (sender, mut fast) = reports();
    let (open, seen) = (Arc::clone(&gate), Arc::clone(&most));
    let worker = stage
        .worker()
        .concurrency(8)
        .topic_concurrency("slow", 2)
        .handle("slow", move |_: Job| {
            let (gate, running, most) =
                (Arc::clone(&gate), Arc::clone(&running), Arc::clone(&most));
            async move {
                most.fetch_max(running.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                gate.acquire().await.expect("open").forget();
                running.fetch_sub(1, Ordering::SeqCst);
            }
        })
        .handle("fast", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    for _ in 0..10 {
        fast.next().await;
    }
    open.add_permits(60);
    // What was given back comes as time goes by, and none of it counts a failure.
    while stage.left().await.0 > 0 {
        stage.time.advance(Duration::from_secs(1));
        worker.settled().await.expect("it settles");
    }
    assert_eq!(seen.load(Ordering::SeqCst), 2);
    stage.stop(worker).await;
}

async fn a_handler_sees_its_job(stage: Arc<Stage>) {
    let work = Enqueue::new("t")
        .id("r1")
        .payload("{\"n\":7}")
        .subject("ada")
        .at(stage.now());
    let statement = stage.outbox.enqueue(work);
    stage.db.batch_atomic(&[statement]).await.expect("enqueue");
    let (sender, mut seen) = reports();
    let worker = stage
        .worker()
        .timeout(Duration::from_secs(90))
        .handle("t", move |job: Job| {
            sender.send(job).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    let job = seen.next().await;
    assert_eq!((job.id(), job.topic(), job.attempt()), ("r1", "t", 1));
    assert_eq!((job.payload(), job.subject()), ("{\"n\":7}", Some("ada")));
    assert_eq!(job.deadline(), stage.now() + TimeDelta::seconds(90));
    assert!(!job.lost().is_cancelled());
    let shown = format!("{job:?}");
    assert!(!shown.contains("ada") && !shown.contains("{\"n"), "{shown}");
    worker.settled().await.expect("it settles");
    assert_eq!(stage.left().await, (0, 0));
    stage.stop(worker).await;
}

async fn a_nudge_starts_work_at_once(stage: Arc<Stage>) {
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let nudger = worker.nudger();
    // Time stands still, so no poll can have found them.
    for id in ["r1", "r2", "r3"] {
        stage.enqueue("t", id).await;
        nudger.nudge();
        assert_eq!(started.next().await, id);
    }
    stage.stop(worker).await;
}

async fn a_forgotten_nudge_costs_one_poll(stage: Arc<Stage>) {
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .poll_every(Duration::from_secs(5))
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    stage.enqueue("t", "r1").await;
    stage.time.advance(Duration::from_secs(5));
    assert_eq!(started.next().await, "r1");
    stage.stop(worker).await;
}

async fn a_row_that_is_not_due_waits_until_it_is(stage: Arc<Stage>) {
    let at = stage.now() + TimeDelta::seconds(60);
    stage.enqueue_at("t", "later", at).await;
    stage.enqueue("t", "now").await;
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    stage.time.advance(Duration::from_micros(59_999_999));
    worker.settled().await.expect("it settles");
    assert_eq!(started.rest(), ["now"]);
    stage.time.advance(Duration::from_micros(1));
    worker.settled().await.expect("it settles");
    assert_eq!(started.rest(), ["later"]);
    stage.stop(worker).await;
}

async fn recurring_work_runs_again_uncounted(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let (sender, mut started) = reports();
    let clock = stage.clock.clone();
    let runs = AtomicUsize::new(0);
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            sender.send(job.attempt()).expect("the test reads");
            let next = clock.now() + TimeDelta::seconds(3_600);
            let outcome = match runs.fetch_add(1, Ordering::SeqCst) {
                1 => Outcome::retry("once"),
                _ => Outcome::RunAgainAt(next),
            };
            async move { outcome }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert_eq!(
        (row.attempts, row.next_attempt_at),
        (0, stage.in_seconds(3_600))
    );
    stage.time.advance(Duration::from_hours(1));
    worker.settled().await.expect("it settles");
    assert_eq!(stage.entry("r1").await.attempts, 1);
    stage.time.advance(Duration::from_secs(1));
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert_eq!((row.attempts, row.last_error), (0, None));
    assert_eq!(started.rest(), [1, 1, 2]);
    stage.stop(worker).await;
}

async fn a_handler_can_end_its_job_in_its_own_batch(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let (db, outbox) = (Arc::clone(&stage.db), stage.outbox.clone());
    let clock = stage.clock.clone();
    let worker = stage
        .worker()
        .handle("t", move |job: Job| {
            let (db, outbox) = (Arc::clone(&db), outbox.clone());
            let effect = Enqueue::new("effect")
                .id("e1")
                .at(clock.now() + TimeDelta::days(1));
            async move {
                let batch = [
                    outbox.enqueue(effect),
                    outbox.complete_statement(job.lease()),
                ];
                db.batch_atomic(&batch).await.map(|_| Outcome::Ended)
            }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    assert!(stage.row("r1").await.is_none());
    assert!(stage.row("e1").await.is_some());
    stage.stop(worker).await;
}

async fn a_topic_without_a_handler_is_left_uncounted_for_longer_and_longer(stage: Arc<Stage>) {
    stage.enqueue("of_a_newer_version", "r1").await;
    let worker = stage
        .worker()
        .handle("t", |_: Job| async {})
        .start()
        .await
        .expect("start");
    let mut pauses = Vec::new();
    for _ in 0..8 {
        worker.settled().await.expect("it settles");
        let row = stage.entry("r1").await;
        assert_eq!((row.attempts, row.lapses, row.last_error), (0, 0, None));
        let at = duebox_core::parse_time(&row.next_attempt_at).expect("a time");
        pauses.push((at - stage.now()).num_seconds());
        stage
            .time
            .advance((at - stage.now()).to_std().expect("later"));
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 60, 60]);
    stage.stop(worker).await;
    // Whoever knows the topic does the work.
    let (sender, mut started) = reports();
    stage.time.advance(Duration::from_mins(1));
    let newer = stage
        .worker()
        .handle("of_a_newer_version", move |job: Job| {
            sender.send(job.attempt()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    assert_eq!(started.next().await, 1);
    stage.stop(newer).await;
}

async fn what_has_no_handler_of_its_own_is_run_by_the_one_for_any_topic(stage: Arc<Stage>) {
    for (topic, id) in [("own", "r1"), ("a", "r2"), ("b", "r3")] {
        stage.enqueue(topic, id).await;
    }
    let (sender, mut started) = reports();
    let report = move |by: &'static str| {
        let sender = sender.clone();
        move |job: Job| {
            let _ = sender.send(format!("{} {} {by}", job.id(), job.topic()));
            async move {
                if job.topic() == "b" {
                    Outcome::park("not this one")
                } else {
                    Outcome::Done
                }
            }
        }
    };
    let worker = stage
        .worker()
        .handle("own", report("by its own"))
        // The settings of one topic are not those of all others.
        .topic_retry("own", Backoff::default().max_attempts(1))
        .handle_any(report("by any"))
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let mut all = started.rest();
    all.sort_unstable();
    assert_eq!(all, ["r1 own by its own", "r2 a by any", "r3 b by any"]);
    let parked = stage.entry("r3").await;
    assert_eq!(parked.last_error.as_deref(), Some("not this one"));
    stage.stop(worker).await;
}

async fn a_worker_takes_all_of_a_long_queue_once(stage: Arc<Stage>) {
    stage.enqueue_many("t", "r", 1_000).await;
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .concurrency(50)
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            async {}
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let mut ids = started.rest();
    ids.sort_unstable();
    let all: Vec<_> = (0..1_000).map(|number| format!("r{number:03}")).collect();
    let mut all = all;
    all.sort_unstable();
    assert_eq!(ids, all);
    assert_eq!(stage.left().await, (0, 0));
    stage.stop(worker).await;
}

async fn payloads_are_kept_within_their_bytes(stage: Arc<Stage>) {
    let payload = "x".repeat(1_000);
    let work = (0..20).map(|number| {
        Enqueue::new("t")
            .id(format!("r{number}"))
            .payload(payload.as_str())
            .at(stage.now())
    });
    let statement = stage.outbox.enqueue_many_statement(work);
    stage.db.batch_atomic(&[statement]).await.expect("enqueue");
    let (gate, open) = {
        let gate = Arc::new(Semaphore::new(0));
        (Arc::clone(&gate), gate)
    };
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .max_bytes(2_500)
        .handle("t", move |job: Job| {
            let gate = Arc::clone(&gate);
            sender.send(job.id().to_owned()).expect("the test reads");
            async move { gate.acquire().await.expect("open").forget() }
        })
        .start()
        .await
        .expect("start");
    started.next().await;
    started.next().await;
    // One more row than fits is taken, never two. A claim that is under way may have locked others
    // for a moment.
    let mut rival = Vec::new();
    while rival.len() < 17 {
        let (now, until) = (stage.in_seconds(0), stage.in_seconds(9));
        let claimed = stage.outbox.claim_due(&*stage.db, &now, &until, 100).await;
        rival.extend(claimed.expect("claim"));
    }
    let leases: Vec<_> = rival.into_iter().map(|record| record.lease).collect();
    let done = stage.outbox.complete_claimed(&*stage.db, &leases).await;
    assert!(
        done.expect("complete")
            .into_iter()
            .all(LeaseOutcome::is_held)
    );
    open.add_permits(20);
    worker.settled().await.expect("it settles");
    assert_eq!(stage.left().await, (0, 0));
    stage.stop(worker).await;
}
