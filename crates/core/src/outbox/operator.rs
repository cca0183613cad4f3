use super::claim::CHUNK;
use super::fenced::bind_all;
use super::record::counter;
use super::sql::{by_key, id_in};
use super::survey::{due_until, since};
use super::{Outbox, OutboxEntry, OutboxStats, RowState};
use crate::statement::Form;
use crate::{Database, DbError, PARKED, Statement, Value, limits, time};

/// The columns of an [`OutboxEntry`], but for the payload.
pub(super) const COLUMNS: &str = "\
id, topic, subject, octet_length(payload) AS payload_bytes, attempts, claims, lapses,
    created_at, next_attempt_at, locked_until, locked_by, last_error, failed_at";

/// Which rows to list, and from where on.
#[derive(Clone, Debug, Default)]
#[must_use]
pub struct ListOptions {
    state: Option<RowState>,
    topic: Option<String>,
    created_before: Option<String>,
    after: Option<String>,
    limit: Option<u64>,
}

impl ListOptions {
    /// The first 100 rows, whatever they are.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only rows in this state.
    pub fn state(mut self, state: RowState) -> Self {
        self.state = Some(state);
        self
    }

    /// Only rows of this topic.
    pub fn topic(mut self, topic: impl Into<String>) -> Self {
        self.topic = Some(topic.into());
        self
    }

    /// Only rows enqueued before this RFC 3339 time.
    pub fn created_before(mut self, time: impl Into<String>) -> Self {
        self.created_before = Some(time.into());
        self
    }

    /// Only rows behind this id: the last one of the page before.
    pub fn after(mut self, id: impl Into<String>) -> Self {
        self.after = Some(id.into());
        self
    }

    /// At most so many rows; 100 unless it is said.
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = Some(rows);
        self
    }
}

/// # The operator's calls
///
/// They act on ids, whoever holds the rows; a holder then finds its lease
/// lost. Each runs as one batch, all or nothing, and returns how many rows it
/// changed. An id that is not there changes nothing, one given twice counts once.
impl Outbox {
    /// Counts the rows by where they stand at `now`, in one query. Every row
    /// is counted once.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if `now` is not
    /// RFC 3339; otherwise what the database says.
    pub async fn stats(&self, db: &dyn Database, now: &str) -> Result<OutboxStats, DbError> {
        let run = async {
            let now = time::stored("now", now)?;
            let due_until = due_until(&now);
            let statement = Statement::shared(self.queries().stats.clone())
                .bind(due_until)
                .bind(now.as_str())
                .bind(now.as_str())
                .bind(due_until);
            let rows = db.query(&statement).await?;
            let row = rows.first().ok_or_else(|| {
                DbError::new(crate::Kind::Corrupt, "counting rows returned no row")
            })?;
            Ok(OutboxStats {
                waiting: counter(row, "waiting")?,
                due: counter(row, "due")?,
                leased: counter(row, "leased")?,
                parked: counter(row, "parked")?,
                oldest_due: since(row.get("oldest_due_at")?, &now)?,
            })
        };
        run.await
            .map_err(|error: DbError| error.context("count rows"))
    }

    /// Lists rows without their payloads, in byte order of id, a page at a time:
    /// pass the last id of a page to [`ListOptions::after`] for the next. A page
    /// shorter than the limit is the last; a limit of 0 lists nothing. `now`
    /// decides the states.
    ///
    /// # Errors
    ///
    /// As [`stats`](Self::stats).
    pub async fn list(
        &self,
        db: &dyn Database,
        now: &str,
        options: &ListOptions,
    ) -> Result<Vec<OutboxEntry>, DbError> {
        let run = async {
            let now = time::stored("now", now)?;
            let mut conditions = vec!["id > ?"];
            let mut values = vec![Value::from(options.after.as_deref().unwrap_or(""))];
            if let Some(topic) = &options.topic {
                conditions.push("topic = ?");
                values.push(topic.into());
            }
            if let Some(time) = &options.created_before {
                conditions.push("created_at < ?");
                values.push(time::stored("created_before", time)?.into());
            }
            if let Some(state) = options.state {
                let (condition, times) = match state {
                    RowState::Parked => ("next_attempt_at = ?", 0),
                    RowState::Due => ("next_attempt_at < ? AND visible_at <= ?", 1),
                    RowState::Leased => ("next_attempt_at < ? AND locked_until > ?", 1),
                    RowState::Waiting => (
                        "next_attempt_at < ? AND next_attempt_at > ? AND COALESCE(locked_until, '') <= ?",
                        2,
                    ),
                };
                conditions.push(condition);
                values.push(PARKED.into());
                values.extend((0..times).map(|_| Value::from(now.as_str())));
            }
            let limit = options.limit.unwrap_or(100);
            values.push(i64::try_from(limit).unwrap_or(i64::MAX).into());
            let text = self.fill(&format!(
                "SELECT\n    {COLUMNS}\nFROM {{table}}\nWHERE {}\nORDER BY id\nLIMIT ?",
                conditions.join("\n    AND ")
            ));
            let rows = db.query(&bind_all(Statement::shared(text), values)).await?;
            OutboxEntry::read_all(rows, false)
        };
        run.await
            .map_err(|error: DbError| error.context("list rows"))
    }

    /// One row with its payload, or `None` if it is not there.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn get(&self, db: &dyn Database, id: &str) -> Result<Option<OutboxEntry>, DbError> {
        let run = async {
            limits::id(id)?;
            let text = self.fill(&format!(
                "SELECT\n    {COLUMNS},\n    payload\nFROM {{table}}\nWHERE id = ?"
            ));
            let rows = db.query(&Statement::shared(text).bind(id)).await?;
            rows.into_iter()
                .next()
                .map(|row| OutboxEntry::read(row, true))
                .transpose()
        };
        run.await
            .map_err(|error: DbError| error.context("get a row"))
    }

    /// Sets rows aside at `now`, for this reason; the attempts stay as they
    /// were.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if an argument is
    /// impossible; otherwise what the database says.
    pub async fn park(
        &self,
        db: &dyn Database,
        ids: &[&str],
        now: &str,
        reason: &str,
    ) -> Result<u64, DbError> {
        let doing = |error: DbError| error.context("park rows");
        let now = time::stored("now", now).map_err(doing)?;
        let set = "next_attempt_at = ?, last_error = ?, failed_at = ?, locked_until = NULL, locked_by = NULL";
        let values = vec![PARKED.into(), limits::error_text(reason).into(), now.into()];
        self.update_ids(db, ids, set, "", values)
            .await
            .map_err(doing)
    }

    /// Makes parked rows due at `at` again, with no attempts and no lapses
    /// counted. Rows that are not parked stay as they are.
    ///
    /// # Errors
    ///
    /// As [`park`](Self::park).
    pub async fn unpark(&self, db: &dyn Database, ids: &[&str], at: &str) -> Result<u64, DbError> {
        let doing = |error: DbError| error.context("unpark rows");
        let at = time::stored("at", at).map_err(doing)?;
        let set =
            "attempts = 0, lapses = 0, next_attempt_at = ?, locked_until = NULL, locked_by = NULL";
        let only = "\n    AND next_attempt_at = '9999-12-31T23:59:59.999999Z'";
        self.update_ids(db, ids, set, only, vec![at.into()])
            .await
            .map_err(doing)
    }

    /// Ends the leases on rows, lapsed ones included: a row that was due
    /// before it was claimed is due at once. Rows without a lease stay as they
    /// are.
    ///
    /// # Errors
    ///
    /// As [`park`](Self::park).
    pub async fn release(&self, db: &dyn Database, ids: &[&str]) -> Result<u64, DbError> {
        let set = "locked_until = NULL, locked_by = NULL";
        let only = "\n    AND locked_until IS NOT NULL";
        self.update_ids(db, ids, set, only, Vec::new())
            .await
            .map_err(|error| error.context("release rows"))
    }

    /// Deletes rows that were not delivered. This cannot be undone.
    ///
    /// # Errors
    ///
    /// As [`park`](Self::park).
    pub async fn delete(&self, db: &dyn Database, ids: &[&str]) -> Result<u64, DbError> {
        let run = async {
            let statements = distinct(ids)?
                .chunks(CHUNK)
                .map(|ids| self.delete_by_id(db.dialect(), ids))
                .collect::<Vec<_>>();
            Ok(db.batch_atomic(&statements).await?.iter().sum())
        };
        run.await
            .map_err(|error: DbError| error.context("delete rows"))
    }

    async fn update_ids(
        &self,
        db: &dyn Database,
        ids: &[&str],
        set: &str,
        only: &str,
        bound: Vec<Value>,
    ) -> Result<u64, DbError> {
        let dialect = db.dialect();
        let statements: Vec<Statement> = distinct(ids)?
            .chunks(CHUNK)
            .map(|ids| {
                let Form { sql, values } = id_in(dialect, ids);
                let text = self.fill(&format!(
                    "UPDATE {{table}}{}\nSET {set}\nWHERE {sql}{only}",
                    by_key(dialect)
                ));
                bind_all(bind_all(Statement::shared(text), bound.clone()), values)
            })
            .collect();
        Ok(db.batch_atomic(&statements).await?.iter().sum())
    }
}

/// The ids, checked, each once and in one order, so that two callers do not wait
/// for each other.
fn distinct<'a>(ids: &[&'a str]) -> Result<Vec<&'a str>, DbError> {
    ids.iter().try_for_each(|id| limits::id(id))?;
    let mut ids = ids.to_vec();
    ids.sort_unstable();
    ids.dedup();
    Ok(ids)
}
