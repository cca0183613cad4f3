//! State and its rows: both or neither, each row delivered, what was erased
//! gone.

use std::collections::{HashMap, HashSet};

use super::index::{Index, Row, Said};
use super::{Findings, Kind};
use crate::history::{Answer, Call, Contents, Held, Op};

pub(super) fn check(index: &Index<'_>, contents: &Contents, found: &mut Findings) {
    let units: HashSet<&str> = contents.units.iter().map(String::as_str).collect();
    let left: HashSet<&str> = contents.rows.iter().map(String::as_str).collect();
    for (unit, tries) in &index.units {
        unit_itself(unit, tries, units.contains(unit), found);
    }
    for (id, row) in &index.rows {
        let Some((unit, _)) = row.new else {
            found.add(Kind::RowWithoutState, id, "nobody enqueued it");
            continue;
        };
        let seen = !row.claims.is_empty() || left.contains(id);
        let tries = index.units.get(unit).map_or(&[][..], Vec::as_slice);
        if !units.contains(unit) {
            if seen {
                let why = format!("the state {unit} is not there");
                found.add(Kind::RowWithoutState, id, why);
            }
        } else if left.contains(id) {
            found.add(Kind::Stuck, id, "left over by the last drain");
        } else if !may_be_gone(index, row, tries) {
            if seen {
                found.add(
                    Kind::Lost,
                    id,
                    "it is gone, and nobody completed or erased it",
                );
            } else {
                let why = format!("the state {unit} is there, the row was never seen");
                found.add(Kind::StateWithoutRow, id, why);
            }
        }
        erased(index, id, row, tries, found);
    }
    effects(index, contents, found);
}

/// Whether the answers tell the truth about the state.
fn unit_itself(unit: &str, tries: &[&Op], there: bool, found: &mut Findings) {
    let done = tries
        .iter()
        .any(|op| matches!(op.answer, Answer::Count(_)) || op.answer.is_conflict());
    let perhaps = tries.iter().any(|op| op.answer.is_unknown());
    if done && !there {
        found.add(Kind::Lost, unit, "it was committed and is not there");
    }
    let times = tries
        .iter()
        .filter(|op| matches!(op.answer, Answer::Count(_)))
        .count();
    // That its key is taken is a refusal too: nobody else has this unit.
    if there && times == 0 && !perhaps {
        let why = "all tries were refused, and it is there";
        found.add(Kind::Untrue, unit, why);
    }
    if times > 1 {
        found.add(Kind::Doubled, unit, "it was committed twice");
    }
}

fn may_be_gone(index: &Index<'_>, row: &Row<'_>, tries: &[&Op]) -> bool {
    let completed = row
        .fenced
        .iter()
        .any(|call| call.removes() && call.said != Said::Lost);
    let begun = tries.iter().map(|op| op.begin).min().unwrap_or(0);
    let erasures = row.subject().and_then(|subject| index.erased.get(subject));
    let erased = erasures.into_iter().flatten().any(|op| {
        let perhaps = op.answer.is_unknown() || matches!(op.answer, Answer::Count(1..));
        perhaps && op.end > begun
    });
    completed || erased
}

/// Nobody gets a row that was there before an erasure which found no more.
fn erased(index: &Index<'_>, id: &str, row: &Row<'_>, tries: &[&Op], found: &mut Findings) {
    let committed = tries
        .iter()
        .filter(|op| matches!(op.answer, Answer::Count(_)))
        .map(|op| op.end)
        .min();
    let (Some(committed), Some(subject)) = (committed, row.subject()) else {
        return;
    };
    for op in index.erased.get(subject).into_iter().flatten() {
        let Call::Erase { limit, .. } = op.call else {
            continue;
        };
        let all = matches!(op.answer, Answer::Count(rows) if rows < limit);
        if !all || op.begin < committed {
            continue;
        }
        let claimed = row.claims.iter().any(|claim| claim.op.begin > op.end);
        let held = row
            .fenced
            .iter()
            .any(|call| call.said == Said::Held && call.op.begin > op.end);
        if claimed || held {
            let why = format!("{subject} was erased by {} before", op.process);
            found.add(Kind::Erased, id, why);
            return;
        }
    }
}

/// An effect is there once, and if and only if its completion is.
fn effects(index: &Index<'_>, contents: &Contents, found: &mut Findings) {
    let mut there: HashMap<&str, Vec<&Held>> = HashMap::new();
    for effect in &contents.effects {
        there.entry(&effect.id).or_default().push(effect);
    }
    for (id, effects) in &there {
        if effects.len() > 1 {
            found.add(Kind::Doubled, id, "its effect took place twice");
        }
        let claims = effects[0].claims;
        let later = index
            .rows
            .get(id)
            .and_then(|row| row.claims.iter().find(|claim| claim.claims > claims));
        if let Some(later) = later {
            let why = format!(
                "claim {claims} took effect without its completion: there is claim {}",
                later.claims
            );
            found.add(Kind::Torn, id, why);
        }
    }
    for (id, row) in &index.rows {
        for call in &row.fenced {
            let Call::Effect { lease } = &call.op.call else {
                continue;
            };
            let is_there = there.get(id).is_some_and(|all| all.contains(&lease));
            match call.said {
                Said::Held if !is_there => {
                    found.add(Kind::Torn, id, "completed without its effect");
                }
                Said::Lost if is_there => {
                    found.add(Kind::Untrue, id, "the effect was refused, and is there");
                }
                _ => {}
            }
        }
    }
}
