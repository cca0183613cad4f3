use std::collections::{BTreeSet, HashMap};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::batch::distinct_receipts;
use super::instant::{check_instant, instant_from_micros};
use crate::{PendingReceipt, PendingReceiptStore, PushStoreError, PushStoreFuture, PushTicketId};

/// A [`PendingReceiptStore`] in memory, for tests: what it keeps ends with the
/// last of its clones.
///
/// It keeps every promise of the port but the one that a database is for. Its
/// futures are done when they are first polled.
#[derive(Clone, Debug, Default)]
pub struct MemoryPendingReceiptStore {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    entries: HashMap<PushTicketId, Entry>,
    /// `(due instant, ticket)` of every entry, as the index of a database.
    due: BTreeSet<(i64, PushTicketId)>,
    /// `(sent instant, ticket)` of every entry.
    sent: BTreeSet<(i64, PushTicketId)>,
}

#[derive(Debug)]
struct Entry {
    receipt: PendingReceipt,
    sent_at: i64,
    due_at: i64,
}

impl MemoryPendingReceiptStore {
    /// An empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// How many tickets there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.state().entries.len()
    }

    /// Whether there is no ticket.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A ticket as it is stored, and when it is due.
    #[must_use]
    pub fn get(&self, ticket: &PushTicketId) -> Option<(PendingReceipt, DateTime<Utc>)> {
        let state = self.state();
        let entry = state.entries.get(ticket)?;
        let due_at = instant_from_micros(entry.due_at).ok()?;
        Some((entry.receipt.clone(), due_at))
    }

    /// No change of the state can be left half done, so neither can one that
    /// panicked.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn insert(&mut self, receipt: PendingReceipt, sent_at: i64, due_at: i64) -> bool {
        let ticket = receipt.ticket.clone();
        if self.entries.contains_key(&ticket) {
            return false;
        }
        self.due.insert((due_at, ticket.clone()));
        self.sent.insert((sent_at, ticket.clone()));
        let entry = Entry {
            receipt,
            sent_at,
            due_at,
        };
        self.entries.insert(ticket, entry);
        true
    }

    fn remove(&mut self, ticket: &PushTicketId) -> bool {
        let Some(entry) = self.entries.remove(ticket) else {
            return false;
        };
        self.due.remove(&(entry.due_at, ticket.clone()));
        self.sent.remove(&(entry.sent_at, ticket.clone()));
        true
    }

    fn remove_all(&mut self, tickets: &[PushTicketId]) -> u64 {
        count(tickets.iter().filter(|ticket| self.remove(ticket)).count())
    }

    fn take(&mut self, now: i64, retry_at: i64, limit: usize) -> Vec<PendingReceipt> {
        let due: Vec<_> = self
            .due
            .iter()
            .take_while(|(due_at, _)| *due_at <= now)
            .take(limit)
            .cloned()
            .collect();
        let mut taken = Vec::with_capacity(due.len());
        for key in due {
            self.due.remove(&key);
            if let Some(entry) = self.entries.get_mut(&key.1) {
                entry.due_at = retry_at;
                taken.push(entry.receipt.clone());
                self.due.insert((retry_at, key.1));
            }
        }
        taken
    }
}

fn count(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

fn most(limit: NonZeroU32) -> usize {
    usize::try_from(limit.get()).unwrap_or(usize::MAX)
}

impl PendingReceiptStore for MemoryPendingReceiptStore {
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let due_at = check_instant(due_at)?;
            let mut rows = Vec::with_capacity(receipts.len());
            for receipt in distinct_receipts(receipts)? {
                rows.push((check_instant(receipt.sent_at)?, receipt));
            }
            let mut state = self.state();
            let mut new = 0;
            for (sent_at, receipt) in rows {
                new += u64::from(state.insert(receipt, sent_at, due_at));
            }
            Ok(new)
        })
    }

    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
        Box::pin(async move {
            let (now, retry_at) = (check_instant(now)?, check_instant(retry_at)?);
            Ok(self.state().take(now, retry_at, most(limit)))
        })
    }

    fn delete(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move { Ok(self.state().remove_all(&tickets)) })
    }

    fn purge(
        &self,
        sent_before: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let sent_before = check_instant(sent_before)?;
            let mut state = self.state();
            let old: Vec<_> = state
                .sent
                .iter()
                .take_while(|(sent_at, _)| *sent_at < sent_before)
                .take(most(limit))
                .map(|(_, ticket)| ticket.clone())
                .collect();
            Ok(state.remove_all(&old))
        })
    }

    fn erase_owner(&self, owner_id: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            let mut state = self.state();
            let theirs: Vec<_> = state
                .entries
                .values()
                .filter(|entry| entry.receipt.owner_id == owner_id)
                .map(|entry| entry.receipt.ticket.clone())
                .collect();
            Ok(state.remove_all(&theirs))
        })
    }
}
