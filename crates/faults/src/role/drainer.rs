//! Drains by hand: claims, delivers, and ends its leases by every call there
//! is, late now and then.

use std::time::Instant;

use duebox_core::chrono::TimeDelta;
use duebox_core::{
    Claim, ClaimCursor, Database, Lease, LeaseOutcome, OutboxRecord, Retry, Statement,
};

use super::{LEASE, Session, text};
use crate::history::{Answer, Call, Held, How};

pub(super) async fn run(session: &Session, random: &mut fastrand::Rng) {
    let mut drainer = Drainer {
        session,
        cursor: random.bool().then(ClaimCursor::new),
        began: Instant::now(),
        former: Vec::new(),
    };
    while session.running() {
        let limit = random.u64(1..=12);
        let records = drainer.claim(limit).await;
        if records.is_empty() {
            session.pause(random.u64(10..60)).await;
            continue;
        }
        for record in &records {
            session.journal.ran(held(&record.lease));
        }
        let work = match random.u8(0..100) {
            // Longer than the lease.
            0..4 => random.u64(1_000..1_600),
            4..20 => random.u64(50..200),
            _ => random.u64(0..15),
        };
        session.pause(work).await;
        let leases: Vec<Lease> = records.iter().map(|record| record.lease.clone()).collect();
        drainer.end(random, records).await;
        drainer.insist(random, leases).await;
    }
}

struct Drainer<'a> {
    session: &'a Session,
    cursor: Option<ClaimCursor>,
    began: Instant,
    /// Leases that it had, and may still take for its own.
    former: Vec<Lease>,
}

pub(crate) fn held(lease: &Lease) -> Held {
    Held {
        id: lease.id().to_owned(),
        claims: lease.claims(),
    }
}

/// What claimed rows are, in the order in which they came.
pub(crate) fn claimed(records: &[OutboxRecord]) -> Answer {
    Answer::Claimed(records.iter().map(|record| held(&record.lease)).collect())
}

pub(crate) fn outcomes(outcomes: &[LeaseOutcome]) -> Answer {
    Answer::Held(outcomes.iter().map(|outcome| outcome.is_held()).collect())
}

impl Drainer<'_> {
    async fn claim(&mut self, limit: u64) -> Vec<OutboxRecord> {
        let Session { outbox, open, .. } = self.session;
        let now = self.session.now();
        let (now, until) = (text(now), text(now + LEASE));
        let call = Call::Claim {
            now: now.clone(),
            until: until.clone(),
        };
        let claim = Claim::new(now.clone(), until.clone())
            .limit(limit)
            .locked_by(&self.session.name);
        let db = &*open.db;
        let began = self.began;
        let records = if let Some(cursor) = &mut self.cursor {
            let elapsed = move || began.elapsed();
            let run = outbox.claim_through(db, &claim, cursor, &elapsed);
            self.session.call(call, run, |answer| claimed(answer)).await
        } else {
            let run = outbox.claim_due(db, &now, &until, limit);
            self.session.call(call, run, |answer| claimed(answer)).await
        };
        records.unwrap_or_default()
    }

    /// Ends the leases, each by a call that is drawn for it.
    async fn end(&self, random: &mut fastrand::Rng, records: Vec<OutboxRecord>) {
        let mut done = Vec::new();
        let mut failed = Vec::new();
        for record in records {
            let lease = record.lease;
            match random.u8(0..100) {
                0..70 => done.push(lease),
                70..78 => failed.push(lease),
                78..83 => self.give_back(random, lease).await,
                83..85 => self.park(lease).await,
                85..92 => {
                    self.extend(random, &lease).await;
                    done.push(lease);
                }
                92..98 => self.effect(lease).await,
                // Abandoned: it comes back by itself.
                _ => {}
            }
        }
        self.retry(random, failed).await;
        self.complete(random, done).await;
    }

    /// Calls once more for leases that it had, as a stale holder does.
    async fn insist(&mut self, random: &mut fastrand::Rng, leases: Vec<Lease>) {
        self.former.extend(leases);
        if random.u8(0..4) > 0 {
            return;
        }
        let most = self.former.len().min(5);
        let stale: Vec<Lease> = (0..most)
            .map(|_| self.former.swap_remove(random.usize(0..self.former.len())))
            .collect();
        if random.bool() {
            self.complete(random, stale).await;
        } else {
            self.retry(random, stale).await;
        }
    }

    async fn complete(&self, random: &mut fastrand::Rng, leases: Vec<Lease>) {
        if leases.is_empty() {
            return;
        }
        // Sent again after an error, as one does.
        for _ in 0..random.u8(1..=3) {
            let run = self
                .session
                .outbox
                .complete_claimed(&*self.session.open.db, &leases);
            let call = Self::fenced(How::Complete, &leases);
            if self
                .session
                .call(call, run, |answer| outcomes(answer))
                .await
                .is_ok()
            {
                break;
            }
        }
    }

    fn fenced(how: How, leases: &[Lease]) -> Call {
        Call::Fenced {
            how,
            leases: leases.iter().map(held).collect(),
        }
    }

    async fn retry(&self, random: &mut fastrand::Rng, leases: Vec<Lease>) {
        let Session { outbox, open, .. } = self.session;
        if leases.is_empty() {
            return;
        }
        let now = self.session.now();
        let at = text(now + TimeDelta::milliseconds(random.i64(-20..200)));
        let now = text(now);
        let retries: Vec<Retry<'_>> = leases
            .iter()
            .map(|lease| Retry {
                lease,
                next_attempt_at: &at,
                error: "it was not to be",
            })
            .collect();
        let run = outbox.retry_claimed(&*open.db, &now, &retries);
        let call = Self::fenced(How::Retry { at: at.clone() }, &leases);
        // An answer that is lost is no matter: the lease lapses.
        let _ = self
            .session
            .call(call, run, |answer| outcomes(answer))
            .await;
    }

    async fn give_back(&self, random: &mut fastrand::Rng, lease: Lease) {
        let Session { outbox, open, .. } = self.session;
        let at = text(self.session.now() + TimeDelta::milliseconds(random.i64(0..100)));
        let leases = [lease];
        let _ = if random.bool() {
            let run = outbox.release_claimed(&*open.db, &leases, &at);
            let call = Self::fenced(How::Release { at: at.clone() }, &leases);
            self.session
                .call(call, run, |answer| outcomes(answer))
                .await
        } else {
            let run = outbox.reschedule_claimed(&*open.db, &leases, &at);
            let call = Self::fenced(How::Reschedule { at: at.clone() }, &leases);
            self.session
                .call(call, run, |answer| outcomes(answer))
                .await
        };
    }

    async fn park(&self, lease: Lease) {
        let Session { outbox, open, .. } = self.session;
        let now = text(self.session.now());
        let leases = [lease];
        let run = outbox.park_claimed(&*open.db, &leases, &now, "set aside");
        let _ = self
            .session
            .call(Self::fenced(How::Park, &leases), run, |answer| {
                outcomes(answer)
            })
            .await;
    }

    async fn extend(&self, random: &mut fastrand::Rng, lease: &Lease) {
        let Session { outbox, open, .. } = self.session;
        // Now and then to before its end, which changes nothing.
        let until = text(self.session.now() + TimeDelta::milliseconds(random.i64(20..1_100)));
        let leases = [lease.clone()];
        let run = outbox.extend_claimed(&*open.db, &leases, &until);
        let call = Self::fenced(
            How::Extend {
                until: until.clone(),
            },
            &leases,
        );
        let _ = self
            .session
            .call(call, run, |answer| outcomes(answer))
            .await;
    }

    async fn effect(&self, lease: Lease) {
        effect(self.session, &lease).await;
    }
}

/// Takes effect in the same database, in the batch that completes the row.
pub(super) async fn effect(session: &Session, lease: &Lease) {
    let batch = [
        Statement::new("INSERT INTO effect (id, claims) VALUES (?, ?)")
            .bind(lease.id())
            .bind(i64::try_from(lease.claims()).unwrap_or(i64::MAX)),
        session.outbox.complete_statement(lease),
    ];
    let run = session.open.db.batch_atomic(&batch);
    let call = Call::Effect { lease: held(lease) };
    let _ = session
        .call(call, run, |counts| Answer::Count(counts.iter().sum()))
        .await;
}
