//! Delivers the mails that are due.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use duebox_sqlite::{Kind, OutboxRecord, parse_time};
use duebox_worker::{Backoff, Job, Outcome, Worker, WorkerBuilder};
use tokio::task::spawn_blocking;

use crate::Error;
use crate::accounts::Accounts;
use crate::mail::{TOPIC, Welcome};
use crate::maildir::Maildir;
use crate::options::Options;
use crate::progress::Counters;

/// How long an idle worker waits if nobody nudges it: leases of the dead end by themselves.
const POLL: Duration = Duration::from_millis(250);

/// What a delivery needs.
#[derive(Clone)]
pub(crate) struct Mailer {
    pub(crate) maildir: Arc<Maildir>,
    pub(crate) counters: Arc<Counters>,
}

/// A worker that delivers the mails, of which there may be several in other processes.
pub(crate) fn worker(accounts: &Accounts, mailer: Mailer, options: &Options) -> WorkerBuilder {
    Worker::builder(accounts.outbox.clone(), accounts.db.clone())
        .handle(TOPIC, move |job| deliver_one(mailer.clone(), job))
        .concurrency(options.deliveries)
        .retry(Backoff::default().base(Duration::from_secs(1)))
        .lease(options.lease)
        .poll_every(POLL)
        .name(format!("signup {}", std::process::id()))
}

async fn deliver_one(mailer: Mailer, job: Job) -> Outcome {
    let Mailer { maildir, counters } = mailer;
    // A row whose last holder died may have been delivered already.
    let again = job.record().lapses > 0;
    let delivery = spawn_blocking(move || deliver(&maildir, job.record())).await;
    let outcome = match delivery {
        Ok(Delivery::Done) => {
            counters.delivered.add(1);
            counters.delivered_again.add(u64::from(again));
            return Outcome::Done;
        }
        Ok(Delivery::Failed(kind)) => Outcome::retry(kind.to_string()),
        Ok(Delivery::Impossible(why)) => Outcome::park(why),
        Err(_) => Outcome::retry("the delivery panicked"),
    };
    counters.failed.add(1);
    outcome
}

/// Waits until nothing waits, is under lease anywhere, or will be retried.
pub(crate) async fn finish(worker: &Worker, accounts: &Accounts) -> Result<(), Error> {
    loop {
        worker.settled().await?;
        match accounts.stats().await {
            Ok(stats) if stats.waiting + stats.due + stats.leased == 0 => return Ok(()),
            Ok(_) => {}
            Err(error) if matches!(error.kind(), Kind::Busy | Kind::Unavailable) => {}
            Err(error) => return Err(error.into()),
        }
        tokio::time::sleep(POLL).await;
    }
}

/// How a delivery ended.
pub(crate) enum Delivery {
    Done,
    /// Another attempt may succeed.
    Failed(io::ErrorKind),
    /// None will.
    Impossible(&'static str),
}

pub(crate) fn deliver(maildir: &Maildir, record: &OutboxRecord) -> Delivery {
    let Ok(welcome) = serde_json::from_str::<Welcome>(&record.payload) else {
        return Delivery::Impossible("the payload is not a welcome mail");
    };
    let Ok(created_at) = parse_time(&record.created_at) else {
        return Delivery::Impossible("the row has no time of creation");
    };
    let written = welcome
        .message(&record.id, created_at)
        .and_then(|message| maildir.deliver(&message));
    match written {
        Ok(_) => Delivery::Done,
        Err(error) => Delivery::Failed(error.kind()),
    }
}
