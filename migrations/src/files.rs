//! The files, by dialect: the only list of them.

use duebox_core::Dialect;

use crate::Migration;

const OUTBOX: &str = "outbox";
const OUTBOX_COLUMNS: &[&str] = &[
    "id",
    "topic",
    "payload",
    "subject",
    "created_at",
    "attempts",
    "claims",
    "lapses",
    "next_attempt_at",
    "locked_until",
    "locked_by",
    "last_error",
    "failed_at",
    "visible_at",
];
const OUTBOX_INDEXES: &[&[&str]] = &[&["visible_at", "id"], &["subject", "id"]];

const RECEIPTS: &str = "pending_receipts";
const RECEIPTS_COLUMNS: &[&str] = &["ticket", "owner_id", "token", "sent_at", "due_at"];
const RECEIPTS_INDEXES: &[&[&str]] =
    &[&["due_at", "ticket"], &["sent_at", "ticket"], &["owner_id"]];

struct Files {
    all: &'static [Migration],
    outbox: &'static [Migration],
    receipts: &'static [Migration],
}

/// The files of one dialect. Each list is in the order of the numbers, and in `all`
/// they are 1, 2, 3, …
macro_rules! files {
    ($dialect:expr, $folder:literal) => {{
        const M0001: Migration = Migration {
            number: 1,
            name: "outbox",
            sql: include_str!(concat!("../", $folder, "/0001_outbox.sql")),
            dialect: $dialect,
            table: OUTBOX,
            columns: OUTBOX_COLUMNS,
            indexes: OUTBOX_INDEXES,
        };
        const M0002: Migration = Migration {
            number: 2,
            name: "pending_receipts",
            sql: include_str!(concat!("../", $folder, "/0002_pending_receipts.sql")),
            dialect: $dialect,
            table: RECEIPTS,
            columns: RECEIPTS_COLUMNS,
            indexes: RECEIPTS_INDEXES,
        };
        Files {
            all: &[M0001, M0002],
            outbox: &[M0001],
            receipts: &[M0002],
        }
    }};
}

const POSTGRES: Files = files!(Dialect::Postgres, "postgres");
const SQLITE: Files = files!(Dialect::Sqlite, "sqlite");
const MYSQL: Files = files!(Dialect::MySql, "mysql");

const fn files(dialect: Dialect) -> Files {
    match dialect {
        Dialect::Postgres => POSTGRES,
        Dialect::Sqlite => SQLITE,
        Dialect::MySql => MYSQL,
        _ => panic!("duebox-migrations is too old: it has no files for this dialect"),
    }
}

/// Every migration of `dialect`, in the order in which they apply.
///
/// # Panics
///
/// If `duebox-core` knows a dialect that this older version of
/// `duebox-migrations` does not.
#[must_use]
pub const fn all(dialect: Dialect) -> &'static [Migration] {
    files(dialect).all
}

/// The migrations of `dialect` that make an outbox table.
///
/// They are written for the table `outbox`; [`Migration::render`] gives them for
/// any other.
///
/// # Panics
///
/// As [`all`] does.
#[must_use]
pub const fn outbox(dialect: Dialect) -> &'static [Migration] {
    files(dialect).outbox
}

/// The migrations of `dialect` that make the table of pending receipts.
///
/// # Panics
///
/// As [`all`] does.
#[must_use]
pub const fn receipts(dialect: Dialect) -> &'static [Migration] {
    files(dialect).receipts
}
