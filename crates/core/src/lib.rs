#![doc = include_str!("../README.md")]

mod database;
mod dialect;
mod enqueue;
mod error;
mod lex;
mod limits;
mod outbox;
mod row;
mod statement;
mod time;
mod value;

pub use chrono;

pub use self::database::{Budget, Database, ReadThenWrite};
pub use self::dialect::Dialect;
pub use self::enqueue::Enqueue;
pub use self::error::{DbError, Kind, Outcome};
pub use self::limits::{MAX_ERROR_BYTES, MAX_ID_BYTES, MAX_PAYLOAD_BYTES, MAX_TOPIC_BYTES};
pub use self::outbox::{
    Claim, ClaimCursor, Lease, LeaseOutcome, ListOptions, Outbox, OutboxEntry, OutboxRecord,
    OutboxStats, Retry, RowState,
};
pub use self::row::{Columns, FromValue, Row};
pub use self::statement::{Rendered, Statement};
pub use self::time::{PARKED, format_time, parse_time};
pub use self::value::Value;
