//! What is stored, and what each call does to it under one lock.

use std::collections::{BTreeMap, HashSet};
use std::num::NonZeroU32;

use duebox_conformance::Change;
use duebox_core::uuid::Uuid;
use duebox_core::{DeviceToken, PendingReceipt, PushStoreError, PushTicketId, instant_from_micros};

use super::Defect;

#[derive(Clone)]
pub(super) struct Row {
    pub(super) receipt: PendingReceipt,
    sent: i64,
    due: i64,
    taken: bool,
    pub(super) damaged: bool,
}

impl Row {
    pub(super) fn new(mut receipt: PendingReceipt, sent: i64, defect: Option<Defect>) -> Self {
        receipt.sent_at = instant_from_micros(sent).unwrap_or(receipt.sent_at);
        if defect == Some(Defect::CutsTokens) {
            let mut text = receipt.token.into_string();
            text.truncate(255);
            receipt.token = DeviceToken::new(text).unwrap();
        }
        Self {
            receipt,
            sent,
            due: 0,
            taken: false,
            damaged: false,
        }
    }
}

pub(super) struct Rows {
    defect: Option<Defect>,
    stored: BTreeMap<String, Row>,
    deleted: HashSet<String>,
    pub(super) locked: HashSet<String>,
    pub(super) refused: Vec<(Change, String)>,
    pub(super) broken: bool,
    pub(super) cut: u32,
}

impl Rows {
    pub(super) fn new(defect: Option<Defect>) -> Self {
        Self {
            defect,
            stored: BTreeMap::new(),
            deleted: HashSet::new(),
            locked: HashSet::new(),
            refused: Vec::new(),
            broken: false,
            cut: 0,
        }
    }

    fn has(&self, defect: Defect) -> bool {
        self.defect == Some(defect)
    }

    /// What a ticket is found by.
    fn key(&self, ticket: &str) -> String {
        match self.defect {
            Some(Defect::FoldsCase) => ticket.to_lowercase(),
            Some(Defect::TicketsAsNumbers) => ticket
                .parse::<f64>()
                .map_or_else(|_| ticket.to_owned(), |number| number.to_string()),
            _ => ticket.to_owned(),
        }
    }

    pub(super) fn row(&mut self, ticket: &str) -> &mut Row {
        self.stored.get_mut(ticket).unwrap()
    }

    /// Whether one of these may not be changed so.
    fn refuses(&self, change: Change, keys: &[String]) -> bool {
        let refused = |key| self.refused.contains(&(change, key));
        !self.refused.is_empty() && keys.iter().cloned().any(refused)
    }

    pub(super) fn count_new(&self, rows: &[Row]) -> u64 {
        let key = |row: &Row| self.key(row.receipt.ticket.as_str());
        let new = rows
            .iter()
            .filter(|row| !self.stored.contains_key(&key(row)));
        new.count() as u64
    }

    pub(super) fn record(&mut self, rows: Vec<Row>, due: i64) -> Result<u64, PushStoreError> {
        let keys: Vec<_> = rows
            .iter()
            .map(|row| self.key(row.receipt.ticket.as_str()))
            .collect();
        if self.refuses(Change::Insert, &keys) {
            if self.has(Defect::RecordsByHalf) {
                for (key, row) in keys.into_iter().zip(rows) {
                    self.stored.entry(key).or_insert(row);
                }
            }
            return Err(PushStoreError::Internal);
        }
        if self.has(Defect::RefusesEquals) {
            let distinct: HashSet<_> = keys.iter().collect();
            if distinct.len() < keys.len() {
                return Err(PushStoreError::Internal);
            }
        }
        let all = rows.len() as u64;
        let mut new = 0;
        let mut mine = HashSet::new();
        for (key, mut row) in keys.into_iter().zip(rows) {
            row.due = due;
            let forgotten = self.has(Defect::RemembersDeleted) && self.deleted.contains(&key);
            let again = !mine.insert(key.clone());
            if forgotten {
                continue;
            }
            let Some(there) = self.stored.get_mut(&key) else {
                self.stored.insert(key, row);
                new += 1;
                continue;
            };
            match self.defect {
                Some(Defect::Overwrites) => *there = row,
                Some(Defect::RenewsTaken) => there.due = due,
                Some(Defect::LastOfEqualsWins) if again => *there = row,
                _ => {}
            }
        }
        Ok(if self.has(Defect::CountsKnownTickets) {
            all
        } else {
            new
        })
    }

    pub(super) fn due(&self, now: i64, limit: NonZeroU32) -> Vec<String> {
        let is_due = |row: &Row| match self.defect {
            Some(Defect::NotDueAtItsInstant) => row.due < now,
            Some(Defect::DueEarly) => row.due <= now + 1,
            _ => row.due <= now,
        };
        let mut due: Vec<_> = self
            .stored
            .iter()
            .filter(|(key, row)| is_due(row) && !self.locked.contains(*key))
            .map(|(key, row)| (row.due, key.clone()))
            .collect();
        match self.defect {
            Some(Defect::NewestFirst) => due.sort_by_key(|(due, _)| -due),
            Some(Defect::TiesByLanguage) => {
                due.sort_by_key(|(due, key)| (*due, key.to_lowercase()));
            }
            Some(Defect::TiesAtRandom) => {
                due.sort_by_key(|(due, key)| (*due, key.bytes().rev().collect::<Vec<_>>()));
            }
            _ => due.sort(),
        }
        due.truncate(match self.defect {
            Some(Defect::SignedLimit) => signed(limit),
            Some(Defect::NoLimit) => usize::MAX,
            Some(Defect::MovesOneMore) => limit.get() as usize + 1,
            _ => limit.get() as usize,
        });
        due.into_iter().map(|(_, key)| key).collect()
    }

    pub(super) fn take(
        &mut self,
        mut keys: Vec<String>,
        now: i64,
        retry: i64,
    ) -> Result<Vec<PendingReceipt>, PushStoreError> {
        if self.refuses(Change::Update, &keys) {
            if self.has(Defect::TakesByHalf) {
                self.write(self.copies(&keys), retry);
            }
            return Err(PushStoreError::Internal);
        }
        let damaged = keys.iter().filter(|key| self.stored[*key].damaged).count();
        if self.has(Defect::StuckOnDamage) && damaged > 0 {
            return Err(PushStoreError::Corrupt);
        }
        if self.has(Defect::UnsortedAnswer) {
            keys.sort();
        }
        let mut taken = Vec::new();
        for key in &keys {
            let hides = self.has(Defect::HidesDamage);
            let changed = self.stored[key].due != retry || !self.has(Defect::CountsChangedRowsOnly);
            let defect = self.defect;
            let row = self.row(key);
            row.taken = true;
            row.due = match defect {
                Some(Defect::ForgetsToMove) => row.due,
                Some(Defect::StarvesFresh) => row.due + 1,
                _ => retry,
            };
            if defect == Some(Defect::StampsSentAt) {
                row.sent = now;
            }
            if (hides || !row.damaged) && changed {
                taken.push(row.receipt.clone());
            }
        }
        if self.has(Defect::MovesOneMore) {
            taken.pop();
        }
        if self.has(Defect::DeletesWhenTaken) {
            self.remove(&keys);
        }
        if damaged > 0 && taken.is_empty() {
            return Err(PushStoreError::Corrupt);
        }
        Ok(taken)
    }

    pub(super) fn copies(&self, keys: &[String]) -> Vec<Row> {
        let rows = keys.iter().filter_map(|key| self.stored.get(key));
        rows.cloned().collect()
    }

    pub(super) fn write(&mut self, rows: Vec<Row>, due: i64) {
        for row in rows {
            let key = self.key(row.receipt.ticket.as_str());
            self.stored.insert(key, Row { due, ..row });
        }
    }

    pub(super) fn remove(&mut self, keys: &[String]) -> u64 {
        let mut gone = 0;
        for key in keys {
            gone += u64::from(self.stored.remove(key).is_some());
            self.deleted.insert(key.clone());
        }
        gone
    }

    pub(super) fn delete(&mut self, tickets: &[PushTicketId]) -> Result<u64, PushStoreError> {
        let mut keys: Vec<_> = tickets.iter().map(|each| self.key(each.as_str())).collect();
        if self.refuses(Change::Delete, &keys) {
            if self.has(Defect::DeletesByHalf) {
                self.remove(&keys[..keys.len() / 2]);
            }
            return Err(PushStoreError::Internal);
        }
        match self.defect {
            Some(Defect::DeletesTakenOnly) => {
                keys.retain(|key| self.stored.get(key).is_none_or(|row| row.taken));
            }
            Some(Defect::DeletesAll) => keys = self.stored.keys().cloned().collect(),
            Some(Defect::CountsRepetitions) => {
                let there = keys
                    .iter()
                    .filter(|key| self.stored.contains_key(*key))
                    .count();
                self.remove(&keys);
                return Ok(there as u64);
            }
            _ => {}
        }
        Ok(self.remove(&keys))
    }

    pub(super) fn purge(&mut self, before: i64, limit: NonZeroU32) -> Result<u64, PushStoreError> {
        const DAY: i64 = 86_400_000_000;
        let is_old = |row: &Row| match self.defect {
            Some(Defect::PurgesThatInstant) => row.sent <= before,
            Some(Defect::PurgesDueOnly) => row.sent < before && row.due < row.sent + DAY,
            Some(Defect::NeverPurges) => false,
            _ => row.sent < before,
        };
        let is_free = |key: &String| self.has(Defect::PurgesLocked) || !self.locked.contains(key);
        let mut old: Vec<_> = self
            .stored
            .iter()
            .filter(|(key, row)| is_old(row) && is_free(key))
            .map(|(key, row)| (row.sent, key.clone()))
            .collect();
        old.sort();
        if self.has(Defect::PurgesNewestFirst) {
            old.reverse();
        }
        old.truncate(match self.defect {
            Some(Defect::SignedPurge) => signed(limit),
            Some(Defect::PurgesWithoutBound) => usize::MAX,
            _ => limit.get() as usize,
        });
        let keys: Vec<_> = old.into_iter().map(|(_, key)| key).collect();
        if self.refuses(Change::Delete, &keys) {
            return Err(PushStoreError::Internal);
        }
        Ok(self.remove(&keys))
    }

    fn owned(&self, owner_id: Uuid) -> impl Iterator<Item = (&String, &Row)> {
        self.stored
            .iter()
            .filter(move |(_, row)| match self.defect {
                Some(Defect::OwnersByHalf) => {
                    row.receipt.owner_id.as_u64_pair().1 == owner_id.as_u64_pair().1
                }
                Some(Defect::NilIsEverybody) if owner_id.is_nil() => true,
                Some(Defect::ErasesAll) => true,
                Some(Defect::ErasesUntakenOnly) if row.taken => false,
                _ => row.receipt.owner_id == owner_id,
            })
    }

    pub(super) fn is_locked(&self, owner_id: Uuid) -> bool {
        self.owned(owner_id)
            .any(|(key, _)| self.locked.contains(key))
    }

    pub(super) fn erase(&mut self, owner_id: Uuid) -> Result<u64, PushStoreError> {
        let mut keys: Vec<_> = self
            .owned(owner_id)
            .map(|(key, _)| key.clone())
            .filter(|key| !self.locked.contains(key))
            .collect();
        if self.refuses(Change::Delete, &keys) {
            return Err(PushStoreError::Internal);
        }
        if self.has(Defect::ErasesAThousand) {
            keys.truncate(1_000);
        }
        Ok(self.remove(&keys))
    }
}

/// A limit that was read as a signed number, where a negative one is none.
fn signed(limit: NonZeroU32) -> usize {
    let signed = limit.get().cast_signed();
    usize::try_from(signed).unwrap_or(0)
}
