//! What the server's error numbers mean: the only place that knows them.

mod connect;
mod er;
mod names;

use std::borrow::Cow;

use duebox_core::{DbError, Kind};
use sqlx::mysql::MySqlDatabaseError;

pub(crate) use self::connect::sort_connect;
use self::names::{
    column, constraint, denied, missing_column, missing_database, missing_index, missing_table,
};

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
/// The numbers that have a kind of their own are those known to be sent before a
/// commit begins; any other leaves the outcome unknown.
fn server(number: u16, message: &str) -> Failure {
    let kind = kind(number);
    let mut error = DbError::new(kind, text(number, message)).with_code(number.to_string());
    if let Some(name) = constraint(number, message) {
        error = error.with_constraint(name);
    }
    let ended = kind == Kind::Unavailable;
    let unheard = number == er::CLIENT_INTERACTION_TIMEOUT;
    let refused = unheard || number == er::UNKNOWN_COM_ERROR || is_login(number);
    if refused || !(ended || kind == Kind::Other) {
        error = error.not_applied();
    }
    let read_only = matches!(
        number,
        er::OPTION_PREVENTS_STATEMENT
            | er::CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
            | er::READ_ONLY_MODE
    );
    Failure {
        error,
        // Behind a proxy or a name, another connection may reach another server.
        // After too large a packet the server closes this one.
        broken: ended || read_only || number == er::NET_PACKET_TOO_LARGE,
        passing: matches!(
            number,
            er::LOCK_DEADLOCK | er::LOCK_WAIT_TIMEOUT | er::CHECKREAD | er::NEED_REPREPARE
        ),
        unheard,
    }
}

fn kind(number: u16) -> Kind {
    match number {
        er::DUP_ENTRY | er::DUP_KEY => Kind::Conflict,
        er::BAD_NULL_ERROR
        | er::NO_DEFAULT_FOR_FIELD
        | er::DATA_TOO_LONG
        | er::WARN_DATA_OUT_OF_RANGE
        | er::TRUNCATED_DATA
        | er::TRUNCATED_WRONG_VALUE
        | er::TRUNCATED_WRONG_VALUE_FOR_FIELD
        | er::INVALID_JSON_TEXT
        | er::IMPOSSIBLE_STRING_CONVERSION
        | er::NO_REFERENCED_ROW
        | er::NO_REFERENCED_ROW_2
        | er::ROW_IS_REFERENCED
        | er::ROW_IS_REFERENCED_2
        | er::CHECK_CONSTRAINT_VIOLATED
        | er::CONSTRAINT_FAILED => Kind::Constraint,
        er::NO_SUCH_TABLE
        | er::BAD_FIELD_ERROR
        | er::NO_DB_ERROR
        | er::BAD_DB_ERROR
        | er::KEY_DOES_NOT_EXITS
        | er::TABLEACCESS_DENIED_ERROR
        | er::COLUMNACCESS_DENIED_ERROR
        | er::DBACCESS_DENIED_ERROR => Kind::Schema,
        er::PARSE_ERROR
        | er::WRONG_VALUE_COUNT_ON_ROW
        | er::PS_MANY_PARAM
        | er::NET_PACKET_TOO_LARGE
        | er::WARN_ALLOWED_PACKET_OVERFLOWED => Kind::InvalidArgument,
        er::LOCK_DEADLOCK
        | er::CHECKREAD
        | er::LOCK_WAIT_TIMEOUT
        | er::LOCK_NOWAIT
        | er::QUERY_INTERRUPTED
        | er::STATEMENT_TIMEOUT
        | er::QUERY_TIMEOUT
        | er::NEED_REPREPARE
        | er::CON_COUNT_ERROR
        | er::TOO_MANY_USER_CONNECTIONS
        | er::USER_LIMIT_REACHED
        | er::MAX_PREPARED_STMT_COUNT_REACHED
        | er::RECORD_FILE_FULL
        | er::TRANSACTION_ROLLBACK_DURING_COMMIT => Kind::Busy,
        er::UNSUPPORTED_PS
        | er::OPTION_PREVENTS_STATEMENT
        | er::CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
        | er::READ_ONLY_MODE
        | er::BINLOG_STMT_MODE_AND_ROW_ENGINE => Kind::Unsupported,
        er::SERVER_SHUTDOWN
        | er::CONNECTION_KILLED
        | er::NEW_ABORTING_CONNECTION
        | er::UNKNOWN_COM_ERROR
        | er::CLIENT_INTERACTION_TIMEOUT => Kind::Unavailable,
        _ => Kind::Other,
    }
}

fn text(number: u16, message: &str) -> Cow<'static, str> {
    let text = match number {
        er::BAD_NULL_ERROR => return column(message, "must not be NULL").into(),
        er::NO_DEFAULT_FOR_FIELD => {
            return column(message, "was given no value and has no default").into();
        }
        er::DATA_TOO_LONG => return column(message, "is too short for its value").into(),
        er::WARN_DATA_OUT_OF_RANGE => {
            return column(message, "cannot hold a number so large or so small").into();
        }
        er::BAD_FIELD_ERROR => return missing_column(message).into(),
        er::NO_SUCH_TABLE => return missing_table(message).into(),
        er::KEY_DOES_NOT_EXITS => return missing_index(message).into(),
        er::BAD_DB_ERROR => return missing_database(message).into(),
        er::TABLEACCESS_DENIED_ERROR
        | er::COLUMNACCESS_DENIED_ERROR
        | er::DBACCESS_DENIED_ERROR => return denied(message).into(),
        er::DUP_ENTRY | er::DUP_KEY => "a row with this key is there already",
        er::TRUNCATED_DATA
        | er::TRUNCATED_WRONG_VALUE
        | er::TRUNCATED_WRONG_VALUE_FOR_FIELD
        | er::INVALID_JSON_TEXT
        | er::IMPOSSIBLE_STRING_CONVERSION => "a value is not of the type that its place wants",
        er::NO_REFERENCED_ROW | er::NO_REFERENCED_ROW_2 => {
            "a row that a foreign key refers to is not there"
        }
        er::ROW_IS_REFERENCED | er::ROW_IS_REFERENCED_2 => "a foreign key refers to the row",
        er::CHECK_CONSTRAINT_VIOLATED | er::CONSTRAINT_FAILED => {
            "a check constraint refused the row"
        }
        er::NO_DB_ERROR => "no database is selected; name one in the address",
        er::PARSE_ERROR | er::WRONG_VALUE_COUNT_ON_ROW => "the server cannot read the statement",
        er::PS_MANY_PARAM => "a statement binds more than 65535 values",
        er::NET_PACKET_TOO_LARGE | er::WARN_ALLOWED_PACKET_OVERFLOWED => {
            "a statement or a value is larger than the server's max_allowed_packet"
        }
        er::UNSUPPORTED_PS => {
            "the server cannot prepare this kind of statement; use the driver's own handle"
        }
        er::LOCK_DEADLOCK => "a deadlock was broken",
        er::CHECKREAD => "a row changed since it was read",
        er::LOCK_WAIT_TIMEOUT | er::LOCK_NOWAIT => "a lock was not granted in time",
        er::QUERY_INTERRUPTED | er::STATEMENT_TIMEOUT | er::QUERY_TIMEOUT => {
            "the server interrupted the statement, perhaps for its time limit"
        }
        er::NEED_REPREPARE => "a table changed while the statement was prepared",
        er::CON_COUNT_ERROR | er::TOO_MANY_USER_CONNECTIONS | er::USER_LIMIT_REACHED => {
            "the server has no connection to spare for this user"
        }
        er::MAX_PREPARED_STMT_COUNT_REACHED => {
            "the server holds as many prepared statements as max_prepared_stmt_count allows"
        }
        er::RECORD_FILE_FULL => "the server has no room for the row, perhaps a full disk",
        er::TRANSACTION_ROLLBACK_DURING_COMMIT => {
            "the cluster rolled the transaction back at its commit"
        }
        er::OPTION_PREVENTS_STATEMENT
        | er::CANT_EXECUTE_IN_READ_ONLY_TRANSACTION
        | er::READ_ONLY_MODE => {
            "the server takes no writes: it is read-only, or an option forbids the statement"
        }
        er::BINLOG_STMT_MODE_AND_ROW_ENGINE => {
            "the server's binlog_format is STATEMENT, which allows no READ COMMITTED; set it to \
             ROW or MIXED"
        }
        er::ACCESS_DENIED_ERROR
        | er::ACCESS_DENIED_NO_PASSWORD_ERROR
        | er::HOST_IS_BLOCKED
        | er::HOST_NOT_PRIVILEGED => "the server refused the user, the password or this host",
        er::SERVER_SHUTDOWN
        | er::CONNECTION_KILLED
        | er::NEW_ABORTING_CONNECTION
        | er::CLIENT_INTERACTION_TIMEOUT => "the server ended the connection",
        er::UNKNOWN_COM_ERROR => "the node of the cluster takes no statements now",
        _ => "the server refused the statement",
    };
    text.into()
}

fn is_login(number: u16) -> bool {
    matches!(
        number,
        er::ACCESS_DENIED_ERROR
            | er::ACCESS_DENIED_NO_PASSWORD_ERROR
            | er::HOST_IS_BLOCKED
            | er::HOST_NOT_PRIVILEGED
    )
}

/// Whether an error in answer to `COMMIT` says that the transaction was rolled
/// back: so do a deadlock found by a cluster and a server that became read-only.
pub(crate) fn commit_was_undone(error: &DbError) -> bool {
    let undone = [
        er::LOCK_DEADLOCK,
        er::TRANSACTION_ROLLBACK_DURING_COMMIT,
        er::OPTION_PREVENTS_STATEMENT,
    ];
    error
        .code()
        .and_then(|code| code.parse().ok())
        .is_some_and(|code| undone.contains(&code))
}

/// Whether a row is there already with this very primary key.
///
/// MySQL names the table before the key. In another language than English the
/// key is not found in the message.
pub(crate) fn is_of_primary_key(error: &DbError) -> bool {
    let key = error.constraint().and_then(|name| name.rsplit('.').next());
    error.kind() == Kind::Conflict && key.is_none_or(|key| key == "PRIMARY")
}

/// Whether the server says that it cannot prepare this kind of statement.
pub(crate) fn cannot_be_prepared(error: &sqlx::Error) -> bool {
    error
        .as_database_error()
        .and_then(|error| error.try_downcast_ref::<MySqlDatabaseError>())
        .is_some_and(|error| error.number() == er::UNSUPPORTED_PS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebox_core::Outcome;

    #[test]
    fn the_key_is_named_and_the_duplicate_value_is_not() {
        let found = |message| {
            let error = server(er::DUP_ENTRY, message).error;
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
        let error = server(er::DUP_ENTRY, "Duplicate entry 'secret' for key 'PRIMARY'").error;
        assert!(!format!("{error} {error:?}").contains("secret"));
        assert_eq!(error.outcome(), Outcome::NotApplied);
    }

    #[test]
    fn constraints_and_columns_are_named() {
        let message = "Cannot add or update a child row: a foreign key constraint fails \
                       (`test`.`child`, CONSTRAINT `child_ibfk_1` FOREIGN KEY (`parent`) ...)";
        let error = server(er::NO_REFERENCED_ROW_2, message).error;
        assert_eq!(error.constraint(), Some("child_ibfk_1"));
        let error = server(
            er::CHECK_CONSTRAINT_VIOLATED,
            "Check constraint 'c1' is violated.",
        );
        assert_eq!(error.error.constraint(), Some("c1"));
        let error = server(
            er::CONSTRAINT_FAILED,
            "CONSTRAINT `t.n` failed for `test`.`t`",
        );
        assert_eq!(error.error.constraint(), Some("t.n"));
        let error = server(
            er::DATA_TOO_LONG,
            "Data too long for column 'name' at row 1",
        )
        .error;
        assert_eq!(
            error.to_string(),
            r#"column "name" is too short for its value (code 1406)"#
        );
        let error = server(er::NO_SUCH_TABLE, "Table 'test.outbox' doesn't exist").error;
        assert_eq!(
            error.to_string(),
            "table \"outbox\" does not exist in the database \"test\"; \
             run the migrations first (code 1146)"
        );
    }

    #[test]
    fn what_is_not_known_has_an_unknown_outcome() {
        assert_eq!(server(1180, "x").error.outcome(), Outcome::Unknown);
        assert_eq!(
            server(er::SERVER_SHUTDOWN, "x").error.outcome(),
            Outcome::Unknown
        );
        assert_eq!(
            server(er::LOCK_DEADLOCK, "x").error.outcome(),
            Outcome::NotApplied
        );
        let timeout = server(er::CLIENT_INTERACTION_TIMEOUT, "x");
        assert_eq!(timeout.error.outcome(), Outcome::NotApplied);
        assert!(timeout.broken && timeout.unheard);
    }
}
