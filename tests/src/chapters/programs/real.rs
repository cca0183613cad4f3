use duebox_core::{
    Claim, DbError, Enqueue, Kind, Lease, LeaseOutcome, ListOptions, OutboxEntry, Retry, Statement,
    parse_time,
};

use super::step::{New, Step};
use crate::Context;
use crate::context::at;

/// The outbox of the engine.
pub(super) struct Real<'a> {
    cx: &'a Context,
    leases: Vec<Lease>,
}

/// What is shown of an answer that did not come in time.
pub(super) const AWAY: &str = "the server is away";

/// What is shown of an answer: it, or the kind of its error.
fn shown<T: std::fmt::Debug>(answer: Result<T, DbError>) -> String {
    match answer {
        Ok(answer) => format!("{answer:?}"),
        Err(error) => match error.kind() {
            kind @ (Kind::Conflict | Kind::RowCount) => format!("{kind:?}"),
            Kind::Unavailable => AWAY.to_owned(),
            _ => error.to_string(),
        },
    }
}

fn held(answer: Result<Vec<LeaseOutcome>, DbError>) -> String {
    shown(answer.map(|all| {
        all.into_iter()
            .map(LeaseOutcome::is_held)
            .collect::<Vec<_>>()
    }))
}

fn entry(entry: &OutboxEntry) -> String {
    let OutboxEntry {
        id,
        topic,
        subject,
        payload_bytes,
        attempts,
        claims,
        lapses,
        created_at,
        next_attempt_at,
        locked_until,
        last_error,
        failed_at,
        ..
    } = entry;
    format!(
        "{:?}",
        (
            (id, topic, subject, payload_bytes),
            (attempts, claims, lapses, created_at),
            (next_attempt_at, locked_until, last_error, failed_at),
        )
    )
}

impl<'a> Real<'a> {
    pub(super) fn new(cx: &'a Context) -> Self {
        Self {
            cx,
            leases: Vec::new(),
        }
    }

    fn lease(&self, place: usize) -> Option<Lease> {
        let place = place.checked_rem(self.leases.len())?;
        self.leases.get(place).cloned()
    }

    fn some(&self, places: &[usize]) -> Vec<Lease> {
        let lease = |place: &usize| self.lease(*place);
        places.iter().filter_map(lease).collect()
    }

    fn statement(&self, new: &New) -> Statement {
        let payload = "p".repeat(new.payload);
        let outbox = &self.cx.outbox;
        outbox.enqueue_statement(new.id, new.topic, &payload, new.subject, &new.at)
    }

    pub(super) async fn content(&self) -> String {
        let all = ListOptions::new().limit(u64::MAX);
        let rows = self.cx.outbox.list(&*self.cx.db, &at(0), &all).await;
        shown(rows.map(|rows| rows.iter().map(entry).collect::<Vec<_>>()))
    }

    #[allow(clippy::too_many_lines, reason = "an arm a call")]
    pub(super) async fn run(&mut self, step: &Step) -> String {
        let (outbox, db) = (&self.cx.outbox, &*self.cx.db);
        match step {
            Step::Enqueue(new) => shown(db.batch_atomic(&[self.statement(new)]).await),
            Step::EnqueueOnce(new) => {
                let payload = "p".repeat(new.payload);
                let once = outbox.enqueue_once_statement(
                    new.id,
                    new.topic,
                    &payload,
                    new.subject,
                    &new.at,
                );
                shown(db.execute(&once).await)
            }
            Step::EnqueueMany(all) => {
                let work = all.iter().map(|new| {
                    let work = Enqueue::new(new.topic)
                        .id(new.id)
                        .payload("p".repeat(new.payload))
                        .at(parse_time(&new.at).expect("a time"));
                    match new.subject {
                        Some(subject) => work.subject(subject),
                        None => work,
                    }
                });
                shown(db.execute(&outbox.enqueue_many_statement(work)).await)
            }
            Step::Undone(new) => {
                let none = outbox.erase_subject_statement("nobody").expect_rows(1);
                shown(db.batch_atomic(&[self.statement(new), none]).await)
            }
            Step::Claim {
                now,
                until,
                limit,
                max_bytes,
            } => {
                let claim = Claim::new(now, until).limit(*limit).max_bytes(*max_bytes);
                let records = outbox.claim(db, &claim).await;
                if let Ok(records) = &records {
                    self.leases
                        .extend(records.iter().map(|record| record.lease.clone()));
                }
                shown(records.map(|records| {
                    let record = |record: duebox_core::OutboxRecord| {
                        let counts = (record.attempts, record.claims, record.lapses);
                        (
                            record.id,
                            record.topic,
                            record.subject,
                            record.payload.len(),
                            counts,
                        )
                    };
                    records.into_iter().map(record).collect::<Vec<_>>()
                }))
            }
            Step::Complete(leases) => held(outbox.complete_claimed(db, &self.some(leases)).await),
            Step::Retry { now, each } => {
                let leases: Vec<(Lease, &String)> = each
                    .iter()
                    .filter_map(|(place, at)| Some((self.lease(*place)?, at)))
                    .collect();
                let retries: Vec<Retry<'_>> = leases
                    .iter()
                    .map(|(lease, at)| Retry {
                        lease,
                        next_attempt_at: at,
                        error: at,
                    })
                    .collect();
                held(outbox.retry_claimed(db, now, &retries).await)
            }
            Step::Reschedule(leases, at) => {
                held(outbox.reschedule_claimed(db, &self.some(leases), at).await)
            }
            Step::ReleaseClaimed(leases, at) => {
                held(outbox.release_claimed(db, &self.some(leases), at).await)
            }
            Step::Extend(leases, until) => {
                held(outbox.extend_claimed(db, &self.some(leases), until).await)
            }
            Step::Note(leases) => held(outbox.note_claimed(db, &self.some(leases), "a note").await),
            Step::ParkClaimed(leases, now) => held(
                outbox
                    .park_claimed(db, &self.some(leases), now, "for good")
                    .await,
            ),
            Step::CompleteInBatch(place) => match self.lease(*place) {
                None => "no lease".to_owned(),
                Some(lease) => {
                    let batch = [outbox.complete_statement(&lease)];
                    shown(db.batch_atomic(&batch).await)
                }
            },
            Step::CompleteById(id) => shown(outbox.complete(db, id).await),
            Step::RetryById(id, at) => shown(outbox.retry_later(db, id, at).await),
            Step::Park(ids, now) => shown(outbox.park(db, ids, now, "by hand").await),
            Step::Unpark(ids, at) => shown(outbox.unpark(db, ids, at).await),
            Step::Release(ids) => shown(outbox.release(db, ids).await),
            Step::Delete(ids) => shown(outbox.delete(db, ids).await),
            Step::Erase(subject, limit) => shown(outbox.erase_subject(db, subject, *limit).await),
            Step::Export(subject) => {
                let rows = outbox.export_subject(db, subject, None, u64::MAX).await;
                shown(rows.map(|rows| rows.iter().map(entry).collect::<Vec<_>>()))
            }
            Step::Stats(now) => shown(outbox.stats(db, now).await.map(|stats| {
                let oldest = stats.oldest_due.map(|age| age.num_seconds());
                (stats.waiting, stats.due, stats.leased, stats.parked, oldest)
            })),
            Step::Get(id) => shown(outbox.get(db, id).await.map(|row| row.as_ref().map(entry))),
        }
    }
}
