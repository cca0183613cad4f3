use std::hint::black_box;
use std::sync::Arc;

use async_trait::async_trait;
use duebox_mysql::chrono::{DateTime, Utc};
use duebox_mysql::sqlx::mysql::{MySqlConnection, MySqlRow};
use duebox_mysql::sqlx::{self, AssertSqlSafe, Connection, Row};
use duebox_mysql::{Database, Statement};

use super::super::tickets::{Query, TicketEngine, TicketHand, Tickets, later, now};
use super::{Fallible, MySql, Scratch, ids};

#[async_trait]
impl TicketEngine for MySql {
    async fn tickets(&self) -> Fallible<Tickets> {
        self.db.migrate().await?;
        self.db
            .execute(&Statement::new("TRUNCATE TABLE pending_receipts"))
            .await?;
        Ok(Tickets {
            store: Arc::new(self.db.receipts()),
            file: Scratch::default(),
        })
    }

    async fn settle_tickets(&self, _tickets: &Tickets) -> Fallible<()> {
        self.settle_table("pending_receipts").await
    }

    async fn ticket_hand(&self, _tickets: &Tickets, batch: u32) -> Fallible<Box<dyn TicketHand>> {
        Ok(Box::new(Hand {
            connection: self.connection().await?,
            take: format!(
                "SELECT ticket, owner_id, token, sent_at FROM pending_receipts \
                 FORCE INDEX (pending_receipts_due) WHERE due_at <= ? \
                 ORDER BY due_at, ticket LIMIT {batch} FOR UPDATE SKIP LOCKED"
            ),
            now: text(now()?),
            later: text(later()?),
        }))
    }

    async fn plan(&self, _tickets: &Tickets, query: Query) -> Fallible<Vec<String>> {
        let explain = |sql| Statement::new(format!("EXPLAIN FORMAT=TRADITIONAL {sql}"));
        let statement = match query {
            Query::Purge { sent_before, limit } => {
                explain(include_str!("../../../../mysql/src/queries/purge.sql"))
                    .bind(text(sent_before))
                    .bind(limit)
            }
            Query::EraseOwner(owner) => explain(include_str!(
                "../../../../mysql/src/queries/erase_owner_read.sql"
            ))
            .bind(&owner.as_bytes()[..]),
        };
        let mut lines = Vec::new();
        for row in self.db.query(&statement).await? {
            let said = |column: &str| {
                row.get::<Option<String>>(column)
                    .map(Option::unwrap_or_default)
            };
            let (table, kind) = (said("table")?, said("type")?);
            let (key, extra) = (said("key")?, said("Extra")?);
            lines.push(format!("{table}: type {kind}, key {key}, {extra}"));
        }
        Ok(lines)
    }
}

/// As the server writes a DATETIME.
fn text(instant: DateTime<Utc>) -> String {
    instant.format("%Y-%m-%d %H:%M:%S%.6f").to_string()
}

struct Hand {
    connection: MySqlConnection,
    take: String,
    now: String,
    later: String,
}

/// The last is a DATETIME as it is sent.
type Due = (String, Vec<u8>, String, Vec<u8>);

fn due(row: &MySqlRow) -> Result<Due, sqlx::Error> {
    Ok((
        row.try_get(0)?,
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get_unchecked(3)?,
    ))
}

#[async_trait]
impl TicketHand for Hand {
    async fn take_and_delete(&mut self) -> Fallible<u64> {
        let mut tx = self.connection.begin().await?;
        let rows = sqlx::query(AssertSqlSafe(&*self.take))
            .bind(&self.now)
            .fetch_all(&mut *tx)
            .await?;
        let due = black_box(rows.iter().map(due).collect::<Result<Vec<_>, _>>()?);
        if due.is_empty() {
            return Ok(0);
        }
        let list = ids(due.len());
        let update = format!("UPDATE pending_receipts SET due_at = ? WHERE ticket IN ({list})");
        let mut update = sqlx::query(AssertSqlSafe(update)).bind(&self.later);
        for (ticket, ..) in &due {
            update = update.bind(ticket);
        }
        update.execute(&mut *tx).await?;
        tx.commit().await?;

        let delete = format!("DELETE FROM pending_receipts WHERE ticket IN ({list})");
        let mut delete = sqlx::query(AssertSqlSafe(delete));
        for (ticket, ..) in &due {
            delete = delete.bind(ticket);
        }
        let done = delete.execute(&mut self.connection).await?;
        Ok(done.rows_affected())
    }
}
