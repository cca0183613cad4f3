//! What a benchmark asks of an engine about the tickets of push notifications.

use std::path::Path;
use std::sync::Arc;

use async_trait::async_trait;
use duebox_mysql::MySqlDatabase;
use duebox_postgres::PostgresDatabase;
use duebox_sqlite::chrono::{DateTime, Utc};
use duebox_sqlite::uuid::Uuid;
use duebox_sqlite::{
    DeviceToken, PendingReceipt, PendingReceiptStore, PushTicketId, RECEIPT_POLL_DELAY,
    SqliteDatabase,
};

use super::{Fallible, NOW, Scratch};
use crate::args::Kind;

/// The table of tickets of one database.
pub(crate) struct Tickets {
    pub(crate) store: Arc<dyn PendingReceiptStore>,
    /// On SQLite, the file that it is in.
    pub(crate) file: Scratch,
}

/// A call whose plan is looked at, with values as the benchmark gives them.
pub(crate) enum Query {
    Purge {
        sent_before: DateTime<Utc>,
        limit: u32,
    },
    EraseOwner(Uuid),
}

#[async_trait]
pub(crate) trait TicketEngine: Send + Sync {
    /// An empty table, made by the shipped migrations.
    async fn tickets(&self) -> Fallible<Tickets>;

    /// Does at once what would come later of itself: counts for the planner,
    /// and a checkpoint.
    async fn settle_tickets(&self, tickets: &Tickets) -> Fallible<()>;

    /// A session that takes and deletes this many at a time by hand-written SQL.
    async fn ticket_hand(&self, tickets: &Tickets, batch: u32) -> Fallible<Box<dyn TicketHand>>;

    /// How the library's own statement that looks for rows is run, a line each.
    async fn plan(&self, tickets: &Tickets, query: Query) -> Fallible<Vec<String>>;
}

#[async_trait]
pub(crate) trait TicketHand: Send {
    /// Takes a batch of due tickets until [`later`], in one transaction, and
    /// deletes it in another; how many went.
    async fn take_and_delete(&mut self) -> Fallible<u64>;
}

/// The store that another process of this program made.
pub(crate) async fn attach(
    kind: Kind,
    url: &str,
    file: &Path,
) -> Fallible<Arc<dyn PendingReceiptStore>> {
    Ok(match kind {
        Kind::Sqlite => Arc::new(SqliteDatabase::open(file).await?.receipts()),
        Kind::Postgres => Arc::new(PostgresDatabase::connect(url).await?.receipts()),
        Kind::MySql => Arc::new(MySqlDatabase::connect(url).await?.receipts()),
    })
}

/// When every ticket that was recorded here is due.
pub(crate) fn now() -> Fallible<DateTime<Utc>> {
    Ok(NOW.parse()?)
}

/// Until when they are taken.
pub(crate) fn later() -> Fallible<DateTime<Utc>> {
    Ok(now()? + RECEIPT_POLL_DELAY)
}

/// The owner of this number.
pub(crate) fn owner(number: u64) -> Uuid {
    scattered(1 << 64 | u128::from(number))
}

/// The ticket of this number, sent so many milliseconds after the first.
pub(crate) fn receipt(number: u64, owners: u64) -> Fallible<PendingReceipt> {
    let ticket = scattered(number.into());
    Ok(PendingReceipt {
        ticket: PushTicketId::new(ticket.to_string())?,
        owner_id: owner(number % owners),
        token: DeviceToken::new(format!("ExponentPushToken[{number:022}]"))?,
        sent_at: sent_at(number)?,
    })
}

pub(crate) fn sent_at(number: u64) -> Fallible<DateTime<Utc>> {
    let first: DateTime<Utc> = "2026-01-01T00:00:00Z".parse()?;
    let after = duebox_sqlite::chrono::TimeDelta::milliseconds(i64::try_from(number)?);
    Ok(first + after)
}

/// Providers' ids come in no order, so these do neither, and no two are equal.
fn scattered(number: u128) -> Uuid {
    Uuid::from_u128(number.wrapping_mul(0x9E37_79B9_7F4A_7C15_F39C_C060_5CED_C835))
}

/// Records this many tickets, so many a call, each call due as its first was sent.
pub(crate) async fn record(
    store: &dyn PendingReceiptStore,
    count: u64,
    a_call: u64,
    owners: u64,
) -> Fallible<()> {
    for first in (0..count).step_by(usize::try_from(a_call)?) {
        let numbers = first..count.min(first + a_call);
        let expected = numbers.end - numbers.start;
        let receipts = numbers.map(|number| receipt(number, owners));
        let receipts = receipts.collect::<Fallible<Vec<_>>>()?;
        let new = store
            .record(receipts, sent_at(first)? + RECEIPT_POLL_DELAY)
            .await?;
        if new != expected {
            return Err(format!("{new} tickets were new of {expected}").into());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn tickets_and_owners_differ() {
        let tickets: HashSet<_> = (0..10_000_u64).map(|each| scattered(each.into())).collect();
        let owners: HashSet<_> = (0..10_000).map(owner).collect();
        assert_eq!((tickets.len(), owners.len()), (10_000, 10_000));
        assert!(tickets.is_disjoint(&owners));
    }
}
