use std::error::Error;
use std::hint::black_box;
use std::sync::Arc;
use std::time::SystemTime;

use async_trait::async_trait;
use duebox_postgres::tokio_postgres::types::{FromSql, Type};
use duebox_postgres::tokio_postgres::{self, Client, Row, Statement as Prepared};
use duebox_postgres::{Database, Statement, format_time};

use super::super::tickets::{Query, TicketEngine, TicketHand, Tickets, later, now};
use super::{Fallible, Postgres, Scratch};

#[async_trait]
impl TicketEngine for Postgres {
    async fn tickets(&self) -> Fallible<Tickets> {
        self.db.migrate().await?;
        self.run("TRUNCATE pending_receipts".to_owned()).await?;
        Ok(Tickets {
            store: Arc::new(self.db.receipts()),
            file: Scratch::default(),
        })
    }

    async fn settle_tickets(&self, _tickets: &Tickets) -> Fallible<()> {
        self.settle_table("pending_receipts").await
    }

    async fn ticket_hand(&self, _tickets: &Tickets, batch: u32) -> Fallible<Box<dyn TicketHand>> {
        let client = self.client().await?;
        let take = format!(
            "WITH due AS (
                SELECT ticket AS due_ticket FROM pending_receipts WHERE due_at <= $1
                ORDER BY due_at, ticket LIMIT {batch} FOR UPDATE SKIP LOCKED
            )
            UPDATE pending_receipts SET due_at = $2 FROM due WHERE ticket = due_ticket
            RETURNING ticket, owner_id, token, sent_at"
        );
        Ok(Box::new(Hand {
            take: client.prepare(&take).await?,
            delete: client
                .prepare("DELETE FROM pending_receipts WHERE ticket = ANY($1)")
                .await?,
            client,
            now: now()?.into(),
            later: later()?.into(),
        }))
    }

    async fn plan(&self, _tickets: &Tickets, query: Query) -> Fallible<Vec<String>> {
        let explain = |sql| Statement::new(format!("EXPLAIN (COSTS OFF) {sql}"));
        let statement = match query {
            Query::Purge { sent_before, limit } => {
                explain(include_str!("../../../../postgres/src/queries/purge.sql"))
                    .bind(format_time(sent_before)?)
                    .bind(limit)
            }
            Query::EraseOwner(owner) => explain(include_str!(
                "../../../../postgres/src/queries/erase_owner.sql"
            ))
            .bind(owner.to_string()),
        };
        let rows = self.db.query(&statement).await?;
        let lines = rows.iter().map(|row| row.get("QUERY PLAN"));
        Ok(lines.collect::<Result<_, _>>()?)
    }
}

struct Hand {
    client: Client,
    take: Prepared,
    delete: Prepared,
    now: SystemTime,
    later: SystemTime,
}

struct Owner(#[expect(dead_code, reason = "read, for a poller that is not there")] [u8; 16]);

impl<'a> FromSql<'a> for Owner {
    fn from_sql(_: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self(raw.try_into()?))
    }

    fn accepts(of: &Type) -> bool {
        *of == Type::UUID
    }
}

type Due = (String, Owner, String, SystemTime);

fn due(row: &Row) -> Result<Due, tokio_postgres::Error> {
    Ok((
        row.try_get(0)?,
        row.try_get(1)?,
        row.try_get(2)?,
        row.try_get(3)?,
    ))
}

#[async_trait]
impl TicketHand for Hand {
    async fn take_and_delete(&mut self) -> Fallible<u64> {
        let rows = self
            .client
            .query(&self.take, &[&self.now, &self.later])
            .await?;
        let due = black_box(rows.iter().map(due).collect::<Result<Vec<_>, _>>()?);

        let tickets: Vec<&str> = due.iter().map(|(ticket, ..)| &**ticket).collect();
        Ok(self.client.execute(&self.delete, &[&tickets]).await?)
    }
}
