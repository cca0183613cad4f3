use duebox_core::PARKED;

use crate::context::at;
use crate::random::Random;

/// One call, with its arguments. Leases are named by their place among all that
/// the program was given so far, counted around.
#[derive(Clone, Debug)]
pub(super) enum Step {
    Enqueue(New),
    EnqueueOnce(New),
    EnqueueMany(Vec<New>),
    /// A batch that is undone, since its last statement touches no row.
    Undone(New),
    Claim {
        now: String,
        until: String,
        limit: u64,
        max_bytes: u64,
    },
    Complete(Vec<usize>),
    Retry {
        now: String,
        each: Vec<(usize, String)>,
    },
    Reschedule(Vec<usize>, String),
    ReleaseClaimed(Vec<usize>, String),
    Extend(Vec<usize>, String),
    Note(Vec<usize>),
    ParkClaimed(Vec<usize>, String),
    /// In the batch of an effect, with the fence as a condition.
    CompleteInBatch(usize),
    CompleteById(&'static str),
    RetryById(&'static str, String),
    Park(Vec<&'static str>, String),
    Unpark(Vec<&'static str>, String),
    Release(Vec<&'static str>),
    Delete(Vec<&'static str>),
    Erase(&'static str, u64),
    Export(&'static str),
    Stats(String),
    Get(&'static str),
}

#[derive(Clone, Debug)]
pub(super) struct New {
    pub(super) id: &'static str,
    pub(super) topic: &'static str,
    pub(super) subject: Option<&'static str>,
    pub(super) payload: usize,
    pub(super) at: String,
}

/// Told apart by case, by a character behind, and ordered by bytes.
const IDS: [&str; 6] = ["a", "A", "b", "B", "a0", "_"];
const SUBJECTS: [&str; 3] = ["s", "S", "s "];

impl Step {
    pub(super) fn writes(&self) -> bool {
        !matches!(self, Self::Export(_) | Self::Stats(_) | Self::Get(_))
    }
}

pub(super) fn program(random: &mut Random) -> Vec<Step> {
    let steps = 8 + random.below(22);
    (0..steps).map(|_| step(random)).collect()
}

fn id(random: &mut Random) -> &'static str {
    random.one_of(&IDS)
}

/// Few times, so that many are equal; now and then the one that parks.
fn time(random: &mut Random) -> String {
    match random.below(16) {
        0 => PARKED.to_owned(),
        seconds => at(seconds / 2),
    }
}

fn now(random: &mut Random) -> String {
    at(random.below(9))
}

fn new(random: &mut Random) -> New {
    New {
        id: id(random),
        topic: random.one_of(&["t", "T", "u"]),
        subject: random.one_of(&[None, Some("s"), Some("S"), Some("s ")]),
        payload: random.one_of(&[0, 1, 7, 40]),
        at: time(random),
    }
}

fn leases(random: &mut Random) -> Vec<usize> {
    let mut leases = random.some(2, lease);
    leases.push(lease(random));
    leases
}

fn lease(random: &mut Random) -> usize {
    usize::try_from(random.below(64)).unwrap_or(0)
}

fn ids(random: &mut Random) -> Vec<&'static str> {
    random.some(3, id)
}

fn step(random: &mut Random) -> Step {
    match random.below(42) {
        0..=5 => Step::Enqueue(new(random)),
        6 => Step::EnqueueOnce(new(random)),
        7 => {
            let mut all = random.some(3, new);
            all.sort_by_key(|new| new.id);
            all.dedup_by_key(|new| new.id);
            Step::EnqueueMany(all)
        }
        8 => Step::Undone(new(random)),
        9..=15 => {
            let now = random.below(9);
            Step::Claim {
                until: at(now + 1 + random.below(3)),
                now: at(now),
                limit: random.one_of(&[0, 1, 1, 2, 3, 100, u64::MAX]),
                max_bytes: random.one_of(&[0, 1, 8, 47, u64::MAX]),
            }
        }
        16 | 17 | 36..=38 => Step::Complete(leases(random)),
        18 | 19 | 39 | 40 => Step::Retry {
            now: now(random),
            each: random.some(3, |random| (lease(random), time(random))),
        },
        20 => Step::Reschedule(leases(random), time(random)),
        21 => Step::ReleaseClaimed(leases(random), time(random)),
        22 => Step::Extend(leases(random), now(random)),
        23 => Step::Note(leases(random)),
        24 => Step::ParkClaimed(leases(random), now(random)),
        25 => Step::CompleteInBatch(lease(random)),
        26 => Step::CompleteById(id(random)),
        27 => Step::RetryById(id(random), time(random)),
        28 => Step::Park(ids(random), now(random)),
        29 => Step::Unpark(ids(random), time(random)),
        30 => Step::Release(ids(random)),
        31 => Step::Delete(ids(random)),
        32 => Step::Erase(
            random.one_of(&SUBJECTS),
            random.one_of(&[0, 1, 2, u64::MAX]),
        ),
        33 => Step::Export(random.one_of(&SUBJECTS)),
        34 => Step::Stats(now(random)),
        _ => Step::Get(id(random)),
    }
}
