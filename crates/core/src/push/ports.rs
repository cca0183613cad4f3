use std::pin::Pin;
use std::sync::Arc;

use chrono::{DateTime, Utc};

use crate::{
    DeviceToken, PushError, PushMessage, PushOutcome, PushReceipt, PushStoreError, PushTicketId,
};

/// The boxed future that the ports of push notifications return.
pub type PushFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Sends push notifications: the port to a provider.
///
/// # Contract
///
/// One call takes any number of messages, cuts them into requests of the size
/// that the provider takes, and answers with **one outcome a message, in the
/// order of the messages**, each with its message's own token. What a request
/// brought is kept when a later one fails: the messages of the failed request
/// are [`PushRejection::Failed`](crate::PushRejection::Failed), whose error
/// tells *not sent* from *perhaps sent*, and the tickets of the others are in
/// their outcomes. No message is sent twice by one call unless the first time
/// it certainly was not sent.
///
/// An accepted message whose ticket is missing or impossible is `Failed`,
/// perhaps sent, and spoils no other.
///
/// # Time
///
/// Take the instant *before* the call for
/// [`record_accepted`](crate::PendingReceiptStore::record_accepted): a device
/// that registers anew while the call runs must not be taken for dead later.
///
/// # Cancellation
///
/// After a future was dropped each message may or may not have been sent, and
/// the tickets of this call are lost. Let it run to its end.
pub trait PushSender: Send + Sync {
    /// Sends the messages and returns an outcome for each, in their order. No
    /// message, no request.
    ///
    /// # Errors
    ///
    /// Only if no message of the call has a ticket or an answer of its own;
    /// [`PushError::sent`] then speaks for all of them.
    fn send(
        &self,
        messages: Vec<PushMessage>,
    ) -> PushFuture<'_, Result<Vec<PushOutcome>, PushError>>;
}

/// Reads receipts: the other half of the port to a provider.
///
/// # Contract
///
/// One call takes any number of tickets and cuts them into requests of the
/// size that the provider takes. Each receipt comes with its own ticket, in
/// any order; a ticket that the provider says nothing about is left out, and
/// will be asked about again. Asking is harmless, however often.
///
/// A source that read some receipts and then fails returns those that it has:
/// what they settle need not be asked again.
///
/// # Cancellation
///
/// Nothing is changed, thus nothing is lost.
pub trait PushReceiptSource: Send + Sync {
    /// The receipts that are there, of these tickets. No ticket, no request.
    ///
    /// # Errors
    ///
    /// Only if no receipt could be read; [`PushError::retry_after`] says when
    /// to ask again, if the provider did.
    fn receipts(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>>;
}

/// The service's own list of devices: the port by which it learns that one is
/// gone.
///
/// # Contract
///
/// The receipt of a message tells how things stood when the message was sent.
/// A device may have registered the same token anew since, so every call says
/// `sent_at`, and **a token that was registered after `sent_at` is left
/// alone**. One registered at that very instant is invalidated. The instant
/// was floored to the microsecond, which errs on the side of leaving alone.
///
/// Invalidating twice is harmless: the poller does so after a failure.
///
/// # Cancellation
///
/// A dropped call has invalidated any number of its tokens; the poller calls
/// again with all of them.
pub trait DeviceRegistry: Send + Sync {
    /// Stops sending to these tokens, unless they were registered after
    /// `sent_at`; returns how many were stopped by this call. Tokens that are
    /// not there count nothing.
    ///
    /// # Errors
    ///
    /// Whatever the registry's own store answers, without any token in it.
    fn invalidate(
        &self,
        tokens: Vec<DeviceToken>,
        sent_at: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>>;
}

macro_rules! forward {
    ($($pointer:ty),+) => {$(
        impl<P: PushSender + ?Sized> PushSender for $pointer {
            fn send(
                &self,
                messages: Vec<PushMessage>,
            ) -> PushFuture<'_, Result<Vec<PushOutcome>, PushError>> {
                (**self).send(messages)
            }
        }

        impl<P: PushReceiptSource + ?Sized> PushReceiptSource for $pointer {
            fn receipts(
                &self,
                tickets: Vec<PushTicketId>,
            ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
                (**self).receipts(tickets)
            }
        }

        impl<P: DeviceRegistry + ?Sized> DeviceRegistry for $pointer {
            fn invalidate(
                &self,
                tokens: Vec<DeviceToken>,
                sent_at: DateTime<Utc>,
            ) -> PushFuture<'_, Result<u64, PushStoreError>> {
                (**self).invalidate(tokens, sent_at)
            }
        }
    )+};
}

forward!(&P, Arc<P>, Box<P>);
