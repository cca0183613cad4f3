use std::fmt::Write;
use std::time::Duration;

use super::record::counter;
use super::sql::id_in;
use super::{ClaimCursor, Lease, Outbox, OutboxRecord};
use crate::statement::Form;
use crate::{
    Database, DbError, Dialect, PARKED, ReadThenWrite, Row, Statement, Value, limits, time,
};

/// How to claim: until when, how much, and as whom.
///
/// ```
/// use duebox_core::Claim;
///
/// let claim = Claim::new("2026-01-31T09:30:00Z", "2026-01-31T09:31:00Z")
///     .limit(500)
///     .max_bytes(16 * 1024 * 1024)
///     .locked_by("mailer-2");
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Claim {
    now: String,
    lease_until: String,
    limit: u64,
    max_bytes: u64,
    locked_by: Option<String>,
}

impl Claim {
    /// How many rows are claimed unless it is said.
    pub const DEFAULT_LIMIT: u64 = 100;
    /// How many bytes of payload are claimed at most unless it is said: 64 MiB.
    pub const DEFAULT_MAX_BYTES: u64 = 64 * 1024 * 1024;

    /// A claim of rows due at `now`, under a lease up to and not including
    /// `lease_until`; both are RFC 3339.
    pub fn new(now: impl Into<String>, lease_until: impl Into<String>) -> Self {
        Self {
            now: now.into(),
            lease_until: lease_until.into(),
            limit: Self::DEFAULT_LIMIT,
            max_bytes: Self::DEFAULT_MAX_BYTES,
            locked_by: None,
        }
    }

    /// At most so many rows; 0 takes nothing, [`u64::MAX`] all.
    pub fn limit(mut self, rows: u64) -> Self {
        self.limit = rows;
        self
    }

    /// At most so many bytes of payload together, but at least one row.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.max_bytes = bytes;
        self
    }

    /// Who claims, for people to read: 1 to 255 bytes without control
    /// characters. It is no fence.
    pub fn locked_by(mut self, name: impl Into<String>) -> Self {
        self.locked_by = Some(name.into());
        self
    }

    fn checked(&self) -> Result<Checked, DbError> {
        let now = time::stored("now", &self.now)?;
        let lease_until = time::stored("lease_until", &self.lease_until)?;
        if lease_until <= now {
            return Err(DbError::invalid("lease_until is not later than now"));
        }
        self.locked_by.as_deref().map_or(Ok(()), limits::holder)?;
        Ok(Checked {
            now,
            lease_until,
            limit: i64::try_from(self.limit).unwrap_or(i64::MAX),
            max_bytes: i64::try_from(self.max_bytes).unwrap_or(i64::MAX),
            locked_by: self.locked_by.clone(),
        })
    }
}

/// A claim as it is bound.
#[derive(Clone)]
struct Checked {
    now: String,
    lease_until: String,
    limit: i64,
    max_bytes: i64,
    locked_by: Option<String>,
}

/// Rows won, and when the last of them was due.
struct Claimed {
    records: Vec<OutboxRecord>,
    last_due: Option<String>,
}

impl Outbox {
    /// Leases up to `limit` rows that are due at `now`, and returns exactly
    /// those.
    ///
    /// Due means that `next_attempt_at <= now` and that no lease is on the row.
    /// A lease runs up to and not including `lease_until`; at that instant the
    /// row is due again. Rows come oldest first, ordered by when they fell due
    /// and then by id, byte by byte. A parked row is never taken, whatever
    /// `now`. A `limit` of 0 takes nothing, [`u64::MAX`] takes all: for a bound
    /// on memory use [`claim`](Self::claim), which has one by bytes too.
    ///
    /// Callers at the same time, in one process or many, win different rows and
    /// do not wait for each other's row locks; on SQLite they wait for one short
    /// write. No order of delivery follows from the order of the rows.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if a time is not
    /// RFC 3339 or `lease_until <= now`; otherwise what the database says. After
    /// any error no row is lost: what was leased, if anything, comes back at
    /// `lease_until`.
    pub async fn claim_due(
        &self,
        db: &dyn Database,
        now: &str,
        lease_until: &str,
        limit: u64,
    ) -> Result<Vec<OutboxRecord>, DbError> {
        self.claim(
            db,
            &Claim::new(now, lease_until)
                .limit(limit)
                .max_bytes(u64::MAX),
        )
        .await
    }

    /// Like [`claim_due`](Self::claim_due), with a bound on the bytes of
    /// payload and a name for the holder.
    ///
    /// # Errors
    ///
    /// Those of [`claim_due`](Self::claim_due), and
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) for an impossible
    /// name.
    pub async fn claim(
        &self,
        db: &dyn Database,
        claim: &Claim,
    ) -> Result<Vec<OutboxRecord>, DbError> {
        let run = async {
            let checked = claim.checked()?;
            self.run_claim(db, &checked, None).await
        };
        run.await
            .map(|claimed| claimed.records)
            .map_err(|error| error.context("claim due rows"))
    }

    /// Like [`claim`](Self::claim), from where `cursor` stands, so that the
    /// cost stays the same while another session's snapshot keeps what was
    /// deleted. Rows below the cursor are found by the full scans that
    /// [`ClaimCursor`] describes; the order is that of one call, not across
    /// calls.
    ///
    /// `elapsed` reads a monotonic clock: the time since an origin that stays
    /// the same for this cursor, such as `|| started.elapsed()` of an
    /// [`Instant`](std::time::Instant).
    ///
    /// # Errors
    ///
    /// Those of [`claim`](Self::claim); the cursor stays where it was.
    pub async fn claim_through(
        &self,
        db: &dyn Database,
        claim: &Claim,
        cursor: &mut ClaimCursor,
        elapsed: &(dyn Fn() -> Duration + Sync),
    ) -> Result<Vec<OutboxRecord>, DbError> {
        let run = async {
            let checked = claim.checked()?;
            if checked.limit == 0 {
                // It reads nothing, so it is no scan.
                return Ok(Vec::new());
            }
            let started = elapsed();
            let bound = cursor.next(started).map(str::to_owned);
            let claimed = self.run_claim(db, &checked, bound.as_deref()).await?;
            let bytes: usize = claimed
                .records
                .iter()
                .map(|record| record.payload.len())
                .sum();
            let rows = claimed.records.len() as u64;
            // Nothing is known of what lies beyond a claim that its bytes cut short.
            let by_bytes = rows > 0 && bytes as u64 >= claim.max_bytes / 2;
            let short = rows < claim.limit && !by_bytes;
            cursor.claimed(
                bound.is_some(),
                started,
                elapsed(),
                short,
                claimed.last_due.as_deref(),
            );
            Ok(claimed.records)
        };
        run.await
            .map_err(|error: DbError| error.context("claim due rows"))
    }

    async fn run_claim(
        &self,
        db: &dyn Database,
        claim: &Checked,
        bound: Option<&str>,
    ) -> Result<Claimed, DbError> {
        if claim.limit == 0 {
            return Ok(Claimed {
                records: Vec::new(),
                last_due: None,
            });
        }
        let bound = bound.unwrap_or("");
        let mut records = match db.dialect() {
            Dialect::Postgres => {
                let statement = Statement::shared(self.queries().claim_postgres.clone())
                    .bind(bound)
                    .bind(claim.now.as_str())
                    .bind(claim.limit)
                    .bind(claim.max_bytes)
                    .bind(claim.lease_until.as_str())
                    .bind(claim.locked_by.as_deref());
                let rows = db.query(&statement).await?;
                rows.into_iter()
                    .map(record)
                    .collect::<Result<Vec<_>, _>>()?
            }
            dialect @ (Dialect::Sqlite | Dialect::MySql) => {
                self.read_then_lease(db, dialect, claim, bound).await?
            }
        };
        // RETURNING promises no order, and ids that are due at the same time come
        // in the order of a collation where the table has one.
        records.sort_unstable_by(|(a, a_due), (b, b_due)| (a_due, &a.id).cmp(&(b_due, &b.id)));
        let last_due = records.last().map(|(_, due)| due.clone());
        let records = records.into_iter().map(|(record, _)| record).collect();
        Ok(Claimed { records, last_due })
    }

    /// A statement that changes rows and returns them in order, with what they
    /// held before, is not to be had here: read them, then lease what was read.
    async fn read_then_lease(
        &self,
        db: &dyn Database,
        dialect: Dialect,
        claim: &Checked,
        bound: &str,
    ) -> Result<Vec<(OutboxRecord, String)>, DbError> {
        let text = match dialect {
            Dialect::MySql => &self.queries().claim_read_mysql,
            _ => &self.queries().claim_read_sqlite,
        };
        let read = Statement::shared(text.clone())
            .bind(bound)
            .bind(claim.now.as_str())
            .bind(claim.limit);
        let (outbox, lease) = (self.clone(), claim.clone());
        let step = ReadThenWrite::new(read, move |rows| {
            outbox.lease_statements(dialect, &lease, rows)
        })
        .stop_after("payload", claim.max_bytes.unsigned_abs());
        let rows = db.read_then_write(&step).await?;
        rows.into_iter()
            .filter(is_readable)
            .map(|row| {
                let lapsed = row.value("locked_until")? != &Value::Null;
                let (mut record, due) = record(row)?;
                record.claims = record.claims.saturating_add(1).min(i64::MAX.unsigned_abs());
                record.lapses = record
                    .lapses
                    .saturating_add(lapsed.into())
                    .min(i64::MAX.unsigned_abs());
                record.lease = Lease::new(&*record.id, record.claims, &*record.created_at);
                Ok((record, due))
            })
            .collect()
    }

    fn lease_statements(
        &self,
        dialect: Dialect,
        claim: &Checked,
        rows: &[Row],
    ) -> Result<Vec<Statement>, DbError> {
        let (good, bad): (Vec<&Row>, Vec<&Row>) = rows.iter().partition(|row| is_readable(row));
        let mut statements = Vec::new();
        for chunk in good.chunks(CHUNK) {
            let Form { sql, mut values } = one_of(dialect, chunk)?;
            // To undo it alone, SQLite would copy every page before it changes one; an error
            // undoes the transaction anyway.
            let update = match dialect {
                Dialect::Sqlite => "UPDATE OR ROLLBACK",
                _ => "UPDATE",
            };
            let text = self.fill(&format!(
                "{update} {{table}}{}\nSET{LEASE}\nWHERE {sql}",
                super::sql::by_key(dialect)
            ));
            let mut statement = Statement::shared(text)
                .bind(claim.lease_until.as_str())
                .bind(claim.locked_by.as_deref());
            for value in values.drain(..) {
                statement = statement.bind(value);
            }
            statements.push(statement);
        }
        // A row that was not written by this library, as no engine with typed
        // columns can hold one, must not stop those behind it.
        for row in bad {
            let text = self.fill(PARK_UNREADABLE);
            statements.push(
                Statement::shared(text)
                    .bind(PARKED)
                    .bind(claim.now.as_str())
                    .bind(row.value("id")?.clone()),
            );
        }
        Ok(statements)
    }
}

/// Ids in one statement: under the limits on bound values of every engine.
pub(super) const CHUNK: usize = 1024;

const LEASE: &str = "
    lapses = CASE
        WHEN locked_until IS NULL OR lapses = 9223372036854775807 THEN lapses
        ELSE lapses + 1
    END,
    claims = CASE WHEN claims = 9223372036854775807 THEN claims ELSE claims + 1 END,
    locked_until = ?,
    locked_by = ?";

const PARK_UNREADABLE: &str = "\
UPDATE {table}
SET
    next_attempt_at = ?,
    last_error = 'a column of this row holds a value of the wrong type',
    failed_at = ?,
    locked_until = NULL,
    locked_by = NULL
WHERE id = ?";

/// A condition that a row is one of `rows`: by its id, or on SQLite by the key
/// of the table's own tree, which saves the way through the index of ids.
fn one_of(dialect: Dialect, rows: &[&Row]) -> Result<Form, DbError> {
    if dialect != Dialect::Sqlite {
        let ids: Vec<String> = rows
            .iter()
            .map(|row| row.get("id"))
            .collect::<Result<_, _>>()?;
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        return Ok(id_in(dialect, &ids));
    }
    let mut keys = String::from("[");
    for (place, row) in rows.iter().enumerate() {
        let comma = if place > 0 { "," } else { "" };
        // Writing to a String cannot fail.
        let _ = write!(keys, "{comma}{}", row.get::<i64>("row_key")?);
    }
    keys.push(']');
    Ok(Form {
        sql: "rowid IN (SELECT value FROM json_each(?))".into(),
        values: vec![keys.into()],
    })
}

fn is_readable(row: &Row) -> bool {
    let texts = ["id", "topic", "payload", "created_at", "due_at"];
    let counters = ["attempts", "claims", "lapses"];
    texts
        .iter()
        .all(|name| matches!(row.value(name), Ok(Value::Text(_))))
        && counters
            .iter()
            .all(|name| matches!(row.value(name), Ok(Value::Integer(_))))
        && matches!(row.value("subject"), Ok(Value::Text(_) | Value::Null))
}

fn record(mut row: Row) -> Result<(OutboxRecord, String), DbError> {
    let claims = counter(&row, "claims")?;
    let id = row.take_text("id")?;
    let created_at = row.take_text("created_at")?;
    let record = OutboxRecord {
        topic: row.take_text("topic")?,
        payload: row.take_text("payload")?,
        subject: row.take_optional("subject")?,
        attempts: counter(&row, "attempts")?,
        claims,
        lapses: counter(&row, "lapses")?,
        lease: Lease::new(&*id, claims, &*created_at),
        created_at,
        id,
    };
    Ok((record, row.take_text("due_at")?))
}
