//! Which migrations were applied to which table, and the lock to apply them under.

use duebox_core::Dialect;

/// The table that says which migrations were applied.
pub const BOOKKEEPING_TABLE: &str = "duebox_migrations";

/// Makes [`BOOKKEEPING_TABLE`] if it is not there, on every dialect.
///
/// `target` is the table that was migrated, as the caller writes it (`outbox`,
/// `app.mail`, `pending_receipts`). `applied_at` is text of 27 characters, like the
/// times of an outbox.
pub const BOOKKEEPING_CREATE: &str = "\
CREATE TABLE IF NOT EXISTS duebox_migrations (
    target VARCHAR(127) NOT NULL,
    number INTEGER NOT NULL,
    name VARCHAR(63) NOT NULL,
    applied_at VARCHAR(27) NOT NULL,
    PRIMARY KEY (target, number)
) /*!50000 ENGINE = InnoDB DEFAULT CHARACTER SET ascii */";

/// The numbers that were applied to one `target`, ascending.
pub const BOOKKEEPING_APPLIED: &str =
    "SELECT number FROM duebox_migrations WHERE target = ? ORDER BY number";

/// Notes that a migration was applied: `target`, `number`, `name`, `applied_at`.
pub const BOOKKEEPING_RECORD: &str =
    "INSERT INTO duebox_migrations (target, number, name, applied_at) VALUES (?, ?, ?, ?)";

/// What lets many processes migrate one database at once.
///
/// `IF NOT EXISTS` alone does not: PostgreSQL looks before it locks, and of several
/// sessions that see no table all but one fail with a duplicate key in the catalog.
/// So a session takes the lock, makes the bookkeeping table, reads what was applied,
/// applies the rest, notes it, and releases the lock, all on one connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Statements that wait for the lock and take it.
    ///
    /// On MySQL and MariaDB the last one answers a row with an integer: 1, or else
    /// the lock was not to be had within a minute.
    pub take: &'static [&'static str],
    /// Statements that release it and keep what was done.
    ///
    /// On PostgreSQL and SQLite the whole is one transaction, and `ROLLBACK` instead
    /// of these undoes it. MySQL and MariaDB commit at each DDL statement, so the
    /// lock is no transaction, and what was applied before an error stays.
    pub release: &'static [&'static str],
}

/// The lock of `dialect`.
///
/// # Panics
///
/// As [`all`](crate::all) does.
#[must_use]
pub const fn lock(dialect: Dialect) -> Lock {
    match dialect {
        // A stricter default isolation would read the bookkeeping as it was before
        // the wait. The lock ends with the transaction, so it is safe behind a pooler
        // that lends connections by transaction. The number is "duebox" in ASCII.
        Dialect::Postgres => Lock {
            take: &[
                "BEGIN ISOLATION LEVEL READ COMMITTED",
                "SELECT pg_advisory_xact_lock(110455374901112)",
            ],
            release: &["COMMIT"],
        },
        // Waits as long as the busy timeout of the connection.
        Dialect::Sqlite => Lock {
            take: &["BEGIN IMMEDIATE"],
            release: &["COMMIT"],
        },
        Dialect::MySql => Lock {
            take: &["SELECT GET_LOCK('duebox_migrations', 60)"],
            release: &["SELECT RELEASE_LOCK('duebox_migrations')"],
        },
        _ => panic!("duebox-migrations is too old: it has no lock for this dialect"),
    }
}
