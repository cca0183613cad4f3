//! What an outbox is, in plain Rust: the promises, and none of the SQL.

use std::collections::BTreeMap;

use duebox_core::{PARKED, parse_time};

use super::step::{New, Step};

/// The outbox, and the leases that were handed out.
#[derive(Default)]
pub(super) struct Reference {
    rows: BTreeMap<String, Row>,
    leases: Vec<Lease>,
}

#[derive(Clone)]
struct Row {
    new: New,
    attempts: u64,
    claims: u64,
    lapses: u64,
    next_attempt_at: String,
    locked_until: Option<String>,
    last_error: Option<String>,
    failed_at: Option<String>,
}

#[derive(Clone, PartialEq, Eq)]
struct Lease {
    id: String,
    claim: u64,
    created_at: String,
}

impl Row {
    fn visible_at(&self) -> String {
        let locked = self.locked_until.clone().unwrap_or_default();
        locked.max(self.next_attempt_at.clone())
    }

    fn is_parked(&self) -> bool {
        self.next_attempt_at == PARKED
    }

    fn ends(&mut self) {
        self.lapses = 0;
        self.locked_until = None;
    }

    fn fails(&mut self, now: &str, error: &str) {
        self.attempts += 1;
        self.last_error = Some(error.to_owned());
        self.failed_at = Some(now.to_owned());
        self.ends();
    }

    fn shown(&self) -> String {
        format!(
            "{:?}",
            (
                (
                    self.new.id,
                    self.new.topic,
                    self.new.subject,
                    self.new.payload
                ),
                (self.attempts, self.claims, self.lapses, &self.new.at),
                (
                    &self.next_attempt_at,
                    &self.locked_until,
                    &self.last_error,
                    &self.failed_at
                ),
            )
        )
    }
}

const CONFLICT: &str = "Conflict";

impl Reference {
    pub(super) fn content(&self) -> String {
        format!(
            "{:?}",
            self.rows.values().map(Row::shown).collect::<Vec<_>>()
        )
    }

    fn lease(&self, place: usize) -> Option<Lease> {
        let place = place.checked_rem(self.leases.len())?;
        self.leases.get(place).cloned()
    }

    fn is_held(&self, lease: &Lease) -> bool {
        self.rows.get(&lease.id).is_some_and(|row| {
            row.claims == lease.claim
                && row.new.at == lease.created_at
                && row.locked_until.is_some()
        })
    }

    fn insert(&mut self, new: &New) {
        let row = Row {
            new: new.clone(),
            attempts: 0,
            claims: 0,
            lapses: 0,
            next_attempt_at: new.at.clone(),
            locked_until: None,
            last_error: None,
            failed_at: None,
        };
        self.rows.insert(new.id.to_owned(), row);
    }

    fn claim(&mut self, now: &str, until: &str, limit: u64, max_bytes: u64) -> String {
        let mut due: Vec<(String, String)> = self
            .rows
            .iter()
            .filter(|(_, row)| !row.is_parked() && row.visible_at().as_str() <= now)
            .map(|(id, row)| (row.visible_at(), id.clone()))
            .collect();
        due.sort();
        due.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let (mut bytes, mut taken) = (0, Vec::new());
        for (_, id) in due {
            let row = self.rows.get_mut(&id).expect("a row");
            bytes += row.new.payload as u64;
            if !taken.is_empty() && bytes > max_bytes {
                break;
            }
            row.lapses += u64::from(row.locked_until.is_some());
            row.claims += 1;
            row.locked_until = Some(until.to_owned());
            self.leases.push(Lease {
                id: id.clone(),
                claim: row.claims,
                created_at: row.new.at.clone(),
            });
            let counts = (row.attempts, row.claims, row.lapses);
            let subject = row.new.subject.map(str::to_owned);
            taken.push((id, row.new.topic, subject, row.new.payload, counts));
        }
        format!("{taken:?}")
    }

    /// Acts on each lease that is held, once, and says of each whether it was.
    fn fenced(&mut self, places: &[usize], mut act: impl FnMut(&mut Self, &Lease)) -> String {
        let lease = |place: &usize| self.lease(*place);
        let leases: Vec<Lease> = places.iter().filter_map(lease).collect();
        let held: Vec<bool> = leases.iter().map(|lease| self.is_held(lease)).collect();
        let mut done: Vec<&Lease> = Vec::new();
        for (lease, held) in leases.iter().zip(&held) {
            if *held && !done.contains(&lease) {
                act(self, lease);
                done.push(lease);
            }
        }
        format!("{held:?}")
    }

    fn change(&mut self, places: &[usize], change: impl Fn(&mut Row)) -> String {
        self.fenced(places, |this, lease| {
            change(this.rows.get_mut(&lease.id).expect("it is held"));
        })
    }

    /// Changes rows by their ids, each once, and counts those that it changed.
    fn by_id(&mut self, ids: &[&str], change: impl Fn(&mut Row) -> bool) -> String {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids.dedup();
        let mut changed = 0_u64;
        for id in ids {
            changed += self
                .rows
                .get_mut(id)
                .map_or(0, |row| u64::from(change(row)));
        }
        changed.to_string()
    }

    fn of_subject(&self, subject: &str) -> Vec<String> {
        let named = |(_, row): &(&String, &Row)| row.new.subject == Some(subject);
        self.rows
            .iter()
            .filter(named)
            .map(|(id, _)| id.clone())
            .collect()
    }

    fn stats(&self, now: &str) -> String {
        let (mut waiting, mut due, mut leased, mut parked) = (0_u64, 0_u64, 0_u64, 0_u64);
        let mut oldest: Option<String> = None;
        for row in self.rows.values() {
            let visible = row.visible_at();
            if row.is_parked() {
                parked += 1;
            } else if visible.as_str() <= now {
                due += 1;
                oldest = Some(oldest.map_or(visible.clone(), |oldest| oldest.min(visible)));
            } else if row.locked_until.as_deref().is_some_and(|until| until > now) {
                leased += 1;
            } else {
                waiting += 1;
            }
        }
        let time = |text: &str| parse_time(text).expect("a time");
        let oldest = oldest.map(|oldest| (time(now) - time(&oldest)).num_seconds());
        format!("{:?}", (waiting, due, leased, parked, oldest))
    }

    #[allow(clippy::too_many_lines, reason = "an arm a call")]
    pub(super) fn run(&mut self, step: &Step) -> String {
        match step {
            Step::Enqueue(new) if self.rows.contains_key(new.id) => CONFLICT.to_owned(),
            Step::Enqueue(new) => {
                self.insert(new);
                "[1]".to_owned()
            }
            Step::EnqueueOnce(new) if self.rows.contains_key(new.id) => "0".to_owned(),
            Step::EnqueueOnce(new) => {
                self.insert(new);
                "1".to_owned()
            }
            Step::EnqueueMany(all) if all.iter().any(|new| self.rows.contains_key(new.id)) => {
                CONFLICT.to_owned()
            }
            Step::EnqueueMany(all) => {
                for new in all {
                    self.insert(new);
                }
                all.len().to_string()
            }
            Step::Undone(new) if self.rows.contains_key(new.id) => CONFLICT.to_owned(),
            Step::Undone(_) => "RowCount".to_owned(),
            Step::Claim {
                now,
                until,
                limit,
                max_bytes,
            } => self.claim(now, until, *limit, *max_bytes),
            Step::Complete(leases) => self.fenced(leases, |this, lease| {
                this.rows.remove(&lease.id);
            }),
            Step::Retry { now, each } => {
                let places: Vec<usize> = each.iter().map(|(place, _)| *place).collect();
                let leases: Vec<(Lease, String)> = each
                    .iter()
                    .filter_map(|(place, at)| Some((self.lease(*place)?, at.clone())))
                    .collect();
                self.fenced(&places, |this, lease| {
                    let first = leases.iter().find(|(each, _)| each == lease);
                    let (_, at) = first.expect("it was given");
                    let row = this.rows.get_mut(&lease.id).expect("it is held");
                    row.fails(now, at);
                    row.next_attempt_at.clone_from(at);
                })
            }
            Step::Reschedule(leases, at) => self.change(leases, |row| {
                row.attempts = 0;
                row.last_error = None;
                row.failed_at = None;
                row.next_attempt_at.clone_from(at);
                row.ends();
            }),
            Step::ReleaseClaimed(leases, at) => self.change(leases, |row| {
                row.next_attempt_at.clone_from(at);
                row.ends();
            }),
            Step::Extend(leases, until) => self.change(leases, |row| {
                row.locked_until = row.locked_until.clone().max(Some(until.clone()));
            }),
            Step::Note(leases) => {
                self.change(leases, |row| row.last_error = Some("a note".to_owned()))
            }
            Step::ParkClaimed(leases, now) => self.change(leases, |row| {
                row.fails(now, "for good");
                PARKED.clone_into(&mut row.next_attempt_at);
            }),
            Step::CompleteInBatch(place) => match self.lease(*place) {
                None => "no lease".to_owned(),
                Some(lease) if self.is_held(&lease) => {
                    self.rows.remove(&lease.id);
                    "[1]".to_owned()
                }
                Some(_) => "RowCount".to_owned(),
            },
            Step::CompleteById(id) => {
                self.rows.remove(*id);
                "()".to_owned()
            }
            Step::RetryById(id, at) => {
                if let Some(row) = self.rows.get_mut(*id) {
                    row.attempts += 1;
                    row.next_attempt_at.clone_from(at);
                    row.ends();
                }
                "()".to_owned()
            }
            Step::Park(ids, now) => self.by_id(ids, |row| {
                PARKED.clone_into(&mut row.next_attempt_at);
                row.last_error = Some("by hand".to_owned());
                row.failed_at = Some(now.clone());
                row.locked_until = None;
                true
            }),
            Step::Unpark(ids, at) => self.by_id(ids, |row| {
                let parked = row.is_parked();
                if parked {
                    row.attempts = 0;
                    row.next_attempt_at.clone_from(at);
                    row.ends();
                }
                parked
            }),
            Step::Release(ids) => self.by_id(ids, |row| row.locked_until.take().is_some()),
            Step::Delete(ids) => {
                let before = self.rows.len();
                self.rows.retain(|id, _| !ids.contains(&id.as_str()));
                (before - self.rows.len()).to_string()
            }
            Step::Erase(subject, limit) => {
                let mut ids = self.of_subject(subject);
                ids.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
                for id in &ids {
                    self.rows.remove(id);
                }
                ids.len().to_string()
            }
            Step::Export(subject) => {
                let ids = self.of_subject(subject);
                let rows = ids.iter().map(|id| self.rows[id].shown());
                format!("{:?}", rows.collect::<Vec<_>>())
            }
            Step::Stats(now) => self.stats(now),
            Step::Get(id) => format!("{:?}", self.rows.get(*id).map(Row::shown)),
        }
    }
}
