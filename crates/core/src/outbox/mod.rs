mod claim;
mod cursor;
mod ddl;
mod delete;
mod enqueue_many;
mod fenced;
mod name;
mod operator;
mod record;
mod sql;
mod subject;
mod survey;

use std::fmt;
use std::sync::Arc;

use self::name::TableName;
use self::sql::Queries;
use crate::enqueue::NewRow;
use crate::{Database, DbError, Statement, limits, time};

pub use self::claim::Claim;
pub use self::cursor::ClaimCursor;
pub use self::fenced::Retry;
pub use self::operator::ListOptions;
pub use self::record::{Lease, LeaseOutcome, OutboxEntry, OutboxRecord, OutboxStats, RowState};
pub use self::survey::{HolderStats, OutboxSurvey, OutboxTotals, TopicStats};

/// A durable work queue in a table of the caller's own database.
///
/// The row is written by the very batch that changes the caller's state, so
/// both commit or neither does. A drainer [claims](Self::claim_due) due rows
/// under a lease, delivers them, and [completes](Self::complete_claimed) them
/// or [schedules](Self::retry_claimed) another attempt. A drainer that dies
/// costs one lease: the row comes back by itself.
///
/// Delivery is at least once. **No order is promised**, neither of all rows
/// nor of one subject's, and two rows of one subject may be delivered at the
/// same time; a ULID is not an order either.
///
/// # Time
///
/// Every time is an RFC 3339 text, floored to the microsecond, of the years 1
/// to 9999. No method reads a clock.
///
/// # Clone
///
/// Cheap: clones share the table's name and the texts made from it.
///
/// ```
/// use duebox_core::{Database, DbError, Outbox, Statement};
///
/// async fn sign_up(db: &dyn Database, outbox: &Outbox, now: &str) -> Result<(), DbError> {
///     db.batch_atomic(&[
///         Statement::new("INSERT INTO account (id, email) VALUES (?, ?)")
///             .bind("a-17")
///             .bind("ada@example.com"),
///         outbox.enqueue_statement("01JH0000000000000000000000", "mail.welcome", "{}", Some("a-17"), now),
///     ])
///     .await?;
///     Ok(())
/// }
///
/// async fn drain(db: &dyn Database, outbox: &Outbox, now: &str, until: &str) -> Result<(), DbError> {
///     for record in outbox.claim_due(db, now, until, 100).await? {
///         // deliver(&record) …
///         outbox.complete_claimed(db, &[record.lease]).await?;
///     }
///     Ok(())
/// }
/// ```
#[derive(Clone)]
pub struct Outbox(Arc<Inner>);

struct Inner {
    table: TableName,
    queries: Queries,
}

impl Outbox {
    /// An outbox in the table of this name, which may be `schema.table`.
    ///
    /// Each part is a lower-case letter or `_`, then lower-case letters,
    /// digits and `_`, 48 characters at most, and no word that a supported
    /// database reserves.
    ///
    /// # Panics
    ///
    /// If the name is impossible. Use [`try_new`](Self::try_new) for a name
    /// that comes from a configuration.
    #[must_use]
    pub fn new(table: impl Into<String>) -> Self {
        match Self::try_new(table) {
            Ok(outbox) => outbox,
            Err(error) => panic!("{error}"),
        }
    }

    /// Like [`new`](Self::new), for a name that may be wrong.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if the name is
    /// impossible.
    pub fn try_new(table: impl Into<String>) -> Result<Self, DbError> {
        let table =
            TableName::new(table.into()).map_err(|error| error.context("name an outbox"))?;
        let queries = Queries::new(&table);
        Ok(Self(Arc::new(Inner { table, queries })))
    }

    /// The table's name as it was given.
    #[must_use]
    pub fn table(&self) -> &str {
        self.0.table.as_str()
    }

    /// One statement that makes the table with both of its indexes, the same
    /// for PostgreSQL, SQLite, MySQL and MariaDB; to be shipped as a migration.
    ///
    /// It may run twice and does nothing the second time. Where many processes
    /// may run it at the same moment let an adapter's `migrate_outbox` do it,
    /// which takes a lock: on PostgreSQL two at once can fail with a duplicate
    /// key in the catalogue. The text holds no `;`, and lines of it end comments: keep its line breaks.
    /// It does not change between releases.
    #[must_use]
    pub fn create_table_sql(&self) -> String {
        ddl::create_table_sql(self.0.table.as_str(), self.0.table.table())
    }

    /// The `INSERT` that enqueues one unit of work, for the batch that changes
    /// the caller's own state.
    ///
    /// `id` is the caller's, most often a ULID: 1 to 64 bytes of visible ASCII.
    /// While a row of that id is there the batch fails with
    /// [`Kind::Conflict`](crate::Kind::Conflict). Once the row is completed the
    /// id is free again, so a batch that may be repeated must be guarded in the
    /// caller's own tables too, by a unique key or
    /// [`expect_rows`](Statement::expect_rows).
    ///
    /// `at` is an RFC 3339 time; it becomes `created_at` and the time from
    /// which the row is due.
    ///
    /// `subject` is the person the work is for, or `None` for work that names
    /// nobody. Give it for all work about a person, even where the payload says
    /// it too: nothing can look into a payload, and a row without a subject is
    /// missed by [`export_subject`](Self::export_subject) and
    /// [`erase_subject`](Self::erase_subject) without any error.
    ///
    /// An impossible argument becomes a statement that carries its error, which
    /// every [`Database`] returns before any SQL of the batch runs.
    #[must_use]
    pub fn enqueue_statement(
        &self,
        id: &str,
        topic: &str,
        payload: &str,
        subject: Option<&str>,
        at: &str,
    ) -> Statement {
        match new_row(id, topic, payload, subject, at) {
            Ok(row) => row.bind(Statement::shared(self.queries().enqueue.clone())),
            Err(error) => Statement::refused(error.context("enqueue")),
        }
    }

    /// Like [`enqueue_statement`](Self::enqueue_statement), but touches no row
    /// while a row of that id is there, also when it is being inserted at the
    /// same moment.
    ///
    /// On MySQL and MariaDB it is an `INSERT IGNORE`, which also touches no row, and
    /// says so with the same 0, where a `CHECK` or a foreign key that the service
    /// added to the table refuses the row. Where there is one, use
    /// [`enqueue_statement`](Self::enqueue_statement) and take
    /// [`Kind::Conflict`](crate::Kind::Conflict) for a row that is there.
    #[must_use]
    pub fn enqueue_once_statement(
        &self,
        id: &str,
        topic: &str,
        payload: &str,
        subject: Option<&str>,
        at: &str,
    ) -> Statement {
        match new_row(id, topic, payload, subject, at) {
            Ok(row) => row.bind(Statement::shared_per_dialect(
                self.queries().enqueue_once.clone(),
            )),
            Err(error) => Statement::refused(error.context("enqueue once")),
        }
    }

    /// Removes a row after its delivery, by its id alone.
    ///
    /// Safe where deliveries always end well before their lease does. A caller
    /// who is late removes the row even if another holds it by now; use
    /// [`complete_claimed`](Self::complete_claimed), which does not. An id that
    /// is not there is no error.
    ///
    /// # Errors
    ///
    /// A [`DbError`] if the id is impossible or the delete fails.
    pub async fn complete(&self, db: &dyn Database, id: &str) -> Result<(), DbError> {
        let doing = |error: DbError| error.context("complete a row");
        limits::id(id).map_err(doing)?;
        let statement = Statement::shared(self.queries().complete.clone()).bind(id);
        db.execute(&statement).await.map(drop).map_err(doing)
    }

    /// Schedules another attempt after a failed delivery, by the id alone:
    /// counts the attempt, makes the row due at `next_attempt_at`, and ends
    /// whatever lease is on it. The backoff is the caller's; a time in the past
    /// is honoured and makes the row due at once, before newer ones.
    ///
    /// Safe where deliveries always end well before their lease does. A caller
    /// who is late ends another's lease; use
    /// [`retry_claimed`](Self::retry_claimed), which does not. An id that is
    /// not there is no error, and inserts nothing.
    ///
    /// # Errors
    ///
    /// A [`DbError`] if an argument is impossible or the update fails.
    pub async fn retry_later(
        &self,
        db: &dyn Database,
        id: &str,
        next_attempt_at: &str,
    ) -> Result<(), DbError> {
        let doing = |error: DbError| error.context("retry a row later");
        limits::id(id).map_err(doing)?;
        let at = time::stored("next_attempt_at", next_attempt_at).map_err(doing)?;
        let statement = Statement::shared(self.queries().retry_later.clone())
            .bind(at)
            .bind(id);
        db.execute(&statement).await.map(drop).map_err(doing)
    }

    pub(crate) fn queries(&self) -> &Queries {
        &self.0.queries
    }

    /// A text with the table's name filled in.
    fn fill(&self, template: &str) -> Arc<str> {
        sql::fill(template, &self.0.table)
    }
}

fn new_row(
    id: &str,
    topic: &str,
    payload: &str,
    subject: Option<&str>,
    at: &str,
) -> Result<NewRow, DbError> {
    let row = NewRow {
        at: time::stored("at", at)?,
        id: id.into(),
        topic: topic.into(),
        payload: payload.into(),
        subject: subject.map(Into::into),
    };
    row.check()?;
    Ok(row)
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox")
            .field("table", &self.table())
            .finish()
    }
}
