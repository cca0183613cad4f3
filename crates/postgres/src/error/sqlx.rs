//! What sqlx and its pool report.

use duebox_core::{DbError, Kind};
use sqlx::postgres::{PgErrorPosition, PgSeverity};

use super::{Failure, Report, sort, tls};

/// What sqlx reports of a connection that was open.
impl From<sqlx::Error> for Failure {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::Database(report) => match report.try_downcast_ref() {
                Some(report) => sort(of_sqlx(report)),
                None => Self::lost("the server reported what the driver cannot read"),
            },
            sqlx::Error::Io(_) | sqlx::Error::Tls(_) | sqlx::Error::WorkerCrashed => {
                Self::lost("the connection was lost")
            }
            _ => Self::broken(DbError::new(
                Kind::Other,
                "the driver cannot follow the server",
            )),
        }
    }
}

fn of_sqlx(report: &sqlx::postgres::PgDatabaseError) -> Report<'_> {
    Report {
        code: report.code(),
        fatal: matches!(report.severity(), PgSeverity::Fatal | PgSeverity::Panic),
        message: report.message(),
        column: report.column(),
        constraint: report.constraint(),
        routine: report.routine(),
        of_text: matches!(report.position(), Some(PgErrorPosition::Original(_)))
            && report.r#where().is_none(),
    }
}

/// No connection was to be had from the pool of sqlx, so nothing was done. The pool is
/// `full` if it had all the connections that it may have.
pub(crate) fn sqlx_pool(error: &sqlx::Error, full: bool) -> DbError {
    let (kind, message) = match error {
        sqlx::Error::PoolTimedOut if full => {
            (Kind::Busy, "no connection of the pool became free in time")
        }
        // One could have been made, and was not.
        sqlx::Error::PoolTimedOut => (Kind::Unavailable, "the server could not be reached in time"),
        sqlx::Error::PoolClosed => (Kind::Unavailable, "the pool of connections is closed"),
        sqlx::Error::Tls(cause) if tls::is_not_offered(&**cause) => {
            return tls::not_offered().context("connect");
        }
        // What is left of it are settings that cannot be followed.
        sqlx::Error::Tls(_) => (
            Kind::Unsupported,
            "no TLS with the server; see the settings of the pool and the features of sqlx",
        ),
        sqlx::Error::Io(cause) => match tls::refused(cause) {
            Some(error) => return error.context("connect"),
            None => (Kind::Unavailable, "the server cannot be reached"),
        },
        sqlx::Error::Configuration(_) => (
            Kind::Unavailable,
            "the connection's settings are incomplete",
        ),
        sqlx::Error::Database(report) => match report.try_downcast_ref() {
            Some(report) => return sort(of_sqlx(report)).error.not_applied().context("connect"),
            None => (Kind::Unavailable, "the server cannot be reached"),
        },
        _ => (Kind::Unavailable, "the server cannot be reached"),
    };
    DbError::new(kind, message).not_applied().context("connect")
}
