//! What SQLite's result codes mean: <https://www.sqlite.org/rescode.html>.

use duebox_core::{DbError, Kind};

/// The kind of an error, and whether it is certain that nothing was done. SQLite's own
/// message quotes values, so no more than a name is taken from it.
pub(crate) fn sort(error: &sqlx::Error) -> DbError {
    let Some(report) = error.as_database_error() else {
        return match error {
            sqlx::Error::PoolTimedOut => {
                DbError::new(Kind::Busy, "no connection became free").not_applied()
            }
            _ => DbError::new(Kind::Unavailable, "the connection was lost"),
        };
    };
    let code: i32 = report
        .code()
        .and_then(|code| code.parse().ok())
        .unwrap_or(0);
    let message = report.message();
    let starts = |start: &&str| message.starts_with(start);
    let (kind, says, certain) = match code & 0xFF {
        1 if ["no such ", "unknown database "].iter().any(starts)
            || message.contains(" has no column ") =>
        {
            (
                Kind::Schema,
                "a name does not exist; run the migrations first",
                true,
            )
        }
        1 if ["near ", "unrecognized "].iter().any(starts) => (
            Kind::InvalidArgument,
            "the statement is no SQL that SQLite reads",
            true,
        ),
        1 => (Kind::Other, "SQLite refused the statement", true),
        5 | 6 => (Kind::Busy, "another connection holds the lock", true),
        8 => (Kind::Unsupported, "the database is read-only", true),
        11 | 26 => (Kind::Corrupt, "the file is no sound database", false),
        13 => (Kind::Other, "the disk is full", true),
        18 | 20 => (Kind::InvalidArgument, "a value does not fit", true),
        19 => match code >> 8 {
            // a primary key, a unique key, a rowid
            6 | 8 | 10 => (Kind::Conflict, "a row with this key is there already", true),
            _ => (Kind::Constraint, "a constraint refused the change", true),
        },
        _ => (Kind::Unavailable, "SQLite could not finish", false),
    };
    let error = DbError::new(kind, says).with_code(code.to_string());
    let error = if certain { error.not_applied() } else { error };
    // A CHECK without a name is quoted whole, which may be a value.
    let is_name = |c: char| c.is_alphanumeric() || "_., ".contains(c);
    match message.split_once(" constraint failed: ") {
        Some((_, names)) if names.chars().all(is_name) => error.with_constraint(names.to_owned()),
        _ => error,
    }
}
