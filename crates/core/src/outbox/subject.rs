use super::claim::CHUNK;
use super::operator::COLUMNS;
use super::sql::by_subject;
use super::{Outbox, OutboxEntry};
use crate::{Database, DbError, Dialect, ReadThenWrite, Row, Statement, limits};

impl Outbox {
    /// What is kept about one subject, payloads and errors included, whether
    /// waiting, leased or parked: up to `limit` rows in byte order of id, behind
    /// the id `after`. A page shorter than the limit is the last; a limit of 0
    /// exports nothing, so such a loop needs at least 1.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if the subject is
    /// impossible; otherwise what the database says.
    pub async fn export_subject(
        &self,
        db: &dyn Database,
        subject: &str,
        after: Option<&str>,
        limit: u64,
    ) -> Result<Vec<OutboxEntry>, DbError> {
        let run = async {
            limits::subject(subject)?;
            let text = self.fill(&format!(
                "SELECT\n    {COLUMNS},\n    payload\nFROM {{table}}{}\nWHERE subject = ?\n    \
                 AND id > ?\nORDER BY id\nLIMIT ?",
                by_subject(db.dialect())
            ));
            let statement = Statement::shared(text)
                .bind(subject)
                .bind(after.unwrap_or(""))
                .bind(i64::try_from(limit).unwrap_or(i64::MAX));
            let rows = db.query(&statement).await?;
            OutboxEntry::read_all(rows, true)
        };
        run.await
            .map_err(|error: DbError| error.context("export a subject"))
    }

    /// Deletes up to `limit` rows of one subject, whether waiting, leased or
    /// parked, and returns how many went. Call it until it returns less than
    /// `limit`, which is then at least 1: a limit of 0 erases nothing.
    ///
    /// It waits for rows that another session has locked. A handler that works
    /// on such a row now will find its lease lost. What the database keeps of
    /// deleted rows elsewhere (free pages, logs, backups) is the database's.
    ///
    /// # Errors
    ///
    /// As [`export_subject`](Self::export_subject). On MySQL and MariaDB more than
    /// 1024 rows go in several steps, and some of these may have been done.
    pub async fn erase_subject(
        &self,
        db: &dyn Database,
        subject: &str,
        limit: u64,
    ) -> Result<u64, DbError> {
        let run = async {
            limits::subject(subject)?;
            let text = self.fill(match db.dialect() {
                Dialect::Postgres => ERASE_POSTGRES,
                Dialect::Sqlite => ERASE_SQLITE,
                Dialect::MySql => return self.erase_by_id(db, subject, limit).await,
            });
            let limit = i64::try_from(limit).unwrap_or(i64::MAX);
            db.execute(&Statement::shared(text).bind(subject).bind(limit))
                .await
        };
        run.await
            .map_err(|error: DbError| error.context("erase a subject"))
    }

    /// The statement that deletes all rows of one subject, for a transaction in
    /// which more is erased. Where these may be many use
    /// [`erase_subject`](Self::erase_subject) before it.
    #[must_use]
    pub fn erase_subject_statement(&self, subject: &str) -> Statement {
        match limits::subject(subject) {
            Ok(()) => {
                let text = self.fill("DELETE FROM {table} WHERE subject = ?");
                let mysql = self.fill(&format!(
                    "DELETE o FROM {{table}} AS o{} WHERE subject = ?",
                    by_subject(Dialect::MySql)
                ));
                Statement::shared_per_dialect([text.clone(), text, mysql]).bind(subject)
            }
            Err(error) => Statement::refused(error.context("erase a subject")),
        }
    }

    /// Differs from Postgres: a DELETE with a limit takes no index hint, reads a
    /// whole small table and waits for every lock in it; and one that finds rows
    /// by the subject's index locks that before the rows, while the fenced calls
    /// lock rows first, which is a deadlock. So the ids are read without a lock,
    /// the rows locked by their key, and those that are still there deleted.
    async fn erase_by_id(
        &self,
        db: &dyn Database,
        subject: &str,
        limit: u64,
    ) -> Result<u64, DbError> {
        let dialect = db.dialect();
        let text = self.fill(include_str!("sql/erase_read_mysql.sql"));
        let mut erased = 0;
        let mut after = String::new();
        while erased < limit {
            let page = (limit - erased).min(CHUNK as u64);
            let read = Statement::shared(text.clone())
                .bind(subject)
                .bind(after)
                .bind(i64::try_from(page).unwrap_or(i64::MAX))
                .bind(subject);
            let outbox = self.clone();
            let step = ReadThenWrite::new(read, move |rows| {
                let found = found(rows)?;
                let found: Vec<&str> = found.iter().map(String::as_str).collect();
                Ok(if found.is_empty() {
                    Vec::new()
                } else {
                    vec![outbox.delete_by_id(dialect, &found)]
                })
            });
            let answer = db.read_then_write(&step).await;
            let rows = answer.map_err(|error| if erased > 0 { error.unknown() } else { error })?;
            erased += found(&rows)?.len() as u64;
            // Those that vanished between are not counted, but did fill the page.
            match rows.last() {
                Some(last) if rows.len() as u64 == page => after = last.get("id")?,
                _ => break,
            }
        }
        Ok(erased)
    }
}

/// The ids of rows that are there and locked.
fn found(rows: &[Row]) -> Result<Vec<String>, DbError> {
    rows.iter()
        .map(|row| row.get::<Option<String>>("found"))
        .filter_map(Result::transpose)
        .collect()
}

// MATERIALIZED and by way of an array: read again for each row, as it is under some
// plans, the sub-select would find others once the first are deleted, and pass the limit.
const ERASE_POSTGRES: &str = "\
WITH named AS MATERIALIZED (
    SELECT id
    FROM {table}
    WHERE subject = ?
    ORDER BY id
    LIMIT ?
    FOR UPDATE
)
DELETE FROM {table} AS o
USING unnest(ARRAY(SELECT id FROM named)) AS gone (id)
WHERE o.id = gone.id";
// Differs from Postgres: the whole database is locked, so rows need not be.
const ERASE_SQLITE: &str = "\
DELETE FROM {table}
WHERE id IN (
    SELECT id
    FROM {table}
    WHERE subject = ?
    ORDER BY id
    LIMIT ?
)";
