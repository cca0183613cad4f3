#![doc = include_str!("../README.md")]

mod database;
mod dialect;
mod enqueue;
mod error;
mod lex;
mod limits;
mod outbox;
mod push;
mod row;
mod statement;
mod time;
mod value;
mod wake;

pub use chrono;
pub use uuid;

pub use self::database::{Budget, Database, ReadThenWrite};
pub use self::dialect::Dialect;
pub use self::enqueue::Enqueue;
pub use self::error::{DbError, Kind, Outcome};
pub use self::limits::{MAX_ERROR_BYTES, MAX_ID_BYTES, MAX_PAYLOAD_BYTES, MAX_TOPIC_BYTES};
pub use self::outbox::{
    Claim, ClaimCursor, HolderStats, Lease, LeaseOutcome, ListOptions, Outbox, OutboxEntry,
    OutboxRecord, OutboxStats, OutboxSurvey, OutboxTotals, Retry, RowState, TopicStats,
};
#[cfg(feature = "test-support")]
pub use self::push::MemoryPendingReceiptStore;
pub use self::push::{
    DeviceRegistry, DeviceToken, MAX_TICKET_BYTES, MAX_TOKEN_BYTES, PendingReceipt,
    PendingReceiptStore, PushCode, PushDeliveryStatus, PushError, PushErrorKind, PushFuture,
    PushIdError, PushMessage, PushOutcome, PushPriority, PushReceipt, PushReceiptSource,
    PushReceiptStatus, PushRejection, PushSender, PushSent, PushStoreError, PushStoreFuture,
    PushTicketId, RECEIPT_POLL_DELAY, RECEIPT_RETENTION, ReceiptPoll, ReceiptPollCause,
    ReceiptPollError, accepted_receipts, check_instant, distinct_receipts, distinct_tickets,
    instant_from_micros, order_taken, poll_pending_receipts,
};
pub use self::row::{Columns, FromValue, Row};
pub use self::statement::{Rendered, Statement};
pub use self::time::{PARKED, format_time, parse_time};
pub use self::value::Value;
pub use self::wake::{WakeFuture, WakeSink, WakeSource};
