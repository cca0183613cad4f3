//! What a benchmark asks of an engine: a place for rows, rows, and hands that
//! work on them without the library.

mod mysql;
mod postgres;
mod sqlite;
pub(crate) mod tickets;

use std::path::PathBuf;
use std::sync::Arc;

use async_trait::async_trait;
use duebox_sqlite::{Database, Outbox};

pub(crate) use self::mysql::MySql;
pub(crate) use self::postgres::Postgres;
pub(crate) use self::sqlite::Sqlite;
use self::tickets::TicketEngine;

pub(crate) type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Later than every waiting row is due and earlier than any other.
pub(crate) const NOW: &str = "2026-02-01T00:00:00.000000Z";
/// The end of the leases that are taken here.
pub(crate) const UNTIL: &str = "2026-02-01T01:00:00.000000Z";
pub(crate) const TOPIC: &str = "mail.welcome";
pub(crate) const HOLDER: &str = "bench";
/// Sessions of a pool, and sessions by hand that stand against one.
pub(crate) const SESSIONS: usize = 16;

/// A payload of 200 bytes.
pub(crate) fn payload() -> String {
    let head = r#"{"template":"welcome","text":""#;
    let tail = r#""}"#;
    format!("{head}{}{tail}", "x".repeat(200 - head.len() - tail.len()))
}

/// The id of the row of this number, as long as a ULID and in order as they are.
pub(crate) fn id(number: u64) -> String {
    format!("01J{number:023}")
}

/// What rows are seeded, and from when: row `n` comes `n` milliseconds later.
#[derive(Clone, Copy)]
pub(crate) struct Seed {
    /// When the rows are due.
    pub(crate) due: &'static str,
    /// When the leases on them end.
    pub(crate) leased: Option<&'static str>,
    pub(crate) first: u64,
    pub(crate) count: u64,
}

impl Seed {
    pub(crate) fn waiting(count: u64) -> Self {
        Self {
            due: "2026-01-01 00:00:00",
            leased: None,
            first: 0,
            count,
        }
    }

    pub(crate) fn delayed(count: u64) -> Self {
        Self {
            due: "2026-03-01 00:00:00",
            leased: None,
            first: 1_000_000_000,
            count,
        }
    }

    pub(crate) fn leased(count: u64) -> Self {
        Self {
            due: "2026-01-01 00:00:00",
            leased: Some("2026-02-02 00:00:00"),
            first: 2_000_000_000,
            count,
        }
    }
}

/// One outbox in one database.
pub(crate) struct Place {
    pub(crate) db: Arc<dyn Database>,
    pub(crate) outbox: Outbox,
    /// On SQLite, the file that it is in.
    pub(crate) file: Scratch,
}

/// A file that is deleted with this, if there is one.
#[derive(Default)]
pub(crate) struct Scratch(pub(crate) PathBuf);

impl Drop for Scratch {
    fn drop(&mut self) {
        if !self.0.as_os_str().is_empty() {
            // What is left goes with the whole directory.
            let _ = std::fs::remove_file(&self.0);
        }
    }
}

/// A row as it was claimed by hand.
pub(crate) struct Job {
    pub(crate) rowid: i64,
    pub(crate) id: String,
    // What a handler needs is read, as the library reads it.
    #[expect(dead_code, reason = "read, for a handler that is not there")]
    pub(crate) read: (String, String, Option<String>, i64, String),
}

/// A row to enqueue by hand.
pub(crate) struct NewRow {
    pub(crate) id: String,
    pub(crate) payload: String,
    pub(crate) at: String,
}

#[async_trait]
pub(crate) trait Engine: TicketEngine {
    /// The server's name and version.
    async fn version(&self) -> Fallible<String>;

    /// An empty outbox of this name, made by the shipped migrations.
    async fn place(&self, name: &str) -> Fallible<Place>;

    async fn seed(&self, place: &Place, seed: Seed) -> Fallible<()>;

    /// Does at once what would come later of itself: counts for the planner,
    /// and a checkpoint.
    async fn settle(&self, place: &Place) -> Fallible<()>;

    /// A session that claims batches of this size by hand-written SQL.
    async fn hand(&self, place: &Place, batch: u64) -> Fallible<Box<dyn Hand>>;

    /// Holds a snapshot until it is dropped.
    async fn hold(&self, place: &Place) -> Fallible<Box<dyn Send>>;
}

/// The best SQL that we can write, and the naive algorithm, on one session.
///
/// None of it is fenced: a row is completed by its id alone.
#[async_trait]
pub(crate) trait Hand: Send {
    async fn claim(&mut self) -> Fallible<Vec<Job>>;
    async fn complete(&mut self, jobs: &[Job]) -> Fallible<()>;

    /// Due rows, which others may see too.
    async fn look(&mut self) -> Fallible<Vec<Job>>;
    /// Leases one row if it is still due.
    async fn take(&mut self, job: &Job) -> Fallible<bool>;
    async fn complete_one(&mut self, job: &Job) -> Fallible<()>;

    async fn enqueue(&mut self, row: &NewRow) -> Fallible<()>;
    async fn enqueue_many(&mut self, rows: &[NewRow]) -> Fallible<()>;
}
