//! Errors: what the server and the drivers report, as a [`DbError`].
//!
//! Codes are sorted here and nowhere else. The server's messages quote rows, so
//! none is passed on: only the code, and the names of constraint, column and
//! relation.

use duebox_core::{DbError, Kind, Outcome};

/// An error on its way out, with what may be done about it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: DbError,
    pub(crate) rerun: Rerun,
    /// The connection is not to be used again.
    pub(crate) broken: bool,
}

/// Whether the whole of it can be run again by us. All of these are certain to
/// have left nothing behind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rerun {
    No,
    /// A deadlock, or a conflict with another transaction.
    Contention,
    /// A statement that the connection keeps no longer fits the schema, or the
    /// server forgot it; to be prepared anew on the same connection.
    StalePlan,
    /// Somebody else left the connection in a failed transaction.
    Elsewhere,
}

impl Failure {
    /// An error of our own, on a connection that is as good as before.
    pub(crate) const fn ours(error: DbError) -> Self {
        Self {
            error,
            rerun: Rerun::No,
            broken: false,
        }
    }

    /// The connection was lost, or what it says makes no sense.
    pub(crate) fn lost(what: &'static str) -> Self {
        Self {
            error: DbError::new(Kind::Unavailable, what),
            rerun: Rerun::No,
            broken: true,
        }
    }

    /// The same failure, certain that nothing of the change remains.
    pub(crate) fn not_applied(mut self) -> Self {
        self.error = self.error.not_applied();
        self
    }

    /// The same failure, of the statement at this place in its batch.
    pub(crate) fn at(mut self, place: usize) -> Self {
        self.error = self.error.with_statement(place);
        self
    }

    /// The same failure, past the point from which it is not run again.
    pub(crate) const fn not_again(mut self) -> Self {
        self.rerun = Rerun::No;
        self
    }
}

impl From<DbError> for Failure {
    fn from(error: DbError) -> Self {
        Self::ours(error)
    }
}

/// What the server reported, from either driver.
#[derive(Clone, Copy)]
pub(crate) struct Report<'a> {
    pub(crate) code: &'a str,
    /// The connection ends with it.
    pub(crate) fatal: bool,
    pub(crate) message: &'a str,
    pub(crate) column: Option<&'a str>,
    pub(crate) constraint: Option<&'a str>,
    pub(crate) routine: Option<&'a str>,
}

/// Sorts the server's codes:
/// <https://www.postgresql.org/docs/current/errcodes-appendix.html>.
#[allow(clippy::too_many_lines)]
pub(crate) fn sort(report: Report<'_>) -> Failure {
    use Outcome::{NotApplied, Unknown};
    let Report { code, .. } = report;
    let class = code.get(..2).unwrap_or("");
    let mut rerun = Rerun::No;
    let (kind, outcome, message) = match code {
        // unique_violation
        "23505" => (
            Kind::Conflict,
            NotApplied,
            "a row with this key is there already".into(),
        ),
        // not_null_violation
        "23502" => (
            Kind::Constraint,
            NotApplied,
            match report.column {
                Some(column) => format!("column {column:?} must not be null"),
                None => "a column must not be null".into(),
            },
        ),
        // foreign_key_violation
        "23503" => (
            Kind::Constraint,
            NotApplied,
            "a foreign key refused the change".into(),
        ),
        // check_violation
        "23514" => (
            Kind::Constraint,
            NotApplied,
            "a check refused the change".into(),
        ),
        // transaction_integrity_constraint_violation, with_check_option_violation,
        // and the rest of integrity constraint violations
        "40002" | "44000" => (
            Kind::Constraint,
            NotApplied,
            "a constraint refused the change".into(),
        ),
        _ if class == "23" => (
            Kind::Constraint,
            NotApplied,
            "a constraint refused the change".into(),
        ),

        // serialization_failure
        "40001" => {
            rerun = Rerun::Contention;
            (
                Kind::Busy,
                NotApplied,
                "gave way to another transaction that changed the same rows".into(),
            )
        }
        // deadlock_detected
        "40P01" => {
            rerun = Rerun::Contention;
            (
                Kind::Busy,
                NotApplied,
                "gave way to another transaction in a deadlock".into(),
            )
        }
        // lock_not_available
        "55P03" => (
            Kind::Busy,
            NotApplied,
            "a lock was not to be had in time".into(),
        ),
        // query_canceled
        "57014" => (
            Kind::Busy,
            NotApplied,
            "the statement took too long or was cancelled".into(),
        ),
        // object_in_use
        "55006" => (Kind::Busy, NotApplied, "what it works on is in use".into()),
        // too_many_connections
        "53300" => (
            Kind::Busy,
            NotApplied,
            "the server has no connection left".into(),
        ),
        // insufficient_resources: disk_full, out_of_memory and the like
        _ if class == "53" => (
            Kind::Busy,
            NotApplied,
            "the server is out of memory, disk or another resource".into(),
        ),

        // cannot_connect_now
        "57P03" => (
            Kind::Unavailable,
            NotApplied,
            "the server is starting up or shutting down".into(),
        ),
        // admin_shutdown, crash_shutdown
        "57P01" | "57P02" => (
            Kind::Unavailable,
            Unknown,
            "the server ended the connection".into(),
        ),
        // idle_session_timeout, idle_in_transaction_session_timeout, transaction_timeout
        "57P05" | "25P03" | "25P04" => (
            Kind::Unavailable,
            Unknown,
            "the server timed the connection out".into(),
        ),
        // protocol_violation, which PgBouncer reports its own troubles with
        "08P01" => (
            Kind::Unavailable,
            Unknown,
            "the connection did not follow the protocol".into(),
        ),
        _ if class == "08" => (Kind::Unavailable, Unknown, "the connection failed".into()),

        // read_only_sql_transaction
        "25006" => (
            Kind::Unsupported,
            NotApplied,
            "the server, or the session, is read-only".into(),
        ),
        // active_sql_transaction, invalid_transaction_termination
        "25001" | "2D000" => (
            Kind::Unsupported,
            NotApplied,
            "this cannot run inside a transaction".into(),
        ),
        // in_failed_sql_transaction
        "25P02" => {
            rerun = Rerun::Elsewhere;
            (
                Kind::Other,
                NotApplied,
                "the transaction has failed before; roll it back".into(),
            )
        }
        // feature_not_supported, of a cached plan whose columns have changed
        "0A000" if report.routine == Some("RevalidateCachedQuery") => {
            rerun = Rerun::StalePlan;
            (
                Kind::Schema,
                NotApplied,
                "the columns of a prepared statement have changed; name them in it".into(),
            )
        }
        "0A000" => (
            Kind::Unsupported,
            NotApplied,
            "the server does not support this".into(),
        ),
        // invalid_sql_statement_name, duplicate_prepared_statement
        "26000" | "42P05" => {
            rerun = Rerun::StalePlan;
            (
                Kind::Unsupported,
                NotApplied,
                "a prepared statement is not on this connection; behind a pooler that lends \
                 connections by transaction switch prepared statements off"
                    .into(),
            )
        }

        // undefined_table
        "42P01" => (
            Kind::Schema,
            NotApplied,
            missing("table", report, "; run the migrations first"),
        ),
        // undefined_column
        "42703" => (
            Kind::Schema,
            NotApplied,
            missing("column", report, "; run the migrations first"),
        ),
        // invalid_schema_name
        "3F000" => (Kind::Schema, NotApplied, missing("schema", report, "")),
        // undefined_function; the same
        "42883" => {
            rerun = Rerun::StalePlan;
            (
                Kind::Schema,
                NotApplied,
                "a function or operator does not exist for these types".into(),
            )
        }
        // undefined_object
        "42704" => (Kind::Schema, NotApplied, missing("object", report, "")),
        // invalid_catalog_name, database_dropped
        "3D000" | "57P04" => (Kind::Schema, NotApplied, missing("database", report, "")),
        // duplicate_table, duplicate_object, duplicate_column, duplicate_schema,
        // duplicate_database, duplicate_function
        "42P07" | "42710" | "42701" | "42P06" | "42P04" | "42723" => (
            Kind::Schema,
            NotApplied,
            "what it would make is there already".into(),
        ),
        // invalid_column_reference: above all ON CONFLICT without its unique index
        "42P10" => (
            Kind::Schema,
            NotApplied,
            "a column, or a unique index of it, is not as the statement says".into(),
        ),
        // datatype_mismatch; for a prepared statement perhaps of before a migration
        "42804" => {
            rerun = Rerun::StalePlan;
            (
                Kind::Schema,
                NotApplied,
                "a column is of another type than the statement says".into(),
            )
        }
        // wrong_object_type, dependent_objects_still_exist
        "42809" | "2BP01" => (
            Kind::Schema,
            NotApplied,
            "the object is of another kind, or others depend on it".into(),
        ),
        // insufficient_privilege
        "42501" => (
            Kind::Schema,
            NotApplied,
            "the role lacks a privilege that this needs; grant it".into(),
        ),

        // syntax_error
        "42601" => (
            Kind::InvalidArgument,
            NotApplied,
            "the server cannot read the statement".into(),
        ),
        // indeterminate_datatype, ambiguous_parameter
        "42P18" | "42P08" => (
            Kind::InvalidArgument,
            NotApplied,
            "the type of a value cannot be told from its place; write a cast, as in ?::bigint"
                .into(),
        ),
        // what else is wrong with a statement, among it statement_too_complex,
        // too_many_columns and too_many_arguments
        _ if class == "42" || class == "54" => (
            Kind::InvalidArgument,
            NotApplied,
            "the server refuses the statement, or the size of it".into(),
        ),
        // character_not_in_repertoire, untranslatable_character
        "22021" | "22P05" => (
            Kind::InvalidArgument,
            NotApplied,
            "a text holds a character that the database cannot keep, such as NUL".into(),
        ),
        // string_data_right_truncation
        "22001" => (
            Kind::InvalidArgument,
            NotApplied,
            "a text is too long for its column".into(),
        ),
        // numeric_value_out_of_range, datetime_field_overflow
        "22003" | "22008" => (
            Kind::InvalidArgument,
            NotApplied,
            "a value is out of range for its place".into(),
        ),
        // invalid_text_representation, invalid_datetime_format, invalid_binary_representation
        "22P02" | "22007" | "22P03" => (
            Kind::InvalidArgument,
            NotApplied,
            "a value cannot be read as the type that its place has".into(),
        ),
        // data_exception, cardinality_violation
        _ if class == "22" || class == "21" => (
            Kind::InvalidArgument,
            NotApplied,
            "the server refuses a value".into(),
        ),

        // invalid_authorization_specification, invalid_password
        _ if class == "28" => (
            Kind::Other,
            NotApplied,
            "the server refused the log-in".into(),
        ),
        // raise_exception and the rest of PL/pgSQL
        _ if class == "P0" => (
            Kind::Other,
            NotApplied,
            "a function or trigger of the database raised an error".into(),
        ),
        // triggered_data_change_violation, object_not_in_prerequisite_state
        "27000" | "55000" => (
            Kind::Other,
            NotApplied,
            "the database is not in a state for this".into(),
        ),
        // data_corrupted, index_corrupted
        "XX001" | "XX002" => (
            Kind::Corrupt,
            Unknown,
            "the server found its own data damaged".into(),
        ),
        _ => (Kind::Other, Unknown, "the server reported an error".into()),
    };
    let mut error = DbError::new(kind, message).with_code(code);
    if outcome == NotApplied {
        error = error.not_applied();
    }
    if let Some(name) = report.constraint {
        error = error.with_constraint(name);
    }
    Failure {
        error,
        rerun,
        broken: report.fatal,
    }
}

/// `table "mail" does not exist`: the name is one of the statement's text, the
/// first that the message quotes, and told only if it looks like a name.
fn missing(what: &str, report: Report<'_>, cure: &str) -> String {
    let is_name = |name: &&str| {
        (1..=130).contains(&name.len())
            && name
                .bytes()
                .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'$'))
    };
    // English alone quotes like this; in another language the name is left out.
    let quoted = report.message.split('"').nth(1).filter(is_name);
    match quoted.or(report.column.filter(is_name)) {
        Some(name) => format!("{what} {name:?} does not exist{cure}"),
        None => format!("a {what} does not exist{cure}"),
    }
}

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
        let error = DbError::new(Kind::Other, "the driver cannot follow the server");
        Self {
            error,
            rerun: Rerun::No,
            broken: true,
        }
    }
}

fn of_tokio_postgres(report: &tokio_postgres::error::DbError) -> Report<'_> {
    use tokio_postgres::error::Severity;
    Report {
        code: report.code().code(),
        fatal: matches!(
            report.parsed_severity(),
            Some(Severity::Fatal | Severity::Panic)
        ),
        message: report.message(),
        column: report.column(),
        constraint: report.constraint(),
        routine: report.routine(),
    }
}

/// What tokio-postgres reports while it connects, when nothing was asked for yet.
pub(crate) fn connecting(error: &tokio_postgres::Error) -> DbError {
    if let Some(report) = error.as_db_error() {
        return sort(of_tokio_postgres(report))
            .error
            .not_applied()
            .context("connect");
    }
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        let inner = cause
            .downcast_ref::<std::io::Error>()
            .and_then(std::io::Error::get_ref);
        let tls = inner.and_then(|inner| inner.downcast_ref::<rustls::Error>());
        if let Some(tls) = tls.or_else(|| cause.downcast_ref()) {
            return untrusted(tls).context("connect");
        }
        source = cause.source();
    }
    let message = match error.to_string().as_str() {
        "error performing TLS handshake" => {
            "no TLS with the server; sslmode says whether it must be"
        }
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

fn untrusted(error: &rustls::Error) -> DbError {
    use rustls::CertificateError as Certificate;
    let message = match error {
        rustls::Error::InvalidCertificate(why) => match why {
            Certificate::UnknownIssuer => {
                "the server's certificate is from no authority that is trusted; see sslrootcert"
            }
            Certificate::Expired | Certificate::ExpiredContext { .. } => {
                "the server's certificate has expired"
            }
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. } => {
                "the server's certificate is for another host name"
            }
            _ => "the server's certificate is not valid",
        },
        _ => "no TLS with the server",
    };
    DbError::new(Kind::Unavailable, message).not_applied()
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

/// What sqlx reports of a connection that was open.
#[cfg(feature = "sqlx")]
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
            _ => Self {
                error: DbError::new(Kind::Other, "the driver cannot follow the server"),
                rerun: Rerun::No,
                broken: true,
            },
        }
    }
}

#[cfg(feature = "sqlx")]
fn of_sqlx(report: &sqlx::postgres::PgDatabaseError) -> Report<'_> {
    use sqlx::postgres::PgSeverity;
    Report {
        code: report.code(),
        fatal: matches!(report.severity(), PgSeverity::Fatal | PgSeverity::Panic),
        message: report.message(),
        column: report.column(),
        constraint: report.constraint(),
        routine: report.routine(),
    }
}

/// No connection was to be had from the pool of sqlx, so nothing was done.
#[cfg(feature = "sqlx")]
pub(crate) fn sqlx_pool(error: &sqlx::Error) -> DbError {
    let (kind, message) = match error {
        sqlx::Error::PoolTimedOut => (Kind::Busy, "no connection of the pool became free in time"),
        sqlx::Error::PoolClosed => (Kind::Unavailable, "the pool of connections is closed"),
        sqlx::Error::Tls(_) => (
            Kind::Unavailable,
            "no TLS with the server; see the settings of the pool",
        ),
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

#[cfg(test)]
mod tests {
    use super::*;

    fn report(code: &str) -> Report<'_> {
        Report {
            code,
            fatal: false,
            message: "",
            column: None,
            constraint: None,
            routine: None,
        }
    }

    #[test]
    fn what_the_server_may_have_done_is_never_called_not_applied() {
        for code in [
            "57P01", "57P02", "57P05", "08006", "08P01", "40003", "XX000", "XX001", "25P04",
            "99999", "",
        ] {
            assert_eq!(
                sort(report(code)).error.outcome(),
                Outcome::Unknown,
                "{code}"
            );
        }
    }

    #[test]
    fn only_what_is_certainly_undone_is_run_again() {
        for code in ["40001", "40P01", "26000", "25P02"] {
            let failure = sort(report(code));
            assert_ne!(failure.rerun, Rerun::No, "{code}");
            assert_eq!(failure.error.outcome(), Outcome::NotApplied, "{code}");
        }
        for code in ["40003", "57014", "55P03", "23505", "0A000"] {
            assert_eq!(sort(report(code)).rerun, Rerun::No, "{code}");
        }
    }

    #[test]
    fn a_missing_table_is_named_and_a_value_never_is() {
        let message = r#"relation "app.mail" does not exist"#;
        let error = sort(Report {
            message,
            ..report("42P01")
        })
        .error;
        assert_eq!(
            error.to_string(),
            r#"table "app.mail" does not exist; run the migrations first (code 42P01)"#
        );
        let message = r#"invalid input syntax for type uuid: "ada@example.com""#;
        let error = sort(Report {
            message,
            ..report("22P02")
        })
        .error;
        assert!(!error.to_string().contains("ada"));
        let message = r#"relation "ada@example.com" does not exist"#;
        let error = sort(Report {
            message,
            ..report("42P01")
        })
        .error;
        assert!(!error.to_string().contains("ada"));
    }
}
