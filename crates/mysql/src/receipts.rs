mod json;
mod statements;

use std::fmt;
use std::num::NonZeroU32;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    DbError, Dialect, Kind, PendingReceipt, PendingReceiptStore, PushStoreError, PushStoreFuture,
    PushTicketId, Row, Statement, distinct_receipts, distinct_tickets, order_taken,
};

use self::json::Arrays;
use self::statements::timestamp;
use crate::MySqlDatabase;
use crate::database::end;
use crate::error::{Failure, is_of_primary_key};
use crate::reruns::Reruns;
use crate::session::{Session, execute, query};

pub(crate) use self::statements::erasure;

/// The pending receipts of a [`MySqlDatabase`], from [`MySqlDatabase::receipts`].
///
/// Each call is one transaction, however many tickets it has. Only a server whose
/// `max_allowed_packet` is below 4 KiB may refuse the longest rows, with
/// [`PushStoreError::Internal`].
///
/// # Clone
///
/// Cheap: clones share the pool.
#[derive(Clone)]
pub struct MySqlReceipts {
    database: MySqlDatabase,
}

impl MySqlDatabase {
    /// The tickets of push notifications whose receipts are outstanding, in the
    /// table `pending_receipts` that [`migrate`](Self::migrate) makes.
    #[must_use]
    pub fn receipts(&self) -> MySqlReceipts {
        MySqlReceipts {
            database: self.clone(),
        }
    }
}

/// As the port names it.
fn store_error(error: DbError) -> PushStoreError {
    // Others record the same tickets all the time.
    if error.kind() == Kind::Conflict && is_of_primary_key(&error) {
        return PushStoreError::Busy;
    }
    error.into()
}

/// A transaction of ours, and the packets that the server takes.
struct Work {
    session: Session,
    max_allowed_packet: u64,
}

impl Work {
    async fn begin(database: &MySqlDatabase) -> Result<Self, Failure> {
        let mut session = database.begin(&[]).await?;
        // Known since the connection was made.
        let server = database.server(&mut session).await?;
        Ok(Self {
            session,
            max_allowed_packet: server.max_allowed_packet,
        })
    }

    async fn end<T>(self, answer: Result<T, Failure>) -> Result<T, Failure> {
        end(self.session, answer).await
    }

    /// JSON arrays that the server takes.
    fn arrays<'r>(&self, rows: &'r [String]) -> Arrays<'r> {
        Arrays::of(rows, self.max_allowed_packet)
    }

    async fn execute(&mut self, statement: &Statement) -> Result<u64, Failure> {
        let statement = statement.render(Dialect::MySql).map_err(Failure::ours)?;
        let statements = std::slice::from_ref(&statement);
        self.session
            .check_packets(statements, self.max_allowed_packet)
            .await?;
        let found = execute(self.session.connection(), &statement).await?;
        statement.check_rows(found).map_err(Failure::ours)
    }

    async fn query(&mut self, statement: &Statement) -> Result<Vec<Row>, Failure> {
        let statement = statement.render(Dialect::MySql).map_err(Failure::ours)?;
        query(self.session.connection(), &statement, None).await
    }

    async fn record(&mut self, rows: &[String], due_at: &str) -> Result<u64, Failure> {
        let mut new = 0;
        for array in self.arrays(rows) {
            let record = statements::record(array, due_at);
            // Another session has just recorded one; run again, this one sees it.
            new += self.execute(&record).await.map_err(|failure| Failure {
                passing: failure.passing || is_of_primary_key(&failure.error),
                ..failure
            })?;
        }
        Ok(new)
    }

    async fn take(&mut self, take: &Statement, retry_at: &str) -> Result<Vec<Row>, Failure> {
        let rows = self.query(take).await?;
        for chunk in rows.chunks(statements::most_moved(self.max_allowed_packet)) {
            let move_due = statements::move_due(chunk, retry_at).map_err(Failure::ours)?;
            self.execute(&move_due).await?;
        }
        Ok(rows)
    }

    async fn delete(&mut self, tickets: &[String]) -> Result<u64, Failure> {
        let mut gone = 0;
        for array in self.arrays(tickets) {
            gone += self.execute(&statements::delete(array)).await?;
        }
        Ok(gone)
    }

    async fn purge(&mut self, read: &Statement) -> Result<u64, Failure> {
        let rows = self.query(read).await?;
        let tickets = statements::tickets(&rows).map_err(Failure::ours)?;
        self.delete(&tickets).await
    }

    async fn erase(&mut self, read: &Statement) -> Result<u64, Failure> {
        let mut gone = 0;
        loop {
            let rows = self.query(read).await?;
            if rows.is_empty() {
                return Ok(gone);
            }
            let tickets = statements::tickets(&rows).map_err(Failure::ours)?;
            // Waits for others; what they recorded meanwhile is found next.
            gone += self.delete(&tickets).await?;
        }
    }
}

/// Does a piece of [`Work`], and again as long as that can help.
macro_rules! work {
    ($store:expr, $($call:tt)+) => {{
        let mut reruns = Reruns::new($store.database.pool());
        loop {
            let run = async {
                let mut work = Work::begin(&$store.database).await?;
                let answer = work.$($call)+.await;
                work.end(answer).await
            };
            match run.await {
                Err(failure) if reruns.allow(&failure).await => {}
                answer => break answer.map_err(|failure| store_error(failure.error)),
            }
        }
    }};
}

impl PendingReceiptStore for MySqlReceipts {
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let due_at = timestamp(due_at)?;
            let receipts = distinct_receipts(receipts)?;
            if receipts.is_empty() {
                return Ok(0);
            }
            let rows = receipts.iter().map(statements::row);
            let rows = rows.collect::<Result<Vec<_>, _>>()?;
            drop(receipts);
            work!(self, record(&rows, &due_at))
        })
    }

    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
        Box::pin(async move {
            let take = statements::take_due(&timestamp(now)?, limit.get());
            let retry_at = timestamp(retry_at)?;
            let rows = work!(self, take(&take, &retry_at))?;
            order_taken(rows.iter().map(statements::taken))
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
            let tickets = tickets.iter().map(|ticket| json::text(ticket.as_str()));
            let tickets: Vec<_> = tickets.collect();
            work!(self, delete(&tickets))
        })
    }

    fn purge(
        &self,
        sent_before: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let read = statements::purge(&timestamp(sent_before)?, limit.get());
            work!(self, purge(&read))
        })
    }

    fn erase_owner(&self, owner_id: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let read = statements::owned(owner_id);
            work!(self, erase(&read))
        })
    }
}

impl fmt::Debug for MySqlReceipts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MySqlReceipts").finish_non_exhaustive()
    }
}
