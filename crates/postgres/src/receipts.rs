use std::fmt;
use std::num::NonZeroU32;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    PendingReceipt, PendingReceiptStore, PushStoreError, PushStoreFuture, PushTicketId, Row,
    Statement, Value, check_instant, distinct_receipts, distinct_tickets, format_time,
    instant_from_micros, order_taken, parse_time,
};

use crate::PostgresDatabase;
#[cfg(feature = "sqlx")]
use crate::SqlxPostgresDatabase;
use crate::runner::{self, Runner};

/// Every call of the port is one statement, so that it takes effect as a whole. It is
/// planned each time: a kept plan may be of when there were no tickets.
async fn count(on: &impl Runner, statement: &Statement) -> Result<u64, PushStoreError> {
    Ok(runner::count_once(on, statement).await?)
}

async fn record(
    on: &impl Runner,
    receipts: Vec<PendingReceipt>,
    due_at: DateTime<Utc>,
) -> Result<u64, PushStoreError> {
    let due_at = timestamp(due_at)?;
    let receipts = distinct_receipts(receipts)?;
    if receipts.is_empty() {
        return Ok(0);
    }
    let [mut tickets, mut owners, mut tokens, mut sent_at] =
        std::array::from_fn(|_| Vec::with_capacity(receipts.len()));
    for receipt in receipts {
        tickets.push(Some(receipt.ticket.into_string()));
        owners.push(Some(receipt.owner_id.to_string()));
        tokens.push(Some(receipt.token.into_string()));
        sent_at.push(Some(timestamp(receipt.sent_at)?));
    }
    let statement = Statement::new(include_str!("queries/record.sql"))
        .bind(due_at)
        .bind(Value::TextArray(tickets))
        .bind(Value::TextArray(owners))
        .bind(Value::TextArray(tokens))
        .bind(Value::TextArray(sent_at));
    count(on, &statement).await
}

async fn take_due(
    on: &impl Runner,
    now: DateTime<Utc>,
    retry_at: DateTime<Utc>,
    limit: NonZeroU32,
) -> Result<Vec<PendingReceipt>, PushStoreError> {
    let statement = Statement::new(include_str!("queries/take_due.sql"))
        .bind(timestamp(now)?)
        .bind(limit.get())
        .bind(timestamp(retry_at)?);
    let rows = runner::rows_once(on, &statement).await?;
    order_taken(rows.iter().map(taken))
}

async fn delete(on: &impl Runner, tickets: Vec<PushTicketId>) -> Result<u64, PushStoreError> {
    let tickets = distinct_tickets(tickets);
    if tickets.is_empty() {
        return Ok(0);
    }
    let tickets = tickets.into_iter().map(|ticket| Some(ticket.into_string()));
    let statement = Statement::new(include_str!("queries/delete.sql"))
        .bind(Value::TextArray(tickets.collect()));
    count(on, &statement).await
}

async fn purge(
    on: &impl Runner,
    sent_before: DateTime<Utc>,
    limit: NonZeroU32,
) -> Result<u64, PushStoreError> {
    let statement = Statement::new(include_str!("queries/purge.sql"))
        .bind(timestamp(sent_before)?)
        .bind(limit.get());
    count(on, &statement).await
}

/// Deletes every ticket of one owner.
pub(crate) fn erasure(owner_id: Uuid) -> Statement {
    Statement::new(include_str!("queries/erase_owner.sql")).bind(owner_id.to_string())
}

/// An instant as the server parses it, whatever its `DateStyle` and `TimeZone` are.
fn timestamp(instant: DateTime<Utc>) -> Result<String, PushStoreError> {
    let floored = instant_from_micros(check_instant(instant)?)?;
    Ok(format_time(floored)?)
}

/// A receipt that was taken, beside the due instant that it had.
fn taken(row: &Row) -> Result<(i64, PendingReceipt), PushStoreError> {
    let text = |column| row.get::<String>(column).ok();
    let micros = |column| Some(parse_time(&text(column)?).ok()?.timestamp_micros());
    let stored = || {
        Some((
            micros("due_at")?,
            text("ticket")?,
            text("owner_id")?.parse().ok()?,
            text("token")?,
            micros("sent_at")?,
        ))
    };
    let (due_at, ticket, owner_id, token, sent_at) = stored().ok_or(PushStoreError::Corrupt)?;
    let receipt = PendingReceipt::from_stored(ticket, owner_id, token, sent_at)?;
    Ok((due_at, receipt))
}

macro_rules! receipts {
    ($(#[$doc:meta])* $name:ident, $database:ident) => {
        $(#[$doc])*
        #[derive(Clone)]
        pub struct $name {
            database: $database,
        }

        impl $database {
            /// The tickets of push notifications whose receipts are outstanding, in
            /// the table `pending_receipts` that [`migrate`](Self::migrate) makes.
            #[must_use]
            pub fn receipts(&self) -> $name {
                $name {
                    database: self.clone(),
                }
            }
        }

        impl PendingReceiptStore for $name {
            fn record(
                &self,
                receipts: Vec<PendingReceipt>,
                due_at: DateTime<Utc>,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                Box::pin(record(&self.database, receipts, due_at))
            }

            fn take_due(
                &self,
                now: DateTime<Utc>,
                retry_at: DateTime<Utc>,
                limit: NonZeroU32,
            ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
                Box::pin(take_due(&self.database, now, retry_at, limit))
            }

            fn delete(
                &self,
                tickets: Vec<PushTicketId>,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                Box::pin(delete(&self.database, tickets))
            }

            fn purge(
                &self,
                sent_before: DateTime<Utc>,
                limit: NonZeroU32,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                Box::pin(purge(&self.database, sent_before, limit))
            }

            fn erase_owner(
                &self,
                owner_id: Uuid,
            ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
                Box::pin(async move { count(&self.database, &erasure(owner_id)).await })
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name)).finish_non_exhaustive()
            }
        }
    };
}

receipts! {
    /// The pending receipts of a [`PostgresDatabase`], from
    /// [`PostgresDatabase::receipts`].
    ///
    /// # Clone
    ///
    /// Cheap: clones share the pool.
    PostgresReceipts, PostgresDatabase
}

#[cfg(feature = "sqlx")]
receipts! {
    /// The pending receipts of a [`SqlxPostgresDatabase`], from
    /// [`SqlxPostgresDatabase::receipts`].
    ///
    /// # Clone
    ///
    /// Cheap: clones share the pool.
    SqlxPostgresReceipts, SqlxPostgresDatabase
}
