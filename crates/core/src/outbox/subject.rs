use super::operator::COLUMNS;
use super::{Outbox, OutboxEntry};
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
                "SELECT\n    {COLUMNS},\n    payload\nFROM {{table}}\nWHERE subject = ?\n    \
                 AND id > ?\nORDER BY id\nLIMIT ?"
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
    /// As [`export_subject`](Self::export_subject).
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
                Dialect::MySql => ERASE_MYSQL,
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
                Statement::shared(self.fill("DELETE FROM {table} WHERE subject = ?")).bind(subject)
            }
            Err(error) => Statement::refused(error.context("erase a subject")),
        }
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
// Differs from Postgres: a subquery on the table itself is refused, and a
// DELETE takes an order and a limit.
const ERASE_MYSQL: &str = "\
DELETE FROM {table}
WHERE subject = ?
ORDER BY id
LIMIT ?";
