//! Records tickets, and takes and settles those that are due: by hand, and by
//! the poll that the library has.

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    DeviceRegistry, DeviceToken, PendingReceipt, PendingReceiptStore, PushError, PushFuture,
    PushReceipt, PushReceiptSource, PushReceiptStatus, PushStoreError, PushTicketId,
    poll_pending_receipts,
};

use super::{LEASE, OWNERS, Session};
use crate::stored::Stored;

pub(super) async fn run(session: &Session, random: &mut fastrand::Rng) {
    let store = Stored {
        store: session.store(),
        journal: Arc::clone(&session.journal),
    };
    let provider = Provider(Mutex::new(random.fork()));
    let mut number = 0;
    while session.running() {
        number += 1;
        // The answers are in the journal, and errors are what is played here.
        let _ = record(session, random, &store, number).await;
        let limit = NonZeroU32::new(random.u32(1..12)).unwrap_or(NonZeroU32::MIN);
        let now = session.now();
        if random.u8(0..4) == 0 {
            let _ = poll_pending_receipts(&provider, &store, &provider, now, limit).await;
        } else if let Ok(taken) = store.take_due(now, now + LEASE, limit).await {
            session.pause(random.u64(0..20)).await;
            let settled: Vec<PushTicketId> = taken
                .into_iter()
                .filter(|_| random.u8(0..5) > 0)
                .map(|receipt| receipt.ticket)
                .collect();
            if !settled.is_empty() {
                let _ = store.delete(settled).await;
            }
        }
        session.pause(random.u64(5..40)).await;
    }
}

async fn record(
    session: &Session,
    random: &mut fastrand::Rng,
    store: &Stored,
    number: u64,
) -> Result<u64, PushStoreError> {
    let now = session.now();
    let owner_id = Uuid::from_u128(u128::from(random.u64(0..OWNERS)));
    // Now and then one that is too old to be answered any more.
    let old = TimeDelta::hours(if random.u8(0..20) == 0 { 25 } else { 0 });
    let receipts: Vec<PendingReceipt> = (0..random.u64(1..=6))
        .map(|ticket| PendingReceipt {
            ticket: PushTicketId::new(format!("{}-{number}-{ticket}", session.name))
                .expect("a ticket"),
            owner_id,
            token: DeviceToken::new("device").expect("a token"),
            sent_at: now - old,
        })
        .collect();
    let due_at = now + TimeDelta::milliseconds(random.i64(-50..100));
    let done = store.record(receipts.clone(), due_at).await;
    if done.is_err() && random.bool() {
        return store.record(receipts, due_at).await;
    }
    done
}

/// A provider, and a registry, of no devices.
struct Provider(Mutex<fastrand::Rng>);

impl PushReceiptSource for Provider {
    fn receipts(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        let mut random = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let receipts = tickets
            .into_iter()
            .filter_map(|ticket| {
                let status = match random.u8(0..10) {
                    0 => return None,
                    1 => {
                        PushReceiptStatus::Rejected(duebox_core::PushRejection::DeviceNotRegistered)
                    }
                    _ => PushReceiptStatus::Delivered,
                };
                Some(PushReceipt { ticket, status })
            })
            .collect();
        Box::pin(std::future::ready(Ok(receipts)))
    }
}

impl DeviceRegistry for Provider {
    fn invalidate(
        &self,
        tokens: Vec<DeviceToken>,
        _: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(std::future::ready(Ok(tokens.len() as u64)))
    }
}
