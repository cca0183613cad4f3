//! The poller of receipts, with a store in memory and a time that stands
//! still.

use std::num::NonZeroU32;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    DeviceRegistry, DeviceToken, MemoryPendingReceiptStore, PendingReceiptStore,
    PushDeliveryStatus, PushError, PushErrorKind, PushFuture, PushOutcome, PushReceipt,
    PushReceiptSource, PushReceiptStatus, PushStoreError, PushTicketId, RECEIPT_POLL_DELAY,
};
use duebox_worker::{ManualClock, ReceiptPoller};

/// A provider that has a receipt for every ticket, unless it is down.
#[derive(Default)]
struct Provider {
    down: AtomicBool,
    asked: Mutex<Vec<usize>>,
}

impl PushReceiptSource for Provider {
    fn receipts(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        Box::pin(async move {
            self.asked.lock().expect("no panic").push(tickets.len());
            if self.down.load(Ordering::SeqCst) {
                return Err(PushError::new(PushErrorKind::Unavailable, "down"));
            }
            let delivered = |ticket| PushReceipt {
                ticket,
                status: PushReceiptStatus::Delivered,
            };
            Ok(tickets.into_iter().map(delivered).collect())
        })
    }
}

struct Nobody;

impl DeviceRegistry for Nobody {
    fn invalidate(
        &self,
        _: Vec<DeviceToken>,
        _: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async { Ok(0) })
    }
}

async fn record(store: &MemoryPendingReceiptStore, tickets: usize, at: DateTime<Utc>) {
    let accepted = |number| PushOutcome {
        token: DeviceToken::new("phone").expect("a token"),
        status: PushDeliveryStatus::Accepted(
            PushTicketId::new(format!("t-{number}")).expect("a ticket"),
        ),
    };
    let outcomes: Vec<_> = (0..tickets).map(accepted).collect();
    let recorded = store.record_accepted(Uuid::nil(), &outcomes, at).await;
    assert_eq!(recorded.expect("record"), tickets as u64);
}

#[tokio::test]
async fn tickets_are_polled_as_they_fall_due_batch_by_batch() {
    let time = ManualClock::new("2026-03-01T00:00:00Z".parse().expect("a time"));
    let (store, provider) = (
        MemoryPendingReceiptStore::new(),
        Arc::new(Provider::default()),
    );
    record(&store, 25, time.clock().now()).await;
    let poller = ReceiptPoller::builder(
        Arc::clone(&provider) as _,
        Arc::new(store.clone()),
        Arc::new(Nobody),
        time.clock(),
    )
    .limit(NonZeroU32::new(10).expect("ten"))
    .start();
    poller.next_round().await;
    assert!(provider.asked.lock().expect("no panic").is_empty());
    time.advance(RECEIPT_POLL_DELAY.to_std().expect("positive"));
    poller.next_round().await;
    assert_eq!(*provider.asked.lock().expect("no panic"), [10, 10, 5]);
    poller.shutdown().await;
}

#[tokio::test]
async fn a_provider_that_is_down_costs_no_ticket() {
    let time = ManualClock::new("2026-03-01T00:00:00Z".parse().expect("a time"));
    let (store, provider) = (
        MemoryPendingReceiptStore::new(),
        Arc::new(Provider::default()),
    );
    record(&store, 3, time.clock().now()).await;
    provider.down.store(true, Ordering::SeqCst);
    time.advance(RECEIPT_POLL_DELAY.to_std().expect("positive"));
    let poller = ReceiptPoller::builder(
        Arc::clone(&provider) as _,
        Arc::new(store.clone()),
        Arc::new(Nobody),
        time.clock(),
    )
    .every(Duration::from_mins(1))
    .start();
    poller.next_round().await;
    assert_eq!(*provider.asked.lock().expect("no panic"), [3]);
    provider.down.store(false, Ordering::SeqCst);
    time.advance(RECEIPT_POLL_DELAY.to_std().expect("positive"));
    poller.next_round().await;
    assert_eq!(*provider.asked.lock().expect("no panic"), [3, 3]);
    poller.shutdown().await;
}
