//! What SQLite's result codes mean; the only place that sorts them.
//!
//! The codes: <https://www.sqlite.org/rescode.html>. SQLite's messages quote
//! values where a trigger or a cast made them, so of a message no more is used
//! than the names in it.

#[cfg(feature = "sqlx")]
mod sqlx;

use std::borrow::Cow;

use duebox_core::{DbError, Kind};
use rusqlite::ffi;

#[cfg(feature = "sqlx")]
pub(crate) use self::sqlx::{has_begun, sort_sqlx};

/// The kind and outcome of what rusqlite answered to a statement or a COMMIT.
///
/// Whoever knows that no COMMIT was sent says `not_applied` on top.
pub(crate) fn sort(error: &rusqlite::Error) -> DbError {
    match error {
        rusqlite::Error::SqliteFailure(failure, message) => {
            sort_code(failure.extended_code, message.as_deref().unwrap_or(""))
        }
        rusqlite::Error::SqlInputError { error, msg, .. } => sort_code(error.extended_code, msg),
        // The driver refused it, so SQLite did not see it.
        _ => refused_by_driver(),
    }
}

fn refused_by_driver() -> DbError {
    DbError::invalid("the driver cannot send this statement")
}

fn sort_code(code: i32, message: &str) -> DbError {
    use ffi::{
        SQLITE_AUTH, SQLITE_BUSY, SQLITE_CANTOPEN, SQLITE_CONSTRAINT, SQLITE_CORRUPT, SQLITE_ERROR,
        SQLITE_FULL, SQLITE_INTERRUPT, SQLITE_IOERR, SQLITE_LOCKED, SQLITE_MISMATCH, SQLITE_NOLFS,
        SQLITE_NOMEM, SQLITE_NOTADB, SQLITE_PERM, SQLITE_PROTOCOL, SQLITE_RANGE, SQLITE_READONLY,
        SQLITE_SCHEMA, SQLITE_TOOBIG,
    };
    // Not on the list of what is certainly undone: IOERR, CORRUPT, NOMEM, INTERRUPT, CANTOPEN and
    // whatever comes later. After an IOERR the COMMIT may be in the log, and be found there.
    let (kind, message, certain) = match code & 0xFF {
        SQLITE_CONSTRAINT => return constraint(code, message),
        SQLITE_ERROR => return general(code, message),
        SQLITE_BUSY | SQLITE_LOCKED | SQLITE_PROTOCOL => (
            Kind::Busy,
            "another connection held the database's lock for too long",
            true,
        ),
        SQLITE_READONLY => (
            Kind::Unsupported,
            "the database is read-only; the service must be able to write to the file and to its \
             directory",
            true,
        ),
        SQLITE_FULL => (
            Kind::Other,
            "the disk is full, or the file has reached its limit; free space first",
            true,
        ),
        SQLITE_TOOBIG => (
            Kind::InvalidArgument,
            "a value or a row is larger than SQLite keeps",
            true,
        ),
        SQLITE_RANGE => (
            Kind::InvalidArgument,
            "a value is bound to no placeholder",
            true,
        ),
        SQLITE_MISMATCH => (
            Kind::InvalidArgument,
            "a value is of a type that its place cannot hold",
            true,
        ),
        SQLITE_PERM | SQLITE_AUTH => (Kind::Schema, "the statement is not permitted", true),
        SQLITE_SCHEMA => (
            Kind::Busy,
            "the schema changed again and again while the statement began",
            true,
        ),
        SQLITE_NOLFS => (
            Kind::Unsupported,
            "the system has no files as large as this one",
            true,
        ),
        SQLITE_NOTADB => (Kind::Corrupt, "the file is no SQLite database", true),
        SQLITE_CORRUPT => (Kind::Corrupt, "the database file is damaged", false),
        SQLITE_CANTOPEN => (
            Kind::Unavailable,
            "the database file, or one beside it, cannot be opened",
            false,
        ),
        SQLITE_IOERR => (
            Kind::Unavailable,
            "the database file cannot be read or written",
            false,
        ),
        SQLITE_NOMEM => (Kind::Unavailable, "SQLite has no memory left", false),
        SQLITE_INTERRUPT => (Kind::Other, "the statement was interrupted", false),
        _ => (Kind::Other, "SQLite answered with an error", false),
    };
    let error = DbError::new(kind, message).with_code(name(code));
    if certain { error.not_applied() } else { error }
}

/// A constraint: the statement, or the transaction at its COMMIT, is undone.
fn constraint(code: i32, message: &str) -> DbError {
    let (kind, said) = match code {
        ffi::SQLITE_CONSTRAINT_UNIQUE
        | ffi::SQLITE_CONSTRAINT_PRIMARYKEY
        | ffi::SQLITE_CONSTRAINT_ROWID => (Kind::Conflict, "a row with this key is there already"),
        ffi::SQLITE_CONSTRAINT_NOTNULL => (Kind::Constraint, "a column must not be NULL"),
        ffi::SQLITE_CONSTRAINT_FOREIGNKEY => {
            (Kind::Constraint, "a row refers to one that is not there")
        }
        ffi::SQLITE_CONSTRAINT_TRIGGER => (Kind::Constraint, "a trigger refused the change"),
        ffi::SQLITE_CONSTRAINT_DATATYPE => (
            Kind::Constraint,
            "a value is of a type that its column does not take",
        ),
        _ => (Kind::Constraint, "a constraint refused the change"),
    };
    let error = DbError::new(kind, said).with_code(name(code)).not_applied();
    // What a trigger says is its author's, and may hold values.
    let known = [
        "UNIQUE constraint failed: ",
        "NOT NULL constraint failed: ",
        "CHECK constraint failed: ",
    ];
    let told = known.iter().find_map(|prefix| message.strip_prefix(prefix));
    let told = told.map(|names| names.strip_prefix("index ").unwrap_or(names));
    match told.map(|names| names.trim_matches('\'')) {
        Some(names) if code != ffi::SQLITE_CONSTRAINT_TRIGGER && are_names(names) => {
            error.with_constraint(names)
        }
        _ => error,
    }
}

/// `SQLITE_ERROR`, which stands for whatever a statement can have wrong; only
/// its message tells the cases apart.
fn general(code: i32, message: &str) -> DbError {
    let missing = |what: &str, name: &str| -> Cow<'static, str> {
        if are_names(name) {
            format!("{what} \"{name}\" does not exist").into()
        } else {
            format!("a {what} does not exist").into()
        }
    };
    let (kind, said) = if let Some(name) = message.strip_prefix("no such table: ") {
        let cure = "; if it is Duebox's, run the migrations first";
        (Kind::Schema, missing("table", name) + cure)
    } else if let Some(name) = message.strip_prefix("unknown database ") {
        let cure = "; attach it to the connection that writes";
        (Kind::Schema, missing("schema", name) + cure)
    } else if let Some(name) = message.strip_prefix("no such column: ") {
        (Kind::Schema, missing("column", name))
    } else if let Some((_, name)) = message
        .strip_prefix("table ")
        .and_then(|rest| rest.split_once(" has no column named "))
    {
        (Kind::Schema, missing("column", name))
    } else if message.starts_with("no such ") {
        (
            Kind::Schema,
            "the statement names something that does not exist".into(),
        )
    } else if message.starts_with("near \"")
        || message.starts_with("unrecognized token")
        || message == "incomplete input"
    {
        (
            Kind::InvalidArgument,
            "the statement is no SQL that SQLite reads".into(),
        )
    } else if message.starts_with("too many SQL variables") {
        (
            Kind::InvalidArgument,
            "a statement binds more values than the connection allows".into(),
        )
    } else {
        (Kind::Other, "SQLite refused the statement".into())
    };
    DbError::new(kind, said).with_code(name(code)).not_applied()
}

/// `table.column`, several of them behind each other, or the name of an index;
/// nothing that could be a value.
fn are_names(text: &str) -> bool {
    !text.is_empty()
        && text.len() <= 256
        && text.split(", ").all(|name| {
            !name.is_empty()
                && name
                    .chars()
                    .all(|c| c.is_alphanumeric() || matches!(c, '_' | '.' | '$'))
        })
}

macro_rules! names {
    ($code:expr; $($name:ident)+) => {
        match $code {
            $(ffi::$name => Cow::Borrowed(stringify!($name)),)+
            other => Cow::Owned(format!("SQLITE_{other}")),
        }
    };
}

fn name(code: i32) -> Cow<'static, str> {
    names!(code;
        SQLITE_ERROR SQLITE_INTERNAL SQLITE_PERM SQLITE_ABORT SQLITE_BUSY SQLITE_LOCKED
        SQLITE_NOMEM SQLITE_READONLY SQLITE_INTERRUPT SQLITE_IOERR SQLITE_CORRUPT SQLITE_FULL
        SQLITE_CANTOPEN SQLITE_PROTOCOL SQLITE_SCHEMA SQLITE_TOOBIG SQLITE_CONSTRAINT
        SQLITE_MISMATCH SQLITE_MISUSE SQLITE_NOLFS SQLITE_AUTH SQLITE_RANGE SQLITE_NOTADB
        SQLITE_ABORT_ROLLBACK SQLITE_BUSY_RECOVERY SQLITE_BUSY_SNAPSHOT SQLITE_BUSY_TIMEOUT
        SQLITE_CANTOPEN_ISDIR SQLITE_CANTOPEN_FULLPATH
        SQLITE_CONSTRAINT_CHECK SQLITE_CONSTRAINT_COMMITHOOK SQLITE_CONSTRAINT_DATATYPE
        SQLITE_CONSTRAINT_FOREIGNKEY SQLITE_CONSTRAINT_FUNCTION SQLITE_CONSTRAINT_NOTNULL
        SQLITE_CONSTRAINT_PINNED SQLITE_CONSTRAINT_PRIMARYKEY SQLITE_CONSTRAINT_ROWID
        SQLITE_CONSTRAINT_TRIGGER SQLITE_CONSTRAINT_UNIQUE SQLITE_CONSTRAINT_VTAB
        SQLITE_CORRUPT_INDEX SQLITE_CORRUPT_SEQUENCE SQLITE_CORRUPT_VTAB
        SQLITE_IOERR_READ SQLITE_IOERR_SHORT_READ SQLITE_IOERR_WRITE SQLITE_IOERR_FSYNC
        SQLITE_IOERR_DIR_FSYNC SQLITE_IOERR_TRUNCATE SQLITE_IOERR_FSTAT SQLITE_IOERR_UNLOCK
        SQLITE_IOERR_RDLOCK SQLITE_IOERR_DELETE SQLITE_IOERR_NOMEM SQLITE_IOERR_ACCESS
        SQLITE_IOERR_LOCK SQLITE_IOERR_SHMOPEN SQLITE_IOERR_SHMSIZE SQLITE_IOERR_SHMLOCK
        SQLITE_IOERR_SHMMAP SQLITE_IOERR_CORRUPTFS SQLITE_LOCKED_SHAREDCACHE
        SQLITE_READONLY_CANTINIT SQLITE_READONLY_CANTLOCK SQLITE_READONLY_DBMOVED
        SQLITE_READONLY_DIRECTORY SQLITE_READONLY_RECOVERY SQLITE_READONLY_ROLLBACK
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use duebox_core::Outcome;

    #[test]
    fn only_names_leave_a_message() {
        for (code, message, constraint) in [
            (
                ffi::SQLITE_CONSTRAINT_UNIQUE,
                "UNIQUE constraint failed: a.b, a.c",
                Some("a.b, a.c"),
            ),
            (
                ffi::SQLITE_CONSTRAINT_UNIQUE,
                "UNIQUE constraint failed: index 'by_name'",
                Some("by_name"),
            ),
            (
                ffi::SQLITE_CONSTRAINT_CHECK,
                "CHECK constraint failed: email <> 'ada@example.com'",
                None,
            ),
            (
                ffi::SQLITE_CONSTRAINT_TRIGGER,
                "UNIQUE constraint failed: ada",
                None,
            ),
            (ffi::SQLITE_CONSTRAINT_TRIGGER, "no mail for ada", None),
        ] {
            let error = sort_code(code, message);
            assert_eq!(error.constraint(), constraint, "{message}");
            assert!(!error.to_string().contains("ada"), "{error}");
            assert_eq!(error.outcome(), Outcome::NotApplied);
        }
    }

    #[test]
    fn an_error_of_the_disk_leaves_the_outcome_unknown() {
        for code in [
            ffi::SQLITE_IOERR_FSYNC,
            ffi::SQLITE_IOERR_DIR_FSYNC,
            ffi::SQLITE_CORRUPT,
            12_345,
        ] {
            assert_eq!(sort_code(code, "").outcome(), Outcome::Unknown);
        }
        for code in [
            ffi::SQLITE_BUSY,
            ffi::SQLITE_FULL,
            ffi::SQLITE_READONLY_DBMOVED,
        ] {
            assert_eq!(sort_code(code, "").outcome(), Outcome::NotApplied);
        }
    }
}
