use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::slice::from_ref;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::{Instant, SystemTime};

use async_trait::async_trait;
use duebox_core::chrono::{DateTime, SubsecRound, Utc};
use duebox_core::{Database, DbError, Dialect, ReadThenWrite, Row, Statement};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::config::{Place, SqliteOptions};
use crate::job::{Done, Job, Message, Owned, Work, gone};
use crate::reader::Readers;
use crate::writer;

/// A database in a file or in memory, and a [`Database`] of Duebox.
///
/// Its connections live on threads of their own: one that writes, and for a
/// file a few that read. So no call blocks an async thread, and any runtime
/// will do. Calls that write at the same time share a transaction, and so the
/// sync of the disk, without feeling each other; each is answered once what it
/// did is on the disk.
///
/// Many handles, in one process or many, may have the same file open.
///
/// # Cancellation
///
/// A call whose future is dropped before its turn came is not done; one that
/// has begun is done as a whole.
///
/// # Clone
///
/// Cheap: clones share the connections, which close when the last clone goes.
#[derive(Clone)]
pub struct SqliteDatabase(Arc<Inner>);

struct Inner {
    options: SqliteOptions,
    writer: Sender<Message>,
    /// `None` if there is only the one connection.
    readers: Option<Readers>,
}

impl SqliteDatabase {
    /// Opens the database in the file of this name, which is made if it is not
    /// there; `:memory:` is one in memory. See [`SqliteOptions`] for what else
    /// can be said.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteOptions::open`].
    pub async fn open(path: impl AsRef<Path>) -> Result<Self, DbError> {
        SqliteOptions::new(path).open().await
    }

    /// Opens a database in memory, which goes with its last handle.
    ///
    /// # Errors
    ///
    /// Those of [`SqliteOptions::open`].
    pub async fn open_in_memory() -> Result<Self, DbError> {
        SqliteOptions::in_memory().open().await
    }

    pub(crate) async fn with_options(options: SqliteOptions) -> Result<Self, DbError> {
        let doing = |error: DbError| error.context("open a SQLite database");
        let options = options.checked().map_err(doing)?;
        let writer = writer::start(options.clone()).await.map_err(doing)?;
        let readers = match options.place {
            Place::Memory => None,
            Place::File(_) => Some(Readers::new(options.clone(), writer.clone())),
        };
        Ok(Self(Arc::new(Inner {
            options,
            writer,
            readers,
        })))
    }

    /// Runs the caller's own rusqlite code on the connection that writes, off
    /// the async threads, while nothing else uses that connection.
    ///
    /// A transaction that `f` leaves open is rolled back. What `f` sets on the
    /// connection stays, and the connections that read do not have it; the busy
    /// handler is set back. While `f` runs nobody else writes through this
    /// handle; if `f` waits for a call on it, that is for ever. If `f` panics,
    /// so does this call.
    ///
    /// ```
    /// # async fn run() -> Result<(), Box<dyn std::error::Error>> {
    /// # let db = duebox_sqlite::SqliteDatabase::open_in_memory().await?;
    /// let tables: i64 = db
    ///     .with_connection(|conn| {
    ///         conn.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))
    ///     })
    ///     .await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// [`Kind::Unavailable`](crate::Kind::Unavailable) if there is no connection
    /// to run on, for instance because the file cannot be opened any more.
    pub async fn with_connection<R, F>(&self, f: F) -> Result<R, DbError>
    where
        F: FnOnce(&mut Connection) -> R + Send + 'static,
        R: Send + 'static,
    {
        let (sender, receiver) = oneshot::channel();
        let alone = move |conn: Result<&mut Connection, DbError>| -> Box<dyn FnOnce() + Send> {
            if sender.is_closed() {
                return Box::new(|| {});
            }
            let answer = conn.map(|conn| catch_unwind(AssertUnwindSafe(|| f(conn))));
            Box::new(move || drop(sender.send(answer)))
        };
        self.send(Message::Alone(Box::new(alone)))?;
        match receiver.await.map_err(|_| gone())?? {
            Ok(answer) => Ok(answer),
            Err(panic) => resume_unwind(panic),
        }
    }

    pub(crate) async fn work(&self, work: Work) -> Result<Done, DbError> {
        let (answer, receiver) = oneshot::channel();
        let job = Job {
            work,
            queued: Instant::now(),
            answer,
        };
        match (&self.0.readers, &job.work) {
            (Some(readers), Work::Query(statement)) if !writes(statement) => readers.send(job),
            _ => self.send(Message::Job(job))?,
        }
        receiver.await.map_err(|_| gone())?
    }

    fn send(&self, message: Message) -> Result<(), DbError> {
        let sent = self.0.writer.send(message);
        sent.map_err(|_| gone().not_applied())
    }
}

/// Whether its first word says that no reader can run it.
fn writes(statement: &Owned) -> bool {
    statement.begins_with(&["INSERT", "UPDATE", "DELETE", "REPLACE"])
}

/// A statement for a transaction, or, as the error, one that cannot be in one.
fn owned(statement: &Statement) -> Result<Result<Owned, Owned>, DbError> {
    match Statement::render_batch(Dialect::Sqlite, from_ref(statement)) {
        Ok(rendered) => Ok(Ok(Owned::new(&rendered[0]))),
        Err(_) => Ok(Err(Owned::new(&statement.render(Dialect::Sqlite)?))),
    }
}

#[async_trait]
impl Database for SqliteDatabase {
    fn dialect(&self) -> Dialect {
        Dialect::Sqlite
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        match owned(statement)? {
            Ok(statement) => match self.work(Work::Execute(statement)).await? {
                Done::Count(count) => Ok(count),
                _ => Err(mixed_up()),
            },
            Err(statement) => {
                self.with_connection(move |conn| statement.execute(conn))
                    .await?
            }
        }
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        match owned(statement)? {
            Ok(statement) => rows(self.work(Work::Query(statement)).await?),
            Err(statement) => {
                let found = self.with_connection(move |conn| statement.query(conn));
                found.await?.map(|found| found.rows)
            }
        }
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        let rendered = Statement::render_batch(Dialect::Sqlite, statements)?;
        if rendered.is_empty() {
            return Ok(Vec::new());
        }
        let batch = rendered.iter().map(Owned::new).collect();
        match self.work(Work::Batch(batch)).await? {
            Done::Counts(counts) => Ok(counts),
            _ => Err(mixed_up()),
        }
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        Ok(DateTime::from(SystemTime::now()).trunc_subsecs(6))
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        step.read().render(Dialect::Sqlite)?;
        rows(self.work(Work::Step(step.clone())).await?)
    }
}

fn rows(done: Done) -> Result<Vec<Row>, DbError> {
    match done {
        Done::Rows(found) => Ok(found.rows),
        _ => Err(mixed_up()),
    }
}

/// Work of one kind answers with that kind, so this is not seen.
fn mixed_up() -> DbError {
    DbError::new(duebox_core::Kind::Other, "the answer belongs to other work")
}

impl fmt::Debug for SqliteDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SqliteDatabase")
            .field(&self.0.options)
            .finish()
    }
}
