use std::fmt;
use std::io;
use std::process::ExitCode;

use duebox_core::{DbError, Kind, PushStoreError};

/// Why a command ended early. The message says what to do and holds no value
/// of a row, and no URL.
#[derive(Debug)]
pub(crate) enum CliError {
    /// What was asked cannot be meant.
    Usage(String),
    /// An id that is not there, or a question that was answered with no.
    Finding(String),
    Database(DbError),
    Receipts(PushStoreError),
    /// What was being done to a file or a stream.
    Io(&'static str, io::Error),
    /// The reader of the output has left.
    Closed,
    /// Ctrl-C, after so many rows.
    Stopped(u64),
}

impl CliError {
    pub(crate) fn usage(message: impl Into<String>) -> Self {
        Self::Usage(message.into())
    }

    pub(crate) fn code(&self) -> ExitCode {
        ExitCode::from(match self {
            Self::Closed => 0,
            Self::Finding(_) => 1,
            Self::Usage(_) => 2,
            Self::Database(error)
                if error.kind() == Kind::InvalidArgument && error.code().is_none() =>
            {
                2
            }
            Self::Database(_) | Self::Receipts(_) => 3,
            Self::Io(..) => 4,
            Self::Stopped(_) => 130,
        })
    }

    /// Whether nobody is to be told.
    pub(crate) const fn is_quiet(&self) -> bool {
        matches!(self, Self::Closed)
    }
}

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Usage(message) | Self::Finding(message) => f.write_str(message),
            Self::Database(error) => {
                write!(f, "{error}")?;
                match error.kind() {
                    // What PgBouncer answers to a setting that it does not hand on.
                    _ if error.code() == Some("08P01") => f.write_str(
                        "; a pooler may refuse the limit of time: try --timeout 0s",
                    ),
                    Kind::Unavailable => f.write_str(
                        "; see that the server runs and that --database names it",
                    ),
                    Kind::Schema => f.write_str(
                        "; run `duebox migrate` (with --table for another outbox), or see `duebox check`",
                    ),
                    Kind::Busy => f.write_str("; try again, and see `duebox check` if it stays"),
                    _ => Ok(()),
                }
            }
            Self::Receipts(error) => write!(f, "{error}; see `duebox check`"),
            Self::Io(doing, error) => write!(f, "{doing}: {error}"),
            Self::Closed => f.write_str("the reader of the output has left"),
            Self::Stopped(rows) => {
                write!(f, "stopped; {rows} rows were done, the rest is untouched")
            }
        }
    }
}

impl From<DbError> for CliError {
    fn from(error: DbError) -> Self {
        Self::Database(error)
    }
}

impl From<PushStoreError> for CliError {
    fn from(error: PushStoreError) -> Self {
        Self::Receipts(error)
    }
}
