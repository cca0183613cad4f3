//! A store of receipts that writes down what is asked of it.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    PendingReceipt, PendingReceiptStore, PushStoreError, PushStoreFuture, PushTicketId,
};

use crate::history::{Answer, Call, Journal};

pub(crate) struct Stored {
    pub(crate) store: Arc<dyn PendingReceiptStore>,
    pub(crate) journal: Arc<Journal>,
}

const PATIENCE: Duration = Duration::from_millis(1_500);

impl Stored {
    fn call<'a, T: Send + 'a>(
        &'a self,
        call: Call,
        run: PushStoreFuture<'a, Result<T, PushStoreError>>,
        answer: impl FnOnce(&T) -> Answer + Send + 'a,
    ) -> PushStoreFuture<'a, Result<T, PushStoreError>> {
        Box::pin(async move {
            let number = self.journal.begin(call);
            let done = match tokio::time::timeout(PATIENCE, run).await {
                Ok(done) => done,
                Err(_) => Err(PushStoreError::Busy),
            };
            let said = match &done {
                Ok(value) => answer(value),
                Err(error) => Answer::store_error(*error),
            };
            self.journal.end(number, said);
            done
        })
    }

    pub(crate) async fn erase(&self, owner: Uuid) -> Result<u64, PushStoreError> {
        self.erase_owner(owner).await
    }
}

fn tickets<'a>(all: impl Iterator<Item = &'a PushTicketId>) -> Vec<String> {
    all.map(|ticket| ticket.as_str().to_owned()).collect()
}

impl PendingReceiptStore for Stored {
    /// All of one call are of one owner and one instant here.
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        let first = receipts.first().expect("a receipt");
        let call = Call::Record {
            owner: first.owner_id.as_u128(),
            sent_at: first.sent_at.timestamp_micros(),
            due_at: due_at.timestamp_micros(),
            tickets: tickets(receipts.iter().map(|receipt| &receipt.ticket)),
        };
        let run = self.store.record(receipts, due_at);
        self.call(call, run, |count| Answer::Count(*count))
    }

    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
        let call = Call::Take {
            now: now.timestamp_micros(),
            retry_at: retry_at.timestamp_micros(),
        };
        let run = self.store.take_due(now, retry_at, limit);
        self.call(call, run, |taken| {
            Answer::Taken(tickets(taken.iter().map(|receipt| &receipt.ticket)))
        })
    }

    fn delete(&self, gone: Vec<PushTicketId>) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        let call = Call::Delete {
            tickets: tickets(gone.iter()),
        };
        let run = self.store.delete(gone);
        self.call(call, run, |count| Answer::Count(*count))
    }

    fn purge(
        &self,
        sent_before: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        let call = Call::Purge {
            before: sent_before.timestamp_micros(),
        };
        let run = self.store.purge(sent_before, limit);
        self.call(call, run, |count| Answer::Count(*count))
    }

    fn erase_owner(&self, owner: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        let call = Call::EraseOwner {
            owner: owner.as_u128(),
        };
        let run = self.store.erase_owner(owner);
        self.call(call, run, |count| Answer::Count(*count))
    }
}
