//! A worker and a poller of receipts whose jobs, errors and panics hold marks.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{
    DeviceRegistry, DeviceToken, Enqueue, Outbox, PushError, PushErrorKind, PushFuture,
    PushReceipt, PushReceiptSource, PushReceiptStatus, PushRejection, PushStoreError, PushTicketId,
    poll_pending_receipts,
};
use duebox_worker::{Backoff, Job, Outcome, Worker};

use super::calls::{Way, receipt, subject};
use super::ear::Ear;
use super::marks::MARK;
use super::stage::Stage;
use crate::server::Fallible;

pub(super) async fn play(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    for way in stage.ways().await? {
        stage.renew().await?;
        let scene = format!("a worker, {}", way.name);
        work(ear, &scene, &way).await?;
        poll(ear, &scene, &way).await?;
        ear.hear_log(&scene);
    }
    Ok(())
}

async fn work(ear: &mut Ear, scene: &str, way: &Way) -> Fallible<()> {
    let outbox = Outbox::new("outbox");
    let once = Backoff::default().max_attempts(1);
    let worker = Worker::builder(outbox.clone(), Arc::clone(&way.db))
        .name(MARK)
        .retry(once)
        .handle("done", |_: Job| async {})
        .handle("retry", |_: Job| async { Outcome::retry(MARK) })
        .handle("park", |_: Job| async { Outcome::park(MARK) })
        .handle("error", |job: Job| async move {
            Err::<(), _>(format!("{} {MARK}", job.payload()))
        })
        .handle("panic", |job: Job| async move {
            assert!(job.payload().is_empty(), "{MARK}");
        })
        .handle_json("json", (), |(), _: Job, number: u64| async move {
            Err::<(), _>(number.to_string())
        })
        .timeout(Duration::from_secs(1))
        .handle("slow", |_: Job| std::future::pending::<()>())
        .start()
        .await?;
    let now = way.db.now().await?;
    let topics = [
        "done", "retry", "park", "error", "panic", "json", "slow", "none",
    ];
    for topic in topics {
        let work = Enqueue::new(topic).payload(MARK).subject(subject()).at(now);
        way.db.execute(&outbox.enqueue(work)).await?;
    }
    worker.nudge();
    let settled = ear.call(scene, worker.settled()).await;
    ear.hear(scene, &format!("{worker:?} {:?}", worker.health()));
    let stopped = ear
        .call(scene, worker.shutdown(Duration::from_secs(5)))
        .await;
    if settled.is_none() || stopped.is_none() {
        return Err("the worker did not end".into());
    }
    Ok(())
}

async fn poll(ear: &mut Ear, scene: &str, way: &Way) -> Fallible<()> {
    let due = DateTime::UNIX_EPOCH;
    let limit = NonZeroU32::new(2).unwrap_or(NonZeroU32::MIN);
    let receipts = (0..8).map(receipt).collect();
    way.store.record(receipts, due).await?;
    let now = receipt(0).sent_at;
    for place in [Devices::Work, Devices::SourceFails, Devices::RegistryFails] {
        let poll = poll_pending_receipts(&place, &*way.store, &place, now, limit);
        ear.call(scene, poll).await;
    }
    Ok(())
}

/// A provider and a registry.
enum Devices {
    Work,
    SourceFails,
    RegistryFails,
}

impl PushReceiptSource for Devices {
    fn receipts(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        let answer = match self {
            Self::SourceFails => Err(PushError::new(PushErrorKind::Unavailable, "it is away")),
            _ => Ok(tickets
                .into_iter()
                .map(|ticket| PushReceipt {
                    ticket,
                    status: PushReceiptStatus::Rejected(PushRejection::DeviceNotRegistered),
                })
                .collect()),
        };
        Box::pin(std::future::ready(answer))
    }
}

impl DeviceRegistry for Devices {
    fn invalidate(
        &self,
        tokens: Vec<DeviceToken>,
        _: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        let answer = match self {
            Self::RegistryFails => Err(PushStoreError::Internal),
            _ => Ok(tokens.len() as u64),
        };
        Box::pin(std::future::ready(answer))
    }
}
