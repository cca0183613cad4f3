//! What a process of a history says about itself.

use std::fs::File;
use std::io::{self, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use duebox_core::{DbError, Kind, Outcome, PushStoreError};
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};

/// A row as it is enqueued.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NewRow {
    pub(crate) id: String,
    pub(crate) subject: Option<String>,
    pub(crate) at: String,
}

/// One claim of one row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct Held {
    pub(crate) id: String,
    pub(crate) claims: u64,
}

/// A fenced call, by what it does to a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum How {
    Complete,
    Retry {
        at: String,
    },
    Release {
        at: String,
    },
    Reschedule {
        at: String,
    },
    Extend {
        until: String,
    },
    Park,
    /// Changes nothing that is checked.
    Note,
    /// One of these, of which it is not known which.
    Any,
}

/// A call, as it is about to be made. Instants of receipts are microseconds
/// since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Call {
    /// A unit of state and its rows, in one batch.
    Enqueue {
        unit: String,
        rows: Vec<NewRow>,
    },
    Claim {
        now: String,
        until: String,
    },
    Fenced {
        how: How,
        leases: Vec<Held>,
    },
    /// An effect and the completion of its row, in one batch.
    Effect {
        lease: Held,
    },
    Erase {
        subject: String,
        limit: u64,
    },
    /// Gives parked rows another chance.
    Unpark {
        at: String,
    },
    Record {
        tickets: Vec<String>,
        owner: u128,
        sent_at: i64,
        due_at: i64,
    },
    Take {
        now: i64,
        retry_at: i64,
    },
    Delete {
        tickets: Vec<String>,
    },
    Purge {
        before: i64,
    },
    EraseOwner {
        owner: u128,
    },
}

/// What came of a call.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    Claimed(Vec<Held>),
    /// Of each lease, whether it was held.
    Held(Vec<bool>),
    /// It was done, to so many rows.
    Count(u64),
    Taken(Vec<String>),
    /// Certainly not done.
    Refused {
        kind: String,
        text: String,
    },
    /// Perhaps done.
    Unknown {
        text: String,
    },
}

impl Answer {
    pub(crate) fn error(error: &DbError) -> Self {
        let text = error.to_string();
        match error.outcome() {
            Outcome::NotApplied => Self::Refused {
                kind: error.kind().to_string(),
                text,
            },
            Outcome::Unknown => Self::Unknown { text },
        }
    }

    /// Nothing is said of a receipts call that failed, but of an instant that
    /// is impossible.
    pub(crate) fn store_error(error: PushStoreError) -> Self {
        Self::Unknown {
            text: error.to_string(),
        }
    }

    pub(crate) fn is_unknown(&self) -> bool {
        matches!(self, Self::Unknown { .. })
    }

    pub(crate) fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { kind, .. } if *kind == Kind::Conflict.to_string())
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum What {
    Begin(u64, Call),
    /// What the call was in fact, where that shows only by its answer.
    Was(u64, Call),
    End(u64, Answer),
    /// The delivery of a row begins.
    Ran(Held),
}

/// A line of a journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Line {
    /// Nanoseconds of the machine's monotonic clock, which all processes share.
    pub(crate) at: u64,
    pub(crate) what: What,
}

/// Nanoseconds of the machine's monotonic clock.
pub(crate) fn monotonic() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let (seconds, nanos) = (time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs());
    seconds * 1_000_000_000 + nanos
}

/// Where a process writes what it does, before it does it, and what came of it.
///
/// Each line is one write to the file, which outlives a `kill -9` of the
/// process. The file is on a disk of its own, for the other may be full.
#[derive(Debug)]
pub(crate) struct Journal(Mutex<Pen>);

#[derive(Debug)]
struct Pen {
    file: File,
    calls: u64,
}

impl Journal {
    pub(crate) fn create(path: &Path) -> io::Result<Self> {
        let file = File::options().append(true).create_new(true).open(path)?;
        Ok(Self(Mutex::new(Pen { file, calls: 0 })))
    }

    pub(crate) fn begin(&self, call: Call) -> u64 {
        let mut pen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pen.calls += 1;
        let number = pen.calls;
        pen.write(What::Begin(number, call));
        number
    }

    pub(crate) fn was(&self, number: u64, call: Call) {
        let mut pen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pen.write(What::Was(number, call));
    }

    pub(crate) fn end(&self, number: u64, answer: Answer) {
        let mut pen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pen.write(What::End(number, answer));
    }

    pub(crate) fn ran(&self, row: Held) {
        let mut pen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        pen.write(What::Ran(row));
    }
}

impl Pen {
    fn write(&mut self, what: What) {
        let line = Line {
            at: monotonic(),
            what,
        };
        let mut text = serde_json::to_string(&line).unwrap_or_default();
        text.push('\n');
        // What is not in the journal would be taken for undone.
        self.file
            .write_all(text.as_bytes())
            .expect("write the journal");
    }
}

/// A call with what came of it.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub(crate) process: String,
    pub(crate) begin: u64,
    /// `u64::MAX` if there was no answer, or an unknown one: what was asked for
    /// may still be done.
    pub(crate) end: u64,
    pub(crate) call: Call,
    pub(crate) answer: Answer,
}

/// The delivery of a row.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) process: String,
    pub(crate) at: u64,
    pub(crate) row: Held,
}

/// What all processes did, each list in the order of time.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    pub(crate) ops: Vec<Op>,
    pub(crate) runs: Vec<Run>,
}

impl History {
    /// Reads the journals of a folder, each named after its process.
    pub(crate) fn read(folder: &Path) -> io::Result<Self> {
        let mut history = Self::default();
        for entry in std::fs::read_dir(folder)? {
            let path = entry?.path();
            let process = path.file_stem().unwrap_or_default().to_string_lossy();
            history.add(&process, &std::fs::read_to_string(&path)?)?;
        }
        history.ops.sort_by_key(|op| op.begin);
        history.runs.sort_by_key(|run| run.at);
        Ok(history)
    }

    fn add(&mut self, process: &str, text: &str) -> io::Result<()> {
        let mut open = std::collections::HashMap::new();
        for line in text.split_inclusive('\n') {
            // A process that was killed may leave half a line, of what had not begun.
            let Some(line) = line.strip_suffix('\n') else {
                break;
            };
            let Line { at, what } = serde_json::from_str(line)?;
            match what {
                What::Begin(number, call) => {
                    open.insert(number, self.ops.len());
                    self.ops.push(Op {
                        process: process.to_owned(),
                        begin: at,
                        end: u64::MAX,
                        call,
                        answer: Answer::Unknown {
                            text: "no answer".to_owned(),
                        },
                    });
                }
                What::Was(number, call) => {
                    if let Some(op) = open.get(&number).and_then(|at| self.ops.get_mut(*at)) {
                        op.call = call;
                    }
                }
                What::End(number, answer) => {
                    if let Some(op) = open.remove(&number).and_then(|at| self.ops.get_mut(at)) {
                        if !answer.is_unknown() {
                            op.end = at;
                        }
                        op.answer = answer;
                    }
                }
                What::Ran(row) => self.runs.push(Run {
                    process: process.to_owned(),
                    at,
                    row,
                }),
            }
        }
        Ok(())
    }
}

/// What the database holds in the end.
#[derive(Clone, Debug, Default)]
pub(crate) struct Contents {
    pub(crate) units: Vec<String>,
    pub(crate) rows: Vec<String>,
    pub(crate) effects: Vec<Held>,
    pub(crate) tickets: Vec<String>,
}
