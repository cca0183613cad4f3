use thiserror::Error;

use crate::{DbError, Kind};

/// The error of a [`PendingReceiptStore`](crate::PendingReceiptStore).
///
/// It says what a caller can do, and holds no ticket, token, owner or text of
/// a database. What the database said is a [`DbError`], from which this one is
/// made: an adapter that wants to tell the operator more logs that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Error)]
#[non_exhaustive]
pub enum PushStoreError {
    /// The store cannot be reached or cannot take the work now. Whether the
    /// work was done may be open, but every call of the port may be repeated:
    /// what was done already is not done twice, only counted once.
    #[error("the store of pending receipts is busy or out of reach; try again")]
    Busy,
    /// An instant is not of the years 1970 to 9999. Nothing was done.
    #[error("an instant is outside the years 1970 to 9999")]
    OutOfRange,
    /// What is stored cannot be what this library wrote.
    #[error("a stored pending receipt cannot be read; it was not written by this library")]
    Corrupt,
    /// The store failed in a way that trying again does not cure: a missing
    /// table or privilege, a server that is too old or read-only, a full disk.
    #[error(
        "the store of pending receipts failed; check that its migrations have run, what its \
         role may do, and that the server is not read-only"
    )]
    Internal,
}

impl PushStoreError {
    /// Whether the same call may succeed later, unchanged. Repeating it is
    /// harmless.
    #[must_use]
    pub const fn is_retryable(self) -> bool {
        matches!(self, Self::Busy)
    }
}

/// By kind. The outcome plays no part, since every call of the port may be
/// repeated. [`OutOfRange`](PushStoreError::OutOfRange) comes from
/// [`check_instant`](crate::check_instant) alone.
impl From<DbError> for PushStoreError {
    fn from(error: DbError) -> Self {
        match error.kind() {
            Kind::Busy | Kind::Unavailable => Self::Busy,
            Kind::Corrupt => Self::Corrupt,
            // What a caller can get wrong, an instant, is checked before.
            Kind::InvalidArgument
            | Kind::Conflict
            | Kind::Constraint
            | Kind::RowCount
            | Kind::Unsupported
            | Kind::Schema
            | Kind::Other => Self::Internal,
        }
    }
}
