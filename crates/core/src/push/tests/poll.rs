use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU32;
use std::sync::Mutex;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::{at, now_or_never, receipt, ticket, token};
use crate::{
    DeviceRegistry, DeviceToken, MemoryPendingReceiptStore, PendingReceipt, PendingReceiptStore,
    PushError, PushErrorKind, PushFuture, PushReceipt, PushReceiptSource, PushReceiptStatus,
    PushRejection, PushStoreError, PushStoreFuture, PushTicketId, RECEIPT_POLL_DELAY,
    RECEIPT_RETENTION, ReceiptPoll, ReceiptPollCause, ReceiptPollError, poll_pending_receipts,
};

const DELIVERED: PushReceiptStatus = PushReceiptStatus::Delivered;
const GONE: PushReceiptStatus = PushReceiptStatus::Rejected(PushRejection::DeviceNotRegistered);
const TOO_BIG: PushReceiptStatus = PushReceiptStatus::Rejected(PushRejection::MessageTooBig);

/// All three ports over one world. Calls are numbered; the one of `fail` fails
/// before it does its work, or after.
#[derive(Default)]
struct World {
    store: MemoryPendingReceiptStore,
    answers: HashMap<String, PushReceiptStatus>,
    registered: Mutex<BTreeMap<String, DateTime<Utc>>>,
    invalidations: Mutex<Vec<(Vec<String>, DateTime<Utc>)>>,
    calls: Mutex<usize>,
    fail: Option<(usize, When)>,
}

#[derive(Clone, Copy, PartialEq, Debug)]
enum When {
    Before,
    After,
}

impl World {
    /// A ticket for this device, sent that many microseconds in, due at once.
    fn sent(&self, name: &str, device: &str, sent: i64) {
        let pending = PendingReceipt {
            token: token(device),
            sent_at: at(sent),
            ..receipt(name)
        };
        now_or_never(self.store.record(vec![pending], at(sent))).unwrap();
        let mut registered = self.registered.lock().unwrap();
        registered.entry(device.to_owned()).or_insert(at(0));
    }

    fn fails(&self, when: When) -> bool {
        let mut calls = self.calls.lock().unwrap();
        *calls += usize::from(when == When::Before);
        self.fail
            .is_some_and(|(call, fails)| call + 1 == *calls && fails == when)
    }

    fn poll(&self, now: DateTime<Utc>, limit: u32) -> Result<ReceiptPoll, ReceiptPollError> {
        let limit = NonZeroU32::new(limit).unwrap();
        now_or_never(poll_pending_receipts(self, self, self, now, limit))
    }

    fn devices(&self) -> Vec<String> {
        self.registered.lock().unwrap().keys().cloned().collect()
    }
}

/// Does `work` unless this call is to fail first, and hides its answer if it
/// is to fail then.
macro_rules! call {
    ($world:ident, $error:expr, $work:expr) => {
        Box::pin(async move {
            if $world.fails(When::Before) {
                return Err($error);
            }
            let done = $work;
            if $world.fails(When::After) {
                return Err($error);
            }
            done
        })
    };
}

impl PendingReceiptStore for World {
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        self.store.record(receipts, due_at)
    }

    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
        call!(
            self,
            PushStoreError::Busy,
            self.store.take_due(now, retry_at, limit).await
        )
    }

    fn delete(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        call!(self, PushStoreError::Busy, self.store.delete(tickets).await)
    }

    fn purge(
        &self,
        sent_before: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        call!(
            self,
            PushStoreError::Busy,
            self.store.purge(sent_before, limit).await
        )
    }

    fn erase_owner(&self, owner_id: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        self.store.erase_owner(owner_id)
    }
}

impl PushReceiptSource for World {
    fn receipts(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        let answer = |ticket: PushTicketId| {
            let status = self.answers.get(ticket.as_str())?.clone();
            Some(PushReceipt { ticket, status })
        };
        call!(
            self,
            PushError::new(PushErrorKind::Unavailable, "no route"),
            Ok(tickets.into_iter().filter_map(answer).collect())
        )
    }
}

impl DeviceRegistry for World {
    fn invalidate(
        &self,
        tokens: Vec<DeviceToken>,
        sent_at: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        call!(self, PushStoreError::Internal, {
            let tokens: Vec<_> = tokens.into_iter().map(DeviceToken::into_string).collect();
            let mut registered = self.registered.lock().unwrap();
            let before = registered.len();
            registered.retain(|name, since| *since > sent_at || !tokens.contains(name));
            let stopped = before - registered.len();
            drop(registered);
            self.invalidations.lock().unwrap().push((tokens, sent_at));
            Ok(stopped as u64)
        })
    }
}

fn answers(pairs: &[(&str, PushReceiptStatus)]) -> HashMap<String, PushReceiptStatus> {
    pairs
        .iter()
        .map(|(name, status)| ((*name).to_owned(), status.clone()))
        .collect()
}

/// One ticket of each fate, one of them too old to be answered.
fn mixed() -> World {
    let world = World {
        answers: answers(&[("ok", DELIVERED), ("dead", GONE), ("big", TOO_BIG)]),
        ..World::default()
    };
    let day = RECEIPT_RETENTION.num_microseconds().unwrap();
    world.sent("ok", "phone", day);
    world.sent("dead", "lost", day);
    world.sent("big", "pad", day);
    world.sent("late", "phone", day);
    world.sent("old", "phone", 0);
    world
}

/// When [`mixed`] is polled: the old ticket is just over its retention.
fn noon() -> DateTime<Utc> {
    at(1) + RECEIPT_RETENTION
}

#[test]
fn every_fate_is_counted_and_what_settled_is_deleted() {
    let world = mixed();
    let poll = world.poll(noon(), 10).unwrap();
    let expected = ReceiptPoll {
        taken: 5,
        delivered: 1,
        rejected: 2,
        unsettled: 2,
        gone: 1,
        invalidated: 1,
        deleted: 3,
        purged: 1,
    };
    assert_eq!(poll, expected);
    assert_eq!(world.devices(), ["pad", "phone"]);
    assert_eq!(world.store.len(), 1);
    let (_, due_at) = world.store.get(&ticket("late")).unwrap();
    assert_eq!(due_at, noon() + RECEIPT_POLL_DELAY);
    assert_eq!(world.poll(noon(), 10).unwrap(), ReceiptPoll::default());
}

#[test]
fn a_failure_at_any_call_loses_no_ticket() {
    for when in [When::Before, When::After] {
        for call in 0..5 {
            let mut world = mixed();
            world.fail = Some((call, when));
            let failed = world.poll(noon(), 10).unwrap_err();
            let counts = failed.poll;
            assert_eq!(
                counts.taken,
                counts.delivered + counts.rejected + counts.unsettled,
                "{call} {when:?}"
            );
            // Whatever the failed poll left undone, the next one does.
            world.fail = None;
            let again = world.poll(noon() + RECEIPT_POLL_DELAY, 10).unwrap();
            assert_eq!(world.devices(), ["pad", "phone"], "{call} {when:?}");
            assert_eq!(world.store.len(), 1, "{call} {when:?}");
            assert!(world.store.get(&ticket("late")).is_some());
            // Counted once, but where the answer to the deletion was lost.
            let lost_answer = (call, when) == (3, When::After);
            let settled = counts.deleted + again.deleted;
            assert_eq!(settled, if lost_answer { 0 } else { 3 }, "{call} {when:?}");
            // Nothing is purged by a poll that failed before its purge.
            assert_eq!(counts.purged, 0);
        }
    }
}

#[test]
fn nothing_is_deleted_before_its_device_is_invalidated() {
    let mut world = mixed();
    world.fail = Some((2, When::Before));
    let failed = world.poll(noon(), 10).unwrap_err();
    assert_eq!(
        failed.cause,
        ReceiptPollCause::Registry(PushStoreError::Internal)
    );
    assert!(world.store.get(&ticket("dead")).is_some());
    // The others settled all the same.
    assert!(world.store.get(&ticket("ok")).is_none());
    assert_eq!((failed.poll.deleted, failed.poll.unsettled), (2, 3));
}

#[test]
fn a_source_that_fails_changes_nothing_but_the_due_instants() {
    let mut world = mixed();
    world.fail = Some((1, When::Before));
    let failed = world.poll(noon(), 10).unwrap_err();
    assert!(matches!(failed.cause, ReceiptPollCause::Source(_)));
    assert_eq!((failed.poll.taken, failed.poll.unsettled), (5, 5));
    assert_eq!(world.store.len(), 5);
    assert_eq!(
        failed.to_string(),
        "poll pending receipts: read receipts: no route"
    );
}

#[test]
fn each_dead_token_is_invalidated_with_the_instant_of_its_own_send() {
    let world = World {
        answers: answers(&[("t1", GONE), ("t2", GONE), ("t3", GONE), ("t4", GONE)]),
        ..World::default()
    };
    world.sent("t1", "a", 10);
    world.sent("t2", "b", 20);
    world.sent("t3", "c", 10);
    // A later send to a device that an earlier one also found gone.
    world.sent("t4", "a", 30);
    world.registered.lock().unwrap().insert("b".into(), at(25));
    let poll = world.poll(at(100), 10).unwrap();
    assert_eq!(
        *world.invalidations.lock().unwrap(),
        [
            (vec!["c".to_owned()], at(10)),
            (vec!["b".to_owned()], at(20)),
            (vec!["a".to_owned()], at(30)),
        ]
    );
    assert_eq!(world.devices(), ["b"], "registered anew after the send");
    assert_eq!((poll.gone, poll.invalidated, poll.deleted), (4, 2, 4));
}

#[test]
fn a_device_registered_anew_after_every_send_stays() {
    let world = World {
        answers: answers(&[("t1", GONE), ("t2", GONE)]),
        ..World::default()
    };
    world.sent("t1", "a", 10);
    world.sent("t2", "a", 20);
    world.registered.lock().unwrap().insert("a".into(), at(21));
    let poll = world.poll(at(100), 10).unwrap();
    assert_eq!(world.devices(), ["a"]);
    assert_eq!((poll.gone, poll.invalidated, poll.deleted), (2, 0, 2));
}

/// Answers about tickets that nobody asked for, and twice about one.
struct Talkative;

impl PushReceiptSource for Talkative {
    fn receipts(
        &self,
        _: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        let said = [("a", DELIVERED), ("b", GONE), ("a", GONE)].map(|(name, status)| PushReceipt {
            ticket: ticket(name),
            status,
        });
        Box::pin(std::future::ready(Ok(said.to_vec())))
    }
}

#[test]
fn answers_that_nobody_asked_for_are_ignored() {
    let world = World::default();
    world.sent("a", "phone", 0);
    let later = at(0) + TimeDelta::hours(1);
    world.sent("b", "lost", 3_600_000_001);
    let limit = NonZeroU32::new(10).unwrap();
    let poll = now_or_never(poll_pending_receipts(
        &Talkative, &world, &world, later, limit,
    ))
    .unwrap();
    assert_eq!((poll.taken, poll.delivered, poll.rejected), (1, 1, 0));
    assert!(world.store.get(&ticket("b")).is_some());
    assert_eq!(world.devices(), ["lost", "phone"]);
}

#[test]
fn without_due_tickets_nobody_is_asked_and_the_old_are_purged() {
    let world = World::default();
    world.sent("old", "phone", 0);
    now_or_never(
        world
            .store
            .take_due(at(0), noon() + RECEIPT_POLL_DELAY, NonZeroU32::MAX),
    )
    .unwrap();
    let poll = world.poll(noon(), 10).unwrap();
    let expected = ReceiptPoll {
        purged: 1,
        ..ReceiptPoll::default()
    };
    assert_eq!(poll, expected);
    assert_eq!(*world.calls.lock().unwrap(), 2);
}

#[test]
fn a_ticket_that_never_settles_is_asked_about_for_a_day_and_no_longer() {
    let world = World::default();
    world.sent("never", "phone", 0);
    let mut taken = 0;
    for half_hour in 0..96 {
        let now = at(0) + TimeDelta::minutes(30 * half_hour);
        taken += world.poll(now, 10).unwrap().taken;
    }
    assert!(world.store.is_empty());
    assert_eq!(taken, 50);
}

#[test]
fn all_that_is_too_old_goes_in_one_poll() {
    let world = World::default();
    let many: Vec<_> = (0..2_500)
        .map(|number| receipt(&format!("t{number}")))
        .collect();
    now_or_never(world.store.record(many, noon() + RECEIPT_POLL_DELAY)).unwrap();
    assert_eq!(world.poll(noon(), 1).unwrap().purged, 2_500);
}

#[test]
fn an_extreme_now_is_an_error_and_no_panic() {
    let world = mixed();
    let last = DateTime::from_timestamp(253_402_300_799, 0).unwrap();
    for now in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC, last] {
        let failed = world.poll(now, 10).unwrap_err();
        assert_eq!(
            failed.cause,
            ReceiptPollCause::Store(PushStoreError::OutOfRange)
        );
    }
    assert_eq!(*world.calls.lock().unwrap(), 0);
    assert_eq!(
        world.poll(DateTime::UNIX_EPOCH, 10).unwrap(),
        ReceiptPoll::default()
    );
}
