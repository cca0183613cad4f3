use std::hint::black_box;
use std::sync::Arc;

use async_trait::async_trait;
use duebox_sqlite::SqliteDatabase;
use duebox_sqlite::rusqlite::{Connection, TransactionBehavior};

use super::super::tickets::{Query, TicketEngine, TicketHand, Tickets, later, now};
use super::{Fallible, Sqlite, checkpoint, connect};

#[async_trait]
impl TicketEngine for Sqlite {
    async fn tickets(&self) -> Fallible<Tickets> {
        let file = self.new_file("pending_receipts");
        let db = SqliteDatabase::open(&file.0).await?;
        db.migrate().await?;
        Ok(Tickets {
            store: Arc::new(db.receipts()),
            file,
        })
    }

    async fn settle_tickets(&self, tickets: &Tickets) -> Fallible<()> {
        checkpoint(&tickets.file)
    }

    async fn ticket_hand(&self, tickets: &Tickets, batch: u32) -> Fallible<Box<dyn TicketHand>> {
        Ok(Box::new(Hand {
            conn: connect(&tickets.file)?,
            batch,
            now: now()?.timestamp_micros(),
            later: later()?.timestamp_micros(),
        }))
    }

    async fn plan(&self, tickets: &Tickets, query: Query) -> Fallible<Vec<String>> {
        // No plan depends on what is bound.
        let sql = match query {
            Query::Purge { .. } => include_str!("../../../../sqlite/src/queries/purge.sql"),
            Query::EraseOwner(_) => include_str!("../../../../sqlite/src/queries/erase_owner.sql"),
        };
        let conn = connect(&tickets.file)?;
        let mut explain = conn.prepare(&format!("EXPLAIN QUERY PLAN {sql}"))?;
        let lines = explain.raw_query().mapped(|row| row.get("detail"));
        Ok(lines.collect::<Result<_, _>>()?)
    }
}

/// Runs where it is called, as a program with nothing else to do would.
struct Hand {
    conn: Connection,
    batch: u32,
    now: i64,
    later: i64,
}

type Due = (i64, String, [u8; 16], String, i64);

#[async_trait]
impl TicketHand for Hand {
    async fn take_and_delete(&mut self) -> Fallible<u64> {
        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let due: Vec<Due> = {
            let mut select = tx.prepare_cached(
                "SELECT rowid, ticket, owner_id, token, sent_at FROM pending_receipts \
                 WHERE due_at <= ? ORDER BY due_at, ticket LIMIT ?",
            )?;
            let rows = select.query_map((self.now, self.batch), |row| {
                Ok((
                    row.get(0)?,
                    row.get(1)?,
                    row.get(2)?,
                    row.get(3)?,
                    row.get(4)?,
                ))
            })?;
            rows.collect::<Result<_, _>>()?
        };
        {
            let mut update =
                tx.prepare_cached("UPDATE pending_receipts SET due_at = ? WHERE rowid = ?")?;
            for (rowid, ..) in &due {
                update.execute((self.later, rowid))?;
            }
        }
        tx.commit()?;
        let due = black_box(due);

        let tx = self
            .conn
            .transaction_with_behavior(TransactionBehavior::Immediate)?;
        let mut gone = 0;
        {
            let mut delete = tx.prepare_cached("DELETE FROM pending_receipts WHERE ticket = ?")?;
            for (_, ticket, ..) in &due {
                gone += delete.execute([ticket])?;
            }
        }
        tx.commit()?;
        Ok(gone as u64)
    }
}
