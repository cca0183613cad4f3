//! Waking up, by a source of wake-ups.

use std::sync::Arc;
use std::time::Duration;

use duebox_core::{DbError, Kind, WakeFuture, WakeSink, WakeSource};
use duebox_postgres::{PostgresOptions, PostgresWakeSink, PostgresWakeSource};
use duebox_worker::{Job, Nudger, Worker};
use tokio::sync::mpsc;

use crate::chapter;
use crate::stage::{Reports, Stage, in_time, reports};

chapter!(wake: a_source_starts_work_and_polling_goes_on_without_it);

/// What PostgreSQL alone has.
pub(crate) const POSTGRES: &[crate::Test] = &[
    (
        "wake::a_notification_starts_work_in_another_process",
        |engine| crate::stage::run(engine, a_notification_starts_work_in_another_process),
    ),
    (
        "wake::a_listener_whose_connection_was_cut_listens_again",
        |engine| crate::stage::run(engine, a_listener_whose_connection_was_cut_listens_again),
    ),
];

/// Tells what the test says.
struct Told(mpsc::UnboundedReceiver<Result<(), DbError>>);

impl WakeSource for Told {
    fn wait(&mut self) -> WakeFuture<'_> {
        Box::pin(async {
            match self.0.recv().await {
                Some(told) => told,
                None => std::future::pending().await,
            }
        })
    }
}

async fn listening(stage: &Stage, source: impl WakeSource + 'static) -> (Worker, Reports<String>) {
    let (sender, started) = reports();
    let worker = stage.worker().wake_on(source).handle("t", move |job: Job| {
        sender.send(job.id().to_owned()).expect("the test reads");
        async {}
    });
    let worker = worker.start().await.expect("start");
    (worker, started)
}

/// Waits until the worker hears, or does not hear, its source.
async fn hears(worker: &Worker, hears: bool) {
    in_time(async {
        while worker.health().listening != hears {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

async fn a_source_starts_work_and_polling_goes_on_without_it(stage: Arc<Stage>) {
    let (tell, told) = mpsc::unbounded_channel();
    let (worker, mut started) = listening(&stage, Told(told)).await;
    tell.send(Ok(())).expect("the worker listens");
    hears(&worker, true).await;
    worker.settled().await.expect("it settles");
    stage.enqueue("t", "r1").await;
    tell.send(Ok(())).expect("the worker listens");
    assert_eq!(started.next().await, "r1");
    // While it is heard, a poll finds what nobody told of.
    worker.settled().await.expect("it settles");
    stage.enqueue("t", "r2").await;
    stage.time.advance(Duration::from_secs(6));
    assert_eq!(started.next().await, "r2");
    let gone = DbError::new(Kind::Unavailable, "the test's source is away");
    tell.send(Err(gone)).expect("the worker listens");
    hears(&worker, false).await;
    worker.settled().await.expect("it settles");
    stage.enqueue("t", "r3").await;
    stage.time.advance(Duration::from_secs(1));
    assert_eq!(started.next().await, "r3");
    stage.stop(worker).await;
}

fn postgres(stage: &Stage) -> PostgresWakeSource {
    let url = stage.place.url();
    let separator = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{separator}application_name={}", stage.place.table);
    PostgresWakeSource::new(PostgresOptions::new(&url).expect("a URL"), &stage.outbox)
}

async fn a_notification_starts_work_in_another_process(stage: Arc<Stage>) {
    let (worker, mut started) = listening(&stage, postgres(&stage)).await;
    hears(&worker, true).await;
    worker.settled().await.expect("it settles");
    // Connections of its own, and no way to the worker but the server.
    let other = stage.place.connect().await;
    let sink = PostgresWakeSink::new(other, &stage.outbox);
    let nudger = Nudger::across(Arc::new(sink));
    for id in ["r1", "r2", "r3"] {
        stage.enqueue("t", id).await;
        nudger.nudge();
        assert_eq!(started.next().await, id);
    }
    stage.stop(worker).await;
}

async fn a_listener_whose_connection_was_cut_listens_again(stage: Arc<Stage>) {
    let (worker, mut started) = listening(&stage, postgres(&stage)).await;
    hears(&worker, true).await;
    let cut = "SELECT pg_terminate_backend(pid, 10000)::text AS cut FROM pg_stat_activity \
               WHERE application_name = ?";
    let cut = duebox_core::Statement::new(cut).bind(stage.place.table.as_str());
    assert_eq!(stage.db.query(&cut).await.expect("cut").len(), 1);
    hears(&worker, false).await;
    in_time(async {
        while !worker.health().listening {
            stage.time.advance(Duration::from_millis(1));
            tokio::task::yield_now().await;
        }
    })
    .await;
    worker.settled().await.expect("it settles");
    let sink = PostgresWakeSink::new(Arc::clone(&stage.db), &stage.outbox);
    stage.enqueue("t", "r1").await;
    sink.wake().await.expect("notify");
    assert_eq!(started.next().await, "r1");
    stage.stop(worker).await;
}
