use std::num::NonZeroU32;
use std::sync::Arc;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{DeviceToken, PendingReceipt, PendingReceiptStore, PushStoreError, PushTicketId};

use super::{ReceiptHarness, ReceiptSandbox};

/// What a test about receipts works with: its own, empty store.
pub struct ReceiptContext {
    pub(super) sandbox: Box<dyn ReceiptSandbox>,
    pub(super) store: Arc<dyn PendingReceiptStore>,
}

impl std::fmt::Debug for ReceiptContext {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiptContext").finish_non_exhaustive()
    }
}

/// No limit.
pub(super) const ALL: NonZeroU32 = NonZeroU32::MAX;

/// The tests' day: 2026-03-01.
const DAY: i64 = 1_772_323_200_000_000;

/// An instant so many seconds into the tests' day.
pub(super) fn at(seconds: i64) -> DateTime<Utc> {
    at_micros(seconds * 1_000_000)
}

/// An instant so many microseconds into the tests' day.
pub(super) fn at_micros(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(DAY + micros).expect("an instant")
}

/// The last microsecond that a store keeps.
pub(super) fn end_of_time() -> DateTime<Utc> {
    DateTime::from_timestamp_micros(253_402_300_799_999_999).expect("an instant")
}

pub(super) fn limit(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).expect("not 0")
}

pub(super) fn ticket(text: &str) -> PushTicketId {
    PushTicketId::new(text).expect("a ticket")
}

pub(super) fn tickets<S: AsRef<str>>(texts: &[S]) -> Vec<PushTicketId> {
    texts.iter().map(|text| ticket(text.as_ref())).collect()
}

pub(super) fn token(text: &str) -> DeviceToken {
    DeviceToken::new(text).expect("a token")
}

/// Some owner, of which bits at both ends differ from number to number.
pub(super) fn owner(number: u32) -> Uuid {
    let number = u128::from(number);
    Uuid::from_u128(number << 96 | 0x4000_8000_0000_0000_0000 | number)
}

/// A ticket of owner 1, sent at the start of the day, whose token is named
/// after it.
pub(super) fn receipt(name: &str) -> PendingReceipt {
    PendingReceipt {
        ticket: ticket(name),
        owner_id: owner(1),
        token: token(&format!("token-of-{name}")),
        sent_at: at(0),
    }
}

/// The same, sent at another instant.
pub(super) fn sent(name: &str, sent_at: DateTime<Utc>) -> PendingReceipt {
    PendingReceipt {
        sent_at,
        ..receipt(name)
    }
}

/// The same, of another owner.
pub(super) fn owned(name: &str, owner_id: Uuid) -> PendingReceipt {
    PendingReceipt {
        owner_id,
        ..receipt(name)
    }
}

/// `t000007` for 7.
pub(super) fn numbered(number: usize) -> String {
    format!("t{number:06}")
}

/// That many receipts with numbered tickets.
pub(super) fn many(number: usize) -> Vec<PendingReceipt> {
    (0..number).map(|each| receipt(&numbered(each))).collect()
}

/// The texts of the tickets, in the order of the receipts.
pub(super) fn names(receipts: &[PendingReceipt]) -> Vec<&str> {
    receipts.iter().map(|each| each.ticket.as_str()).collect()
}

/// The receipts by ticket, to compare what came in any order.
pub(super) fn sorted(mut receipts: Vec<PendingReceipt>) -> Vec<PendingReceipt> {
    receipts.sort_by(|a, b| a.ticket.cmp(&b.ticket));
    receipts
}

/// Whether the long forms of the tests were asked for.
pub(super) fn is_soak() -> bool {
    std::env::var_os("DUEBOX_TEST_SOAK_MINUTES").is_some()
}

/// How many tickets a call has of which the last one is refused.
pub(super) fn a_large_call() -> usize {
    if is_soak() { 100_000 } else { 5_000 }
}

impl ReceiptContext {
    pub(super) async fn open(harness: &dyn ReceiptHarness) -> Self {
        let sandbox = harness.open_receipts().await;
        let store = sandbox.store();
        Self { sandbox, store }
    }

    pub(super) async fn close(self) {
        drop(self.store);
        self.sandbox.close().await;
    }

    /// Records receipts, returns how many were new.
    pub(super) async fn record(&self, receipts: Vec<PendingReceipt>, due_at: DateTime<Utc>) -> u64 {
        self.store.record(receipts, due_at).await.expect("record")
    }

    /// Records one ticket, which is new.
    pub(super) async fn put(&self, name: &str, due_at: DateTime<Utc>) {
        let new = self.record(vec![receipt(name)], due_at).await;
        assert_eq!(new, 1, "{name} is new");
    }

    /// Takes what is due, without a limit.
    pub(super) async fn take(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
    ) -> Vec<PendingReceipt> {
        self.take_up_to(now, retry_at, ALL).await
    }

    pub(super) async fn take_up_to(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> Vec<PendingReceipt> {
        let taken = self.store.take_due(now, retry_at, limit).await;
        taken.expect("take due tickets")
    }

    pub(super) async fn delete<S: AsRef<str>>(&self, names: &[S]) -> u64 {
        self.store.delete(tickets(names)).await.expect("delete")
    }

    pub(super) async fn purge(&self, sent_before: DateTime<Utc>, limit: NonZeroU32) -> u64 {
        self.store.purge(sent_before, limit).await.expect("purge")
    }

    pub(super) async fn erase(&self, owner_id: Uuid) -> u64 {
        self.store.erase_owner(owner_id).await.expect("erase")
    }

    /// All that is stored, by ticket. It makes everything due at the end of
    /// time.
    pub(super) async fn all(&self) -> Vec<PendingReceipt> {
        sorted(self.take(end_of_time(), end_of_time()).await)
    }

    /// How many tickets are due, which it leaves as they are but for their
    /// due instant, which becomes `now`.
    pub(super) async fn due(&self, now: DateTime<Utc>) -> usize {
        self.take(now, now).await.len()
    }
}

/// Fails unless the call was refused for an instant out of range.
#[track_caller]
pub(super) fn assert_out_of_range<T: std::fmt::Debug>(answer: Result<T, PushStoreError>) {
    let error = answer.expect_err("an instant is out of range");
    assert_eq!(error, PushStoreError::OutOfRange);
    assert!(!error.is_retryable());
}
