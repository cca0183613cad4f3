use std::fmt;

use crate::{DbError, Row};

/// A row that a claim won, with the lease on it.
///
/// `Debug` shows neither payload nor subject.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxRecord {
    /// The caller's id.
    pub id: String,
    /// What kind of work this is.
    pub topic: String,
    /// What the work needs to know.
    pub payload: String,
    /// The person the work is for.
    pub subject: Option<String>,
    /// Deliveries that failed so far.
    pub attempts: u64,
    /// Times the row was handed out, this one included.
    pub claims: u64,
    /// Claims in a row that found an expired lease: holders that died or
    /// stalled since one last ended its lease.
    pub lapses: u64,
    /// When the row was enqueued, as 27 characters of RFC 3339.
    pub created_at: String,
    /// What the fenced calls ask for.
    pub lease: Lease,
}

impl fmt::Debug for OutboxRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxRecord")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("payload", &format_args!("<{} bytes>", self.payload.len()))
            .field(
                "subject",
                &self.subject.as_ref().map(|_| format_args!("<hidden>")),
            )
            .field("attempts", &self.attempts)
            .field("claims", &self.claims)
            .field("lapses", &self.lapses)
            .field("created_at", &self.created_at)
            .finish_non_exhaustive()
    }
}

/// The right to end one claim of one row.
///
/// A lease is known by the row's id, the number of the claim and the time the
/// row was enqueued. A call that takes a lease acts only while all three match
/// and the row is under lease; so a holder whose lease lapsed still holds it
/// until somebody else claims the row, and never afterwards.
///
/// It may be stored and made again by [`Lease::new`]. An id that is used again
/// for a new row with the same time and the same number of claims cannot be
/// told from the old one: do not use an id twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Lease {
    id: String,
    claims: u64,
    created_at: String,
}

impl Lease {
    /// A lease that was kept elsewhere, by its three parts.
    pub fn new(id: impl Into<String>, claims: u64, created_at: impl Into<String>) -> Self {
        Self {
            id: id.into(),
            claims,
            created_at: created_at.into(),
        }
    }

    /// The id of the row.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The number of the claim: the row's `claims` as the claim left it.
    #[must_use]
    pub fn claims(&self) -> u64 {
        self.claims
    }

    /// The row's `created_at`.
    #[must_use]
    pub fn created_at(&self) -> &str {
        &self.created_at
    }

    /// The number of the claim as the database keeps it.
    pub(super) fn number(&self) -> i64 {
        i64::try_from(self.claims).unwrap_or(i64::MAX)
    }
}

/// What a fenced call found of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LeaseOutcome {
    /// The lease was held and the call has acted on its row.
    Held,
    /// The row was claimed again, ended by an operator, erased or completed
    /// before; the call did nothing to it.
    Lost,
}

impl LeaseOutcome {
    /// Whether this is [`LeaseOutcome::Held`].
    #[must_use]
    pub fn is_held(self) -> bool {
        self == Self::Held
    }
}

/// A row as an operator or an export sees it, under lease or not.
///
/// `Debug` shows neither payload, subject nor the last error.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxEntry {
    /// The caller's id.
    pub id: String,
    /// What kind of work this is.
    pub topic: String,
    /// The person the work is for.
    pub subject: Option<String>,
    /// How long the payload is, in bytes.
    pub payload_bytes: u64,
    /// The payload; [`list`](crate::Outbox::list) leaves it out.
    pub payload: Option<String>,
    /// Deliveries that failed so far.
    pub attempts: u64,
    /// Times the row was handed out.
    pub claims: u64,
    /// Claims in a row that found an expired lease.
    pub lapses: u64,
    /// When the row was enqueued.
    pub created_at: String,
    /// When the next attempt may start; [`PARKED`](crate::PARKED) if parked.
    pub next_attempt_at: String,
    /// Until when the row is under lease.
    pub locked_until: Option<String>,
    /// Who holds the lease, as they named themselves.
    pub locked_by: Option<String>,
    /// What the last failure or parking said.
    pub last_error: Option<String>,
    /// When the last failure or parking was.
    pub failed_at: Option<String>,
}

impl OutboxEntry {
    /// Where the row stands at `now`, a time as the outbox writes it.
    #[must_use]
    pub fn state(&self, now: &str) -> RowState {
        let leased = self
            .locked_until
            .as_deref()
            .is_some_and(|until| until > now);
        if self.next_attempt_at == crate::PARKED {
            RowState::Parked
        } else if leased {
            RowState::Leased
        } else if self.next_attempt_at.as_str() > now {
            RowState::Waiting
        } else {
            RowState::Due
        }
    }

    pub(super) fn read_all(rows: Vec<Row>, with_payload: bool) -> Result<Vec<Self>, DbError> {
        rows.into_iter()
            .map(|row| Self::read(row, with_payload))
            .collect()
    }

    pub(super) fn read(mut row: Row, with_payload: bool) -> Result<Self, DbError> {
        Ok(Self {
            id: row.take_text("id")?,
            topic: row.take_text("topic")?,
            subject: row.take_optional("subject")?,
            payload_bytes: counter(&row, "payload_bytes")?,
            payload: if with_payload {
                Some(row.take_text("payload")?)
            } else {
                None
            },
            attempts: counter(&row, "attempts")?,
            claims: counter(&row, "claims")?,
            lapses: counter(&row, "lapses")?,
            created_at: row.take_text("created_at")?,
            next_attempt_at: row.take_text("next_attempt_at")?,
            locked_until: row.take_optional("locked_until")?,
            locked_by: row.take_optional("locked_by")?,
            last_error: row.take_optional("last_error")?,
            failed_at: row.take_optional("failed_at")?,
        })
    }
}

impl fmt::Debug for OutboxEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxEntry")
            .field("id", &self.id)
            .field("topic", &self.topic)
            .field("payload_bytes", &self.payload_bytes)
            .field("attempts", &self.attempts)
            .field("claims", &self.claims)
            .field("lapses", &self.lapses)
            .field("created_at", &self.created_at)
            .field("next_attempt_at", &self.next_attempt_at)
            .field("locked_until", &self.locked_until)
            .field("locked_by", &self.locked_by)
            .field("failed_at", &self.failed_at)
            .finish_non_exhaustive()
    }
}

/// Where a row stands at an instant. Every row is in exactly one state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowState {
    /// Not due yet.
    Waiting,
    /// A claim would take it.
    Due,
    /// Under a lease that has not lapsed.
    Leased,
    /// Set aside until somebody unparks it.
    Parked,
}

/// How many rows stand where; see [`Outbox::stats`](crate::Outbox::stats).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxStats {
    /// Rows that are not due yet.
    pub waiting: u64,
    /// Rows that a claim would take.
    pub due: u64,
    /// Rows under a lease that has not lapsed.
    pub leased: u64,
    /// Rows set aside.
    pub parked: u64,
    /// How long the oldest due row has been due; `None` if none is.
    pub oldest_due: Option<chrono::TimeDelta>,
}

/// A counter of the row. What is below zero was not written by this library
/// and must not keep the row from being delivered.
pub(super) fn counter(row: &Row, name: &str) -> Result<u64, DbError> {
    Ok(row.get::<i64>(name)?.try_into().unwrap_or(0))
}
