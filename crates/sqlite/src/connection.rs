//! One connection, set up as every connection here is.

use std::path::Path;
use std::thread;
use std::time::{Duration, Instant};

use duebox_core::{DbError, Kind};
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use crate::config::{JournalMode, Place, SqliteOptions};
use crate::{busy, error};

/// Statements that are kept prepared, a connection.
const CACHED_STATEMENTS: usize = 128;
/// `->>` came with 3.38.
const OLDEST: i32 = 3_038_000;

/// What is the same for all connections of this library.
const ALL: &str = "\
PRAGMA trusted_schema = OFF;
PRAGMA synchronous = FULL;
";
/// After a reader has let go of a log that grew, its file is cut to 16 MiB.
const WAL: &str = "PRAGMA journal_size_limit = 16777216";

/// The connection that writes, on the thread that will use it.
pub(crate) fn writer(options: &SqliteOptions) -> Result<Connection, DbError> {
    if rusqlite::version_number() < OLDEST {
        return Err(DbError::new(
            Kind::Unsupported,
            format!(
                "SQLite {} is too old; 3.38 or newer is needed",
                rusqlite::version()
            ),
        )
        .not_applied());
    }
    let patience = Instant::now() + options.busy_timeout;
    loop {
        // Changing to WAL answers "busy" without asking the handler.
        match try_writer(options) {
            Err(error) if error.kind() == Kind::Busy && Instant::now() < patience => {
                thread::sleep(busy::jitter(Duration::from_millis(10)));
            }
            answer => return answer,
        }
    }
}

fn try_writer(options: &SqliteOptions) -> Result<Connection, DbError> {
    let conn = open(options, options.create)?;
    let writable = || -> rusqlite::Result<bool> {
        if options.place == Place::Memory {
            return Ok(true);
        }
        if conn.is_readonly("main")? {
            return Ok(false);
        }
        let mode = match options.journal_mode {
            JournalMode::Wal => "PRAGMA journal_mode = WAL",
            JournalMode::Delete => "PRAGMA journal_mode = DELETE",
        };
        // A file system without shared memory keeps its journal, and works.
        conn.query_row(mode, [], |_| Ok(()))?;
        conn.query_row(WAL, [], |_| Ok(()))?;
        Ok(true)
    };
    let refused = match writable().map_err(|error| error::sort(&error).not_applied()) {
        Ok(true) => return Ok(conn),
        Ok(false) => None,
        // The file itself is open, so this is one beside it that cannot be made.
        Err(error)
            if error
                .code()
                .is_some_and(|code| code.starts_with("SQLITE_CANTOPEN")) =>
        {
            error.code().map(str::to_owned)
        }
        Err(error) => return Err(error),
    };
    let error = DbError::new(
        Kind::Unsupported,
        "the database is read-only; the service must be able to write to the file and to its \
         directory",
    )
    .not_applied();
    Err(match refused {
        Some(code) => error.with_code(code),
        None => error,
    })
}

/// A connection that only reads, on the thread that will use it.
pub(crate) fn reader(options: &SqliteOptions) -> Result<Connection, DbError> {
    let conn = open(options, false)?;
    conn.execute_batch("PRAGMA query_only = ON")
        .map_err(|error| error::sort(&error).not_applied())?;
    Ok(conn)
}

fn open(options: &SqliteOptions, create: bool) -> Result<Connection, DbError> {
    busy::set_timeout(options.busy_timeout);
    let mut flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    if create {
        flags |= OpenFlags::SQLITE_OPEN_CREATE;
    }
    let set_up = || -> rusqlite::Result<Connection> {
        let conn = match &options.place {
            Place::Memory => Connection::open_in_memory()?,
            Place::File(path) => Connection::open_with_flags(path, flags)?,
        };
        conn.busy_handler(Some(busy::handler))?;
        conn.set_prepared_statement_cache_capacity(CACHED_STATEMENTS);
        conn.execute_batch(ALL)?;
        // Else a statement is planned anew whenever a time or a limit is bound to it.
        conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        conn.execute_batch(if options.foreign_keys {
            "PRAGMA foreign_keys = ON"
        } else {
            "PRAGMA foreign_keys = OFF"
        })?;
        Ok(conn)
    };
    set_up().map_err(|error| {
        let error = error::sort(&error).not_applied();
        match (&options.place, error.code()) {
            (Place::File(path), Some("SQLITE_CANTOPEN")) => no_file(path, create).unwrap_or(error),
            _ => error,
        }
    })
}

/// Why a file cannot be opened, if no other try can change that.
fn no_file(path: &Path, create: bool) -> Option<DbError> {
    let folder = path.parent().filter(|folder| *folder != Path::new(""));
    let why = if path.is_dir() {
        "the path of the database is a folder; give that of a file in it"
    } else if folder.is_some_and(|folder| !folder.exists()) {
        "the folder of the database file does not exist; make it first"
    } else if !create && !path.exists() {
        "the database file does not exist and was not to be made"
    } else {
        return None;
    };
    Some(DbError::invalid(why).with_code("SQLITE_CANTOPEN"))
}
