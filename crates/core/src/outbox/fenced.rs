use std::collections::{BTreeMap, HashSet};

use super::claim::CHUNK;
use super::record::counter;
use super::sql::{by_key, for_update, id_in};
use super::{Lease, LeaseOutcome, Outbox};
use crate::statement::Form;
use crate::{
    Database, DbError, Dialect, Kind, PARKED, ReadThenWrite, Row, Statement, Value, limits, time,
};

/// One failed delivery, for [`Outbox::retry_claimed`].
#[derive(Clone, Copy)]
pub struct Retry<'a> {
    /// The lease to end.
    pub lease: &'a Lease,
    /// When the next attempt may start, RFC 3339.
    pub next_attempt_at: &'a str,
    /// What went wrong; kept with the row, cleaned of control characters and
    /// cut to 4 KiB. Put no personal data in it.
    pub error: &'a str,
}

impl std::fmt::Debug for Retry<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Retry")
            .field("lease", &self.lease)
            .field("next_attempt_at", &self.next_attempt_at)
            .finish_non_exhaustive()
    }
}

/// What a call does to the rows whose leases are held.
#[derive(Clone)]
enum Change {
    Delete,
    /// A list of assignments and what they bind, alike for every row.
    Set(&'static str, Vec<Value>),
    /// The next attempt and the error of each failure, and when they were.
    Retry {
        now: String,
        each: BTreeMap<Lease, (String, String)>,
    },
}

/// The lease of one row in SQL, for statements about one row.
const FENCE: &str = "id = ? AND claims = ? AND created_at = ? AND locked_until IS NOT NULL";

const RETRY: &str = "
    attempts = CASE WHEN attempts = 9223372036854775807 THEN attempts ELSE attempts + 1 END,
    lapses = 0,
    next_attempt_at = {at},
    last_error = {error},
    failed_at = ?,
    locked_until = NULL,
    locked_by = NULL";
const RESCHEDULE: &str = "
    attempts = 0,
    lapses = 0,
    next_attempt_at = ?,
    last_error = NULL,
    failed_at = NULL,
    locked_until = NULL,
    locked_by = NULL";
const RELEASE: &str = "
    lapses = 0,
    next_attempt_at = ?,
    locked_until = NULL,
    locked_by = NULL";
const EXTEND: &str = "
    locked_until = CASE WHEN locked_until < ? THEN ? ELSE locked_until END";
const NOTE: &str = "
    last_error = ?";
const PARK: &str = "
    attempts = CASE WHEN attempts = 9223372036854775807 THEN attempts ELSE attempts + 1 END,
    lapses = 0,
    next_attempt_at = ?,
    last_error = ?,
    failed_at = ?,
    locked_until = NULL,
    locked_by = NULL";

/// # The fenced calls
///
/// Each takes leases and acts on the row of each only while the lease is
/// held: the row's id, number of claims and time of creation match, and it is
/// under lease. A lease that lapsed is still held until another claim takes the
/// row. The answer says for each lease, in the order given, whether it was
/// held or lost; losing is no error. Sent again after an error whose outcome is
/// unknown, no call acts twice, but then what it has done reads as lost.
///
/// Each is one statement, or one short transaction where the engine cannot
/// return what it changed; more than 1024 leases take several, and after an
/// error some of these may have been done.
impl Outbox {
    /// Removes the rows: they were delivered.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn complete_claimed(
        &self,
        db: &dyn Database,
        leases: &[Lease],
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        self.fenced(db, leases, &Change::Delete)
            .await
            .map_err(|error| error.context("complete claimed rows"))
    }

    /// Ends leases after failed deliveries: counts each attempt, keeps the
    /// error, and makes the row due at its own `next_attempt_at`. `now` becomes
    /// `failed_at`. Of two entries with one lease the first counts.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`] if a time is not
    /// RFC 3339, before anything is done; otherwise what the database says.
    pub async fn retry_claimed(
        &self,
        db: &dyn Database,
        now: &str,
        retries: &[Retry<'_>],
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        let run = async {
            let now = time::stored("now", now)?;
            let mut each = BTreeMap::new();
            for retry in retries {
                let at = time::stored("next_attempt_at", retry.next_attempt_at)?;
                each.entry(retry.lease.clone())
                    .or_insert((at, limits::error_text(retry.error)));
            }
            let leases: Vec<Lease> = retries.iter().map(|retry| retry.lease.clone()).collect();
            self.fenced(db, &leases, &Change::Retry { now, each }).await
        };
        run.await
            .map_err(|error: DbError| error.context("retry claimed rows"))
    }

    /// Ends leases of recurring work that was done: makes the rows due again at
    /// `next_attempt_at`, with no attempts and no error.
    ///
    /// # Errors
    ///
    /// As [`retry_claimed`](Self::retry_claimed).
    pub async fn reschedule_claimed(
        &self,
        db: &dyn Database,
        leases: &[Lease],
        next_attempt_at: &str,
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        let doing = |error: DbError| error.context("reschedule claimed rows");
        let at = time::stored("next_attempt_at", next_attempt_at).map_err(doing)?;
        let change = Change::Set(RESCHEDULE, vec![at.into()]);
        self.fenced(db, leases, &change).await.map_err(doing)
    }

    /// Ends leases without a delivery and without counting one: the rows are
    /// due again at `at`, which may be now.
    ///
    /// # Errors
    ///
    /// As [`retry_claimed`](Self::retry_claimed).
    pub async fn release_claimed(
        &self,
        db: &dyn Database,
        leases: &[Lease],
        at: &str,
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        let doing = |error: DbError| error.context("release claimed rows");
        let at = time::stored("at", at).map_err(doing)?;
        let change = Change::Set(RELEASE, vec![at.into()]);
        self.fenced(db, leases, &change).await.map_err(doing)
    }

    /// Makes leases run up to `until`, not including it; never shortens one.
    ///
    /// # Errors
    ///
    /// As [`retry_claimed`](Self::retry_claimed).
    pub async fn extend_claimed(
        &self,
        db: &dyn Database,
        leases: &[Lease],
        until: &str,
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        let doing = |error: DbError| error.context("extend claimed rows");
        let until = time::stored("until", until).map_err(doing)?;
        let change = Change::Set(EXTEND, vec![until.as_str().into(), until.into()]);
        self.fenced(db, leases, &change).await.map_err(doing)
    }

    /// Writes a text where a failure's would be, and ends nothing: what a
    /// holder wants known of a row should it die. The next failure writes over
    /// it.
    ///
    /// # Errors
    ///
    /// What the database says.
    pub async fn note_claimed(
        &self,
        db: &dyn Database,
        leases: &[Lease],
        note: &str,
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        let change = Change::Set(NOTE, vec![limits::error_text(note).into()]);
        self.fenced(db, leases, &change)
            .await
            .map_err(|error| error.context("note on claimed rows"))
    }

    /// Sets rows aside after a failure that no other attempt can mend: counts
    /// the attempt and keeps the error, at `now`. They stay until somebody
    /// [unparks](Self::unpark) or [deletes](Self::delete) them.
    ///
    /// # Errors
    ///
    /// As [`retry_claimed`](Self::retry_claimed).
    pub async fn park_claimed(
        &self,
        db: &dyn Database,
        leases: &[Lease],
        now: &str,
        error: &str,
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        let doing = |error: DbError| error.context("park claimed rows");
        let now = time::stored("now", now).map_err(doing)?;
        let error = limits::error_text(error);
        let change = Change::Set(PARK, vec![PARKED.into(), error.into(), now.into()]);
        self.fenced(db, leases, &change).await.map_err(doing)
    }

    /// The statement that completes one claimed row, for the batch or the
    /// transaction in which its handler has its effect: that effect then takes
    /// place once. It expects one row, so a lost lease undoes the batch.
    #[must_use]
    pub fn complete_statement(&self, lease: &Lease) -> Statement {
        let text = self.fill(&format!("DELETE FROM {{table}} WHERE {FENCE}"));
        fence(Statement::shared(text), lease).expect_rows(1)
    }

    /// The statement that schedules another attempt of one claimed row, for a
    /// transaction of the caller's; like
    /// [`complete_statement`](Self::complete_statement) it expects one row.
    #[must_use]
    pub fn retry_statement(&self, now: &str, retry: Retry<'_>) -> Statement {
        let times = time::stored("now", now)
            .and_then(|now| Ok((now, time::stored("next_attempt_at", retry.next_attempt_at)?)));
        match times {
            Err(error) => Statement::refused(error.context("retry a claimed row")),
            Ok((now, at)) => {
                let set = RETRY.replace("{at}", "?").replace("{error}", "?");
                let text = self.fill(&format!("UPDATE {{table}}\nSET{set}\nWHERE {FENCE}"));
                let statement = Statement::shared(text)
                    .bind(at)
                    .bind(limits::error_text(retry.error))
                    .bind(now);
                fence(statement, retry.lease).expect_rows(1)
            }
        }
    }

    async fn fenced(
        &self,
        db: &dyn Database,
        leases: &[Lease],
        change: &Change,
    ) -> Result<Vec<LeaseOutcome>, DbError> {
        // In one order of ids, so that two callers do not wait for each other.
        let mut distinct: Vec<&Lease> = leases.iter().collect();
        distinct.sort_unstable();
        distinct.dedup();
        let mut lost: HashSet<&Lease> = HashSet::new();
        for (done, chunk) in distinct.chunks(CHUNK).enumerate() {
            let answer = match db.dialect() {
                Dialect::Postgres => {
                    let statement = self.change_returning(chunk, change);
                    db.query(&statement).await
                }
                dialect @ (Dialect::Sqlite | Dialect::MySql)
                    if matches!(change, Change::Delete) =>
                {
                    // Most often all are held, and then their number tells so.
                    let all = match dialect {
                        Dialect::MySql => vec![self.delete_held_mysql(chunk)],
                        _ => self.delete_held_sqlite(chunk),
                    };
                    match db.batch_atomic(&all).await {
                        Ok(_) => continue,
                        Err(error) if error.kind() == Kind::RowCount => {
                            let step = self.lock_then_change(dialect, chunk, change);
                            db.read_then_write(&step).await
                        }
                        Err(error) => Err(error),
                    }
                }
                dialect @ (Dialect::Sqlite | Dialect::MySql) => {
                    let step = self.lock_then_change(dialect, chunk, change);
                    db.read_then_write(&step).await
                }
            };
            let rows = answer.map_err(|error| if done > 0 { error.unknown() } else { error })?;
            let read: HashSet<Lease> = rows.iter().map(lease).collect::<Result<_, _>>()?;
            // The engine without RETURNING read all rows of these ids.
            lost.extend(chunk.iter().filter(|lease| !read.contains(lease)));
        }
        let outcome = |lease: &Lease| {
            if !lost.is_empty() && lost.contains(lease) {
                LeaseOutcome::Lost
            } else {
                LeaseOutcome::Held
            }
        };
        Ok(leases.iter().map(outcome).collect())
    }

    /// One statement that changes what is held and returns it.
    fn change_returning(&self, leases: &[&Lease], change: &Change) -> Statement {
        let mut values = Vec::new();
        // Sub-selects, so that the planner does not look at the arrays: knowing them
        // it plans anew at each call, which for few leases takes most of the time.
        let mut list = "(SELECT ?::text[]), (SELECT ?::bigint[]), (SELECT ?::text[])".to_owned();
        let mut columns = "lease_id, lease_claims, lease_created_at".to_owned();
        let mut more = Vec::new();
        let head = match change {
            Change::Delete => "DELETE FROM {table} AS o\nUSING".to_owned(),
            Change::Set(set, bound) => {
                values.extend(bound.iter().cloned());
                format!("UPDATE {{table}} AS o\nSET{set}\nFROM")
            }
            Change::Retry { now, each } => {
                values.push(now.as_str().into());
                let of = |lease: &&Lease| each.get(*lease).cloned().unwrap_or_default();
                let (at, error): (Vec<_>, Vec<_>) = leases
                    .iter()
                    .map(of)
                    .map(|(at, error)| (Some(at), Some(error)))
                    .unzip();
                more = vec![Value::TextArray(at), Value::TextArray(error)];
                list.push_str(", (SELECT ?::text[]), (SELECT ?::text[])");
                columns.push_str(", new_at, new_error");
                let set = RETRY
                    .replace("{at}", "l.new_at")
                    .replace("{error}", "l.new_error");
                format!("UPDATE {{table}} AS o\nSET{set}\nFROM")
            }
        };
        values.push(Value::TextArray(
            leases.iter().map(|lease| Some(lease.id().into())).collect(),
        ));
        values.push(Value::IntegerArray(
            leases.iter().map(|lease| lease.number()).collect(),
        ));
        values.push(Value::TextArray(
            leases
                .iter()
                .map(|lease| Some(lease.created_at().into()))
                .collect(),
        ));
        values.extend(more);
        let text = self.fill(&format!(
            "{head} unnest({list}) AS l ({columns})\n\
             WHERE o.id = l.lease_id\n    \
             AND o.claims = l.lease_claims\n    \
             AND o.created_at = l.lease_created_at\n    \
             AND o.locked_until IS NOT NULL\n\
             RETURNING o.id, o.claims, o.created_at"
        ));
        bind_all(Statement::shared(text), values)
    }

    /// A locking read of the rows under lease, then the change of those held.
    fn lock_then_change(
        &self,
        dialect: Dialect,
        leases: &[&Lease],
        change: &Change,
    ) -> ReadThenWrite {
        let ids: Vec<&str> = leases.iter().map(|lease| lease.id()).collect();
        let Form { sql, values } = id_in(dialect, &ids);
        let text = self.fill(&format!(
            "SELECT id, claims, created_at\nFROM {{table}}{}\nWHERE {sql}\n    \
             AND locked_until IS NOT NULL\nORDER BY id{}",
            by_key(dialect),
            for_update(dialect)
        ));
        let read = bind_all(Statement::shared(text), values);
        let wanted: HashSet<Lease> = leases.iter().map(|lease| (*lease).clone()).collect();
        let (outbox, change) = (self.clone(), change.clone());
        ReadThenWrite::new(read, move |rows| {
            let held: Vec<Lease> = rows
                .iter()
                .map(lease)
                .filter(|lease| lease.as_ref().map_or(true, |lease| wanted.contains(lease)))
                .collect::<Result<_, _>>()?;
            Ok(if held.is_empty() {
                Vec::new()
            } else {
                outbox.change_locked(dialect, &held, &change)
            })
        })
    }

    /// The statements that change rows which this transaction has locked.
    fn change_locked(&self, dialect: Dialect, held: &[Lease], change: &Change) -> Vec<Statement> {
        let ids: Vec<&str> = held.iter().map(Lease::id).collect();
        let by_key = by_key(dialect);
        let update = |set: &str, bound: Vec<Value>, ids: &[&str]| {
            let Form { sql, values } = id_in(dialect, ids);
            let text = self.fill(&format!("UPDATE {{table}}{by_key}\nSET{set}\nWHERE {sql}"));
            bind_all(bind_all(Statement::shared(text), bound), values)
        };
        match change {
            Change::Delete => vec![self.delete_by_id(dialect, &ids)],
            Change::Set(set, bound) => vec![update(set, bound.clone(), &ids)],
            Change::Retry { now, each } => {
                let mut alike: BTreeMap<&(String, String), Vec<&str>> = BTreeMap::new();
                for lease in held {
                    if let Some(failure) = each.get(lease) {
                        alike.entry(failure).or_default().push(lease.id());
                    }
                }
                let set = RETRY.replace("{at}", "?").replace("{error}", "?");
                alike
                    .into_iter()
                    .map(|((at, error), ids)| {
                        let bound = vec![at.into(), error.into(), now.into()];
                        update(&set, bound, &ids)
                    })
                    .collect()
            }
        }
    }
}

fn fence(statement: Statement, lease: &Lease) -> Statement {
    statement
        .bind(lease.id())
        .bind(lease.number())
        .bind(lease.created_at())
}

pub(super) fn bind_all(statement: Statement, values: Vec<Value>) -> Statement {
    values.into_iter().fold(statement, Statement::bind)
}

fn lease(row: &Row) -> Result<Lease, DbError> {
    Ok(Lease::new(
        row.get::<String>("id")?,
        counter(row, "claims")?,
        row.get::<String>("created_at")?,
    ))
}
