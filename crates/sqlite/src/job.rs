//! What is handed to the writer's thread, and what comes back.

use std::time::Instant;

use duebox_core::{DbError, Dialect, Kind, ReadThenWrite, Rendered, Statement, Value};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::receipts::{self, Taken};
use crate::row::{self, Found};
use crate::undo::Undo;

/// A rendered statement that belongs to nobody else.
pub(crate) struct Owned {
    sql: String,
    values: Vec<Value>,
    expected_rows: Option<u64>,
}

impl Owned {
    pub(crate) fn new(rendered: &Rendered<'_>) -> Self {
        Self {
            sql: rendered.sql().to_owned(),
            values: rendered.values().to_vec(),
            expected_rows: rendered.expected_rows(),
        }
    }

    pub(crate) fn query(&self, conn: &Connection) -> Result<Found, DbError> {
        row::query(conn, &self.sql, &self.values, None)
    }

    pub(crate) fn execute(&self, conn: &Connection) -> Result<u64, DbError> {
        let found = row::execute(conn, &self.sql, &self.values)?;
        match self.expected_rows {
            Some(expected) if expected != found => Err(DbError::row_count(expected, found)),
            _ => Ok(found),
        }
    }

    pub(crate) fn sql(&self) -> &str {
        &self.sql
    }

    pub(crate) fn values(&self) -> &[Value] {
        &self.values
    }

    /// Whether it may change what a table is; or it is not known not to.
    fn may_change_schema(&self) -> bool {
        !self.begins_with(&[
            "INSERT", "UPDATE", "DELETE", "SELECT", "WITH", "REPLACE", "VALUES",
        ])
    }

    /// Whether it may be an error that leaves a part of what it did.
    fn leaves_parts(&self) -> bool {
        self.expected_rows.is_some() || leaves_parts(&self.sql)
    }

    /// Whether its first word is one of these.
    pub(crate) fn begins_with(&self, words: &[&str]) -> bool {
        begins_with(&self.sql, words)
    }

    fn bytes(&self) -> usize {
        let values = self.values.iter().map(|value| match value {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 8,
        });
        self.sql.len() + values.sum::<usize>()
    }
}

pub(crate) fn begins_with(sql: &str, words: &[&str]) -> bool {
    let text = sql.trim_start();
    let end = text
        .find(|c: char| !c.is_ascii_alphabetic())
        .unwrap_or(text.len());
    words
        .iter()
        .any(|word| text[..end].eq_ignore_ascii_case(word))
}

/// Whether an error can leave a part of what the statement did: always, but if
/// it inserts one row of bound values, as most work is enqueued.
///
/// SQLite undoes a statement that fails only where its planner has seen that
/// it may, and what it has not seen are values of a type that a strict table
/// refuses, sums that overflow, and errors of virtual tables such as
/// `json_each`. Nor does it undo what `OR FAIL` says to keep.
fn leaves_parts(sql: &str) -> bool {
    let Some((head, values)) = sql.split_once(" (") else {
        return true;
    };
    let Some((_, values)) = values.split_once("VALUES (") else {
        return true;
    };
    let Some((placeholders, rest)) = values.split_once(')') else {
        return true;
    };
    let inserts = head.strip_prefix("INSERT INTO ").is_some_and(|table| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.');
        table.bytes().all(plain)
    });
    let bound = placeholders
        .bytes()
        .all(|byte| matches!(byte, b'?' | b',' | b' '));
    !(inserts && bound && matches!(rest.trim_ascii(), "" | "ON CONFLICT DO NOTHING"))
}

/// Work that is done in a transaction, and can be done anew after it was undone.
pub(crate) enum Work {
    Execute(Owned),
    Query(Owned),
    Batch(Vec<Owned>),
    Step(ReadThenWrite),
    Receipts(receipts::Call),
}

/// What work answers.
pub(crate) enum Done {
    Count(u64),
    Counts(Vec<u64>),
    Rows(Found),
    Taken(Vec<Taken>),
}

impl Work {
    /// Does it inside the open transaction. After an error nothing of it is
    /// done, or `undo` has a savepoint.
    pub(crate) fn run(&self, conn: &Connection, undo: &Undo<'_>) -> Result<Done, DbError> {
        match self {
            Self::Execute(statement) => {
                undo.before(statement.leaves_parts())?;
                statement.execute(conn).map(Done::Count)
            }
            Self::Query(statement) => {
                undo.before(statement.leaves_parts())?;
                statement.query(conn).map(Done::Rows)
            }
            Self::Batch(statements) => {
                undo.before(statements.len() > 1 || statements.iter().any(Owned::leaves_parts))?;
                let mut counts = Vec::with_capacity(statements.len());
                for (index, statement) in statements.iter().enumerate() {
                    let count = statement.execute(conn);
                    counts.push(count.map_err(|error| error.with_statement(index))?);
                }
                Ok(Done::Counts(counts))
            }
            Self::Step(step) => {
                let read = step.read().render(Dialect::Sqlite)?;
                let only_reads = begins_with(read.sql(), &["SELECT"]);
                undo.before(!only_reads)?;
                let found = row::query(conn, read.sql(), read.values(), Some(step.budget()))?;
                let writes = step.then(&found.rows)?;
                let writes = Statement::render_batch(Dialect::Sqlite, &writes)?;
                undo.before(match &writes[..] {
                    [] => false,
                    [write] => write.expected_rows().is_some() || leaves_parts(write.sql()),
                    _ => true,
                })?;
                for write in writes {
                    write.check_rows(row::execute(conn, write.sql(), write.values())?)?;
                }
                Ok(Done::Rows(found))
            }
            Self::Receipts(call) => call.run(conn, undo),
        }
    }

    /// Whether it needs a transaction that it shares with no other work.
    pub(crate) fn is_solitary(&self) -> bool {
        match self {
            Self::Execute(statement) | Self::Query(statement) => statement.may_change_schema(),
            Self::Batch(statements) => statements.iter().any(Owned::may_change_schema),
            Self::Step(_) | Self::Receipts(_) => false,
        }
    }

    /// About how much it binds.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Execute(statement) | Self::Query(statement) => statement.bytes(),
            Self::Batch(statements) => statements.iter().map(Owned::bytes).sum(),
            Self::Step(_) => 0,
            Self::Receipts(call) => call.bytes(),
        }
    }
}

impl Done {
    /// About how much it holds.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Rows(found) => found.bytes,
            Self::Taken(taken) => receipts::bytes(taken),
            Self::Count(_) | Self::Counts(_) => 0,
        }
    }
}

/// Work and who waits for it.
pub(crate) struct Job {
    pub(crate) work: Work,
    pub(crate) queued: Instant,
    pub(crate) answer: oneshot::Sender<Result<Done, DbError>>,
}

impl Job {
    /// Whether nobody waits any more: then it is not begun.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.answer.is_closed()
    }

    pub(crate) fn answer(self, answer: Result<Done, DbError>) {
        // Nobody may be there any more, who then does not know that it was done.
        let _ = self.answer.send(answer);
    }
}

/// What the writer's thread takes.
pub(crate) enum Message {
    /// Joins others in a transaction.
    Job(Job),
    /// Has the connection for itself, outside of any transaction.
    Alone(Alone),
}

/// Runs on the connection, if there is one, and gives back what tells the
/// caller. That is told when the connection is in order again.
pub(crate) type Alone = Box<dyn FnOnce(Result<&mut Connection, DbError>) -> Tell + Send>;
pub(crate) type Tell = Box<dyn FnOnce() + Send>;

/// What a caller is told if the thread that had its work is gone.
pub(crate) fn gone() -> DbError {
    DbError::new(Kind::Unavailable, "the thread of the database has ended")
}

#[cfg(test)]
mod tests {
    use super::leaves_parts;

    #[test]
    fn one_row_of_bound_values_leaves_no_part() {
        for whole in [
            "INSERT INTO app.outbox_2 (id, topic)\nVALUES (?, ?)",
            "INSERT INTO outbox (id)\nVALUES (?)\nON CONFLICT DO NOTHING",
        ] {
            assert!(!leaves_parts(whole), "{whole}");
        }
        for parts in [
            "INSERT INTO a (n) VALUES (?), (?)",
            "INSERT INTO a (n) VALUES (f(?))",
            "INSERT INTO a (n) VALUES (1)",
            "INSERT INTO a (n) SELECT ?",
            "INSERT INTO a (n) VALUES (?) RETURNING n",
            "INSERT INTO a (n) VALUES (?) ON CONFLICT DO UPDATE SET n = n + 1",
            "INSERT OR FAIL INTO a (n) VALUES (?)",
            "REPLACE INTO a (n) VALUES (?)",
            "INSERT INTO a VALUES (?)",
            "UPDATE a SET n = ?",
        ] {
            assert!(leaves_parts(parts), "{parts}");
        }
    }
}
