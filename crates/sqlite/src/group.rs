//! Many small transactions in one.
//!
//! What waits in the queue when the lock is had is done in one transaction, in
//! which each job can be undone, and every caller is answered after its
//! COMMIT: one sync of the disk for all. A job must not feel another. So if
//! the transaction ended under a job, or the COMMIT is refused for what one of
//! them did, all of it is undone, nobody was answered, and each runs again in a
//! transaction of its own.

use std::time::{Duration, Instant};

use duebox_core::{DbError, Kind, Outcome};
use rusqlite::Connection;

use crate::job::{Done, Job, Message};
use crate::undo::{Scope, Undo, step};
use crate::writer::{Writer, guarded};

/// A transaction takes no more jobs once it has so many,
const MAX_JOBS: usize = 256;
/// once they bind or return so many bytes,
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// or once it has held the lock for so long.
const MAX_HOLD: Duration = Duration::from_millis(50);

/// Whether there is a database beside the main one, a key that is looked at in
/// the COMMIT, and what leaves a part of a statement that fails.
const SCHEMA: &str = "\
SELECT
    EXISTS (SELECT 1 FROM pragma_database_list WHERE name NOT IN ('main', 'temp')),
    COALESCE(MAX(sql LIKE '%initially%deferred%'), 0),
    COALESCE(MAX(replace(lower(sql), 'failed', '') LIKE '%fail%'), 0)
FROM (
    SELECT sql FROM sqlite_schema
    UNION ALL
    SELECT sql FROM sqlite_temp_schema
)";

type Answered = (Job, Result<Done, DbError>);

impl Writer {
    /// Does `first` and what else waits; returns what must be done by itself.
    pub(crate) fn group(&mut self, first: Job) -> Option<Message> {
        if let Err(error) = self.begin(&first) {
            return self.refuse(first, &error);
        }
        let began = Instant::now();
        let mut bytes = 0;
        let mut group: Vec<Answered> = Vec::new();
        let mut next = None;
        let mut job = Some(first);
        let mut scope = Scope::Alone;
        while let Some(current) = job.take() {
            let (alone, solitary) = (group.is_empty(), current.work.is_solitary());
            let (done, open) = self.run_one(&current, scope);
            bytes += current.work.bytes() + done.as_ref().map_or(0, Done::bytes);
            let failed = done.is_err();
            group.push((current, done));
            if !open {
                self.again(group);
                return None;
            }
            if failed || solitary {
                // A schema that is undone leaves its version to the next, and
                // temporary tables are in no version.
                self.sharing = None;
            }
            if alone && (failed || solitary) {
                break;
            }
            if group.len() < MAX_JOBS && bytes < MAX_BYTES && began.elapsed() < MAX_HOLD {
                (job, next) = self.another(&mut scope);
            }
        }
        self.end(group);
        next
    }

    /// The next that may join the transaction, or the next that may not.
    fn another(&mut self, scope: &mut Scope) -> (Option<Job>, Option<Message>) {
        loop {
            let job = match self.queue.try_recv() {
                Ok(Message::Job(job)) if job.is_abandoned() => continue,
                Ok(Message::Job(job)) => job,
                Ok(message) => return (None, Some(message)),
                Err(_) => return (None, None),
            };
            return match self.sharing() {
                Some(shared) if !job.work.is_solitary() => {
                    *scope = shared;
                    (Some(job), None)
                }
                _ => (None, Some(Message::Job(job))),
            };
        }
    }

    /// How the transaction may be shared, if jobs cannot leave anything to each
    /// other but their rows.
    ///
    /// A violated foreign key that is looked at only in the COMMIT can be left
    /// by one job and mended by the next, which then would both succeed. SQL
    /// cannot ask whether there is one now, but where no key is deferred there
    /// is none. What a database that was attached says is not looked at.
    fn sharing(&mut self) -> Option<Scope> {
        let known = self.sharing;
        let look = |conn: &Connection| -> rusqlite::Result<(i64, Option<Scope>)> {
            let mut version = conn.prepare_cached("PRAGMA schema_version")?;
            let version: i64 = version.query_row([], |row| row.get(0))?;
            if let Some(known) = known.filter(|(of, _)| *of == version) {
                return Ok(known);
            }
            let mut schema = conn.prepare_cached(SCHEMA)?;
            let (attached, deferred, parts) =
                schema.query_row([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
            let scope = match (attached, deferred, parts) {
                (true, _, _) | (_, true, _) => None,
                (_, _, true) => Some(Scope::SharedWithParts),
                (_, _, false) => Some(Scope::Shared),
            };
            Ok((version, scope))
        };
        let found = self.conn().ok().and_then(|conn| look(conn).ok());
        self.sharing = found;
        found.and_then(|(_, scope)| scope)
    }

    /// Does one job, undone if it fails, and says whether the transaction is
    /// still open.
    fn run_one(&mut self, job: &Job, scope: Scope) -> (Result<Done, DbError>, bool) {
        let conn = match self.conn() {
            Ok(conn) => &*conn,
            Err(error) => return (Err(error), false),
        };
        let undo = Undo::new(conn, scope);
        let done = guarded(|| job.work.run(conn, &undo)).map_err(DbError::not_applied);
        if conn.is_autocommit() {
            let ended = || DbError::new(Kind::Other, "a statement ended the transaction it was in");
            return (done.and(Err(ended())), false);
        }
        match undo.end(done.is_err()) {
            Ok(()) => (done, true),
            Err(error) => {
                self.roll_back();
                (Err(error.not_applied()), false)
            }
        }
    }

    /// Commits, and answers all.
    fn end(&mut self, group: Vec<Answered>) {
        if let [(_, Err(_))] = &group[..] {
            self.roll_back();
            return answer(group);
        }
        let committed = self.conn().and_then(|conn| step(conn, "COMMIT"));
        let Err(error) = committed else {
            return answer(group);
        };
        self.roll_back();
        // These can be one job's fault; the others are not to feel it.
        let one_job = error.kind() == Kind::Constraint || error.code() == Some("SQLITE_FULL");
        if group.len() > 1 && one_job && error.outcome() == Outcome::NotApplied {
            return self.again(group);
        }
        for (job, done) in group {
            job.answer(done.and(Err(error.clone())));
        }
    }

    /// Does each job by itself, after a transaction with several was undone.
    fn again(&mut self, group: Vec<Answered>) {
        self.roll_back();
        if group.len() == 1 {
            return answer(group);
        }
        for (job, _) in group {
            if job.is_abandoned() {
                continue;
            }
            if let Err(error) = self.begin(&job) {
                job.answer(Err(error));
                continue;
            }
            let (done, _) = self.run_one(&job, Scope::Alone);
            self.end(vec![(job, done)]);
        }
    }

    /// Answers those who have waited for the lock as long as they may.
    fn refuse(&mut self, first: Job, error: &DbError) -> Option<Message> {
        first.answer(Err(error.clone()));
        let now = Instant::now();
        if error.kind() != Kind::Busy {
            return None;
        }
        loop {
            match self.queue.try_recv() {
                Ok(Message::Job(job)) if self.deadline(&job) <= now => {
                    job.answer(Err(error.clone()));
                }
                Ok(message) => return Some(message),
                Err(_) => return None,
            }
        }
    }
}

fn answer(group: Vec<Answered>) {
    for (job, done) in group {
        job.answer(done);
    }
}
