//! A day of a service that sends, on a clock that runs as fast as the store.

use std::num::NonZeroU32;
use std::sync::Arc;

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{
    DeviceToken, PendingReceiptStore, PushDeliveryStatus, PushOutcome, ReceiptPoll,
    poll_pending_receipts,
};

use super::chapter;
use super::context::{ReceiptContext, at, is_soak, limit, numbered, owner, ticket, token};
use super::provider::{DELIVERED, Devices, GONE, Provider, Silent, TOO_BIG};

chapter!(day: a_day_ends_with_no_ticket_left_and_every_device_judged_rightly);

const SEED: u64 = 0x5EED_0DA7;
const LIMIT: NonZeroU32 = NonZeroU32::new(200).unwrap();
const TICK: TimeDelta = TimeDelta::minutes(10);

/// A generator of Lehmer's, which is enough to scatter some numbers.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0xDA94_2042_E4DD_58B5).wrapping_add(1);
        (self.0 >> 33) % bound
    }

    fn seconds(&mut self, bound: u64) -> TimeDelta {
        TimeDelta::seconds(i64::try_from(self.below(bound)).expect("small"))
    }
}

/// One message and what the service is to learn of it.
struct Send {
    sent_at: DateTime<Utc>,
    token: DeviceToken,
    number: usize,
    /// Whether its device is gone, and since when it is there again.
    dead: bool,
    back_at: Option<DateTime<Utc>>,
}

/// Sends in the order of their time: 92 of 100 delivered, 5 without an answer
/// for ever, 3 to a device that is gone, a third of those registered anew
/// while the receipt is on its way.
fn sends(count: usize, provider: &Provider, random: &mut Random) -> Vec<Send> {
    let mut sends: Vec<_> = (0..count)
        .map(|number| {
            let sent_at = at(0) + random.seconds(86_400);
            // Most are there in minutes, some take hours.
            let late = match random.below(10) {
                0..=7 => random.seconds(600),
                8 => random.seconds(3_600),
                _ => random.seconds(6 * 3_600),
            };
            let fate = random.below(100);
            let (dead, never) = (fate < 3, (3..8).contains(&fate));
            let back = dead && random.below(3) == 0;
            let status = match fate {
                0..3 => GONE,
                8 => TOO_BIG,
                _ => DELIVERED,
            };
            if !never {
                provider.will_say(ticket(&numbered(number)), sent_at + late, status);
            }
            let wait = TimeDelta::microseconds(1) + random.seconds(7_200);
            Send {
                sent_at,
                token: token(&format!("device-{number}")),
                number,
                dead,
                back_at: back.then(|| sent_at + wait),
            }
        })
        .collect();
    sends.sort_by_key(|send| (send.sent_at, send.number));
    sends
}

/// What two pollers did in all.
#[derive(Default)]
struct Sum(Vec<ReceiptPoll>);

impl Sum {
    fn of(&self, count: impl Fn(&ReceiptPoll) -> u64) -> u64 {
        self.0.iter().map(count).sum()
    }
}

/// Polls until nothing more is due, or the provider fails.
async fn drain(
    store: &dyn PendingReceiptStore,
    provider: &Provider,
    devices: &Devices,
    now: DateTime<Utc>,
) -> Vec<ReceiptPoll> {
    let mut polls = Vec::new();
    loop {
        let poll = poll_pending_receipts(provider, store, devices, now, LIMIT).await;
        let (poll, failed) = match poll {
            Ok(poll) => (poll, false),
            Err(error) => (error.poll, true),
        };
        polls.push(poll);
        if failed || poll.taken < u64::from(LIMIT.get()) {
            return polls;
        }
    }
}

async fn a_day_ends_with_no_ticket_left_and_every_device_judged_rightly(cx: Arc<ReceiptContext>) {
    let count = if is_soak() { 20_000 } else { 1_000 };
    println!("{count} sends of seed {SEED:#x}");
    let provider = Provider::new(at(0));
    let devices = Devices::default();
    let sends = sends(count, &provider, &mut Random(SEED));
    for send in &sends {
        devices.register(send.token.clone(), at(0) - TimeDelta::days(1));
    }
    let mut returns: Vec<_> = sends
        .iter()
        .filter_map(|send| Some((send.back_at?, send.token.clone())))
        .collect();
    returns.sort_unstable();
    let mut returns = returns.into_iter().peekable();
    let mut coming = sends.iter().peekable();

    let second = cx.sandbox.another().await;
    let (mut sum, mut killed) = (Sum::default(), 0);
    let mut now = at(0);
    // A day of sends, a day until the last is too old, and the last poll.
    while now <= at(2 * 86_400 + 3_600) {
        while let Some(send) = coming.next_if(|send| send.sent_at <= now) {
            let outcomes = [PushOutcome {
                token: send.token.clone(),
                status: PushDeliveryStatus::Accepted(ticket(&numbered(send.number))),
            }];
            let owner_id = owner(u32::try_from(send.number % 100).expect("small"));
            let recorded = cx.store.record_accepted(owner_id, &outcomes, send.sent_at);
            assert_eq!(recorded.await, Ok(1));
        }
        while let Some((back_at, token)) = returns.next_if(|(back_at, _)| *back_at <= now) {
            devices.register(token, back_at);
        }
        *provider.now.lock().expect("now") = now;
        // The provider fails from 10 to 11 o'clock.
        let down = (at(36_000)..at(39_600)).contains(&now);
        provider.fails(down);
        if now == at(8 * 3_600) {
            // The second poller takes a batch, asks, and is killed.
            let poll = poll_pending_receipts(&Silent, &*second, &devices, now, limit(50));
            let died = tokio::time::timeout(std::time::Duration::from_secs(3), poll).await;
            assert!(died.is_err(), "it waits for an answer");
            killed += 1;
        }
        let first = drain(&*cx.store, &provider, &devices, now);
        if killed == 0 {
            let other = drain(&*second, &provider, &devices, now);
            let (first, other) = tokio::join!(first, other);
            sum.0.extend(first);
            sum.0.extend(other);
        } else {
            sum.0.extend(first.await);
        }
        now += TICK;
    }

    assert!(cx.all().await.is_empty(), "no ticket is left");
    for send in &sends {
        let there = devices.has(&send.token);
        assert_eq!(
            there,
            !send.dead || send.back_at.is_some(),
            "send {}",
            send.number
        );
    }
    let dead = sends.iter().filter(|send| send.dead).count() as u64;
    let back = sends.iter().filter(|send| send.back_at.is_some()).count() as u64;
    assert!(dead > 0 && back > 0, "the seed gives some of each");
    assert_eq!(sum.of(|poll| poll.gone), dead);
    // One whose receipt came before its device did was stopped all the same.
    let invalidated = sum.of(|poll| poll.invalidated);
    assert!((dead - back..=dead).contains(&invalidated), "{invalidated}");
    for poll in &sum.0 {
        assert_eq!(poll.taken, poll.delivered + poll.rejected + poll.unsettled);
    }
    let settled = sum.of(|poll| poll.delivered + poll.rejected);
    assert_eq!(sum.of(|poll| poll.deleted), settled);
    assert_eq!(settled + sum.of(|poll| poll.purged), count as u64);
}
