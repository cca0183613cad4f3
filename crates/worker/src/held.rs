//! The rows that this worker has claimed and whose runs have not ended.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Lease, LeaseOutcome, OutboxRecord};
use tokio_util::sync::CancellationToken;

/// Names a claim within this worker.
pub(crate) type Key = u64;

/// A row that was claimed.
pub(crate) struct Claimed {
    pub(crate) key: Key,
    pub(crate) record: OutboxRecord,
    pub(crate) lost: CancellationToken,
}

#[derive(Default)]
pub(crate) struct Held(Mutex<Entries>);

#[derive(Default)]
struct Entries {
    last_key: Key,
    by_key: HashMap<Key, Entry>,
}

struct Entry {
    lease: Lease,
    until: DateTime<Utc>,
    lost: CancellationToken,
}

impl Held {
    fn entries(&self) -> MutexGuard<'_, Entries> {
        // Nothing panics under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, records: Vec<OutboxRecord>, until: DateTime<Utc>) -> Vec<Claimed> {
        let mut entries = self.entries();
        let add = |record: OutboxRecord| {
            let lost = CancellationToken::new();
            entries.last_key += 1;
            let key = entries.last_key;
            let entry = Entry {
                lease: record.lease.clone(),
                until,
                lost: lost.clone(),
            };
            entries.by_key.insert(key, entry);
            Claimed { key, record, lost }
        };
        records.into_iter().map(add).collect()
    }

    /// Takes out a row whose run has ended, with its lease; `None` if that is
    /// known to be lost.
    pub(crate) fn end(&self, key: Key) -> Option<Lease> {
        let entry = self.entries().by_key.remove(&key)?;
        (!entry.lost.is_cancelled()).then_some(entry.lease)
    }

    /// The leases that end before this time and that are not known to be lost.
    pub(crate) fn ending_before(&self, time: DateTime<Utc>) -> (Vec<Key>, Vec<Lease>) {
        let entries = self.entries();
        let ending = entries
            .by_key
            .iter()
            .filter(|(_, entry)| entry.until < time && !entry.lost.is_cancelled());
        ending
            .map(|(key, entry)| (*key, entry.lease.clone()))
            .unzip()
    }

    /// Takes note of extensions, tells those who run on a lost lease, and
    /// returns how many these are. A run that has ended meanwhile is told by
    /// the call that ends its lease.
    pub(crate) fn extended(
        &self,
        keys: &[Key],
        outcomes: &[LeaseOutcome],
        until: DateTime<Utc>,
    ) -> u64 {
        let mut entries = self.entries();
        let mut lost = 0;
        for (key, outcome) in keys.iter().zip(outcomes) {
            match (entries.by_key.get_mut(key), outcome.is_held()) {
                (Some(entry), true) => entry.until = until,
                (Some(entry), false) => {
                    entry.lost.cancel();
                    lost += 1;
                }
                (None, _) => {}
            }
        }
        lost
    }

    pub(crate) fn len(&self) -> usize {
        self.entries().by_key.len()
    }
}
