//! What tokio-postgres and its pool report.

use duebox_core::{DbError, Kind};
use tokio_postgres::error::{ErrorPosition, Severity};

use super::{Failure, Report, sort, tls};

/// What tokio-postgres reports of a connection that was open.
impl From<tokio_postgres::Error> for Failure {
    fn from(error: tokio_postgres::Error) -> Self {
        if let Some(report) = error.as_db_error() {
            return sort(of_tokio_postgres(report));
        }
        let io = std::error::Error::source(&error)
            .is_some_and(<dyn std::error::Error>::is::<std::io::Error>);
        if error.is_closed() || io {
            return Self::lost("the connection was lost");
        }
        // A message that the driver cannot read or write.
        Self::broken(DbError::new(
            Kind::Other,
            "the driver cannot follow the server",
        ))
    }
}

fn of_tokio_postgres(report: &tokio_postgres::error::DbError) -> Report<'_> {
    Report {
        code: report.code().code(),
        // Poolers leave out the one that is parsed, and speak English.
        fatal: report.parsed_severity().map_or_else(
            || matches!(report.severity(), "FATAL" | "PANIC"),
            |severity| matches!(severity, Severity::Fatal | Severity::Panic),
        ),
        message: report.message(),
        column: report.column(),
        constraint: report.constraint(),
        routine: report.routine(),
        of_text: matches!(report.position(), Some(ErrorPosition::Original(_)))
            && report.where_().is_none(),
    }
}

/// What tokio-postgres reports while it connects, when nothing was asked for yet.
fn connecting(error: &tokio_postgres::Error) -> DbError {
    if let Some(report) = error.as_db_error() {
        return sort(of_tokio_postgres(report))
            .error
            .not_applied()
            .context("connect");
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        if let Some(error) = tls::refused(cause) {
            return error.context("connect");
        }
        if tls::is_not_offered(cause) {
            return tls::not_offered().context("connect");
        }
        source = cause.source();
    }
    let message = match error.to_string().as_str() {
        "error performing TLS handshake" => "no TLS with the server",
        "authentication error" => {
            "the log-in failed; the server asks for a password or another method"
        }
        "invalid configuration" => "the connection's settings are incomplete",
        "timeout waiting for server" => "the server did not answer in time",
        _ => "the server cannot be reached",
    };
    DbError::new(Kind::Unavailable, message)
        .not_applied()
        .context("connect")
}

/// No connection was to be had from the pool, so nothing was done.
pub(crate) fn pool(error: deadpool_postgres::PoolError) -> DbError {
    use deadpool_postgres::{PoolError, TimeoutType};
    let (kind, message) = match error {
        PoolError::Timeout(TimeoutType::Wait) => {
            (Kind::Busy, "no connection of the pool became free in time")
        }
        PoolError::Timeout(_) => (Kind::Unavailable, "the server did not answer in time"),
        PoolError::Backend(error) => return connecting(&error),
        PoolError::Closed => (Kind::Unavailable, "the pool of connections is closed"),
        PoolError::NoRuntimeSpecified => (
            Kind::Unsupported,
            "the pool has timeouts and was built without a runtime",
        ),
        PoolError::PostCreateHook(_) => (
            Kind::Unavailable,
            "a hook of the pool refused the connection",
        ),
    };
    DbError::new(kind, message).not_applied()
}
