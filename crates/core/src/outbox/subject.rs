use super::claim::CHUNK;
use super::fenced::bind_all;
use super::operator::COLUMNS;
use super::sql::{by_key, by_subject, id_in};
use super::{Outbox, OutboxEntry};
use crate::statement::Form;
use crate::{Database, DbError, Dialect, Statement, limits};

impl Outbox {
    /// What is kept about one subject, payloads and errors included, whether
    /// waiting, leased or parked: up to `limit` rows in byte order of id, behind
    /// the id `after`. A page shorter than the limit is the last.
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
    /// `limit`.
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
    /// and the rows deleted by their key. What vanished between is not counted.
    async fn erase_by_id(
        &self,
        db: &dyn Database,
        subject: &str,
        limit: u64,
    ) -> Result<u64, DbError> {
        let dialect = db.dialect();
        let read = self.fill(&format!(
            "SELECT id\nFROM {{table}}{}\nWHERE subject = ?\n    AND id > ?\nORDER BY id\nLIMIT ?",
            by_subject(dialect)
        ));
        let mut erased = 0;
        let mut after = String::new();
        while erased < limit {
            let unless_first = |error: DbError| if erased > 0 { error.unknown() } else { error };
            let page = (limit - erased).min(CHUNK as u64);
            let statement = Statement::shared(read.clone())
                .bind(subject)
                .bind(after.as_str())
                .bind(i64::try_from(page).unwrap_or(i64::MAX));
            let rows = db.query(&statement).await.map_err(unless_first)?;
            let ids: Vec<String> = rows
                .iter()
                .map(|row| row.get("id"))
                .collect::<Result<_, _>>()?;
            let Some(last) = ids.last() else { break };
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            let Form { sql, values } = id_in(dialect, &ids);
            let text = self.fill(&format!(
                "DELETE o FROM {{table}} AS o{}\nWHERE {sql}\n    AND subject = ?",
                by_key(dialect)
            ));
            let statement = bind_all(Statement::shared(text), values).bind(subject);
            let found = db.execute(&statement).await.map_err(unless_first)?;
            after = (*last).to_string();
            erased += found;
            if (ids.len() as u64) < page {
                break;
            }
        }
        Ok(erased)
    }
}

const ERASE_POSTGRES: &str = "\
DELETE FROM {table}
WHERE id IN (
    SELECT id
    FROM {table}
    WHERE subject = ?
    ORDER BY id
    LIMIT ?
    FOR UPDATE
)";
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
