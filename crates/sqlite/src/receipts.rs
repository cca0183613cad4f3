use std::fmt;
use std::num::NonZeroU32;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    Database, DbError, PendingReceipt, PendingReceiptStore, PushStoreError, PushStoreFuture,
    PushTicketId, Statement, check_instant, distinct_receipts, distinct_tickets, order_taken,
};
use rusqlite::{Connection, Params, Row};

use crate::job::{Done, Work};
use crate::undo::Undo;
use crate::{SqliteDatabase, error, row};

/// The pending receipts of a [`SqliteDatabase`], from
/// [`SqliteDatabase::receipts`].
///
/// Each call is one transaction, however many tickets it has. SQLite locks a
/// database as a whole, so calls at the same time take turns instead of passing
/// over each other's tickets.
///
/// # Clone
///
/// Cheap: clones share the connections.
#[derive(Clone)]
pub struct SqliteReceipts {
    database: SqliteDatabase,
}

impl SqliteDatabase {
    /// The tickets of push notifications whose receipts are outstanding, in the
    /// table `pending_receipts` that [`migrate`](Self::migrate) makes.
    #[must_use]
    pub fn receipts(&self) -> SqliteReceipts {
        SqliteReceipts {
            database: self.clone(),
        }
    }
}

impl SqliteReceipts {
    async fn run(&self, call: Call) -> Result<Done, PushStoreError> {
        Ok(self.database.work(Work::Receipts(call)).await?)
    }

    async fn count(&self, call: Call) -> Result<u64, PushStoreError> {
        match self.run(call).await? {
            Done::Count(count) => Ok(count),
            _ => Err(PushStoreError::Internal),
        }
    }

    async fn execute(&self, statement: Statement) -> Result<u64, PushStoreError> {
        Ok(self.database.execute(&statement).await?)
    }
}

impl PendingReceiptStore for SqliteReceipts {
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let due_at = check_instant(due_at)?;
            let receipts = distinct_receipts(receipts)?;
            if receipts.is_empty() {
                return Ok(0);
            }
            let with_instant = |receipt: PendingReceipt| {
                let sent_at = check_instant(receipt.sent_at)?;
                Ok((receipt, sent_at))
            };
            let receipts = receipts.into_iter().map(with_instant);
            let receipts = receipts.collect::<Result<_, PushStoreError>>()?;
            self.count(Call::Record(receipts, due_at)).await
        })
    }

    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
        Box::pin(async move {
            let take = Call::TakeDue {
                now: check_instant(now)?,
                retry_at: check_instant(retry_at)?,
                limit,
            };
            match self.run(take).await? {
                Done::Taken(taken) => order_taken(taken),
                _ => Err(PushStoreError::Internal),
            }
        })
    }

    fn delete(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let tickets = distinct_tickets(tickets);
            if tickets.is_empty() {
                return Ok(0);
            }
            self.count(Call::Delete(tickets)).await
        })
    }

    fn purge(
        &self,
        sent_before: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let statement = Statement::new(include_str!("queries/purge.sql"))
                .bind(check_instant(sent_before)?)
                .bind(limit.get());
            self.execute(statement).await
        })
    }

    fn erase_owner(&self, owner_id: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(self.execute(erasure(owner_id)))
    }
}

impl fmt::Debug for SqliteReceipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteReceipts").finish_non_exhaustive()
    }
}

/// Deletes every ticket of one owner.
pub(crate) fn erasure(owner_id: Uuid) -> Statement {
    Statement::new(include_str!("queries/erase_owner.sql")).bind(owner_id.as_bytes().to_vec())
}

/// A ticket that was taken beside the due instant that it had, if it can be
/// read.
pub(crate) type Taken = Result<(i64, PendingReceipt), PushStoreError>;

/// A call that is more than one statement, with its instants in microseconds.
///
/// A statement that is prepared once and run for each ticket is as fast as one
/// that reads them all from JSON, and binds few values however many there are.
pub(crate) enum Call {
    /// Receipts with their `sent_at`, and when they are due.
    Record(Vec<(PendingReceipt, i64)>, i64),
    TakeDue {
        now: i64,
        retry_at: i64,
        limit: NonZeroU32,
    },
    Delete(Vec<PushTicketId>),
}

impl Call {
    /// Does it inside the open transaction. After an error nothing of it is
    /// done, or `undo` has a savepoint.
    pub(crate) fn run(&self, conn: &Connection, undo: &Undo<'_>) -> Result<Done, DbError> {
        match self {
            Self::Record(receipts, due_at) => {
                undo.before(receipts.len() > 1)?;
                let rows = receipts.iter().map(|(receipt, sent_at)| {
                    let PendingReceipt { ticket, token, .. } = receipt;
                    let owner_id = receipt.owner_id.as_bytes();
                    (ticket.as_str(), owner_id, token.as_str(), sent_at, due_at)
                });
                each(conn, include_str!("queries/record.sql"), rows).map(Done::Count)
            }
            Self::TakeDue {
                now,
                retry_at,
                limit,
            } => {
                let (rowids, taken) = due(conn, *now, *limit)?;
                undo.before(rowids.len() > 1)?;
                let moves = rowids.iter().map(|rowid| (retry_at, rowid));
                each(conn, include_str!("queries/move_due.sql"), moves)?;
                Ok(Done::Taken(taken))
            }
            Self::Delete(tickets) => {
                undo.before(tickets.len() > 1)?;
                let tickets = tickets.iter().map(|ticket| [ticket.as_str()]);
                each(conn, include_str!("queries/delete.sql"), tickets).map(Done::Count)
            }
        }
    }

    /// About how much it binds.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Record(receipts, _) => receipts.iter().map(|(receipt, _)| size(receipt)).sum(),
            Self::TakeDue { .. } => 0,
            Self::Delete(tickets) => tickets.iter().map(|ticket| ticket.as_str().len()).sum(),
        }
    }
}

/// About how much these hold.
pub(crate) fn bytes(taken: &[Taken]) -> usize {
    let readable = taken.iter().flatten();
    readable.map(|(_, receipt)| size(receipt)).sum()
}

fn size(receipt: &PendingReceipt) -> usize {
    receipt.ticket.as_str().len() + receipt.token.as_str().len() + 32
}

/// Runs a statement with each of these values, and counts the rows that it
/// changed.
fn each<P: Params>(
    conn: &Connection,
    sql: &str,
    values: impl Iterator<Item = P>,
) -> Result<u64, DbError> {
    let mut statement = row::prepare(conn, sql)?;
    let mut changed = 0;
    for values in values {
        let rows = statement.execute(values);
        changed += rows.map_err(|error| error::sort(&error))? as u64;
    }
    Ok(changed)
}

/// What is due, and the rowids of it.
fn due(conn: &Connection, now: i64, limit: NonZeroU32) -> Result<(Vec<i64>, Vec<Taken>), DbError> {
    let mut statement = row::prepare(conn, include_str!("queries/take_due.sql"))?;
    let mut read = || -> rusqlite::Result<(Vec<i64>, Vec<Taken>)> {
        let mut rows = statement.query((now, limit.get()))?;
        let (mut rowids, mut taken) = (Vec::new(), Vec::new());
        while let Some(row) = rows.next()? {
            rowids.push(row.get(0)?);
            taken.push(receipt(row));
        }
        Ok((rowids, taken))
    };
    read().map_err(|error| error::sort(&error))
}

/// A receipt, beside the instant that it is due.
fn receipt(row: &Row<'_>) -> Taken {
    let stored = || -> rusqlite::Result<_> {
        let owner_id = Uuid::from_bytes(row.get(2)?);
        Ok((row.get(1)?, owner_id, row.get(3)?, row.get(4)?, row.get(5)?))
    };
    // The driver's error quotes what is stored.
    let (ticket, owner_id, token, sent_at, due_at) =
        stored().map_err(|_| PushStoreError::Corrupt)?;
    let receipt = PendingReceipt::from_stored(ticket, owner_id, token, sent_at)?;
    Ok((due_at, receipt))
}
