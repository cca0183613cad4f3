//! The checker finds what is wrong: histories that are true, and the same ones
//! doctored, one for each kind of violation.

mod rows;
mod tickets;

use super::{Kind, check};
use crate::history::{Answer, Call, Contents, Held, History, How, NewRow, Op, Run};

/// A history that is told call by call, each after the one before.
#[derive(Default)]
struct Story {
    history: History,
    contents: Contents,
    clock: u64,
}

fn at(second: u32) -> String {
    format!("2026-03-01T10:00:{second:02}.000000Z")
}

fn lease(id: &str, claims: u64) -> Held {
    let id = id.to_owned();
    Held { id, claims }
}

fn unknown() -> Answer {
    let text = "no answer".to_owned();
    Answer::Unknown { text }
}

fn refused() -> Answer {
    Answer::Refused {
        kind: "busy".to_owned(),
        text: "a lock was not granted".to_owned(),
    }
}

fn held(how: How, id: &str, claims: u64) -> (Call, Answer) {
    let leases = vec![lease(id, claims)];
    (Call::Fenced { how, leases }, Answer::Held(vec![true]))
}

fn claim(second: u32, rows: &[(&str, u64)]) -> (Call, Answer) {
    let (now, until) = (at(second), at(second + 1));
    let rows = rows.iter().map(|(id, claims)| lease(id, *claims));
    (Call::Claim { now, until }, Answer::Claimed(rows.collect()))
}

fn enqueue(unit: &str, rows: &[(&str, u32)], answer: Answer) -> (Call, Answer) {
    let rows = rows
        .iter()
        .map(|(id, second)| NewRow {
            id: (*id).to_owned(),
            subject: Some("ada".to_owned()),
            at: at(*second),
        })
        .collect();
    let unit = unit.to_owned();
    (Call::Enqueue { unit, rows }, answer)
}

fn erase(answer: Answer) -> (Call, Answer) {
    let (subject, limit) = ("ada".to_owned(), 10);
    (Call::Erase { subject, limit }, answer)
}

impl Story {
    fn then(mut self, (call, answer): (Call, Answer)) -> Self {
        self.clock += 10;
        self.history.ops.push(Op {
            process: "one".to_owned(),
            begin: self.clock,
            end: if answer.is_unknown() {
                u64::MAX
            } else {
                self.clock + 5
            },
            call,
            answer,
        });
        self
    }

    fn runs(mut self, id: &str, claims: u64) -> Self {
        self.clock += 10;
        self.history.runs.push(Run {
            process: "one".to_owned(),
            at: self.clock,
            row: lease(id, claims),
        });
        self
    }

    fn unit(mut self, unit: &str) -> Self {
        self.contents.units.push(unit.to_owned());
        self
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = check(&self.history, &self.contents)
            .into_iter()
            .map(|violation| violation.kind)
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    #[track_caller]
    fn is_sound(&self) {
        let found = check(&self.history, &self.contents);
        assert!(found.is_empty(), "{found:?}");
    }

    #[track_caller]
    fn is(&self, kind: Kind) {
        assert_eq!(self.kinds(), [kind]);
    }
}
