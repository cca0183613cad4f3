//! Programs of all calls at random, against a plain reference.

use std::collections::BTreeMap;
use std::num::NonZeroU32;
use std::sync::Arc;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{DeviceToken, PendingReceipt, PushTicketId};

use super::chapter;
use super::context::{ReceiptContext, at, owner};
use crate::random::{Random, seeds};

chapter!(programs:
    programs_of_all_calls_are_answered_as_the_reference_answers,
);

/// What is run where nobody asks for more.
const USUAL: u64 = 60;
/// Told apart by case, and ordered by bytes.
const TICKETS: [&str; 6] = ["a", "A", "b", "10", "9", "a-"];

#[derive(Clone, Debug)]
enum Step {
    Record(Vec<(usize, u32, u64)>, u64),
    Take { now: u64, retry: u64, limit: u32 },
    Delete(Vec<usize>),
    Purge(u64, u32),
    Erase(u32),
}

fn program(random: &mut Random) -> Vec<Step> {
    let steps = 6 + random.below(18);
    (0..steps).map(|_| step(random)).collect()
}

fn step(random: &mut Random) -> Step {
    let ticket = |random: &mut Random| usize::try_from(random.below(6)).unwrap_or(0);
    let limit = |random: &mut Random| random.one_of(&[1, 1, 2, 3, u32::MAX]);
    match random.below(12) {
        0..=4 => {
            let receipts = random.some(4, |random| {
                let owner = random.one_of(&[1, 2, 3]);
                (ticket(random), owner, random.below(8))
            });
            Step::Record(receipts, random.below(8))
        }
        5..=8 => Step::Take {
            now: random.below(9),
            retry: random.below(12),
            limit: limit(random),
        },
        9 => Step::Delete(random.some(4, ticket)),
        10 => Step::Purge(random.below(9), limit(random)),
        _ => Step::Erase(random.one_of(&[1, 2, 3])),
    }
}

async fn programs_of_all_calls_are_answered_as_the_reference_answers(cx: Arc<ReceiptContext>) {
    let (mut programs, mut calls) = (0_u64, 0_u64);
    for seed in seeds(USUAL) {
        let steps = program(&mut Random::new(seed));
        programs += 1;
        calls += steps.len() as u64;
        if let Err(why) = run(&cx, &steps).await {
            let (steps, why) = shorten(&cx, steps, why).await;
            panic!("DUEBOX_TEST_PROGRAMS_SEED={seed}: {why}\n{steps:#?}");
        }
    }
    if programs > USUAL {
        println!("{programs} programs of {calls} calls, no violation");
    }
}

/// Leaves out steps for as long as the rest fails.
async fn shorten(
    cx: &ReceiptContext,
    mut steps: Vec<Step>,
    mut why: String,
) -> (Vec<Step>, String) {
    let mut place = 0;
    while place < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(place);
        match run(cx, &fewer).await {
            Err(still) => (steps, why) = (fewer, still),
            Ok(()) => place += 1,
        }
    }
    (steps, why)
}

/// Runs a program on an empty store; an error says where the two differ.
async fn run(cx: &ReceiptContext, steps: &[Step]) -> Result<(), String> {
    cx.delete(&TICKETS).await;
    let mut reference = Reference::default();
    for (place, step) in steps.iter().enumerate() {
        let (answer, expected) = (real(cx, step).await, reference.run(step));
        if answer != expected {
            return Err(format!("step {place}: {answer} is not {expected}"));
        }
    }
    // All that is left, in the order in which it is due.
    let all = Step::Take {
        now: 1_000,
        retry: 1_000,
        limit: u32::MAX,
    };
    let (left, expected) = (real(cx, &all).await, reference.run(&all));
    if left == expected {
        Ok(())
    } else {
        Err(format!("at the end: {left} is not {expected}"))
    }
}

fn limit(limit: u32) -> NonZeroU32 {
    NonZeroU32::new(limit).unwrap_or(NonZeroU32::MIN)
}

fn ticket(place: usize) -> PushTicketId {
    PushTicketId::new(TICKETS[place]).expect("a ticket")
}

/// A receipt that tells by its token which of several of one ticket it was.
fn receipt(&(place, by, sent): &(usize, u32, u64)) -> PendingReceipt {
    PendingReceipt {
        ticket: ticket(place),
        owner_id: owner(by),
        token: DeviceToken::new(format!("{by}-{sent}")).expect("a token"),
        sent_at: time(sent),
    }
}

fn time(seconds: u64) -> DateTime<Utc> {
    at(i64::try_from(seconds).unwrap_or(0))
}

async fn real(cx: &ReceiptContext, step: &Step) -> String {
    match step {
        Step::Record(receipts, due) => {
            let receipts = receipts.iter().map(receipt).collect();
            cx.record(receipts, time(*due)).await.to_string()
        }
        Step::Take {
            now,
            retry,
            limit: most,
        } => {
            let due = cx.take_up_to(time(*now), time(*retry), limit(*most)).await;
            let shown = due.iter().map(|each| {
                let (ticket, token) = (each.ticket.as_str(), each.token.as_str());
                format!("{ticket} {token} {} {}", each.owner_id, each.sent_at)
            });
            shown.collect::<Vec<_>>().join(", ")
        }
        Step::Delete(places) => {
            let names: Vec<&str> = places.iter().map(|place| TICKETS[*place]).collect();
            cx.delete(&names).await.to_string()
        }
        Step::Purge(before, most) => cx.purge(time(*before), limit(*most)).await.to_string(),
        Step::Erase(by) => cx.erase(owner(*by)).await.to_string(),
    }
}

/// The store, in plain Rust: the promises, and none of the SQL.
#[derive(Default)]
struct Reference(BTreeMap<&'static str, (u64, PendingReceipt)>);

impl Reference {
    fn run(&mut self, step: &Step) -> String {
        let before = self.0.len();
        match step {
            Step::Record(receipts, due) => {
                for each in receipts {
                    self.0
                        .entry(TICKETS[each.0])
                        .or_insert_with(|| (*due, receipt(each)));
                }
                (self.0.len() - before).to_string()
            }
            Step::Take { now, retry, limit } => {
                let mut due: Vec<(u64, &str)> = self
                    .0
                    .iter()
                    .filter(|(_, (due, _))| due <= now)
                    .map(|(ticket, (due, _))| (*due, *ticket))
                    .collect();
                due.sort_unstable();
                due.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
                let mut shown = Vec::new();
                for (_, ticket) in due {
                    let (due, each) = self.0.get_mut(ticket).expect("a ticket");
                    *due = *retry;
                    let token = each.token.as_str();
                    shown.push(format!(
                        "{ticket} {token} {} {}",
                        each.owner_id, each.sent_at
                    ));
                }
                shown.join(", ")
            }
            Step::Delete(places) => {
                for place in places {
                    self.0.remove(TICKETS[*place]);
                }
                (before - self.0.len()).to_string()
            }
            Step::Purge(sent_before, limit) => {
                let mut old: Vec<(DateTime<Utc>, &str)> = self
                    .0
                    .iter()
                    .filter(|(_, (_, each))| each.sent_at < time(*sent_before))
                    .map(|(ticket, (_, each))| (each.sent_at, *ticket))
                    .collect();
                old.sort_unstable();
                old.truncate(usize::try_from(*limit).unwrap_or(usize::MAX));
                for (_, ticket) in &old {
                    self.0.remove(ticket);
                }
                old.len().to_string()
            }
            Step::Erase(by) => {
                self.0.retain(|_, (_, each)| each.owner_id != owner(*by));
                (before - self.0.len()).to_string()
            }
        }
    }
}
