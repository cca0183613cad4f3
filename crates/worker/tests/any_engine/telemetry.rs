//! What a worker tells of a run that is known, and what it does not tell.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duebox_conformance::Listener;
use duebox_core::Enqueue;
use duebox_core::chrono::TimeDelta;
use duebox_worker::{Backoff, Job, Outcome};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tokio::sync::Semaphore;

use crate::Test;
use crate::away::Far;
use crate::failing::quiet;
use crate::place::Engine;
use crate::stage::{self, Stage, in_time, reports};

/// A recorder and a subscriber are a thread's, so all of a test runs on one.
pub(crate) const TESTS: &[Test] = &[
    ("telemetry::runs_are_counted_by_how_they_ended", |engine| {
        heard(engine, runs_are_counted_by_how_they_ended)
    }),
    (
        "telemetry::runs_that_were_cut_short_are_counted",
        |engine| heard(engine, runs_that_were_cut_short_are_counted),
    ),
    ("telemetry::samples_say_where_rows_stand", |engine| {
        heard(engine, samples_say_where_rows_stand)
    }),
    (
        "telemetry::calls_that_fail_are_counted_and_told_as_they_double",
        |engine| heard(engine, calls_that_fail_are_counted_and_told_as_they_double),
    ),
    ("telemetry::nothing_that_a_row_holds_is_told", |engine| {
        heard(engine, nothing_that_a_row_holds_is_told)
    }),
];

fn heard<F>(engine: Engine, test: fn(Arc<Stage>, Heard) -> F) -> Result<(), String>
where
    F: Future<Output = ()>,
{
    quiet();
    let recorder = PrometheusBuilder::new().build_recorder();
    let heard = Heard {
        metrics: recorder.handle(),
        log: Arc::default(),
    };
    let log = Arc::clone(&heard.log);
    let listener = Listener::new(move |target: &str, fields: &str| {
        let mut log = log.lock().expect("the log");
        log.push_str(target);
        log.push_str(fields);
        log.push('\n');
    });
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime");
    let _listening = tracing::subscriber::set_default(listener);
    metrics::with_local_recorder(&recorder, || {
        stage::run_on(runtime, engine, |stage| test(stage, heard))
    })
}

struct Heard {
    metrics: PrometheusHandle,
    log: Arc<Mutex<String>>,
}

impl Heard {
    /// The value of a series; its labels are given without that of the outbox.
    fn value(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let text = self.metrics.render();
        let mut found = text.lines().filter_map(|line| {
            let (series, value) = line.rsplit_once(' ')?;
            let given = series.strip_prefix(name)?.strip_prefix('{')?;
            let has = |(key, value): &(&str, &str)| given.contains(&format!("{key}=\"{value}\""));
            labels
                .iter()
                .all(has)
                .then(|| value.parse().expect("a number"))
        });
        found.next()
    }

    fn assert(&self, name: &str, labels: &[(&str, &str)], expected: f64) {
        let value = self.value(name, labels);
        assert_eq!(
            value,
            Some(expected),
            "{name} {labels:?} in\n{}",
            self.metrics.render()
        );
    }

    fn assert_outcomes(&self, topic: &str, outcome: &str, expected: f64) {
        let labels = [("topic", topic), ("outcome", outcome)];
        self.assert("duebox_jobs_total", &labels, expected);
    }

    fn log(&self) -> String {
        self.log.lock().expect("the log").clone()
    }
}

async fn runs_are_counted_by_how_they_ended(stage: Arc<Stage>, heard: Heard) {
    stage.enqueue_many("done", "done", 3).await;
    for topic in ["fails", "parks", "again", "panics", "nobody"] {
        stage.enqueue(topic, topic).await;
    }
    stage.time.advance(Duration::from_secs(3));
    let later = stage.now() + TimeDelta::hours(1);
    let backoff = Backoff::default().base(Duration::from_secs(10));
    let worker = stage
        .worker()
        .retry(backoff.max_attempts(2).without_jitter())
        .handle("done", |_: Job| async {})
        .handle("fails", |_: Job| async { Outcome::retry("not now") })
        .handle("parks", |_: Job| async { Outcome::park("never") })
        .handle(
            "again",
            move |_: Job| async move { Outcome::RunAgainAt(later) },
        )
        .handle("panics", |job: Job| async move {
            let quiet = "quiet: on purpose".to_owned();
            assert!(job.attempt() > 2, "{quiet}");
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    heard.assert_outcomes("done", "done", 3.0);
    heard.assert_outcomes("fails", "retried", 1.0);
    heard.assert_outcomes("parks", "parked", 1.0);
    heard.assert_outcomes("again", "rescheduled", 1.0);
    heard.assert_outcomes("panics", "panicked", 1.0);
    heard.assert("duebox_parked_total", &[("topic", "parks")], 1.0);
    heard.assert("duebox_parked_total", &[("topic", "fails")], 0.0);
    heard.assert("duebox_without_handler_total", &[], 1.0);
    let done = [("topic", "done")];
    heard.assert("duebox_start_delay_seconds_count", &done, 3.0);
    heard.assert("duebox_start_delay_seconds_sum", &done, 9.0);
    heard.assert("duebox_job_seconds_count", &done, 3.0);
    heard.assert("duebox_claimed_rows_sum", &[], 8.0);
    heard.assert("duebox_ended_rows_sum", &[], 8.0);
    // A topic that nobody handles makes no series of its own.
    let nobody = heard.value("duebox_jobs_total", &[("topic", "nobody")]);
    assert_eq!(nobody, None);

    // The last of two attempts.
    stage.time.advance(Duration::from_secs(10));
    worker.settled().await.expect("it settles");
    heard.assert_outcomes("fails", "retried", 2.0);
    heard.assert_outcomes("panics", "panicked", 2.0);
    for topic in ["fails", "panics", "parks"] {
        heard.assert("duebox_parked_total", &[("topic", topic)], 1.0);
    }
    stage.stop(worker).await;
}

async fn runs_that_were_cut_short_are_counted(stage: Arc<Stage>, heard: Heard) {
    let (sender, mut started) = reports();
    let gate = Arc::new(Semaphore::new(0));
    let (opened, slow) = (Arc::clone(&gate), sender.clone());
    let worker = stage
        .worker()
        .handle("slow", move |job: Job| {
            slow.send(job.id().to_owned()).expect("the test reads");
            std::future::pending::<()>()
        })
        .topic_timeout("slow", Duration::from_secs(20))
        .topic_retry("slow", Backoff::default().max_attempts(1))
        .handle("lost", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            let gate = Arc::clone(&opened);
            async move { gate.acquire().await.expect("open").forget() }
        })
        .start()
        .await
        .expect("start");
    stage.enqueue("slow", "slow").await;
    worker.nudge();
    assert_eq!(started.next().await, "slow");
    stage.time.advance(Duration::from_secs(20));
    worker.settled().await.expect("it settles");
    heard.assert_outcomes("slow", "timed_out", 1.0);
    heard.assert("duebox_job_seconds_sum", &[("topic", "slow")], 20.0);
    heard.assert("duebox_parked_total", &[("topic", "slow")], 1.0);

    // Its first run finds its lease lost, and the row is run again.
    stage.enqueue("lost", "lost").await;
    worker.nudge();
    assert_eq!(started.next().await, "lost");
    let released = stage.outbox.release(&*stage.db, &["lost"]).await;
    assert_eq!(released.expect("release"), 1);
    gate.add_permits(2);
    worker.settled().await.expect("it settles");
    assert_eq!(started.rest(), ["lost"]);
    heard.assert("duebox_leases_lost_total", &[], 1.0);
    heard.assert_outcomes("lost", "done", 2.0);

    stage.enqueue("lost", "held").await;
    worker.nudge();
    assert_eq!(started.next().await, "held");
    let stopped = worker.shutdown(Duration::from_secs(1)).await;
    assert_eq!(stopped.expect("it stops").interrupted, 1);
    heard.assert_outcomes("lost", "released", 1.0);
}

async fn samples_say_where_rows_stand(stage: Arc<Stage>, heard: Heard) {
    let (sender, mut started) = reports();
    let worker = stage
        .worker()
        .concurrency(1)
        .sample_every(Some(Duration::from_secs(15)))
        .handle("t", move |job: Job| {
            sender.send(job.id().to_owned()).expect("the test reads");
            std::future::pending::<()>()
        })
        .start()
        .await
        .expect("start");
    stage.enqueue("t", "held").await;
    worker.nudge();
    assert_eq!(started.next().await, "held");
    // The worker has no room for more.
    stage.enqueue_many("t", "due", 3).await;
    stage.enqueue_many("t", "aside", 2).await;
    let aside = ["aside000", "aside001"];
    let parked = stage
        .outbox
        .park(&*stage.db, &aside, &stage.in_seconds(0), "aside")
        .await;
    assert_eq!(parked.expect("park"), 2);
    let hour = stage.now() + TimeDelta::hours(1);
    stage.enqueue_at("t", "waits", hour).await;
    assert_eq!(heard.value("duebox_rows", &[("state", "due")]), Some(0.0));
    stage.time.advance(Duration::from_micros(14_999_999));
    tokio::task::yield_now().await;
    assert_eq!(heard.value("duebox_rows", &[("state", "due")]), Some(0.0));
    stage.time.advance(Duration::from_micros(1));
    in_time(async {
        while heard.value("duebox_rows", &[("state", "due")]) != Some(3.0) {
            tokio::task::yield_now().await;
        }
    })
    .await;
    for (state, rows) in [("leased", 1.0), ("parked", 2.0), ("waiting", 1.0)] {
        heard.assert("duebox_rows", &[("state", state)], rows);
    }
    heard.assert("duebox_oldest_due_seconds", &[], 15.0);
    let stopped = worker.shutdown(Duration::from_secs(1)).await;
    assert_eq!(stopped.expect("it stops").interrupted, 1);
}

async fn calls_that_fail_are_counted_and_told_as_they_double(stage: Arc<Stage>, heard: Heard) {
    let far = Far::new(Arc::clone(&stage.db), TimeDelta::zero());
    let worker = stage
        .worker_on(Arc::clone(&far) as _)
        .handle("t", |_: Job| async {})
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    far.away.store(true, Ordering::SeqCst);
    while worker.health().failed_claims < 5 {
        stage.time.advance(Duration::from_secs(5));
        tokio::task::yield_now().await;
    }
    far.away.store(false, Ordering::SeqCst);
    stage.enqueue("t", "r1").await;
    while stage.row("r1").await.is_some() {
        stage.time.advance(Duration::from_secs(5));
        tokio::task::yield_now().await;
    }
    heard.assert("duebox_failed_calls_total", &[], 5.0);
    let log = heard.log();
    let told = |text: &str| log.lines().filter(|line| line.contains(text)).count();
    assert_eq!(told("no rows can be claimed"), 3, "1, 2 and 4:\n{log}");
    assert_eq!(told("rows can be claimed again"), 1, "{log}");
    for field in ["outbox=", "failures=4", "pause_ms=", "error="] {
        assert!(log.contains(field), "{field} in\n{log}");
    }
    stage.stop(worker).await;
}

async fn nothing_that_a_row_holds_is_told(stage: Arc<Stage>, heard: Heard) {
    const SECRET: &str = "ada@example.com";
    for topic in ["done", "fails", "parks", "panics"] {
        let work = Enqueue::new(topic)
            .id(topic)
            .payload(SECRET)
            .subject(SECRET)
            .at(stage.now());
        let work = stage.outbox.enqueue(work);
        stage.db.batch_atomic(&[work]).await.expect("enqueue");
    }
    let panicked = Arc::new(AtomicBool::new(false));
    let note = Arc::clone(&panicked);
    let worker = stage
        .worker()
        .handle("done", |_: Job| async {})
        .handle("fails", |_: Job| async { Outcome::retry(SECRET) })
        .handle("parks", |_: Job| async { Outcome::park(SECRET) })
        .handle("panics", move |job: Job| {
            note.store(true, Ordering::SeqCst);
            async move {
                let quiet = format!("quiet: {}", job.payload());
                assert!(job.attempt() > 1, "{quiet}");
            }
        })
        .start()
        .await
        .expect("start");
    worker.settled().await.expect("it settles");
    assert!(panicked.load(Ordering::SeqCst));
    stage.stop(worker).await;
    let (log, metrics) = (heard.log(), heard.metrics.render());
    for field in [
        "duebox.job",
        "outbox=",
        "topic=\"parks\"",
        "id=\"parks\"",
        "attempt=1",
        "outcome=\"retried\"",
        "outcome=\"panicked\"",
        "parked=true",
    ] {
        assert!(log.contains(field), "{field} in\n{log}");
    }
    assert!(!log.contains(SECRET) && !metrics.contains(SECRET), "{log}");
}
