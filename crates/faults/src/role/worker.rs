//! A worker of `duebox-worker`, with a handler that does all that one may.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duebox_core::chrono::TimeDelta;
use duebox_worker::{Backoff, Job, Outcome, Worker};

use super::{LEASE, Session, drainer};
use crate::watched::Watched;

pub(super) async fn run(session: Session, seed: u64) {
    let db = Arc::new(Watched {
        db: Arc::clone(&session.open.db),
        journal: Arc::clone(&session.journal),
    });
    let session = Arc::new(session);
    let random = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed)));
    let retry = Backoff::default()
        .base(Duration::from_millis(20))
        .cap(Duration::from_millis(200))
        .max_attempts(6);
    let builder = Worker::builder(session.outbox.clone(), db)
        .clock(session.clock.clone())
        .name(&session.name)
        .lease(LEASE)
        .poll_every(Duration::from_millis(100))
        .concurrency(6)
        .batch(6)
        .timeout(Duration::from_secs(2))
        .retry(retry)
        .sample_every(None)
        .handle("work", {
            let session = Arc::clone(&session);
            move |job: Job| handle(Arc::clone(&session), Arc::clone(&random), job)
        });
    let worker = builder.start().await.expect("a worker that has its clock");
    session.stop.cancelled().await;
    // What it could not end in time lapses.
    let _ = worker.shutdown(Duration::from_secs(3)).await;
}

async fn handle(session: Arc<Session>, random: Arc<Mutex<fastrand::Rng>>, job: Job) -> Outcome {
    session.journal.ran(drainer::held(job.lease()));
    let (millis, fate) = {
        let mut random = random.lock().unwrap_or_else(PoisonError::into_inner);
        let millis = match random.u8(0..100) {
            // Its lease has to be extended.
            0..3 => random.u64(1_000..1_500),
            3..20 => random.u64(30..150),
            _ => random.u64(0..10),
        };
        (millis, random.u8(0..100))
    };
    tokio::time::sleep(Duration::from_millis(millis)).await;
    let soon = session.clock.now() + TimeDelta::milliseconds(50);
    match fate {
        0..80 => Outcome::Done,
        80..86 => Outcome::retry("it was not to be"),
        86..88 => Outcome::RetryAt(soon, "the service is busy".into()),
        88..90 => Outcome::park("set aside"),
        90..93 => Outcome::RunAgainAt(soon),
        93..95 => panic!("a handler that panics"),
        _ => {
            drainer::effect(&session, job.lease()).await;
            Outcome::Ended
        }
    }
}
