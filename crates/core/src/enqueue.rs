use chrono::{DateTime, Utc};
use ulid::Ulid;

use crate::{DbError, Outbox, Statement, format_time};

/// One unit of work to enqueue, put together by name.
///
/// It becomes a [`Statement`] by [`Outbox::enqueue`], for the batch that
/// changes the caller's own state. `Debug` shows neither payload nor subject.
///
/// ```
/// use chrono::{DateTime, Utc};
/// use duebox_core::{DbError, Enqueue, Outbox, Statement};
///
/// fn welcome(outbox: &Outbox, account: &str, now: DateTime<Utc>) -> Statement {
///     outbox.enqueue(
///         Enqueue::new("mail.welcome")
///             .payload(r#"{"template":"welcome"}"#)
///             .subject(account)
///             .at(now),
///     )
/// }
/// # let statement = welcome(&Outbox::new("outbox"), "a-17", DateTime::UNIX_EPOCH);
/// # assert_eq!(statement.values()?.len(), 6);
/// # Ok::<(), DbError>(())
/// ```
#[derive(Clone)]
#[must_use = "it enqueues nothing until it becomes a statement of a batch"]
pub struct Enqueue {
    topic: String,
    payload: String,
    subject: Option<String>,
    at: Option<DateTime<Utc>>,
    id: Option<String>,
}

impl Enqueue {
    /// Work of this topic, with an empty payload and for nobody in particular.
    pub fn new(topic: impl Into<String>) -> Self {
        Self {
            topic: topic.into(),
            payload: String::new(),
            subject: None,
            at: None,
            id: None,
        }
    }

    /// What the work needs to know: up to
    /// [`MAX_PAYLOAD_BYTES`](crate::MAX_PAYLOAD_BYTES), without NUL.
    pub fn payload(mut self, text: impl Into<String>) -> Self {
        self.payload = text.into();
        self
    }

    /// A model as JSON.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`](crate::Kind::InvalidArgument) if the model
    /// cannot be written as JSON; the error does not quote it.
    #[cfg(feature = "json")]
    pub fn json<T: serde::Serialize + ?Sized>(self, model: &T) -> Result<Self, DbError> {
        match serde_json::to_string(model) {
            Ok(text) => Ok(self.payload(text)),
            Err(_) => Err(DbError::invalid(
                "the payload's model cannot be written as JSON",
            )),
        }
    }

    /// The person the work is for. Name them for all work about a person: it
    /// is how [`Outbox::export_subject`] and [`Outbox::erase_subject`] find it.
    pub fn subject(mut self, subject: impl Into<String>) -> Self {
        self.subject = Some(subject.into());
        self
    }

    /// When the work is enqueued and first due; floored to the microsecond.
    /// This must be said: the library reads no clock. A producer whose clock
    /// is ahead delays its own work.
    pub fn at(mut self, time: DateTime<Utc>) -> Self {
        self.at = Some(time);
        self
    }

    /// The row's id, instead of a new ULID.
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.id = Some(id.into());
        self
    }

    /// A new ULID for this time, for a caller who must know the id.
    #[must_use]
    pub fn new_id(time: DateTime<Utc>) -> String {
        let millis = u64::try_from(time.timestamp_millis()).unwrap_or(0);
        Ulid::from_datetime(std::time::UNIX_EPOCH + std::time::Duration::from_millis(millis))
            .to_string()
    }

    pub(crate) fn row(self) -> Result<NewRow, DbError> {
        let Some(time) = self.at else {
            return Err(DbError::invalid(
                "an enqueue has no time; say when with `.at(time)`",
            ));
        };
        let row = NewRow {
            at: format_time(time)?,
            id: self.id.unwrap_or_else(|| Self::new_id(time)),
            topic: self.topic,
            payload: self.payload,
            subject: self.subject,
        };
        row.check()?;
        Ok(row)
    }
}

impl std::fmt::Debug for Enqueue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Enqueue")
            .field("topic", &self.topic)
            .field("payload", &format_args!("<{} bytes>", self.payload.len()))
            .field(
                "subject",
                &self.subject.as_ref().map(|_| format_args!("<hidden>")),
            )
            .field("at", &self.at)
            .field("id", &self.id)
            .finish()
    }
}

/// The values of a new row, ready to bind.
#[derive(Clone)]
pub(crate) struct NewRow {
    pub(crate) id: String,
    pub(crate) topic: String,
    pub(crate) payload: String,
    pub(crate) subject: Option<String>,
    pub(crate) at: String,
}

impl NewRow {
    pub(crate) fn check(&self) -> Result<(), DbError> {
        crate::limits::id(&self.id)?;
        crate::limits::topic(&self.topic)?;
        crate::limits::payload(&self.payload)?;
        self.subject
            .as_deref()
            .map_or(Ok(()), crate::limits::subject)
    }

    pub(crate) fn bind(self, statement: Statement) -> Statement {
        statement
            .bind(self.id)
            .bind(self.topic)
            .bind(self.payload)
            .bind(self.subject)
            .bind(self.at.as_str())
            .bind(self.at.as_str())
    }
}

impl Outbox {
    /// The statement that enqueues `work`, for the batch that changes the
    /// caller's own state. What cannot be enqueued is a statement that carries
    /// its error.
    #[must_use]
    pub fn enqueue(&self, work: Enqueue) -> Statement {
        match work.row() {
            Ok(row) => row.bind(Statement::shared(self.queries().enqueue.clone())),
            Err(error) => Statement::refused(error.context("enqueue")),
        }
    }

    /// Like [`enqueue`](Self::enqueue), but touches no row if the id is there
    /// already; see [`enqueue_once_statement`](Self::enqueue_once_statement).
    #[must_use]
    pub fn enqueue_once(&self, work: Enqueue) -> Statement {
        match work.row() {
            Ok(row) => row.bind(Statement::shared_per_dialect(
                self.queries().enqueue_once.clone(),
            )),
            Err(error) => Statement::refused(error.context("enqueue once")),
        }
    }
}
