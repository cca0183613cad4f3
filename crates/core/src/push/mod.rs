//! Push notifications whose receipts are still outstanding.
//!
//! What they are for is told at [`PendingReceiptStore`]. The ports name no provider. Tokens, tickets, owners and what a message
//! says are shown by no `Debug` and no error of this module.

mod accepted;
mod batch;
mod error;
mod id;
mod instant;
#[cfg(feature = "test-support")]
mod memory;
mod message;
mod outcome;
mod poll;
mod ports;
mod store;
mod store_error;
#[cfg(test)]
mod tests;

pub use self::accepted::{RECEIPT_POLL_DELAY, RECEIPT_RETENTION, accepted_receipts};
pub use self::batch::{distinct_receipts, distinct_tickets, order_taken};
pub use self::error::{PushCode, PushError, PushErrorKind, PushSent};
pub use self::id::{DeviceToken, MAX_TICKET_BYTES, MAX_TOKEN_BYTES, PushIdError, PushTicketId};
pub use self::instant::{check_instant, instant_from_micros};
#[cfg(feature = "test-support")]
pub use self::memory::MemoryPendingReceiptStore;
pub use self::message::{PushMessage, PushPriority};
pub use self::outcome::{
    PushDeliveryStatus, PushOutcome, PushReceipt, PushReceiptStatus, PushRejection,
};
pub use self::poll::{ReceiptPoll, ReceiptPollCause, ReceiptPollError, poll_pending_receipts};
pub use self::ports::{DeviceRegistry, PushFuture, PushReceiptSource, PushSender};
pub use self::store::{PendingReceipt, PendingReceiptStore, PushStoreFuture};
pub use self::store_error::PushStoreError;
