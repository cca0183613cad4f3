//! Delivers the mails that are due.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use chrono::TimeDelta;
use duebox_sqlite::{
    Claim, Database, DbError, Kind, Outbox, OutboxRecord, Retry, SqliteDatabase, format_time,
    parse_time,
};
use tokio::sync::Notify;
use tokio::task::spawn_blocking;

use crate::Error;
use crate::accounts::Accounts;
use crate::mail::Welcome;
use crate::maildir::Maildir;
use crate::progress::Counters;

/// A crash between delivery and completion repeats at most so many mails.
const BATCH: u64 = 16;
/// How long an idle drainer waits if nobody nudges it.
const POLL: Duration = Duration::from_millis(250);

/// One of several that deliver side by side, in this process and in others.
#[derive(Clone, Debug)]
pub(crate) struct Drainer {
    pub(crate) accounts: Accounts,
    pub(crate) maildir: Arc<Maildir>,
    pub(crate) counters: Arc<Counters>,
    /// Rung when there is a new mail.
    pub(crate) nudge: Arc<Notify>,
    /// Whether this process enqueues nothing more.
    pub(crate) last: Arc<AtomicBool>,
    /// How long a claimed mail is out of others' reach: what a crash costs at most.
    pub(crate) lease: Duration,
    /// Who holds a lease, for people to read.
    pub(crate) name: String,
}

/// How a delivery ended.
pub(crate) enum Delivery {
    Done,
    /// Another attempt may succeed.
    Failed(io::ErrorKind),
    /// None will.
    Impossible(&'static str),
    /// There was no time left for it.
    NotTried,
}

impl Drainer {
    /// Delivers until the input has ended and nothing waits, is under lease, or will be retried.
    pub(crate) async fn run(self) -> Result<(), Error> {
        loop {
            match self.step().await {
                Ok(true) => {}
                Ok(false) => return Ok(()),
                // What was claimed comes back when its lease ends, and a late completion is told.
                Err(error) if matches!(error.kind(), Kind::Busy | Kind::Unavailable) => {
                    tokio::time::sleep(POLL).await;
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Delivers one batch or waits for one; `false` if there will be none.
    pub(crate) async fn step(&self) -> Result<bool, DbError> {
        // Asked before the claim: a mail that is enqueued between the two is not missed.
        let last = self.last.load(Ordering::Acquire);
        let (db, outbox) = (&self.accounts.db, &self.accounts.outbox);
        let now = db.now().await?;
        let claim = Claim::new(format_time(now)?, format_time(now + self.lease)?)
            .limit(BATCH)
            .locked_by(self.name.as_str());
        let records = outbox.claim(db, &claim).await?;
        if !records.is_empty() {
            self.deliver(db, outbox, records).await?;
            return Ok(true);
        }
        if last {
            let stats = self.accounts.stats().await?;
            if stats.waiting + stats.due + stats.leased == 0 {
                return Ok(false);
            }
        }
        // A lease of a process that was killed ends by itself; nobody nudges for that.
        let _ = tokio::time::timeout(POLL, self.nudge.notified()).await;
        Ok(true)
    }

    /// Writes the mails of one batch, then ends all of their leases.
    async fn deliver(
        &self,
        db: &SqliteDatabase,
        outbox: &Outbox,
        records: Vec<OutboxRecord>,
    ) -> Result<(), DbError> {
        let maildir = self.maildir.clone();
        // What is left then is released, so that the leases are in force to the batch's end.
        let enough = self.lease / 2;
        let work = spawn_blocking(move || {
            let started = Instant::now();
            let deliver = |record: OutboxRecord| {
                let ended = if started.elapsed() < enough {
                    deliver(&maildir, &record)
                } else {
                    Delivery::NotTried
                };
                (record, ended)
            };
            records.into_iter().map(deliver).collect::<Vec<_>>()
        });
        let ended = work
            .await
            .map_err(|_| DbError::new(Kind::Other, "a delivery panicked"))?;
        let now = db.now().await?;

        let (mut done, mut not_tried, mut failures) = (Vec::new(), Vec::new(), Vec::new());
        for (record, ended) in ended {
            match ended {
                Delivery::Done => {
                    self.counters.delivered.add(1);
                    let again = record.claims > 1;
                    self.counters.delivered_again.add(u64::from(again));
                    done.push(record.lease);
                }
                Delivery::NotTried => not_tried.push(record.lease),
                Delivery::Failed(kind) => {
                    self.counters.failed.add(1);
                    let pause = TimeDelta::seconds(1 << record.attempts.min(6));
                    let next = format_time(now + pause)?;
                    failures.push((record.lease, next, kind.to_string()));
                }
                Delivery::Impossible(why) => {
                    self.counters.failed.add(1);
                    let now = format_time(now)?;
                    outbox.park_claimed(db, &[record.lease], &now, why).await?;
                }
            }
        }
        // The answers say for each lease whether it was held or lost. One that was lost is no error:
        // somebody else has the row, and its mail may be there twice, under one Message-ID.
        outbox.complete_claimed(db, &done).await?;
        outbox
            .release_claimed(db, &not_tried, &format_time(now)?)
            .await?;
        let retries: Vec<Retry<'_>> = failures
            .iter()
            .map(|(lease, next_attempt_at, error)| Retry {
                lease,
                next_attempt_at,
                error,
            })
            .collect();
        outbox
            .retry_claimed(db, &format_time(now)?, &retries)
            .await?;
        Ok(())
    }
}

pub(crate) fn deliver(maildir: &Maildir, record: &OutboxRecord) -> Delivery {
    let Ok(welcome) = serde_json::from_str::<Welcome>(&record.payload) else {
        return Delivery::Impossible("the payload is not a welcome mail");
    };
    let Ok(created_at) = parse_time(&record.created_at) else {
        return Delivery::Impossible("the row has no time of creation");
    };
    let written = welcome
        .message(&record.id, created_at)
        .and_then(|message| maildir.deliver(&message));
    match written {
        Ok(_) => Delivery::Done,
        Err(error) => Delivery::Failed(error.kind()),
    }
}
