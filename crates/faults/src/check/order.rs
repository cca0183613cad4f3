//! The rows of one claim come oldest first.

use std::collections::HashMap;

use super::index::{Index, Row, Said};
use super::{Findings, Kind};
use crate::history::{Answer, How};

pub(super) fn check(index: &Index<'_>, found: &mut Findings) {
    let mut due: HashMap<(&str, u64), String> = HashMap::new();
    for (id, row) in &index.rows {
        for (claims, at) in visible(row) {
            due.insert((id, claims), at);
        }
    }
    for op in &index.claims {
        let Answer::Claimed(rows) = &op.answer else {
            continue;
        };
        // Rows of which it is not certain when they were due are passed over.
        let known: Vec<(&str, &str)> = rows
            .iter()
            .filter_map(|row| {
                let at = due.get(&(row.id.as_str(), row.claims))?;
                Some((at.as_str(), row.id.as_str()))
            })
            .collect();
        for pair in known.windows(2) {
            if pair[0] > pair[1] {
                let why = format!(
                    "due at {}, came before {}, due at {}",
                    pair[0].0, pair[1].1, pair[1].0
                );
                found.add(Kind::Order, pair[0].1, why);
            }
        }
    }
}

/// From when the row could be claimed, as it stood before each of its claims,
/// as far as that is certain.
fn visible(row: &Row<'_>) -> Vec<(u64, String)> {
    let Some((_, new)) = row.new else {
        return Vec::new();
    };
    let mut next = new.at.clone();
    let mut from = next.clone();
    let mut known = Vec::new();
    for (place, claim) in row.claims.iter().enumerate() {
        let expected = u64::try_from(place).unwrap_or(u64::MAX) + 1;
        if claim.claims != expected {
            break; // there was a claim that nobody was told of
        }
        known.push((claim.claims, from.clone()));
        let calls: Vec<_> = row
            .fenced
            .iter()
            .filter(|call| call.is_of(claim.claims) && call.said != Said::Lost)
            .collect();
        if calls.iter().any(|call| call.said == Said::Unknown) {
            break;
        }
        let mut until = claim.until.to_owned();
        let mut ended = None;
        for call in calls {
            match call.how {
                How::Extend { until: later } => until = until.max(later.clone()),
                How::Retry { at } | How::Release { at } | How::Reschedule { at } => {
                    if at.is_empty() {
                        return known; // a worker's, of which this is not known
                    }
                    ended = Some(at.clone());
                }
                How::Note => {}
                // It is gone, or nobody knows when it comes back.
                How::Complete | How::Park | How::Any => return known,
            }
        }
        if let Some(at) = ended {
            next = at;
            from.clone_from(&next);
        } else {
            from = until.max(next.clone());
        }
    }
    known
}
