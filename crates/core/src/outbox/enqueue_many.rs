use std::fmt::Write;

use super::Outbox;
use super::sql::push_json;
use crate::enqueue::{Enqueue, NewRow};
use crate::statement::Form;
use crate::{DbError, Dialect, Statement, Value};

const INTO: &str =
    "INSERT INTO {table} (id, topic, payload, subject, created_at, next_attempt_at)\n";

/// So many rows SQLite takes as a list of values, which it binds faster than it
/// reads JSON: they stay under the 999 values that some builds allow.
const SHORT: usize = 999 / 6;

impl Outbox {
    /// The most rows that
    /// [`enqueue_many_statement`](Self::enqueue_many_statement) takes.
    pub const MAX_MANY: usize = 10_000;

    /// One statement that enqueues many units of work, all or none; much
    /// faster than one statement each.
    ///
    /// Nothing to enqueue becomes a statement that touches no row. More than
    /// [`MAX_MANY`](Self::MAX_MANY), or one that cannot be enqueued, becomes a
    /// statement that carries the error. On MySQL and MariaDB all of it must fit
    /// into `max_allowed_packet`, by default 64 and 16 MiB.
    #[must_use]
    pub fn enqueue_many_statement(&self, work: impl IntoIterator<Item = Enqueue>) -> Statement {
        let rows: Result<Vec<NewRow>, DbError> = work
            .into_iter()
            .enumerate()
            .map(|(place, work)| {
                work.row()
                    .map_err(|error| error.context(format!("row {place}")))
            })
            .collect();
        match rows {
            Err(error) => Statement::refused(error.context("enqueue many rows")),
            Ok(rows) if rows.len() > Self::MAX_MANY => Statement::refused(
                DbError::invalid(format!(
                    "{} rows are more than the {} of one statement; use several",
                    rows.len(),
                    Self::MAX_MANY
                ))
                .context("enqueue many rows"),
            ),
            Ok(rows) if rows.is_empty() => {
                Statement::shared(self.fill("DELETE FROM {table} WHERE 1 = 0"))
            }
            Ok(rows) => {
                let into = self.fill(INTO);
                Statement::built(move |dialect| match dialect {
                    Dialect::Postgres => arrays(&into, &rows),
                    Dialect::Sqlite if rows.len() > SHORT => json(&into, &rows),
                    Dialect::Sqlite | Dialect::MySql => lists(&into, &rows),
                })
            }
        }
    }
}

fn arrays(into: &str, rows: &[NewRow]) -> Form {
    let column = |read: fn(&NewRow) -> Option<&str>| {
        Value::TextArray(
            rows.iter()
                .map(|row| read(row).map(str::to_owned))
                .collect(),
        )
    };
    Form {
        sql: format!(
            "{into}SELECT id, topic, payload, subject, at, at\n\
             FROM unnest(?::text[], ?::text[], ?::text[], ?::text[], ?::text[])\n    \
             AS new (id, topic, payload, subject, at)"
        ),
        values: vec![
            column(|row| Some(&row.id)),
            column(|row| Some(&row.topic)),
            column(|row| Some(&row.payload)),
            column(|row| row.subject.as_deref()),
            column(|row| Some(&row.at)),
        ],
    }
}

fn json(into: &str, rows: &[NewRow]) -> Form {
    let bytes: usize = rows.iter().map(|row| row.payload.len() + 160).sum();
    let mut list = String::with_capacity(bytes + 2);
    list.push('[');
    for (place, row) in rows.iter().enumerate() {
        list.push_str(if place > 0 { ",[" } else { "[" });
        for text in [&row.id, &row.topic, &row.payload] {
            push_json(&mut list, text);
            list.push(',');
        }
        match &row.subject {
            Some(subject) => push_json(&mut list, subject),
            None => list.push_str("null"),
        }
        // A time is digits and punctuation that JSON leaves alone.
        let _ = write!(list, ",\"{}\"]", row.at);
    }
    list.push(']');
    Form {
        sql: format!(
            "{into}SELECT value ->> 0, value ->> 1, value ->> 2, value ->> 3, value ->> 4, value ->> 4\n\
             FROM json_each(?)"
        ),
        values: vec![Value::Text(list)],
    }
}

fn lists(into: &str, rows: &[NewRow]) -> Form {
    let mut sql = format!("{into}VALUES\n    (?, ?, ?, ?, ?, ?)");
    sql.push_str(&",\n    (?, ?, ?, ?, ?, ?)".repeat(rows.len() - 1));
    let mut values = Vec::with_capacity(rows.len() * 6);
    for row in rows {
        values.extend([
            Value::from(&row.id),
            Value::from(&row.topic),
            Value::from(&row.payload),
            Value::from(row.subject.clone()),
            Value::from(&row.at),
            Value::from(&row.at),
        ]);
    }
    Form { sql, values }
}
