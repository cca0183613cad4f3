//! What the server's error numbers mean: the only place that knows them.
//!
//! The numbers and their names are those of
//! <https://dev.mysql.com/doc/mysql-errors/9.0/en/server-error-reference.html> and
//! <https://mariadb.com/kb/en/mariadb-error-code-reference/>.

use duebox_core::{DbError, Kind};
use sqlx::mysql::MySqlDatabaseError;

const ER_DUP_KEY: u16 = 1022;
const ER_CHECKREAD: u16 = 1020;
const ER_CON_COUNT_ERROR: u16 = 1040;
const ER_DBACCESS_DENIED_ERROR: u16 = 1044;
const ER_ACCESS_DENIED_ERROR: u16 = 1045;
const ER_BAD_NULL_ERROR: u16 = 1048;
const ER_BAD_DB_ERROR: u16 = 1049;
const ER_SERVER_SHUTDOWN: u16 = 1053;
const ER_BAD_FIELD_ERROR: u16 = 1054;
const ER_DUP_ENTRY: u16 = 1062;
const ER_PARSE_ERROR: u16 = 1064;
const ER_NO_DB_ERROR: u16 = 1046;
const ER_RECORD_FILE_FULL: u16 = 1114;
const ER_HOST_IS_BLOCKED: u16 = 1129;
const ER_HOST_NOT_PRIVILEGED: u16 = 1130;
const ER_WRONG_VALUE_COUNT_ON_ROW: u16 = 1136;
const ER_TABLEACCESS_DENIED_ERROR: u16 = 1142;
const ER_COLUMNACCESS_DENIED_ERROR: u16 = 1143;
const ER_NO_SUCH_TABLE: u16 = 1146;
const ER_NET_PACKET_TOO_LARGE: u16 = 1153;
const ER_NEW_ABORTING_CONNECTION: u16 = 1184;
const ER_KEY_DOES_NOT_EXITS: u16 = 1176;
const ER_TOO_MANY_USER_CONNECTIONS: u16 = 1203;
const ER_LOCK_WAIT_TIMEOUT: u16 = 1205;
const ER_LOCK_DEADLOCK: u16 = 1213;
const ER_NO_REFERENCED_ROW: u16 = 1216;
const ER_ROW_IS_REFERENCED: u16 = 1217;
const ER_USER_LIMIT_REACHED: u16 = 1226;
const ER_WARN_DATA_OUT_OF_RANGE: u16 = 1264;
const ER_TRUNCATED_DATA: u16 = 1265;
const ER_OPTION_PREVENTS_STATEMENT: u16 = 1290;
const ER_TRUNCATED_WRONG_VALUE: u16 = 1292;
const ER_UNSUPPORTED_PS: u16 = 1295;
const ER_WARN_ALLOWED_PACKET_OVERFLOWED: u16 = 1301;
const ER_QUERY_INTERRUPTED: u16 = 1317;
const ER_NO_DEFAULT_FOR_FIELD: u16 = 1364;
const ER_TRUNCATED_WRONG_VALUE_FOR_FIELD: u16 = 1366;
const ER_PS_MANY_PARAM: u16 = 1390;
const ER_DATA_TOO_LONG: u16 = 1406;
const ER_ROW_IS_REFERENCED_2: u16 = 1451;
const ER_NO_REFERENCED_ROW_2: u16 = 1452;
const ER_MAX_PREPARED_STMT_COUNT_REACHED: u16 = 1461;
const ER_NEED_REPREPARE: u16 = 1615;
const ER_BINLOG_STMT_MODE_AND_ROW_ENGINE: u16 = 1665;
const ER_ACCESS_DENIED_NO_PASSWORD_ERROR: u16 = 1698;
const ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: u16 = 1792;
const ER_READ_ONLY_MODE: u16 = 1836;
// MariaDB alone.
const ER_CONNECTION_KILLED: u16 = 1927;
const ER_STATEMENT_TIMEOUT: u16 = 1969;
const ER_CONSTRAINT_FAILED: u16 = 4025;
// MySQL alone; it means something else by 4025.
const ER_QUERY_TIMEOUT: u16 = 3024;
const ER_TRANSACTION_ROLLBACK_DURING_COMMIT: u16 = 3101;
const ER_INVALID_JSON_TEXT: u16 = 3140;
const ER_LOCK_NOWAIT: u16 = 3572;
const ER_CHECK_CONSTRAINT_VIOLATED: u16 = 3819;
const ER_IMPOSSIBLE_STRING_CONVERSION: u16 = 3988;
const ER_CLIENT_INTERACTION_TIMEOUT: u16 = 4031;

/// What went wrong, and what the session must know of it.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) error: DbError,
    /// The connection is of no more use: the link is gone, out of step, or
    /// leads to a server that takes no writes.
    pub(crate) broken: bool,
    /// Run again, the same work may well succeed.
    pub(crate) passing: bool,
    /// The server ended the session before it read what was to be done.
    pub(crate) unheard: bool,
}

impl Failure {
    /// An error of our own, on a connection that is all right.
    pub(crate) fn ours(error: DbError) -> Self {
        Self {
            error,
            broken: false,
            passing: false,
            unheard: false,
        }
    }

    /// The same of something sent before the work itself: nothing was done, and
    /// if the link is gone, perhaps the server had closed an idle connection.
    pub(crate) fn before_the_work(self) -> Self {
        Self {
            unheard: self.error.kind() == Kind::Unavailable,
            ..self.map(DbError::not_applied)
        }
    }

    pub(crate) fn map(mut self, change: impl FnOnce(DbError) -> DbError) -> Self {
        self.error = change(self.error);
        self
    }
}

/// Sorts an error of the driver. Nothing of its text is passed on but names
/// of columns, tables and constraints: it quotes rows.
///
/// The outcome is that of a statement which commits by itself.
pub(crate) fn sort(error: &sqlx::Error) -> Failure {
    use sqlx::Error;
    let link = |message: &'static str| Failure {
        broken: true,
        ..Failure::ours(DbError::new(Kind::Unavailable, message))
    };
    match error {
        Error::Database(error) => match error.try_downcast_ref::<MySqlDatabaseError>() {
            Some(error) => server(error.number(), error.message()),
            None => link("the driver failed"),
        },
        Error::Io(_) => link("the connection to the server was lost"),
        Error::Tls(_) => Failure {
            broken: true,
            ..Failure::ours(
                DbError::new(Kind::Unavailable, "no TLS connection could be made").not_applied(),
            )
        },
        Error::PoolClosed => {
            Failure::ours(DbError::new(Kind::Unavailable, "the pool is closed").not_applied())
        }
        // The driver knows no code for newer types, and leaves the rest unread.
        Error::Protocol(message) if message.starts_with("unknown column type") => Failure {
            broken: true,
            ..Failure::ours(DbError::new(
                Kind::Unsupported,
                "a column has a type that the driver does not know; cast it to text",
            ))
        },
        _ => Failure {
            broken: true,
            ..Failure::ours(DbError::new(
                Kind::Other,
                "the driver could not make sense of the server's answer",
            ))
        },
    }
}

/// An error number of the server as kind and outcome.
///
/// An answer that is an error says that the statement failed, which undoes it.
/// The numbers listed here are those known to be sent before a commit begins;
/// any other leaves the outcome unknown.
fn server(number: u16, message: &str) -> Failure {
    let (kind, text): (Kind, String) = match number {
        ER_DUP_ENTRY | ER_DUP_KEY => (
            Kind::Conflict,
            "a row with this key is there already".into(),
        ),
        ER_BAD_NULL_ERROR => (Kind::Constraint, column(message, "must not be NULL")),
        ER_NO_DEFAULT_FOR_FIELD => (
            Kind::Constraint,
            column(message, "was given no value and has no default"),
        ),
        ER_DATA_TOO_LONG => (
            Kind::Constraint,
            column(message, "is too short for its value"),
        ),
        ER_WARN_DATA_OUT_OF_RANGE => (
            Kind::Constraint,
            column(message, "cannot hold a number so large or so small"),
        ),
        ER_TRUNCATED_DATA
        | ER_TRUNCATED_WRONG_VALUE
        | ER_TRUNCATED_WRONG_VALUE_FOR_FIELD
        | ER_INVALID_JSON_TEXT
        | ER_IMPOSSIBLE_STRING_CONVERSION => (
            Kind::Constraint,
            "a value is not of the type that its place wants".into(),
        ),
        ER_NO_REFERENCED_ROW | ER_NO_REFERENCED_ROW_2 => (
            Kind::Constraint,
            "a row that a foreign key refers to is not there".into(),
        ),
        ER_ROW_IS_REFERENCED | ER_ROW_IS_REFERENCED_2 => {
            (Kind::Constraint, "a foreign key refers to the row".into())
        }
        ER_CHECK_CONSTRAINT_VIOLATED | ER_CONSTRAINT_FAILED => (
            Kind::Constraint,
            "a check constraint refused the row".into(),
        ),
        ER_NO_SUCH_TABLE => (Kind::Schema, missing_table(message)),
        ER_BAD_FIELD_ERROR => (Kind::Schema, column(message, "does not exist")),
        ER_NO_DB_ERROR => (
            Kind::Schema,
            "no database is selected; name one in the address".into(),
        ),
        ER_KEY_DOES_NOT_EXITS => (
            Kind::Schema,
            "an index of the table does not exist; run the migrations first".into(),
        ),
        ER_BAD_DB_ERROR => (Kind::Schema, "the database does not exist".into()),
        ER_TABLEACCESS_DENIED_ERROR | ER_COLUMNACCESS_DENIED_ERROR | ER_DBACCESS_DENIED_ERROR => (
            Kind::Schema,
            "the user lacks a privilege on the database, a table or a column".into(),
        ),
        ER_PARSE_ERROR | ER_WRONG_VALUE_COUNT_ON_ROW => (
            Kind::InvalidArgument,
            "the server cannot read the statement".into(),
        ),
        ER_PS_MANY_PARAM => (
            Kind::InvalidArgument,
            "a statement binds more than 65535 values".into(),
        ),
        ER_NET_PACKET_TOO_LARGE | ER_WARN_ALLOWED_PACKET_OVERFLOWED => (
            Kind::InvalidArgument,
            "a statement or a value is larger than the server's max_allowed_packet".into(),
        ),
        ER_UNSUPPORTED_PS => (
            Kind::Unsupported,
            "the server cannot prepare this kind of statement; use the driver's own handle".into(),
        ),
        ER_LOCK_DEADLOCK => (Kind::Busy, "a deadlock was broken".into()),
        ER_CHECKREAD => (Kind::Busy, "a row changed since it was read".into()),
        ER_LOCK_WAIT_TIMEOUT | ER_LOCK_NOWAIT => {
            (Kind::Busy, "a lock was not granted in time".into())
        }
        ER_QUERY_INTERRUPTED | ER_STATEMENT_TIMEOUT | ER_QUERY_TIMEOUT => (
            Kind::Busy,
            "the server interrupted the statement, perhaps for its time limit".into(),
        ),
        ER_NEED_REPREPARE => (
            Kind::Busy,
            "a table changed while the statement was prepared".into(),
        ),
        ER_CON_COUNT_ERROR | ER_TOO_MANY_USER_CONNECTIONS | ER_USER_LIMIT_REACHED => (
            Kind::Busy,
            "the server has no connection to spare for this user".into(),
        ),
        ER_MAX_PREPARED_STMT_COUNT_REACHED => (
            Kind::Busy,
            "the server holds as many prepared statements as max_prepared_stmt_count allows".into(),
        ),
        ER_RECORD_FILE_FULL => (
            Kind::Busy,
            "the server has no room for the row, perhaps a full disk".into(),
        ),
        ER_OPTION_PREVENTS_STATEMENT
        | ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
        | ER_READ_ONLY_MODE => (
            Kind::Unsupported,
            "the server takes no writes: it is read-only, or an option forbids the statement"
                .into(),
        ),
        ER_BINLOG_STMT_MODE_AND_ROW_ENGINE => (
            Kind::Unsupported,
            "the server's binlog_format is STATEMENT, which allows no READ COMMITTED; set it to \
             ROW or MIXED"
                .into(),
        ),
        ER_ACCESS_DENIED_ERROR
        | ER_ACCESS_DENIED_NO_PASSWORD_ERROR
        | ER_HOST_IS_BLOCKED
        | ER_HOST_NOT_PRIVILEGED => (
            Kind::Other,
            "the server refused the user, the password or this host".into(),
        ),
        ER_SERVER_SHUTDOWN
        | ER_CONNECTION_KILLED
        | ER_NEW_ABORTING_CONNECTION
        | ER_CLIENT_INTERACTION_TIMEOUT => {
            (Kind::Unavailable, "the server ended the connection".into())
        }
        ER_TRANSACTION_ROLLBACK_DURING_COMMIT => (
            Kind::Busy,
            "the cluster rolled the transaction back at its commit".into(),
        ),
        _ => (Kind::Other, "the server refused the statement".into()),
    };
    let ended = kind == Kind::Unavailable;
    let read_only = matches!(
        number,
        ER_OPTION_PREVENTS_STATEMENT | ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION | ER_READ_ONLY_MODE
    );
    let mut error = DbError::new(kind, text).with_code(number.to_string());
    if let Some(name) = constraint(number, message) {
        error = error.with_constraint(name);
    }
    let unheard = number == ER_CLIENT_INTERACTION_TIMEOUT;
    if unheard || !(ended || kind == Kind::Other && !is_login(number)) {
        error = error.not_applied();
    }
    Failure {
        error,
        // After a full network packet the server closes the connection.
        broken: ended || read_only || number == ER_NET_PACKET_TOO_LARGE,
        passing: matches!(
            number,
            ER_LOCK_DEADLOCK | ER_LOCK_WAIT_TIMEOUT | ER_CHECKREAD | ER_NEED_REPREPARE
        ),
        unheard,
    }
}

fn is_login(number: u16) -> bool {
    matches!(
        number,
        ER_ACCESS_DENIED_ERROR
            | ER_ACCESS_DENIED_NO_PASSWORD_ERROR
            | ER_HOST_IS_BLOCKED
            | ER_HOST_NOT_PRIVILEGED
    )
}

/// Whether an error in answer to `COMMIT` says that the transaction was rolled
/// back: so do a deadlock found by a cluster and a server that became read-only.
pub(crate) fn commit_was_undone(error: &DbError) -> bool {
    let undone = [
        ER_LOCK_DEADLOCK,
        ER_TRANSACTION_ROLLBACK_DURING_COMMIT,
        ER_OPTION_PREVENTS_STATEMENT,
    ];
    error
        .code()
        .and_then(|code| code.parse().ok())
        .is_some_and(|code| undone.contains(&code))
}

/// Whether the server says that it cannot prepare this kind of statement.
pub(crate) fn cannot_be_prepared(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>())
        .is_some_and(|error| error.number() == ER_UNSUPPORTED_PS)
}

/// The name of the key or constraint in the message. The duplicate value
/// stands before it and may hold anything, thus the last such phrase counts,
/// and only a plain name behind it.
fn constraint(number: u16, message: &str) -> Option<&str> {
    let (before, quote) = match number {
        ER_DUP_ENTRY => (" for key '", '\''),
        ER_NO_REFERENCED_ROW_2 | ER_ROW_IS_REFERENCED_2 => ("CONSTRAINT `", '`'),
        ER_CHECK_CONSTRAINT_VIOLATED => ("Check constraint '", '\''),
        ER_CONSTRAINT_FAILED => ("CONSTRAINT `", '`'),
        _ => return None,
    };
    let name = &message[message.rfind(before)? + before.len()..];
    let name = match number {
        // It ends the message, or the value has broken out of its quotes.
        ER_DUP_ENTRY => name.strip_suffix(quote)?,
        _ => name.split(quote).next()?,
    };
    plain(name)
}

/// `column "x" …`, for messages that name the first thing in single quotes and
/// hold no value.
fn column(message: &str, what: &str) -> String {
    match message.split('\'').nth(1).and_then(plain) {
        Some(name) => format!("column {name:?} {what}"),
        None => format!("a column {what}"),
    }
}

fn missing_table(message: &str) -> String {
    let quoted = message.split('\'').nth(1).and_then(plain);
    match quoted.map(|name| name.rsplit('.').next().unwrap_or(name)) {
        Some(name) => format!("table {name:?} does not exist; run the migrations first"),
        None => "a table does not exist; run the migrations first".into(),
    }
}

/// A name of letters, digits and what joins them, which no value can pass for
/// in the places where it is looked for.
fn plain(name: &str) -> Option<&str> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
    (!name.is_empty() && name.len() <= 200 && name.chars().all(is_plain)).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebox_core::Outcome;

    #[test]
    fn the_key_is_named_and_the_duplicate_value_is_not() {
        let found = |message| {
            let error = server(ER_DUP_ENTRY, message).error;
            error.constraint().map(str::to_owned)
        };
        assert_eq!(
            found("Duplicate entry 'secret' for key 'outbox.PRIMARY'").as_deref(),
            Some("outbox.PRIMARY")
        );
        assert_eq!(
            found("Duplicate entry 'x' for key 'secret' for key 'PRIMARY'").as_deref(),
            Some("PRIMARY")
        );
        // Another language, and a value that holds the English words.
        assert_eq!(
            found("Eintrag 'x' for key 'secret' für Schlüssel 'PRIMARY'"),
            None
        );
        assert_eq!(
            found("Eintrag 'x for key 'secret'' für Schlüssel 'PRIMARY'"),
            None
        );
        let error = server(ER_DUP_ENTRY, "Duplicate entry 'secret' for key 'PRIMARY'").error;
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }

    #[test]
    fn constraints_and_columns_are_named() {
        let message = "Cannot add or update a child row: a foreign key constraint fails \
                       (`test`.`child`, CONSTRAINT `child_ibfk_1` FOREIGN KEY (`parent`) ...)";
        let error = server(ER_NO_REFERENCED_ROW_2, message).error;
        assert_eq!(error.constraint(), Some("child_ibfk_1"));
        let error = server(
            ER_CHECK_CONSTRAINT_VIOLATED,
            "Check constraint 'c1' is violated.",
        );
        assert_eq!(error.error.constraint(), Some("c1"));
        let error = server(
            ER_CONSTRAINT_FAILED,
            "CONSTRAINT `t.n` failed for `test`.`t`",
        );
        assert_eq!(error.error.constraint(), Some("t.n"));
        let error = server(ER_DATA_TOO_LONG, "Data too long for column 'name' at row 1").error;
        assert_eq!(
            error.to_string(),
            r#"column "name" is too short for its value (code 1406)"#
        );
        let error = server(ER_NO_SUCH_TABLE, "Table 'test.outbox' doesn't exist").error;
        assert_eq!(
            error.to_string(),
            r#"table "outbox" does not exist; run the migrations first (code 1146)"#
        );
    }

    #[test]
    fn what_is_not_known_has_an_unknown_outcome() {
        assert_eq!(server(1180, "x").error.outcome(), Outcome::Unknown);
        assert_eq!(
            server(ER_SERVER_SHUTDOWN, "x").error.outcome(),
            Outcome::Unknown
        );
        assert_eq!(
            server(ER_LOCK_DEADLOCK, "x").error.outcome(),
            Outcome::NotApplied
        );
        let timeout = server(ER_CLIENT_INTERACTION_TIMEOUT, "x");
        assert_eq!(timeout.error.outcome(), Outcome::NotApplied);
        assert!(timeout.broken && timeout.unheard);
    }
}
