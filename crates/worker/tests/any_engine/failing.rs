//! Failures, and what becomes of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duebox_core::PARKED;
use duebox_core::chrono::TimeDelta;
use duebox_worker::{Backoff, Job, Outcome};

use crate::chapter;
use crate::stage::{Stage, reports};

chapter!(failing:
    a_failure_is_retried_after_the_backoff_and_its_cap,
    the_last_attempt_parks_with_its_reason,
    a_permanent_failure_is_parked_at_once,
    a_handler_can_say_when_to_try_again,
    a_handler_that_takes_too_long_has_failed,
    a_panic_is_a_failure_whose_text_is_kept_nowhere,
    a_payload_of_another_shape_is_retried_and_not_quoted,
    one_row_that_fails_stops_no_other,
);

async fn a_failure_is_retried_after_the_backoff_and_its_cap(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let (sender, mut attempts) = reports();
    let backoff = Backoff::default()
        .base(Duration::from_secs(10))
        .cap(Duration::from_secs(25))
        .without_jitter();
    let worker = stage
        .worker()
        .retry(backoff)
        .handle("t", move |job: Job| {
            sender.send(job.attempt()).expect("the test reads");
            async { Err::<(), _>("not now") }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    for (attempt, seconds) in [(1, 10), (2, 20), (3, 25), (4, 25)] {
        assert_eq!(attempts.rest(), [attempt]);
        let row = stage.entry("r1").await;
        assert_eq!(row.attempts, attempt);
        assert_eq!(row.next_attempt_at, stage.in_seconds(seconds));
        assert_eq!(row.last_error.as_deref(), Some("not now"));
        let wait = Duration::from_secs(seconds.unsigned_abs());
        stage
            .time
            .advance(wait.saturating_sub(Duration::from_micros(1)));
        worker.settled().await.expect("it settles");
        assert_eq!(attempts.rest(), [0; 0], "a microsecond early");
        stage.time.advance(Duration::from_micros(1));
        worker.settled().await.expect("it settles");
    }
    stage.stop(worker).await;
}

async fn the_last_attempt_parks_with_its_reason(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let worker = stage
        .worker()
        .topic_retry("t", Backoff::default().max_attempts(3).without_jitter())
        .handle("t", |job: Job| async move {
            Err::<(), _>(format!("failure {}", job.attempt()))
        })
        .start()
        .await
        .expect("start");
    for _ in 0..5 {
        worker.settled().await.expect("it settles");
        stage.time.advance(Duration::from_mins(1));
    }
    let row = stage.entry("r1").await;
    assert_eq!((row.attempts, row.claims), (3, 3));
    assert_eq!(row.next_attempt_at, PARKED);
    assert_eq!(row.last_error.as_deref(), Some("failure 3"));
    stage.stop(worker).await;
}

async fn a_permanent_failure_is_parked_at_once(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let worker = stage
        .worker()
        .handle("t", |_: Job| async { Outcome::park("no such address") })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert_eq!((row.attempts, row.next_attempt_at.as_str()), (1, PARKED));
    assert_eq!(row.last_error.as_deref(), Some("no such address"));
    assert_eq!(row.failed_at, Some(stage.in_seconds(0)));
    stage.stop(worker).await;
}

async fn a_handler_can_say_when_to_try_again(stage: Arc<Stage>) {
    stage.enqueue("later", "r1").await;
    stage.enqueue("before", "r2").await;
    let now = stage.now();
    let worker = stage
        .worker()
        .handle("later", move |_: Job| async move {
            Outcome::RetryAt(now + TimeDelta::seconds(77), "busy".into())
        })
        .handle("before", move |job: Job| async move {
            match job.attempt() {
                // It is the worker that never passes on a time that is gone.
                1 => Outcome::RetryAt(now - TimeDelta::days(1), "busy".into()),
                _ => Outcome::park("seen twice"),
            }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert_eq!(
        (row.attempts, row.next_attempt_at),
        (1, stage.in_seconds(77))
    );
    let row = stage.entry("r2").await;
    assert_eq!((row.attempts, row.next_attempt_at.as_str()), (2, PARKED));
    stage.stop(worker).await;
}

async fn a_handler_that_takes_too_long_has_failed(stage: Arc<Stage>) {
    stage.enqueue("t", "r1").await;
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .topic_timeout("t", Duration::from_secs(20))
        .handle("t", move |job: Job| {
            sender.send(job.attempt()).expect("the test reads");
            std::future::pending::<()>()
        })
        .start()
        .await
        .expect("start");
    assert_eq!(started.next().await, 1);
    stage.time.advance(Duration::from_secs(20));
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert_eq!((row.attempts, row.locked_until), (1, None));
    assert_eq!(
        row.last_error.as_deref(),
        Some("the handler took longer than 20s")
    );
    assert_eq!(row.next_attempt_at, stage.in_seconds(1));
    stage.stop(worker).await;
}

async fn a_panic_is_a_failure_whose_text_is_kept_nowhere(stage: Arc<Stage>) {
    quiet();
    stage.enqueue("t", "r1").await;
    let worker = stage
        .worker()
        .handle("t", |job: Job| async move {
            let quiet = format!("quiet: the payload was {}", job.payload());
            assert!(job.attempt() > 1, "{quiet}");
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert_eq!(row.attempts, 1);
    assert_eq!(row.last_error.as_deref(), Some("the handler panicked"));
    stage.time.advance(Duration::from_secs(1));
    worker.settled().await.expect("it settles");
    assert!(stage.row("r1").await.is_none(), "the worker lives on");
    stage.stop(worker).await;
}

async fn a_payload_of_another_shape_is_retried_and_not_quoted(stage: Arc<Stage>) {
    let work = duebox_core::Enqueue::new("t")
        .id("r1")
        .payload("{\"to\": \"ada@example.com\"}")
        .at(stage.now());
    let statement = stage.outbox.enqueue(work);
    stage.db.batch_atomic(&[statement]).await.expect("enqueue");
    let worker = stage
        .worker()
        .handle_json("t", (), |(), _: Job, _: Vec<u64>| async {})
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    let row = stage.entry("r1").await;
    assert_eq!(
        (row.attempts, row.next_attempt_at),
        (1, stage.in_seconds(1))
    );
    let error = row.last_error.expect("an error");
    assert!(
        error.contains("another shape") && !error.contains("ada"),
        "{error}"
    );
    stage.stop(worker).await;
}

async fn one_row_that_fails_stops_no_other(stage: Arc<Stage>) {
    stage.enqueue("t", "bad").await;
    stage.enqueue_many("t", "good", 100).await;
    let good = Arc::new(AtomicUsize::new(0));
    let count = Arc::clone(&good);
    let worker = stage
        .worker()
        .concurrency(1)
        .retry(Backoff::default().base(Duration::ZERO).max_attempts(1_000))
        .handle("t", move |job: Job| {
            let outcome = if job.id() == "bad" {
                Outcome::retry("again")
            } else {
                count.fetch_add(1, Ordering::SeqCst);
                Outcome::Done
            };
            // Once all others were served, it may go.
            let outcome = match count.load(Ordering::SeqCst) {
                100 => Outcome::Done,
                _ => outcome,
            };
            async move { outcome }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    assert_eq!(good.load(Ordering::SeqCst), 100);
    assert_eq!(stage.left().await, (0, 0));
    stage.stop(worker).await;
}

/// Keeps panics that tests make on purpose off the screen.
pub(crate) fn quiet() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let said = info.payload().downcast_ref::<String>();
            if !said.is_some_and(|said| said.starts_with("quiet:")) {
                usual(info);
            }
        }));
    });
}
