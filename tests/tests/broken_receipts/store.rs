//! A store in memory that serves the hooks of a database, with one defect or
//! none.

#[path = "defect.rs"]
mod defect;
#[path = "rows.rs"]
mod rows;

use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard};

use duebox_conformance::Change;
use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    PendingReceipt, PendingReceiptStore, PushDeliveryStatus, PushOutcome, PushStoreError,
    PushStoreFuture, PushTicketId, RECEIPT_POLL_DELAY, accepted_receipts, check_instant,
};

pub(crate) use self::defect::Defect;
use self::rows::{Row, Rows};

type Answer<'a, T> = PushStoreFuture<'a, Result<T, PushStoreError>>;

#[derive(Clone)]
pub(crate) struct Broken {
    rows: Arc<Mutex<Rows>>,
    defect: Option<Defect>,
}

/// Holds the row of a ticket until it is dropped.
pub(crate) struct Held(Arc<Mutex<Rows>>, String);

impl Drop for Held {
    fn drop(&mut self) {
        self.0.lock().unwrap().locked.remove(&self.1);
    }
}

impl Broken {
    pub(crate) fn new(defect: Option<Defect>) -> Self {
        let rows = Rows::new(defect);
        Self {
            rows: Arc::new(Mutex::new(rows)),
            defect,
        }
    }

    pub(crate) fn another(&self) -> Self {
        if self.has(Defect::HidesUncommitted) {
            return Self::new(self.defect);
        }
        self.clone()
    }

    pub(crate) fn damage(&self, ticket: &PushTicketId) {
        self.rows().row(ticket.as_str()).damaged = true;
    }

    pub(crate) fn break_down(&self) {
        self.rows().broken = true;
    }

    pub(crate) fn refuse(&self, change: Change, ticket: &PushTicketId) {
        self.rows()
            .refused
            .push((change, ticket.as_str().to_owned()));
    }

    pub(crate) fn cut(&self) {
        self.rows().cut = if self.has(Defect::StaysCut) {
            u32::MAX
        } else {
            2
        };
    }

    pub(crate) fn lock(&self, ticket: &PushTicketId) -> Held {
        let ticket = ticket.as_str().to_owned();
        self.rows().locked.insert(ticket.clone());
        Held(Arc::clone(&self.rows), ticket)
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    fn rows(&self) -> MutexGuard<'_, Rows> {
        self.rows.lock().unwrap()
    }

    /// The rows, unless the store does not work.
    fn up(&self) -> Result<MutexGuard<'_, Rows>, PushStoreError> {
        let mut rows = self.rows();
        if rows.cut > 0 {
            rows.cut -= u32::from(!self.has(Defect::StaysCut));
            return Err(PushStoreError::Busy);
        }
        if !rows.broken {
            return Ok(rows);
        }
        Err(if self.has(Defect::RetriesForEver) {
            PushStoreError::Busy
        } else {
            PushStoreError::Internal
        })
    }

    fn micros(&self, instant: DateTime<Utc>) -> Result<i64, PushStoreError> {
        if self.has(Defect::LeapIsNext) {
            let raw = instant.timestamp() * 1_000_000;
            return Ok(raw + i64::from(instant.timestamp_subsec_micros()));
        }
        let micros = match check_instant(instant) {
            Err(_) if self.has(Defect::ClampsInstants) => return Ok(instant.timestamp().signum()),
            checked => checked?,
        };
        let up = i64::from(!instant.timestamp_subsec_nanos().is_multiple_of(1_000));
        Ok(match self.defect {
            Some(Defect::RoundsUp) => micros + up,
            Some(Defect::Milliseconds) => micros - micros % 1_000,
            Some(Defect::EndsIn2038) => micros.min(i64::from(i32::MAX) * 1_000_000),
            _ => micros,
        })
    }

    fn checked(&self, receipts: Vec<PendingReceipt>) -> Result<Vec<Row>, PushStoreError> {
        let row = |receipt: PendingReceipt| {
            let sent = self.micros(receipt.sent_at)?;
            Ok(Row::new(receipt, sent, self.defect))
        };
        if self.has(Defect::RecordsUpToABadInstant) {
            return Ok(receipts
                .into_iter()
                .map_while(|each| row(each).ok())
                .collect());
        }
        receipts.into_iter().map(row).collect()
    }

    fn exact(&self, count: u64) -> u64 {
        if self.has(Defect::CountsIn16Bits) {
            return count % 65_536;
        }
        count
    }
}

impl PendingReceiptStore for Broken {
    fn record(&self, receipts: Vec<PendingReceipt>, due_at: DateTime<Utc>) -> Answer<'_, u64> {
        if self.has(Defect::WorksUnpolled) {
            let due = self.micros(due_at);
            let done = due.and_then(|due| self.up()?.record(self.checked(receipts)?, due));
            return Box::pin(std::future::ready(done));
        }
        Box::pin(async move {
            let due = self.micros(due_at)?;
            let complete = receipts.len();
            let mut rows = self.checked(receipts)?;
            let complete = complete == rows.len();
            if self.has(Defect::StopsInBetween) {
                let rest = rows.split_off(rows.len() / 2);
                let first = self.up()?.record(rows, due)?;
                tokio::task::yield_now().await;
                return Ok(first + self.up()?.record(rest, due)?);
            }
            if self.has(Defect::RecordsTwice) {
                let new = self.up()?.count_new(&rows);
                tokio::task::yield_now().await;
                self.up()?.record(rows, due)?;
                return Ok(new);
            }
            let new = self.up()?.record(rows, due)?;
            if !complete {
                return Err(PushStoreError::OutOfRange);
            }
            Ok(self.exact(new))
        })
    }

    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> Answer<'_, Vec<PendingReceipt>> {
        Box::pin(async move {
            let (now, retry) = (self.micros(now)?, self.micros(retry_at)?);
            if self.has(Defect::RefusesPastRetry) && retry < now {
                return Err(PushStoreError::OutOfRange);
            }
            if self.has(Defect::EmptyWhenBroken) && self.rows().broken {
                return Ok(vec![]);
            }
            while self.has(Defect::WaitsForLocks) && !self.rows().locked.is_empty() {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            let due = self.up()?.due(now, limit);
            match self.defect {
                Some(Defect::TakesTwice) => {
                    tokio::task::yield_now().await;
                    self.up()?.take(due, now, retry)
                }
                Some(Defect::Resurrects) => {
                    let copies = self.up()?.copies(&due);
                    tokio::task::yield_now().await;
                    self.up()?.write(copies.clone(), retry);
                    Ok(copies.into_iter().map(|row| row.receipt).collect())
                }
                Some(Defect::TakesOutAndPutsBack) => {
                    let copies = self.up()?.copies(&due);
                    self.up()?.remove(&due);
                    tokio::task::yield_now().await;
                    self.up()?.write(copies.clone(), retry);
                    Ok(copies.into_iter().map(|row| row.receipt).collect())
                }
                _ => {
                    // In one go, under one lock.
                    let mut rows = self.up()?;
                    let due = rows.due(now, limit);
                    rows.take(due, now, retry)
                }
            }
        })
    }

    fn delete(&self, tickets: Vec<PushTicketId>) -> Answer<'_, u64> {
        Box::pin(async move {
            let gone = self.up()?.delete(&tickets)?;
            Ok(match self.defect {
                Some(Defect::CountsWhatWasAsked) => tickets.len() as u64,
                Some(Defect::LosesAnswers) => 0,
                _ => self.exact(gone),
            })
        })
    }

    fn purge(&self, sent_before: DateTime<Utc>, limit: NonZeroU32) -> Answer<'_, u64> {
        Box::pin(async move {
            let mut before = self.micros(sent_before)?;
            if self.has(Defect::ComparesNanoseconds) {
                before += i64::from(!sent_before.timestamp_subsec_nanos().is_multiple_of(1_000));
            }
            self.up()?.purge(before, limit)
        })
    }

    fn erase_owner(&self, owner_id: Uuid) -> Answer<'_, u64> {
        Box::pin(async move {
            while !self.has(Defect::SkipsLockedErasures) && self.up()?.is_locked(owner_id) {
                tokio::time::sleep(std::time::Duration::from_millis(1)).await;
            }
            self.up()?.erase(owner_id)
        })
    }

    fn record_accepted(
        &self,
        owner_id: Uuid,
        outcomes: &[PushOutcome],
        sent_at: DateTime<Utc>,
    ) -> Answer<'_, u64> {
        let mut receipts = accepted_receipts(owner_id, outcomes, sent_at);
        let mut wait = RECEIPT_POLL_DELAY;
        match self.defect {
            Some(Defect::TokensByPosition) => {
                for (receipt, outcome) in receipts.iter_mut().zip(outcomes) {
                    receipt.token = outcome.token.clone();
                }
            }
            Some(Defect::NothingAfterAFailure) => {
                let failed =
                    |each: &PushOutcome| !matches!(each.status, PushDeliveryStatus::Accepted(_));
                if outcomes.last().is_some_and(failed) {
                    receipts.clear();
                }
            }
            Some(Defect::AcceptedAreDueAtOnce) => wait = TimeDelta::zero(),
            _ => {}
        }
        let due = check_instant(sent_at).and_then(|_| {
            sent_at
                .checked_add_signed(wait)
                .ok_or(PushStoreError::OutOfRange)
        });
        match due {
            Ok(due) => self.record(receipts, due),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }
}
