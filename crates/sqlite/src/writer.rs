//! The one thread that writes.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

use duebox_core::{DbError, Kind};
use rusqlite::Connection;
use tokio::sync::oneshot;

use crate::config::{Place, SqliteOptions};
use crate::job::{Alone, Job, Message, gone};
use crate::undo::Scope;
use crate::{busy, connection, error};

/// How long the thread looks for its next message before it sleeps, as long as
/// messages have come so soon one after the other.
const LOOK: Duration = Duration::from_micros(200);

/// Opens the database on a thread of its own and returns the queue to it. The
/// thread ends when the last sender does.
pub(crate) async fn start(options: SqliteOptions) -> Result<Sender<Message>, DbError> {
    let (sender, receiver) = channel();
    let (ready, is_ready) = oneshot::channel();
    thread::Builder::new()
        .name("duebox-sqlite-writer".into())
        .spawn(move || {
            let conn = match connection::writer(&options) {
                Ok(conn) => conn,
                Err(error) => return drop(ready.send(Err(error))),
            };
            if ready.send(Ok(())).is_ok() {
                Writer::new(options, conn, receiver).run();
            }
        })
        .map_err(|_| DbError::new(Kind::Unavailable, "the system gives no thread").not_applied())?;
    is_ready.await.map_err(|_| gone().not_applied())??;
    Ok(sender)
}

pub(crate) struct Writer {
    options: SqliteOptions,
    /// `None` if it could not be brought in order and has to be opened anew.
    conn: Option<Connection>,
    pub(crate) queue: Receiver<Message>,
    /// When the lock was last had.
    progress: Instant,
    /// The version of the schema, and how its transactions may be shared.
    pub(crate) sharing: Option<(i64, Option<Scope>)>,
    /// Whether the next message is likely to come soon.
    soon: bool,
}

impl Writer {
    fn new(options: SqliteOptions, conn: Connection, queue: Receiver<Message>) -> Self {
        Self {
            options,
            conn: Some(conn),
            queue,
            progress: Instant::now(),
            sharing: None,
            soon: false,
        }
    }

    fn run(mut self) {
        let mut next = None;
        while let Some(message) = next.take().or_else(|| self.next()) {
            match message {
                Message::Alone(alone) => self.alone(alone),
                Message::Job(job) if job.is_abandoned() => {}
                Message::Job(job) => next = self.group(job),
            }
        }
    }

    /// Waits for a message; `None` once there is no sender.
    ///
    /// Who was just answered often has the next one at once: a drainer
    /// completes what it claimed. To sleep and be woken takes longer than to
    /// look a while.
    fn next(&mut self) -> Option<Message> {
        let since = Instant::now();
        while self.soon && since.elapsed() < LOOK {
            match self.queue.try_recv() {
                Ok(message) => return Some(message),
                Err(TryRecvError::Disconnected) => return None,
                Err(TryRecvError::Empty) => {
                    for _ in 0..64 {
                        std::hint::spin_loop();
                    }
                    thread::yield_now();
                }
            }
        }
        let message = self.queue.recv().ok();
        self.soon = since.elapsed() < LOOK;
        message
    }

    /// The connection, in autocommit mode.
    pub(crate) fn conn(&mut self) -> Result<&mut Connection, DbError> {
        if self.conn.is_none() {
            self.conn = Some(connection::writer(&self.options)?);
            self.sharing = None;
        }
        self.conn
            .as_mut()
            .ok_or_else(|| DbError::new(Kind::Unavailable, "there is no connection").not_applied())
    }

    /// Ends whatever transaction is open, or else the connection.
    pub(crate) fn roll_back(&mut self) {
        // A schema that is undone leaves its version to the next.
        self.sharing = None;
        let Some(conn) = &self.conn else { return };
        if conn.is_autocommit() {
            return;
        }
        let _ = conn.execute_batch("ROLLBACK");
        // A database in memory has nothing but its connection, and no disk to fail.
        if !conn.is_autocommit() && self.options.place != Place::Memory {
            self.conn = None;
        }
    }

    fn alone(&mut self, alone: Alone) {
        let tell = alone(self.conn());
        self.roll_back();
        if let Some(conn) = &self.conn {
            // What was set on the connection for one transaction must not reach the next.
            let _ = conn.busy_handler(Some(busy::handler));
            let _ = conn.execute_batch("PRAGMA defer_foreign_keys = OFF");
        }
        self.progress = Instant::now();
        tell();
    }

    /// Begins a transaction, waiting for the lock as long as `job` may wait.
    pub(crate) fn begin(&mut self, job: &Job) -> Result<(), DbError> {
        let deadline = self.deadline(job);
        if busy::waited_within(Duration::from_secs(1)) {
            // Others want the lock too, and cannot see that it is free for so short a while.
            thread::sleep(busy::jitter(Duration::from_micros(500)));
        }
        loop {
            let conn = self.conn()?;
            let begun = busy::until(deadline, || {
                let mut begin = conn.prepare_cached("BEGIN IMMEDIATE")?;
                begin.raw_execute().map(drop)
            });
            let Err(error) = begun else { break };
            let error = error::sort(&error).not_applied();
            // Not every busy database asks the handler.
            if error.kind() != Kind::Busy || Instant::now() >= deadline {
                return Err(error);
            }
            thread::sleep(busy::jitter(Duration::from_millis(2)));
        }
        self.progress = Instant::now();
        Ok(())
    }

    /// Until when this job waits for the lock: as long as the timeout says from
    /// when it came, or from when the lock was last had if that was later.
    pub(crate) fn deadline(&self, job: &Job) -> Instant {
        job.queued.max(self.progress) + self.options.busy_timeout
    }
}

/// Runs what may panic. The transaction it was in is then of no use.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Result<T, DbError>) -> Result<T, DbError> {
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| {
        Err(DbError::new(
            Kind::Other,
            "the work panicked in the thread of the database",
        ))
    })
}
