//! What sqlx reports of a connection that was open.

use duebox_core::{DbError, Kind};
use rusqlite::ffi;

use super::{refused_by_driver, sort_code};

/// The kind and outcome of what sqlx answered to a statement or a COMMIT.
///
/// Whoever knows that no COMMIT was sent says `not_applied` on top.
pub(crate) fn sort_sqlx(error: &sqlx::Error) -> DbError {
    match error {
        sqlx::Error::Database(report) => match code(&**report) {
            Some(code) => sort_code(code, report.message()),
            None => DbError::new(Kind::Other, "SQLite answered with an error"),
        },
        sqlx::Error::WorkerCrashed => DbError::new(
            Kind::Unavailable,
            "the thread of the connection has ended; open another connection",
        ),
        // The driver refused it, so SQLite did not see it.
        sqlx::Error::Protocol(_) | sqlx::Error::Encode(_) => refused_by_driver(),
        _ => DbError::new(Kind::Other, "the driver cannot follow the database"),
    }
}

/// Whether a BEGIN was refused since the caller has sent one already.
pub(crate) fn has_begun(error: &sqlx::Error) -> bool {
    error.as_database_error().is_some_and(|report| {
        code(report) == Some(ffi::SQLITE_ERROR)
            && report.message() == "cannot start a transaction within a transaction"
    })
}

fn code(report: &dyn sqlx::error::DatabaseError) -> Option<i32> {
    report.code()?.parse().ok()
}
