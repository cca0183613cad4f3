use std::fmt;
use std::num::NonZeroU32;
use std::pin::Pin;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::instant::later;
use crate::{
    DeviceToken, PushOutcome, PushStoreError, PushTicketId, RECEIPT_POLL_DELAY, accepted_receipts,
};

/// The boxed future that a [`PendingReceiptStore`] returns.
pub type PushStoreFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A ticket whose receipt is awaited. `Debug` shows when it was sent.
#[derive(Clone, PartialEq, Eq)]
pub struct PendingReceipt {
    /// What the provider calls the message.
    pub ticket: PushTicketId,
    /// Whose device it is, for [`PendingReceiptStore::erase_owner`].
    pub owner_id: Uuid,
    /// The device that the message went to.
    pub token: DeviceToken,
    /// When the send started: what is said about the token holds for then.
    pub sent_at: DateTime<Utc>,
}

impl fmt::Debug for PendingReceipt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PendingReceipt")
            .field("ticket", &self.ticket)
            .field("owner_id", &format_args!("<redacted>"))
            .field("token", &self.token)
            .field("sent_at", &self.sent_at)
            .finish()
    }
}

/// Keeps the tickets of push notifications until their receipts come: the
/// port that an adapter implements.
///
/// A push service answers a send with *tickets* and tells only minutes later,
/// by *receipts*, what became of each message. In between, somebody must keep
/// the tickets: a process that keeps them in memory loses them with itself,
/// and with them every word about devices that are gone.
///
/// | step | who does it |
/// |---|---|
/// | send a batch of [`PushMessage`](crate::PushMessage)s, get a [`PushOutcome`] for each | [`PushSender`](crate::PushSender) |
/// | keep the tickets of those that were accepted | [`record_accepted`](Self::record_accepted) |
/// | when they fall due, ask for their receipts | [`poll_pending_receipts`](crate::poll_pending_receipts), [`PushReceiptSource`](crate::PushReceiptSource) |
/// | stop sending to devices that are gone | [`DeviceRegistry`](crate::DeviceRegistry) |
/// | forget tickets that settled, and those nobody will answer any more | [`poll_pending_receipts`](crate::poll_pending_receipts) |
/// | forget a person | [`erase_owner`](Self::erase_owner) |
///
/// # Contract
///
/// A ticket is kept once, with its owner, its token, the instant it was sent
/// and the instant it is due. It has no other state: taking a ticket *is*
/// moving its due instant, so one that a dead poller took comes back by
/// itself, and one that never settles goes behind newer ones.
///
/// Tickets are told apart and ordered byte by byte. Owners are told apart by
/// all 128 bits, and no UUID is special.
///
/// Every call takes effect as a whole or not at all, for 100 000 tickets as
/// for one. Counts are exact: of the rows that this call has added or
/// deleted.
///
/// # Time
///
/// Every instant is floored to the microsecond, those that are compared like
/// those that are stored, and is of the years 1970 to 9999. Instants are
/// checked first, in an empty call too. No method reads a clock.
///
/// # Errors
///
/// After an error nothing was done, unless it is [`PushStoreError::Busy`] or
/// [`PushStoreError::Internal`]: then all of the call may have been, never a
/// part; likewise a batch that is [`PushStoreError::Corrupt`] was moved. Every
/// call may be repeated; what was done already is not done twice, and not
/// counted twice. A batch whose answer was lost comes back at its `retry_at`.
///
/// # Cancellation
///
/// A future that is dropped leaves its work done or not done as a whole. One
/// that was never polled has done nothing.
///
/// # Clone
///
/// A store's handle is cheap to clone; clones share what is stored.
///
/// ```
/// # #[cfg(feature = "test-support")] {
/// use std::num::NonZeroU32;
///
/// use duebox_core::chrono::{DateTime, TimeDelta, Utc};
/// use duebox_core::uuid::Uuid;
/// use duebox_core::{
///     DeviceToken, MemoryPendingReceiptStore, PushDeliveryStatus, PushOutcome, PushTicketId,
///     PendingReceiptStore, RECEIPT_POLL_DELAY,
/// };
///
/// async fn example(
///     store: &dyn PendingReceiptStore,
///     now: DateTime<Utc>,
/// ) -> Result<(), Box<dyn std::error::Error>> {
///     let accepted = PushOutcome {
///         token: DeviceToken::new("phone")?,
///         status: PushDeliveryStatus::Accepted(PushTicketId::new("t-1")?),
///     };
///     assert_eq!(store.record_accepted(Uuid::nil(), &[accepted], now).await?, 1);
///
///     let ten = NonZeroU32::new(10).unwrap();
///     let due = now + RECEIPT_POLL_DELAY;
///     let early = due - TimeDelta::microseconds(1);
///     assert!(store.take_due(early, due, ten).await?.is_empty());
///     let taken = store.take_due(due, due + RECEIPT_POLL_DELAY, ten).await?;
///     assert_eq!(taken[0].token.as_str(), "phone");
///     // Until it falls due again, nobody else gets it.
///     assert!(store.take_due(due, due + RECEIPT_POLL_DELAY, ten).await?.is_empty());
///
///     assert_eq!(store.delete(vec![taken[0].ticket.clone()]).await?, 1);
///     Ok(())
/// }
/// # use std::task::{Context, Poll, Waker};
/// # let store = MemoryPendingReceiptStore::new();
/// # let mut future = std::pin::pin!(example(&store, DateTime::UNIX_EPOCH));
/// # let Poll::Ready(done) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) else {
/// #     panic!("memory waits for nothing");
/// # };
/// # done.unwrap();
/// # }
/// ```
pub trait PendingReceiptStore: Send + Sync {
    /// Records tickets that are first due at `due_at`, and returns how many
    /// were new.
    ///
    /// A ticket that is recorded already stays as it is: its owner, its token,
    /// `sent_at` and its due instant. Of equal tickets in one call the first
    /// counts. An empty call records nothing. A ticket that was deleted is new
    /// again.
    ///
    /// # Errors
    ///
    /// [`PushStoreError::OutOfRange`] if `due_at` or any `sent_at` is outside
    /// the years 1970 to 9999; then none of the call is recorded.
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>>;

    /// Takes up to `limit` tickets that are due at `now`, the longest due
    /// first, and makes them due again at `retry_at`.
    ///
    /// Due means `due_at <= now`. The tickets come in the order of their due
    /// instants as they stood before the call, those of one instant in the
    /// order of the bytes of their tickets, and exactly those that are
    /// returned are moved. Callers at the same time take different tickets,
    /// and do not wait for each other's: a ticket that another call is just
    /// taking or deleting is passed over.
    ///
    /// A ticket that is stored and cannot be read is moved too and left out,
    /// so that it stops no other; it goes with a purge.
    ///
    /// A `retry_at` at or before `now` is allowed, and leaves the tickets
    /// due. Nothing due gives nothing.
    ///
    /// # Errors
    ///
    /// [`PushStoreError::OutOfRange`] if `now` or `retry_at` is outside the
    /// years 1970 to 9999. [`PushStoreError::Corrupt`] if tickets are due and
    /// none of those it took can be read.
    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>>;

    /// Deletes tickets whose receipts settled, and returns how many went.
    ///
    /// Tickets that are not there are passed over, a repeated one counts once,
    /// and it does not matter whether or by whom they were taken. An empty
    /// call deletes nothing.
    ///
    /// # Errors
    ///
    /// Only the store's own; see [above](Self#errors).
    fn delete(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>>;

    /// Deletes up to `limit` tickets that were sent before `sent_before`, the
    /// oldest first, and returns how many went.
    ///
    /// Before is strict: a ticket sent at that very instant stays. Due or not
    /// makes no difference. Tickets that another call is just taking or
    /// deleting are passed over.
    ///
    /// Give it `now -` [`RECEIPT_RETENTION`](crate::RECEIPT_RETENTION), and
    /// call it until it returns less than `limit`.
    ///
    /// # Errors
    ///
    /// [`PushStoreError::OutOfRange`] if `sent_before` is outside the years
    /// 1970 to 9999.
    fn purge(
        &self,
        sent_before: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>>;

    /// Deletes every ticket of one owner, and returns how many went.
    ///
    /// Those that were taken go too: whoever holds them finds them gone. A
    /// ticket that another call is just changing is waited for, never left
    /// out.
    ///
    /// # Errors
    ///
    /// Only the store's own; see [above](Self#errors).
    fn erase_owner(&self, owner_id: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>>;

    /// Records the ticket of every
    /// [`Accepted`](crate::PushDeliveryStatus::Accepted) outcome of one send
    /// to one owner, and returns how many were new.
    ///
    /// Call it after [`PushSender::send`](crate::PushSender::send) with the
    /// instant at which the send *started*. The tickets are first due
    /// [`RECEIPT_POLL_DELAY`] later. Without an accepted outcome the store is
    /// not asked.
    ///
    /// # Errors
    ///
    /// As for [`record`](Self::record); [`PushStoreError::OutOfRange`] also if
    /// the due instant would be past the year 9999.
    fn record_accepted(
        &self,
        owner_id: Uuid,
        outcomes: &[PushOutcome],
        sent_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        let due_at = match later(sent_at, RECEIPT_POLL_DELAY) {
            Ok(due_at) => due_at,
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        let receipts = accepted_receipts(owner_id, outcomes, sent_at);
        if receipts.is_empty() {
            return Box::pin(std::future::ready(Ok(0)));
        }
        self.record(receipts, due_at)
    }
}

macro_rules! forward {
    ($($pointer:ty),+) => {$(
        impl<S: PendingReceiptStore + ?Sized> PendingReceiptStore for $pointer {
            fn record(
                &self,
                receipts: Vec<PendingReceipt>,
                due_at: DateTime<Utc>,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                (**self).record(receipts, due_at)
            }

            fn take_due(
                &self,
                now: DateTime<Utc>,
                retry_at: DateTime<Utc>,
                limit: NonZeroU32,
            ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
                (**self).take_due(now, retry_at, limit)
            }

            fn delete(
                &self,
                tickets: Vec<PushTicketId>,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                (**self).delete(tickets)
            }

            fn purge(
                &self,
                sent_before: DateTime<Utc>,
                limit: NonZeroU32,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                (**self).purge(sent_before, limit)
            }

            fn erase_owner(
                &self,
                owner_id: Uuid,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                (**self).erase_owner(owner_id)
            }

            fn record_accepted(
                &self,
                owner_id: Uuid,
                outcomes: &[PushOutcome],
                sent_at: DateTime<Utc>,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                (**self).record_accepted(owner_id, outcomes, sent_at)
            }
        }
    )+};
}

forward!(&S, Arc<S>, Box<S>);
