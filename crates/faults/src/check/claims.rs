//! The claims of one row: each by one, one after the other, and none after the
//! end.

use super::index::{Claimed, Fenced, Index, Row, Said};
use super::{Findings, Kind};
use crate::history::How;

pub(super) fn check(index: &Index<'_>, found: &mut Findings) {
    for (id, row) in &index.rows {
        numbers(id, row, found);
        leases(id, row, found);
        holders(id, row, found);
        completions(id, row, found);
        runs(id, row, found);
    }
}

/// Claims are numbered in the order of time.
fn numbers(id: &str, row: &Row<'_>, found: &mut Findings) {
    for pair in row.claims.windows(2) {
        let [first, second] = pair else { continue };
        if first.claims == second.claims {
            let why = format!("claim {} was given to two", first.claims);
            found.add(Kind::TwoHolders, id, why);
        } else if second.op.end < first.op.begin {
            let why = format!("claim {} came after claim {}", first.claims, second.claims);
            found.add(Kind::Resurrected, id, why);
        }
    }
}

/// A claim finds the row due, and no lease on it that runs.
fn leases(id: &str, row: &Row<'_>, found: &mut Findings) {
    if let (Some((_, new)), Some(first)) = (row.new, row.claims.first())
        && first.claims == 1
        && first.now < new.at.as_str()
    {
        let why = format!("due at {}, claimed at {}", new.at, first.now);
        found.add(Kind::Early, id, why);
    }
    for pair in row.claims.windows(2) {
        let [first, second] = pair else { continue };
        if first.claims == second.claims {
            continue;
        }
        // What began after the second claim had ended found another lease.
        let before: Vec<&Fenced<'_>> = row
            .fenced
            .iter()
            .filter(|call| call.is_of(first.claims) && call.op.begin < second.op.end)
            .collect();
        if before.iter().any(|call| call.ends()) {
            not_early(id, first, second, &before, found);
            continue;
        }
        let extended = before.iter().filter_map(|call| match call.how {
            How::Extend { until } if call.said == Said::Held && call.op.end < second.op.begin => {
                Some(until.as_str())
            }
            _ => None,
        });
        let until = extended.fold(first.until, |until, later| until.max(later));
        if second.now < until {
            let why = format!(
                "claim {} ran to {until} and nobody ended it; claim {} was at {}",
                first.claims, second.claims, second.now
            );
            found.add(Kind::Doubled, id, why);
        }
    }
}

/// A row that was certainly given back, once, is not claimed before its time.
fn not_early(
    id: &str,
    first: &Claimed<'_>,
    second: &Claimed<'_>,
    calls: &[&Fenced<'_>],
    found: &mut Findings,
) {
    let mut ends = calls.iter().filter(|call| call.ends());
    let (Some(end), None) = (ends.next(), ends.next()) else {
        return;
    };
    let (How::Retry { at } | How::Release { at } | How::Reschedule { at }) = end.how else {
        return;
    };
    if end.said == Said::Held && second.claims == first.claims + 1 && second.now < at.as_str() {
        let why = format!(
            "claim {} was given back until {at}; claim {} was at {}",
            first.claims, second.claims, second.now
        );
        found.add(Kind::Early, id, why);
    }
}

/// Whoever is late is told so.
fn holders(id: &str, row: &Row<'_>, found: &mut Findings) {
    for call in row.fenced.iter().filter(|call| call.said == Said::Held) {
        let later = row
            .claims
            .iter()
            .find(|claim| claim.claims > call.claims && claim.op.end < call.op.begin);
        if let Some(later) = later {
            let why = format!(
                "claim {} was told that it holds the row after claim {}",
                call.claims, later.claims
            );
            found.add(Kind::TwoHolders, id, why);
        }
        let ended = row.fenced.iter().find(|end| {
            end.said == Said::Held
                && end.ends()
                && end.claims == call.claims
                && end.op.end < call.op.begin
        });
        if ended.is_some() {
            let why = format!("claim {} held the row after its end", call.claims);
            found.add(Kind::TwoHolders, id, why);
        }
    }
}

/// A completion that was told "held" is the end of the row.
fn completions(id: &str, row: &Row<'_>, found: &mut Findings) {
    let done: Vec<&Fenced<'_>> = row
        .fenced
        .iter()
        .filter(|call| call.said == Said::Held && *call.how == How::Complete)
        .collect();
    let Some(first) = done.first() else { return };
    if done.len() > 1 {
        found.add(Kind::TwoHolders, id, "completed twice");
    }
    let claims = first.claims;
    let after = row.claims.iter().find(|claim| claim.claims > claims);
    if let Some(after) = after {
        let why = format!(
            "claim {claims} completed it, and there is claim {}",
            after.claims
        );
        found.add(Kind::Resurrected, id, why);
    }
    for call in &done {
        let ran = row
            .runs
            .iter()
            .any(|&(claims, at)| claims == call.claims && at <= call.op.end);
        if !ran {
            let why = format!("claim {} was completed and never delivered", call.claims);
            found.add(Kind::Lost, id, why);
        }
    }
}

/// A delivery has a claim, and a claim one delivery.
fn runs(id: &str, row: &Row<'_>, found: &mut Findings) {
    let mut numbers: Vec<u64> = row.runs.iter().map(|&(claims, _)| claims).collect();
    numbers.sort_unstable();
    for pair in numbers.windows(2) {
        if pair[0] == pair[1] {
            let why = format!("claim {} was delivered twice", pair[0]);
            found.add(Kind::Doubled, id, why);
        }
    }
    for number in numbers {
        if !row.claims.iter().any(|claim| claim.claims == number) {
            let why = format!("claim {number} was delivered and never made");
            found.add(Kind::Doubled, id, why);
        }
    }
}
