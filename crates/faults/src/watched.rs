//! What a worker asks of its database, written down as the calls that it makes
//! of an outbox.
//!
//! A worker tells nobody how its fenced calls were answered, so this looks at
//! the statements, by what in them is fixed.

use std::sync::Arc;

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, ReadThenWrite, Row, Statement, Value};

use crate::history::{Answer, Call, Held, How, Journal};

pub(crate) struct Watched {
    pub(crate) db: Arc<dyn Database>,
    pub(crate) journal: Arc<Journal>,
}

#[async_trait]
impl Database for Watched {
    fn dialect(&self) -> Dialect {
        self.db.dialect()
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        self.db.execute(statement).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        let Some(call) = call_of(statement) else {
            return self.db.query(statement).await;
        };
        let number = self.journal.begin(call.clone());
        let answer = self.db.query(statement).await;
        let said = match (&answer, &call) {
            (Err(error), _) => Answer::error(error),
            (Ok(rows), Call::Fenced { leases, .. }) => {
                let read: Vec<Held> = rows.iter().filter_map(|row| held(row, 0)).collect();
                Answer::Held(leases.iter().map(|lease| read.contains(lease)).collect())
            }
            (Ok(rows), _) => Answer::Claimed(in_order(rows, 0)),
        };
        self.journal.end(number, said);
        answer
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        let Some(leases) = completed(statements) else {
            return self.db.batch_atomic(statements).await;
        };
        let all = vec![true; leases.len()];
        let how = How::Complete;
        let number = self.journal.begin(Call::Fenced { how, leases });
        let answer = self.db.batch_atomic(statements).await;
        self.journal.end(
            number,
            match &answer {
                Ok(_) => Answer::Held(all),
                Err(error) => Answer::error(error),
            },
        );
        answer
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.db.now().await
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        let read = step.read();
        if text(read).contains("due_at") {
            return self.claim(step).await;
        }
        let how = How::Any;
        let leases = ids(read)
            .into_iter()
            .map(|id| Held { id, claims: 0 })
            .collect();
        let number = self.journal.begin(Call::Fenced { how, leases });
        let answer = self.db.read_then_write(step).await;
        let said = match &answer {
            Err(error) => Answer::error(error),
            Ok(rows) => {
                let (how, leases) = Self::changed(step, rows);
                let all = vec![true; leases.len()];
                self.journal.was(number, Call::Fenced { how, leases });
                Answer::Held(all)
            }
        };
        self.journal.end(number, said);
        answer
    }
}

impl Watched {
    /// A claim where rows are read, then leased. Until when shows only by what
    /// is written of a row.
    async fn claim(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        let now = texts(step.read()).get(1).cloned().unwrap_or_default();
        let until = String::new();
        let number = self.journal.begin(Call::Claim {
            now: now.clone(),
            until,
        });
        let answer = self.db.read_then_write(step).await;
        let said = match &answer {
            Err(error) => Answer::error(error),
            Ok(rows) => {
                let statements = step.then(rows).unwrap_or_default();
                let until = statements.first().map(texts).unwrap_or_default();
                let until = until.first().cloned().unwrap_or_default();
                self.journal.was(number, Call::Claim { now, until });
                Answer::Claimed(in_order(rows, 1))
            }
        };
        self.journal.end(number, said);
        answer
    }

    /// What was written of rows that were read, to those of them that are
    /// held.
    fn changed(step: &ReadThenWrite, rows: &[Row]) -> (How, Vec<Held>) {
        let mut how = How::Any;
        let mut leases = Vec::new();
        // By one, since of many only the ids show.
        for row in rows {
            let statements = step.then(std::slice::from_ref(row)).unwrap_or_default();
            let Some(statement) = statements.first() else {
                continue;
            };
            how = how_of(statement);
            leases.extend(held(row, 0));
        }
        (how, leases)
    }
}

/// What a statement about leases does, and until when, which it binds first.
fn how_of(statement: &Statement) -> How {
    let sql = text(statement);
    let at = texts(statement).first().cloned().unwrap_or_default();
    if sql.starts_with("DELETE") {
        How::Complete
    } else if sql.contains("locked_until = CASE") {
        How::Extend { until: at }
    } else if !sql.contains("locked_until = NULL") {
        How::Note
    } else if at == duebox_core::PARKED {
        How::Park
    } else {
        // Each row of a retry has a time of its own; that it ended is enough.
        How::Retry { at: String::new() }
    }
}

/// What a query of PostgreSQL is a claim or a fenced call of, if it is one.
fn call_of(statement: &Statement) -> Option<Call> {
    let sql = text(statement);
    if sql.contains("due_at") {
        let bound = texts(statement);
        return Some(Call::Claim {
            now: bound.get(1)?.clone(),
            until: bound.get(2)?.clone(),
        });
    }
    if !sql.contains("lease_claims") {
        return None;
    }
    let values = statement.values().ok()?;
    let ids = values.iter().find_map(|value| match value {
        Value::TextArray(ids) => Some(ids),
        _ => None,
    })?;
    let claims = values.iter().find_map(|value| match value {
        Value::IntegerArray(claims) => Some(claims),
        _ => None,
    })?;
    let leases = ids
        .iter()
        .zip(claims)
        .map(|(id, claims)| Held {
            id: id.clone().unwrap_or_default(),
            claims: claims.unsigned_abs(),
        })
        .collect();
    let how = how_of(statement);
    Some(Call::Fenced { how, leases })
}

/// The leases that a batch completes, if that is what it does: lists of
/// `[id, claims, created_at]`, or maps of ids beside one number.
fn completed(statements: &[Statement]) -> Option<Vec<Held>> {
    let mut leases = Vec::new();
    for statement in statements {
        statement.expected_rows()?;
        if !statement.sql().ok()?.starts_with("DELETE") {
            return None;
        }
        let values = statement.values().ok()?;
        let Some(Value::Text(list)) = values.first() else {
            return None;
        };
        match (serde_json::from_str(list).ok()?, values.get(1)) {
            (serde_json::Value::Array(all), None) => {
                for lease in all {
                    leases.push(Held {
                        id: lease.get(0)?.as_str()?.to_owned(),
                        claims: lease.get(1)?.as_u64()?,
                    });
                }
            }
            (serde_json::Value::Object(all), Some(Value::Integer(claims))) => {
                let claims = claims.unsigned_abs();
                leases.extend(all.into_iter().map(|(id, _)| Held { id, claims }));
            }
            _ => return None,
        }
    }
    (!leases.is_empty()).then_some(leases)
}

fn text(statement: &Statement) -> &str {
    statement.sql().unwrap_or_default()
}

fn texts(statement: &Statement) -> Vec<String> {
    let values = statement.values().unwrap_or_default();
    values
        .iter()
        .filter_map(|value| match value {
            Value::Text(text) => Some(text.clone()),
            _ => None,
        })
        .collect()
}

/// Ids that a condition binds: each by itself, or all as one list.
fn ids(read: &Statement) -> Vec<String> {
    let mut ids = Vec::new();
    for text in texts(read) {
        match serde_json::from_str::<Vec<String>>(&text) {
            Ok(list) => ids.extend(list),
            Err(_) => ids.push(text),
        }
    }
    ids.sort();
    ids.dedup();
    ids
}

/// Claimed rows as the library hands them out: a database promises no order of
/// rows that it changed.
fn in_order(rows: &[Row], more: u64) -> Vec<Held> {
    let due = |row: &Row| row.get::<String>("due_at").unwrap_or_default();
    let mut rows: Vec<(String, Held)> = rows
        .iter()
        .filter_map(|row| Some((due(row), held(row, more)?)))
        .collect();
    rows.sort();
    rows.into_iter().map(|(_, row)| row).collect()
}

fn held(row: &Row, more: u64) -> Option<Held> {
    let claims: i64 = row.get("claims").ok()?;
    Some(Held {
        id: row.get("id").ok()?,
        claims: claims.unsigned_abs() + more,
    })
}
