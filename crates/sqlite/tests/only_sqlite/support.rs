//! A folder for each test, and what several tests do.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Sender, channel};

use duebox_sqlite::{
    Database, DbError, Kind, Outbox, Outcome, SqliteDatabase, SqliteOptions, Statement, rusqlite,
};

pub(super) const NOW: &str = "2026-01-31T09:30:00Z";
pub(super) const LATER: &str = "2026-01-31T09:31:00Z";

/// A folder that goes with the test.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("only-sqlite-{}-{number}", std::process::id());
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        std::fs::create_dir_all(&path).expect("a folder for a test");
        Self(path)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("test.db")
    }

    pub(super) fn wal(&self) -> PathBuf {
        self.0.join("test.db-wal")
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn options(&self) -> SqliteOptions {
        SqliteOptions::new(self.file())
    }

    pub(super) async fn open(&self) -> SqliteDatabase {
        self.options().open().await.expect("a database")
    }

    /// A connection that knows nothing of this library, and waits for nobody.
    pub(super) fn raw(&self) -> rusqlite::Connection {
        let conn = rusqlite::Connection::open(self.file()).expect("a connection");
        conn.busy_timeout(std::time::Duration::ZERO)
            .expect("a timeout");
        conn
    }

    /// How many transactions the log holds, if nothing has reset it: each ends
    /// with a frame that tells the size of the file.
    pub(super) fn commits(&self) -> usize {
        let log = std::fs::read(self.wal()).expect("a log");
        let number = |at: usize| u32::from_be_bytes(log[at..at + 4].try_into().unwrap());
        let frame = 24 + number(8) as usize;
        let salts = &log[16..24];
        (32..log.len().saturating_sub(frame - 1))
            .step_by(frame)
            .take_while(|at| &log[at + 8..at + 16] == salts)
            .filter(|at| number(at + 4) > 0)
            .count()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Keeps the thread that writes busy until the answer is dropped or sent to, so
/// that what is called meanwhile waits in its queue.
pub(super) async fn hold(db: &SqliteDatabase) -> Sender<()> {
    let (release, released) = channel::<()>();
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let db = db.clone();
    tokio::spawn(async move {
        db.with_connection(move |_| {
            let _ = begun.send(());
            let _ = released.recv();
        })
        .await
    });
    has_begun.await.expect("the writer");
    release
}

/// Calls them all at once, in this order, so that they share a transaction if
/// they may; needs the current-thread runtime of a plain `tokio::test`.
pub(super) async fn together<T: Send + 'static>(
    db: &SqliteDatabase,
    calls: Vec<impl Future<Output = T> + Send + 'static>,
) -> Vec<T> {
    let gate = hold(db).await;
    let calls: Vec<_> = calls.into_iter().map(tokio::spawn).collect();
    // Each is polled once, and so is in the queue.
    tokio::task::yield_now().await;
    drop(gate);
    let mut answers = Vec::new();
    for call in calls {
        answers.push(call.await.expect("a call that does not panic"));
    }
    answers
}

/// The batch as a call to be made later.
pub(super) fn batch(
    db: &SqliteDatabase,
    statements: Vec<Statement>,
) -> impl Future<Output = Result<Vec<u64>, DbError>> + Send + 'static + use<> {
    let db = db.clone();
    async move { db.batch_atomic(&statements).await }
}

pub(super) fn sql(text: &'static str) -> Statement {
    Statement::new(text)
}

pub(super) fn enqueue(id: &str) -> Statement {
    Outbox::new("outbox").enqueue_statement(id, "mail", "{}", None, NOW)
}

/// The one number that a query answers as `n`.
pub(super) async fn number(db: &SqliteDatabase, text: &'static str) -> i64 {
    let rows = db.query(&sql(text)).await.expect("a number");
    rows[0].get("n").expect("a number")
}

pub(super) async fn run(db: &SqliteDatabase, text: &'static str) {
    db.with_connection(move |conn| conn.execute_batch(text))
        .await
        .expect("a connection")
        .expect("no error");
}

#[track_caller]
pub(super) fn assert_refused<T>(answer: Result<T, DbError>, kind: Kind) -> DbError {
    let error = answer.err().expect("an error");
    assert_eq!(
        (error.kind(), error.outcome()),
        (kind, Outcome::NotApplied),
        "{error}"
    );
    error
}
