//! A row whose holders died or stood still.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use duebox_core::{DbError, LeaseOutcome};
use tokio::sync::mpsc::UnboundedSender;

use crate::alone::Wanting;
use crate::db::{Pauses, bounded};
use crate::held::Claimed;
use crate::run::Slot;
use crate::shared::{End, Ended, Shared, Topic};

pub(crate) struct Suspect {
    pub(crate) topic: Arc<Topic>,
    pub(crate) claimed: Claimed,
}

/// What is to become of a suspect.
enum Verdict {
    Run,
    /// It died while it ran alone: it is the one.
    Guilty,
    /// Somebody else has it.
    Lost,
}

impl Suspect {
    pub(crate) fn into_claimed(self) -> Claimed {
        self.claimed
    }

    /// Runs it with nothing beside it, or parks it if it was run so before and
    /// did not live.
    ///
    /// That it runs alone is noted with the row first. Rows that merely waited
    /// for their turn when another one killed the process have no such note of
    /// their last claim, and are not punished for it.
    pub(crate) async fn run(
        self,
        shared: Arc<Shared>,
        ends: UnboundedSender<Ended>,
        wanting: Wanting,
    ) {
        let alone = tokio::select! {
            biased;
            () = shared.stopping.cancelled() => None,
            alone = wanting.granted() => Some(alone),
        };
        let verdict = if alone.is_some() {
            tokio::select! {
                biased;
                () = shared.stopping.cancelled() => None,
                verdict = self.judge(&shared) => Some(verdict),
            }
        } else {
            None
        };
        match verdict {
            Some(Verdict::Run) => {
                let slot = Slot::take(&shared, &self.topic, &ends, &self.claimed);
                slot.run(self.claimed).await;
            }
            Some(Verdict::Guilty) => {
                let lapses = self.claimed.record.lapses;
                let error = format!(
                    "{lapses} holders of this row in a row died or stood still, the last of them \
                     while it ran alone"
                );
                tracing::error!(
                    outbox = shared.outbox.table(),
                    topic = self.claimed.record.topic,
                    id = self.claimed.record.id,
                    lapses,
                    "this row kills its process; it is parked"
                );
                self.topic.telemetry.parked_unrun();
                self.park(&shared, &error).await;
            }
            Some(Verdict::Lost) => {
                shared.telemetry.leases_lost.increment(1);
                shared.held.end(self.claimed.key);
                forget(&shared, &self.claimed);
            }
            None => {
                let at = shared.now();
                end_without_run(&shared, &ends, &self.claimed, End::Release { at });
            }
        }
        drop(alone);
        shared.bell.touch();
    }

    /// Parks it at once: if it were written with other ends, the next suspect
    /// could kill the process before, and the verdict would be forgotten.
    async fn park(&self, shared: &Shared, error: &str) {
        let leases = [self.claimed.record.lease.clone()];
        let mut pauses = Pauses::default();
        loop {
            let now = shared.now();
            let call = shared
                .outbox
                .park_claimed(&*shared.db, &leases, &now, error);
            let Err(failed) = bounded(call).await else {
                break;
            };
            shared.telemetry.failed_calls.increment(1);
            tracing::warn!(outbox = shared.outbox.table(), error = %failed, "a row was not parked");
            tokio::select! {
                biased;
                () = shared.stopping.cancelled() => break,
                () = shared.clock.sleep(pauses.next()) => {}
            }
        }
        shared.held.end(self.claimed.key);
        forget(shared, &self.claimed);
    }

    async fn judge(&self, shared: &Shared) -> Verdict {
        let mut pauses = Pauses::default();
        loop {
            match bounded(self.judge_once(shared)).await {
                Ok(verdict) => return verdict,
                Err(error) => {
                    shared.telemetry.failed_calls.increment(1);
                    tracing::warn!(outbox = shared.outbox.table(), %error, "a row was not judged");
                    shared.clock.sleep(pauses.next()).await;
                }
            }
        }
    }

    async fn judge_once(&self, shared: &Shared) -> Result<Verdict, DbError> {
        let record = &self.claimed.record;
        let (outbox, db) = (&shared.outbox, &*shared.db);
        let Some(row) = outbox.get(db, &record.id).await? else {
            return Ok(Verdict::Lost);
        };
        let noted = note(record.claims.saturating_sub(1));
        if row.last_error.is_some_and(|error| error == noted) {
            return Ok(Verdict::Guilty);
        }
        let leases = [record.lease.clone()];
        let outcomes = outbox
            .note_claimed(db, &leases, &note(record.claims))
            .await?;
        Ok(match outcomes[..] {
            [LeaseOutcome::Held] => Verdict::Run,
            _ => Verdict::Lost,
        })
    }
}

/// What is written with a row before it runs alone.
fn note(claim: u64) -> String {
    format!("holders of this row died or stood still; claim {claim} of it runs alone")
}

/// Ends the lease of a row that was claimed and not run.
pub(crate) fn end_without_run(
    shared: &Shared,
    ends: &UnboundedSender<Ended>,
    claimed: &Claimed,
    end: End,
) {
    forget(shared, claimed);
    if let Some(lease) = shared.held.end(claimed.key) {
        shared.unwritten.fetch_add(1, Ordering::AcqRel);
        // It fails only if the worker was ended, and then the lease lapses.
        let _ = ends.send(Ended { lease, end });
    }
}

fn forget(shared: &Shared, claimed: &Claimed) {
    let bytes = claimed.record.payload.len() as u64;
    shared.bytes.fetch_sub(bytes, Ordering::AcqRel);
}
