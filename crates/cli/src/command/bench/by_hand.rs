//! What a service would write that has no library for it: one `INSERT` of many
//! rows, one claim by `SKIP LOCKED`, one `DELETE`. No fences and no limits.

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Dialect, ReadThenWrite, Row, Statement, Value, format_time};

const INTO: &str = "(id, topic, payload, subject, created_at, next_attempt_at)";
const COLUMNS: &str = "id, topic, payload, subject, attempts, created_at";

pub(super) fn insert(
    dialect: Dialect,
    table: &str,
    ids: &[String],
    payload: &str,
    now: DateTime<Utc>,
) -> Result<Statement, DbError> {
    let now = format_time(now)?;
    if dialect == Dialect::Postgres {
        let statement = Statement::new(format!(
            "INSERT INTO {table} {INTO} SELECT id, 'bench', payload, NULL, ?, ? \
             FROM unnest(?::text[], ?::text[]) AS new (id, payload)"
        ));
        let payloads = vec![Some(payload.to_owned()); ids.len()];
        return Ok(statement
            .bind(now.as_str())
            .bind(now.as_str())
            .bind(array(ids))
            .bind(Value::TextArray(payloads)));
    }
    let more = ", (?, 'bench', ?, NULL, ?, ?)".repeat(ids.len() - 1);
    let sql = format!("INSERT INTO {table} {INTO} VALUES (?, 'bench', ?, NULL, ?, ?){more}");
    let statement = ids.iter().fold(Statement::new(sql), |statement, id| {
        statement
            .bind(id.as_str())
            .bind(payload)
            .bind(now.as_str())
            .bind(now.as_str())
    });
    Ok(statement)
}

/// Claims a batch and deletes it; returns how many rows there were.
pub(super) async fn take(
    db: &dyn Database,
    table: &str,
    now: &str,
    until: &str,
    batch: u64,
) -> Result<u64, DbError> {
    let due = format!("WHERE visible_at <= ? ORDER BY visible_at, id LIMIT {batch}");
    let lease = "SET locked_until = ?, claims = claims + 1";
    let rows = match db.dialect() {
        Dialect::Postgres => {
            let claim = format!(
                "WITH due AS (SELECT id AS due_id FROM {table} {due} FOR UPDATE SKIP LOCKED) \
                 UPDATE {table} {lease} FROM due WHERE id = due_id RETURNING {COLUMNS}"
            );
            db.query(&Statement::new(claim).bind(now).bind(until))
                .await?
        }
        Dialect::Sqlite => {
            let claim = format!(
                "UPDATE {table} {lease} WHERE id IN (SELECT id FROM {table} {due}) RETURNING {COLUMNS}"
            );
            db.query(&Statement::new(claim).bind(until).bind(now))
                .await?
        }
        _ => {
            let read = format!(
                "SELECT {COLUMNS} FROM {table} FORCE INDEX ({table}_due) {due} FOR UPDATE SKIP LOCKED"
            );
            let (table, until) = (table.to_owned(), until.to_owned());
            let step = ReadThenWrite::new(Statement::new(read).bind(now), move |rows| {
                if rows.is_empty() {
                    return Ok(Vec::new());
                }
                let update = format!("UPDATE {table} {lease}");
                let statement = Statement::new(among(&update, rows.len()));
                Ok(vec![bind(statement.bind(until.as_str()), &ids(rows)?)])
            });
            db.read_then_write(&step).await?
        }
    };
    if rows.is_empty() {
        return Ok(0);
    }
    let ids = ids(&rows)?;
    let delete = match db.dialect() {
        Dialect::Postgres => {
            Statement::new(format!("DELETE FROM {table} WHERE id = ANY(?::text[])"))
                .bind(array(&ids))
        }
        _ => bind(
            Statement::new(among(&format!("DELETE FROM {table}"), ids.len())),
            &ids,
        ),
    };
    db.execute(&delete).await?;
    Ok(ids.len() as u64)
}

fn array(ids: &[String]) -> Value {
    Value::TextArray(ids.iter().cloned().map(Some).collect())
}

fn ids(rows: &[Row]) -> Result<Vec<String>, DbError> {
    rows.iter().map(|row| row.get("id")).collect()
}

fn among(change: &str, count: usize) -> String {
    format!("{change} WHERE id IN (?{})", ", ?".repeat(count - 1))
}

fn bind(statement: Statement, ids: &[String]) -> Statement {
    ids.iter()
        .fold(statement, |statement, id| statement.bind(id.as_str()))
}
