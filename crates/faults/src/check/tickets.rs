//! Tickets: none lost, none taken before it is due again, none back once gone.

use std::collections::{BTreeMap, HashMap, HashSet};

use super::{Findings, Kind};
use crate::history::{Answer, Call, Contents, History, Op};

#[derive(Default)]
struct Ticket<'a> {
    records: Vec<&'a Op>,
    takes: Vec<(i64, i64, &'a Op)>,
    deletes: Vec<&'a Op>,
}

/// What a record says of its tickets.
#[derive(Clone, Copy)]
struct About {
    owner: u128,
    sent_at: i64,
    due_at: i64,
}

pub(super) fn check(history: &History, contents: &Contents, found: &mut Findings) {
    let mut tickets: BTreeMap<&str, Ticket<'_>> = BTreeMap::new();
    let mut erased: HashMap<u128, Vec<&Op>> = HashMap::new();
    let mut purges: Vec<(i64, &Op)> = Vec::new();
    let mut unknown_takes: Vec<(i64, i64, &Op)> = Vec::new();
    for op in &history.ops {
        match (&op.call, &op.answer) {
            (Call::Record { tickets: all, .. }, _) => {
                for ticket in all {
                    tickets.entry(ticket).or_default().records.push(op);
                }
            }
            (Call::Take { now, retry_at }, Answer::Taken(taken)) => {
                for ticket in taken {
                    let take = (*now, *retry_at, op);
                    tickets.entry(ticket).or_default().takes.push(take);
                }
            }
            (Call::Take { now, retry_at }, _) => unknown_takes.push((*now, *retry_at, op)),
            (Call::Delete { tickets: all }, _) => {
                for ticket in all {
                    tickets.entry(ticket).or_default().deletes.push(op);
                }
            }
            (Call::EraseOwner { owner }, _) => erased.entry(*owner).or_default().push(op),
            (Call::Purge { before }, _) => purges.push((*before, op)),
            _ => {}
        }
    }
    let left: HashSet<&str> = contents.tickets.iter().map(String::as_str).collect();
    for (name, ticket) in &tickets {
        // One that was recorded by two calls may have been gone in between.
        let [record] = ticket.records[..] else {
            if ticket.records.is_empty() {
                found.add(Kind::TicketDoubled, name, "nobody recorded it");
            }
            continue;
        };
        let Some(about) = about(record) else { continue };
        let empty = Vec::new();
        let erasures = erased.get(&about.owner).unwrap_or(&empty);
        lost(name, ticket, record, about, erasures, &purges, &left, found);
        doubled(name, ticket, found);
        gone(name, ticket, record, erasures, &left, found);
    }
    counts(history, &tickets, &left, found);
    order(history, &tickets, &unknown_takes, found);
}

fn about(record: &Op) -> Option<About> {
    match record.call {
        Call::Record {
            owner,
            sent_at,
            due_at,
            ..
        } => Some(About {
            owner,
            sent_at,
            due_at,
        }),
        _ => None,
    }
}

#[expect(
    clippy::too_many_arguments,
    reason = "what may explain that it is gone"
)]
fn lost(
    name: &str,
    ticket: &Ticket<'_>,
    record: &Op,
    about: About,
    erasures: &[&Op],
    purges: &[(i64, &Op)],
    left: &HashSet<&str>,
    found: &mut Findings,
) {
    let recorded = matches!(record.answer, Answer::Count(_));
    let perhaps = |op: &&Op| op.end > record.begin;
    let explained = ticket.deletes.iter().any(perhaps)
        || erasures.iter().any(perhaps)
        || purges
            .iter()
            .any(|(before, op)| *before > about.sent_at && op.end > record.begin);
    if recorded && !left.contains(name) && !explained {
        found.add(
            Kind::TicketLost,
            name,
            "recorded, gone, and nobody deleted it",
        );
    }
}

/// Of two takes one was first, and moved the ticket out of the other's reach.
fn doubled(name: &str, ticket: &Ticket<'_>, found: &mut Findings) {
    for (place, (now, retry, op)) in ticket.takes.iter().enumerate() {
        for (other_now, other_retry, other) in &ticket.takes[..place] {
            let this_first = op.begin < other.end && other_now >= retry;
            let other_first = other.begin < op.end && now >= other_retry;
            if !this_first && !other_first {
                let why = format!("taken by {} and {} at a time", other.process, op.process);
                found.add(Kind::TicketDoubled, name, why);
            }
        }
    }
}

/// What was deleted or erased for certain is not taken any more.
fn gone(
    name: &str,
    ticket: &Ticket<'_>,
    record: &Op,
    erasures: &[&Op],
    left: &HashSet<&str>,
    found: &mut Findings,
) {
    let done = |op: &&&Op| matches!(op.answer, Answer::Count(_)) && op.begin > record.end;
    let taken_after =
        |end: u64| left.contains(name) || ticket.takes.iter().any(|(_, _, take)| take.begin > end);
    if ticket
        .deletes
        .iter()
        .filter(done)
        .any(|op| taken_after(op.end))
    {
        found.add(Kind::Resurrected, name, "there after it was deleted");
    }
    if erasures.iter().filter(done).any(|op| taken_after(op.end)) {
        found.add(Kind::Erased, name, "there after its owner was erased");
    }
}

/// No ticket is counted by two calls that made it go.
fn counts(
    history: &History,
    tickets: &BTreeMap<&str, Ticket<'_>>,
    left: &HashSet<&str>,
    found: &mut Findings,
) {
    let mut recordings = 0;
    for ticket in tickets.values() {
        let perhaps = |op: &&&Op| !matches!(op.answer, Answer::Refused { .. });
        recordings += ticket.records.iter().filter(perhaps).count() as u64;
    }
    let gone: u64 = history
        .ops
        .iter()
        .map(|op| match (&op.call, &op.answer) {
            (
                Call::Delete { .. } | Call::Purge { .. } | Call::EraseOwner { .. },
                Answer::Count(count),
            ) => *count,
            _ => 0,
        })
        .sum();
    let all = gone + left.len() as u64;
    if all > recordings {
        let why = format!("{gone} counted as deleted and {} left", left.len());
        found.add(Kind::TicketDoubled, &format!("{recordings} recorded"), why);
    }
}

/// The tickets of one take come longest due first, as far as it is certain
/// when they were due.
fn order(
    history: &History,
    tickets: &BTreeMap<&str, Ticket<'_>>,
    unknown: &[(i64, i64, &Op)],
    found: &mut Findings,
) {
    for op in &history.ops {
        let (Call::Take { now, .. }, Answer::Taken(taken)) = (&op.call, &op.answer) else {
            continue;
        };
        let first_due = |name: &str| {
            let ticket = tickets.get(name)?;
            let [record] = ticket.records[..] else {
                return None;
            };
            let due_at = about(record)?.due_at;
            let first = ticket
                .takes
                .iter()
                .all(|(_, _, other)| std::ptr::eq(*other, op) || other.begin > op.end);
            // A take that nobody was told of may have moved it before.
            let moved = unknown
                .iter()
                .any(|(at, retry, take)| take.begin < op.end && *at >= due_at && retry <= now);
            (first && !moved).then_some(due_at)
        };
        let known: Vec<(i64, &str)> = taken
            .iter()
            .filter_map(|name| Some((first_due(name)?, name.as_str())))
            .collect();
        for pair in known.windows(2) {
            if pair[0] > pair[1] {
                let why = format!("due at {}, came before {:?}", pair[0].0, pair[1]);
                found.add(Kind::Order, pair[0].1, why);
            }
        }
    }
}
