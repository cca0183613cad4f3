//! Many small transactions in one.
//!
//! What waits in the queue when the lock is had is done in one transaction, in
//! which each job has a savepoint, and every caller is answered after its
//! COMMIT: one sync of the disk for all. A job must not feel another. So if
//! the transaction ended under a job, or the COMMIT is refused for what one of
//! them did, all of it is undone, nobody was answered, and each runs again in a
//! transaction of its own.

use std::time::{Duration, Instant};

use duebox_core::{DbError, Kind, Outcome};
use rusqlite::Connection;

use crate::error;
use crate::job::{Done, Job, Message};
use crate::writer::{Writer, guarded};

/// A transaction takes no more jobs once it has so many,
const MAX_JOBS: usize = 256;
/// once they bind or return so many bytes,
const MAX_BYTES: usize = 8 * 1024 * 1024;
/// or once it has held the lock for so long.
const MAX_HOLD: Duration = Duration::from_millis(50);

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
        while let Some(current) = job.take() {
            let (alone, solitary) = (group.is_empty(), current.work.is_solitary());
            let (done, open) = self.in_savepoint(&current, !alone);
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
                (job, next) = self.another();
            }
        }
        self.end(group);
        next
    }

    /// The next that may join the transaction, or the next that may not.
    fn another(&mut self) -> (Option<Job>, Option<Message>) {
        loop {
            match self.queue.try_recv() {
                Ok(Message::Job(job)) if job.is_abandoned() => {}
                Ok(Message::Job(job)) if !job.work.is_solitary() && self.may_share() => {
                    return (Some(job), None);
                }
                Ok(message) => return (None, Some(message)),
                Err(_) => return (None, None),
            }
        }
    }

    /// Whether jobs cannot leave anything to each other but their rows.
    ///
    /// A violated foreign key that is looked at only in the COMMIT can be left
    /// by one job and mended by the next, which then would both succeed. SQL
    /// cannot ask whether there is one now, but where no key is deferred there
    /// is none.
    fn may_share(&mut self) -> bool {
        let known = self.sharing;
        let look = |conn: &Connection| -> rusqlite::Result<(i64, bool)> {
            let number = |sql: &str| -> rusqlite::Result<i64> {
                conn.prepare_cached(sql)?.query_row([], |row| row.get(0))
            };
            let version = number("PRAGMA schema_version")?;
            if let Some(known) = known.filter(|(of, _)| *of == version) {
                return Ok(known);
            }
            let in_the_way = number(
                "SELECT (SELECT COUNT(*) FROM pragma_database_list WHERE name NOT IN ('main', 'temp'))
                    + (SELECT COUNT(*) FROM sqlite_schema WHERE sql LIKE '%initially%deferred%')
                    + (SELECT COUNT(*) FROM sqlite_temp_schema WHERE sql LIKE '%initially%deferred%')",
            )?;
            Ok((version, in_the_way == 0))
        };
        let found = self.conn().ok().and_then(|conn| look(conn).ok());
        self.sharing = found;
        found.is_some_and(|(_, may)| may)
    }

    /// Does one job, undone if it fails, and says whether the transaction is
    /// still open.
    fn in_savepoint(&mut self, job: &Job, savepoint: bool) -> (Result<Done, DbError>, bool) {
        let conn = match self.conn() {
            Ok(conn) => &*conn,
            Err(error) => return (Err(error), false),
        };
        let done = guarded(|| {
            if savepoint {
                step(conn, "SAVEPOINT duebox")?;
            }
            job.work.run(conn)
        })
        .map_err(DbError::not_applied);
        let open = !conn.is_autocommit();
        if !open && done.is_ok() {
            let error = DbError::new(Kind::Other, "a statement ended the transaction it was in");
            return (Err(error), false);
        }
        if !savepoint || !open {
            return (done, open);
        }
        let undone = || -> Result<(), DbError> {
            if done.is_err() {
                step(conn, "ROLLBACK TO duebox")?;
            }
            step(conn, "RELEASE duebox")
        };
        match undone() {
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
            let (done, _) = self.in_savepoint(&job, false);
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

fn step(conn: &Connection, sql: &str) -> Result<(), DbError> {
    conn.prepare_cached(sql)
        .and_then(|mut statement| statement.raw_execute())
        .map(drop)
        .map_err(|error| error::sort(&error))
}

fn answer(group: Vec<Answered>) {
    for (job, done) in group {
        job.answer(done);
    }
}
