use std::borrow::Cow;
use std::fmt;

/// What went wrong, in terms that a caller can act on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The database cannot be reached, or the connection to it was lost.
    Unavailable,
    /// The database is there and cannot take the work now: a lock was not
    /// granted in time, a transaction was chosen to give way, the pool is full.
    Busy,
    /// A row with the same unique key is there already; for an enqueue, one
    /// with the same id.
    Conflict,
    /// A constraint other than a unique key refused the change.
    Constraint,
    /// A statement with [`expect_rows`](crate::Statement::expect_rows) touched
    /// another number of rows.
    RowCount,
    /// An argument is at fault: a time that is not RFC 3339, a text over its
    /// limit, a lease that ends before it begins, an address that cannot be one.
    /// What this library checks is refused before any SQL; what only the
    /// database can tell, such as a statement of the caller's that it does not
    /// parse, comes with the database's code.
    InvalidArgument,
    /// The database, its version or its state cannot do this: a server that
    /// is too old, one that is read-only, a statement refused in a batch.
    Unsupported,
    /// A table or column is missing or of the wrong shape, or a privilege on
    /// it is. Most often the migrations have not run.
    Schema,
    /// What is stored cannot be what this library wrote.
    Corrupt,
    /// Anything else that the database said.
    Other,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::Unavailable => "unavailable",
            Self::Busy => "busy",
            Self::Conflict => "conflict",
            Self::Constraint => "constraint",
            Self::RowCount => "row count",
            Self::InvalidArgument => "invalid argument",
            Self::Unsupported => "unsupported",
            Self::Schema => "schema",
            Self::Corrupt => "corrupt",
            Self::Other => "other",
        }
    }
}

/// The kind in lower case, such as `row count`.
impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Whether the change that was asked for has happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// Nothing of it was done, or all of it was rolled back.
    NotApplied,
    /// It may have been done: the answer was lost, or the code is not on the
    /// list of those that certainly mean a rollback.
    Unknown,
}

/// The error of everything that asks a [`Database`](crate::Database).
///
/// It says what went wrong ([`kind`](Self::kind)) and whether the change has
/// happened ([`outcome`](Self::outcome)). It never holds a payload, a subject
/// or any bound value: databases and drivers quote rows in their messages, so
/// those are not passed on and there is no [`source`](std::error::Error::source);
/// the database's code and the name of the constraint are. `Debug` shows what
/// `Display` does, in parts.
///
/// ```
/// use duebox_core::{DbError, Kind, Outcome};
///
/// let error = DbError::new(Kind::Conflict, "a row with this key is there already")
///     .with_code("23505")
///     .with_constraint("outbox_pkey")
///     .not_applied()
///     .context("enqueue");
/// assert_eq!(error.outcome(), Outcome::NotApplied);
/// assert!(!error.is_retryable());
/// assert_eq!(
///     error.to_string(),
///     r#"enqueue: a row with this key is there already (code 23505, constraint "outbox_pkey")"#
/// );
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct DbError(Box<Parts>);

#[derive(Clone, PartialEq, Eq)]
struct Parts {
    kind: Kind,
    outcome: Outcome,
    context: Vec<Cow<'static, str>>,
    message: Cow<'static, str>,
    code: Option<String>,
    constraint: Option<String>,
    statement: Option<usize>,
}

impl DbError {
    /// An error of which nothing is known but its kind; its outcome is
    /// [`Outcome::Unknown`] until [`not_applied`](Self::not_applied) is said.
    ///
    /// `message` is lower case without a final period and holds no value of
    /// a row or of a statement.
    #[must_use]
    pub fn new(kind: Kind, message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(Parts {
            kind,
            outcome: Outcome::Unknown,
            context: Vec::new(),
            message: message.into(),
            code: None,
            constraint: None,
            statement: None,
        }))
    }

    /// An argument was refused before any SQL ran, so nothing was applied.
    #[must_use]
    pub fn invalid(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Kind::InvalidArgument, message).not_applied()
    }

    /// A statement of a batch touched another number of rows than it was to.
    #[must_use]
    pub fn row_count(expected: u64, found: u64) -> Self {
        let message = format!("a statement touched {found} rows where {expected} were expected");
        Self::new(Kind::RowCount, message)
    }

    /// The same error, certain that nothing of the change remains.
    #[must_use]
    pub fn not_applied(mut self) -> Self {
        self.0.outcome = Outcome::NotApplied;
        self
    }

    /// The same error, of which it is open whether the change remains.
    #[must_use]
    pub fn unknown(mut self) -> Self {
        self.0.outcome = Outcome::Unknown;
        self
    }

    /// With the database's own code, such as SQLSTATE `40001`.
    #[must_use]
    pub fn with_code(mut self, code: impl Into<String>) -> Self {
        self.0.code = Some(code.into());
        self
    }

    /// With the name of the constraint that refused the change.
    #[must_use]
    pub fn with_constraint(mut self, name: impl Into<String>) -> Self {
        self.0.constraint = Some(name.into());
        self
    }

    /// With the place of the failed statement in its batch, from 0.
    #[must_use]
    pub fn with_statement(mut self, index: usize) -> Self {
        self.0.statement = Some(index);
        self
    }

    /// With what was being done put before the message: `claim due rows: …`.
    #[must_use]
    pub fn context(mut self, doing: impl Into<Cow<'static, str>>) -> Self {
        self.0.context.push(doing.into());
        self
    }

    /// What went wrong.
    #[must_use]
    pub fn kind(&self) -> Kind {
        self.0.kind
    }

    /// Whether the change has happened.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        self.0.outcome
    }

    /// The database's own code, if it gave one.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.0.code.as_deref()
    }

    /// The name of the constraint that refused the change, if the database
    /// told it.
    #[must_use]
    pub fn constraint(&self) -> Option<&str> {
        self.0.constraint.as_deref()
    }

    /// The place of the failed statement in its batch, from 0, where known.
    #[must_use]
    pub fn statement(&self) -> Option<usize> {
        self.0.statement
    }

    /// Whether the same call may be made again with a chance to succeed and
    /// no risk of doing the work twice: the kind is [`Kind::Unavailable`] or
    /// [`Kind::Busy`], and nothing was applied.
    ///
    /// Claims, the fenced calls and reads may be repeated even where this is
    /// `false` because the outcome is unknown: they do nothing twice.
    #[must_use]
    pub fn is_retryable(&self) -> bool {
        matches!(self.0.kind, Kind::Unavailable | Kind::Busy)
            && self.0.outcome == Outcome::NotApplied
    }
}

impl fmt::Display for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for doing in self.0.context.iter().rev() {
            write!(f, "{doing}: ")?;
        }
        f.write_str(&self.0.message)?;
        let mut details = Vec::new();
        if let Some(index) = self.0.statement {
            details.push(format!("statement {index}"));
        }
        if let Some(code) = &self.0.code {
            details.push(format!("code {code}"));
        }
        if let Some(name) = &self.0.constraint {
            details.push(format!("constraint {name:?}"));
        }
        if !details.is_empty() {
            write!(f, " ({})", details.join(", "))?;
        }
        Ok(())
    }
}

impl fmt::Debug for DbError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DbError")
            .field("kind", &self.0.kind)
            .field("outcome", &self.0.outcome)
            .field("message", &format_args!("{self}"))
            .finish()
    }
}

impl std::error::Error for DbError {}
