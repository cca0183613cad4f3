//! The threads that only read.

use std::collections::VecDeque;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use duebox_core::{DbError, Kind};
use rusqlite::Connection;

use crate::config::SqliteOptions;
use crate::job::{Done, Job, Message, Work};
use crate::writer::guarded;
use crate::{connection, row};

/// Threads with a connection each, started as they are needed.
pub(crate) struct Readers(Arc<Shared>);

struct Shared {
    options: SqliteOptions,
    /// Where a statement goes that cannot be read here.
    writer: Sender<Message>,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Readers {
    pub(crate) fn new(options: SqliteOptions, writer: Sender<Message>) -> Self {
        Self(Arc::new(Shared {
            options,
            writer,
            state: Mutex::default(),
            wake: Condvar::new(),
        }))
    }

    /// Gives the job to a reader, or hands it on to the writer.
    pub(crate) fn send(&self, job: Job) {
        let mut state = self.0.state();
        state.queue.push_back(job);
        if state.queue.len() > state.idle && state.threads < self.0.options.readers {
            let shared = Arc::clone(&self.0);
            let thread = thread::Builder::new().name("duebox-sqlite-reader".into());
            if thread.spawn(move || shared.run()).is_ok() {
                state.threads += 1;
            }
        }
        if state.threads == 0 {
            let left: Vec<Job> = state.queue.drain(..).collect();
            drop(state);
            for job in left {
                self.0.hand_on(job);
            }
        } else {
            self.0.wake.notify_one();
        }
    }
}

impl Drop for Readers {
    fn drop(&mut self) {
        self.0.state().closed = true;
        self.0.wake.notify_all();
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn hand_on(&self, job: Job) {
        // If the writer is gone, the dropped job tells its caller.
        let _ = self.writer.send(Message::Job(job));
    }

    fn run(&self) {
        let mut conn = None;
        while let Some(job) = self.next() {
            if job.is_abandoned() {
                continue;
            }
            if conn.is_none() {
                conn = connection::reader(&self.options).ok();
            }
            match conn.as_ref().and_then(|conn| read(conn, &job.work)) {
                None => self.hand_on(job),
                Some(answer) => {
                    if answer
                        .as_ref()
                        .is_err_and(|error| error.kind() == Kind::Unavailable)
                    {
                        conn = None;
                    }
                    job.answer(answer);
                }
            }
        }
    }

    fn next(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.closed {
                return None;
            }
            if let Some(job) = state.queue.pop_front() {
                return Some(job);
            }
            state.idle += 1;
            state = self
                .wake
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
            state.idle -= 1;
        }
    }
}

/// Reads, or `None` if only the writer can: the statement changes something,
/// or names what only the writer's connection has, such as a temporary table.
fn read(conn: &Connection, work: &Work) -> Option<Result<Done, DbError>> {
    let Work::Query(statement) = work else {
        return None;
    };
    let mut prepared = conn.prepare_cached(statement.sql()).ok()?;
    if !prepared.readonly() {
        return None;
    }
    let found = guarded(|| row::read(&mut prepared, statement.values(), None));
    Some(found.map(Done::Rows).map_err(DbError::not_applied))
}
