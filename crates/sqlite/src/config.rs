use std::path::{Path, PathBuf};
use std::time::Duration;

use duebox_core::{DbError, Kind};

use crate::SqliteDatabase;

pub(crate) const DEFAULT_BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Connections that only read, unless it is said.
const DEFAULT_READERS: usize = 4;

/// How to open a database.
///
/// ```no_run
/// # async fn open() -> Result<(), duebox_sqlite::DbError> {
/// use std::time::Duration;
/// use duebox_sqlite::SqliteOptions;
///
/// let db = SqliteOptions::new("service.db")
///     .busy_timeout(Duration::from_secs(10))
///     .readers(2)
///     .open()
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct SqliteOptions {
    pub(crate) place: Place,
    pub(crate) busy_timeout: Duration,
    pub(crate) readers: usize,
    pub(crate) foreign_keys: bool,
    pub(crate) create: bool,
    pub(crate) journal_mode: JournalMode,
}

/// How a file keeps transactions that are not yet in it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum JournalMode {
    /// A write-ahead log beside the file: readers and the writer do not wait
    /// for each other. The file must be on a local disk.
    #[default]
    Wal,
    /// A rollback journal, for a file that other programs cannot read in WAL
    /// mode: a commit waits for readers, and readers for a commit.
    Delete,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    Memory,
    File(PathBuf),
}

impl SqliteOptions {
    /// The database in the file of this name, which is made if it is not
    /// there. `:memory:` is a database in memory, as
    /// [`in_memory`](Self::in_memory).
    ///
    /// The other names that SQLite does not read as a file's are refused by
    /// [`open`](Self::open): the empty one, and those that begin with `file:`;
    /// `sqlite:` too, which is a URL of other libraries. A file that is really
    /// named so is `./file:…`.
    pub fn new(path: impl AsRef<Path>) -> Self {
        let path = path.as_ref();
        Self::at(if path.as_os_str() == ":memory:" {
            Place::Memory
        } else {
            Place::File(path.to_owned())
        })
    }

    /// A database in memory, which goes with its last handle. It has one
    /// connection, so reads wait for writes.
    pub fn in_memory() -> Self {
        Self::at(Place::Memory)
    }

    const fn at(place: Place) -> Self {
        Self {
            place,
            busy_timeout: DEFAULT_BUSY_TIMEOUT,
            readers: DEFAULT_READERS,
            foreign_keys: true,
            create: true,
            journal_mode: JournalMode::Wal,
        }
    }

    /// How long a call waits for a lock that another handle or process has,
    /// before it fails with [`Kind::Busy`]; 5 seconds unless
    /// it is said.
    pub const fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// How many connections, each with a thread, may read at the same time; 4
    /// unless it is said. They are opened when they are first needed. With 0,
    /// reads take turns with writes.
    pub const fn readers(mut self, readers: usize) -> Self {
        self.readers = readers;
        self
    }

    /// Whether SQLite enforces `REFERENCES`; it does unless it is said, on
    /// every connection of this handle.
    pub const fn foreign_keys(mut self, enforced: bool) -> Self {
        self.foreign_keys = enforced;
        self
    }

    /// Whether a file that is not there is made; it is unless it is said.
    pub const fn create_if_missing(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// How the file keeps transactions that are not yet in it; a write-ahead
    /// log unless it is said. The mode is a property of the file: this sets it
    /// for every program that opens it.
    pub const fn journal_mode(mut self, mode: JournalMode) -> Self {
        self.journal_mode = mode;
        self
    }

    /// Opens the database.
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`] for a name that is no file's, or of a file or
    /// folder that is not there; [`Kind::Unavailable`] if the file cannot be
    /// opened now, [`Kind::Unsupported`] if it cannot be written to,
    /// [`Kind::Corrupt`] if it is no database.
    pub async fn open(self) -> Result<SqliteDatabase, DbError> {
        SqliteDatabase::with_options(self).await
    }

    /// With a path that stays the same wherever the process goes, as
    /// connections are opened later too.
    pub(crate) fn checked(mut self) -> Result<Self, DbError> {
        let Place::File(path) = &mut self.place else {
            return Ok(self);
        };
        let name = path.as_os_str().as_encoded_bytes();
        if name.is_empty() {
            return Err(DbError::invalid(
                "the empty name is a temporary database of SQLite, one for each connection; name \
                 a file, or use open_in_memory",
            ));
        }
        if name.contains(&0) {
            return Err(DbError::invalid("the name of a file holds a NUL character"));
        }
        let begins = |prefix: &[u8]| {
            name.get(..prefix.len())
                .is_some_and(|start| start.eq_ignore_ascii_case(prefix))
        };
        if begins(b"file:") || begins(b"sqlite:") {
            return Err(DbError::invalid(
                "a URI is not taken for a database; give the path of a file, or use \
                 open_in_memory",
            ));
        }
        *path = std::path::absolute(&path).map_err(|_| {
            DbError::new(Kind::Unavailable, "the process has no current directory").not_applied()
        })?;
        Ok(self)
    }
}
