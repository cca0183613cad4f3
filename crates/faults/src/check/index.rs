//! A history by rows.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::history::{Answer, Call, Held, History, How, NewRow, Op};

/// One claim of a row that was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Claimed<'a> {
    pub(super) claims: u64,
    pub(super) now: &'a str,
    pub(super) until: &'a str,
    pub(super) op: &'a Op,
}

/// What a fenced call, or one with the effect in its batch, said of one lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    Held,
    Lost,
    Unknown,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Fenced<'a> {
    /// Unknown where only the row is.
    pub(super) claims: u64,
    pub(super) how: &'a How,
    pub(super) said: Said,
    pub(super) op: &'a Op,
}

impl Fenced<'_> {
    pub(super) fn removes(&self) -> bool {
        matches!(self.how, How::Complete | How::Any)
    }

    /// Whether the lease may have ended by it.
    pub(super) fn ends(&self) -> bool {
        self.said != Said::Lost && !matches!(self.how, How::Extend { .. } | How::Note)
    }

    pub(super) fn is_of(&self, claims: u64) -> bool {
        self.claims == claims || matches!(self.how, How::Any)
    }
}

/// All that is known of one row.
#[derive(Debug, Default)]
pub(super) struct Row<'a> {
    pub(super) new: Option<(&'a str, &'a NewRow)>,
    /// By their numbers.
    pub(super) claims: Vec<Claimed<'a>>,
    /// By their begins.
    pub(super) fenced: Vec<Fenced<'a>>,
    pub(super) runs: Vec<(u64, u64)>,
}

impl Row<'_> {
    /// The last end of a claim before which the row may have come from there.
    pub(super) fn subject(&self) -> Option<&str> {
        self.new.and_then(|(_, new)| new.subject.as_deref())
    }
}

#[derive(Debug, Default)]
pub(super) struct Index<'a> {
    pub(super) rows: BTreeMap<&'a str, Row<'a>>,
    /// All tries to enqueue a unit.
    pub(super) units: BTreeMap<&'a str, Vec<&'a Op>>,
    pub(super) claims: Vec<&'a Op>,
    pub(super) erased: HashMap<&'a str, Vec<&'a Op>>,
    pub(super) unparked: Vec<&'a Op>,
    /// Rows that were claimed by several calls under one number are kept once
    /// in `rows` for each, so this needs no list of its own.
    pub(super) processes: BTreeSet<&'a str>,
}

const COMPLETE: &How = &How::Complete;

impl<'a> Index<'a> {
    pub(super) fn new(history: &'a History) -> Self {
        let mut index = Self::default();
        for op in &history.ops {
            index.processes.insert(&op.process);
            index.add(op);
        }
        for run in &history.runs {
            let row = index.rows.entry(&run.row.id).or_default();
            row.runs.push((run.row.claims, run.at));
        }
        for row in index.rows.values_mut() {
            row.claims
                .sort_by_key(|claim| (claim.claims, claim.op.begin));
        }
        index
    }

    fn add(&mut self, op: &'a Op) {
        match &op.call {
            Call::Enqueue { unit, rows } => {
                self.units.entry(unit).or_default().push(op);
                for new in rows {
                    self.rows.entry(&new.id).or_default().new = Some((unit, new));
                }
            }
            Call::Claim { now, until } => {
                self.claims.push(op);
                if let Answer::Claimed(rows) = &op.answer {
                    for Held { id, claims } in rows {
                        let claims = *claims;
                        let claim = Claimed {
                            claims,
                            now,
                            until,
                            op,
                        };
                        self.rows.entry(id).or_default().claims.push(claim);
                    }
                }
            }
            Call::Fenced { how, leases } => {
                for (place, lease) in leases.iter().enumerate() {
                    let said = match &op.answer {
                        Answer::Held(held) if held.get(place) == Some(&true) => Said::Held,
                        Answer::Unknown { .. } => Said::Unknown,
                        _ => Said::Lost,
                    };
                    self.fence(lease, how, said, op);
                }
            }
            Call::Effect { lease } => {
                let said = match &op.answer {
                    Answer::Count(_) => Said::Held,
                    Answer::Unknown { .. } => Said::Unknown,
                    _ => Said::Lost,
                };
                self.fence(lease, COMPLETE, said, op);
            }
            Call::Erase { subject, .. } => self.erased.entry(subject).or_default().push(op),
            Call::Unpark { .. } => self.unparked.push(op),
            _ => {}
        }
    }

    fn fence(&mut self, lease: &'a Held, how: &'a How, said: Said, op: &'a Op) {
        let row = self.rows.entry(&lease.id).or_default();
        row.fenced.push(Fenced {
            claims: lease.claims,
            how,
            said,
            op,
        });
    }
}
