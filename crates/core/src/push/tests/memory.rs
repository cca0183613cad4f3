use std::num::NonZeroU32;

use chrono::{DateTime, TimeDelta, Utc};
use uuid::Uuid;

use super::{at, now_or_never, receipt, ticket, token};
use crate::{MemoryPendingReceiptStore, PendingReceipt, PendingReceiptStore, PushStoreError};

const ALL: NonZeroU32 = NonZeroU32::MAX;

fn limit(number: u32) -> NonZeroU32 {
    NonZeroU32::new(number).unwrap()
}

fn names(receipts: &[PendingReceipt]) -> Vec<&str> {
    receipts.iter().map(|each| each.ticket.as_str()).collect()
}

fn with(names: &[(&str, i64)]) -> MemoryPendingReceiptStore {
    let store = MemoryPendingReceiptStore::new();
    for (name, due) in names {
        assert_eq!(
            now_or_never(store.record(vec![receipt(name)], at(*due))),
            Ok(1)
        );
    }
    store
}

#[test]
fn tickets_come_oldest_due_first_and_by_bytes_among_equals() {
    let store = with(&[("c", 2), ("b", 1), ("B", 1), ("~", 1), ("a", 3), ("z", 9)]);
    let taken = now_or_never(store.take_due(at(3), at(100), ALL)).unwrap();
    assert_eq!(names(&taken), ["B", "b", "~", "c", "a"]);
    assert_eq!(
        now_or_never(store.take_due(at(3), at(100), ALL)),
        Ok(vec![])
    );
    assert_eq!(store.get(&ticket("b")).unwrap().1, at(100));
    assert_eq!(store.get(&ticket("z")).unwrap().1, at(9));
}

#[test]
fn a_ticket_due_now_is_due_and_a_microsecond_earlier_it_is_not() {
    let store = with(&[("a", 10)]);
    let take = |now| {
        now_or_never(store.take_due(now, at(20), ALL))
            .unwrap()
            .len()
    };
    assert_eq!(take(at(9) + TimeDelta::nanoseconds(999)), 0);
    assert_eq!(take(at(10)), 1);
    assert_eq!(take(at(19)), 0);
    assert_eq!(take(at(20)), 1);
}

#[test]
fn a_retry_that_is_not_later_leaves_the_ticket_due() {
    let store = with(&[("a", 1), ("b", 2)]);
    for retry_at in [at(5), at(0)] {
        let taken = now_or_never(store.take_due(at(5), retry_at, limit(1))).unwrap();
        assert_eq!(names(&taken), ["a"]);
        now_or_never(store.take_due(at(5), at(1), ALL)).unwrap();
    }
}

#[test]
fn a_limit_takes_the_oldest_and_no_more() {
    let store = with(&[("a", 3), ("b", 2), ("c", 1)]);
    let taken = now_or_never(store.take_due(at(9), at(50), limit(2))).unwrap();
    assert_eq!(names(&taken), ["c", "b"]);
    assert_eq!(store.get(&ticket("a")).unwrap().1, at(3));
}

#[test]
fn a_recorded_ticket_is_left_as_it_is_and_the_first_of_equals_counts() {
    let store = MemoryPendingReceiptStore::new();
    let mut second = receipt("a");
    second.token = token("other");
    second.owner_id = Uuid::max();
    let call = vec![receipt("a"), second.clone(), receipt("b")];
    assert_eq!(now_or_never(store.record(call, at(10))), Ok(2));
    assert_eq!(now_or_never(store.record(vec![second], at(5))), Ok(0));
    assert_eq!(store.get(&ticket("a")), Some((receipt("a"), at(10))));
    assert_eq!(now_or_never(store.record(vec![], at(5))), Ok(0));
}

#[test]
fn a_purge_is_strict_bounded_and_takes_the_oldest_first() {
    let store = MemoryPendingReceiptStore::new();
    for (name, sent) in [("a", 3), ("b", 1), ("c", 2), ("d", 4)] {
        let mut each = receipt(name);
        each.sent_at = at(sent);
        now_or_never(store.record(vec![each], at(99))).unwrap();
    }
    assert_eq!(now_or_never(store.purge(at(1), ALL)), Ok(0));
    assert_eq!(now_or_never(store.purge(at(4), limit(2))), Ok(2));
    assert!(store.get(&ticket("a")).is_some());
    assert_eq!(now_or_never(store.purge(at(4), limit(2))), Ok(1));
    assert_eq!(store.len(), 1);
}

#[test]
fn deleting_counts_what_went() {
    let store = with(&[("a", 1), ("A", 1), ("b", 1)]);
    let tickets = ["a", "a", "c"].map(ticket).to_vec();
    assert_eq!(now_or_never(store.delete(tickets)), Ok(1));
    assert_eq!(now_or_never(store.delete(vec![])), Ok(0));
    let taken = now_or_never(store.take_due(at(1), at(2), ALL)).unwrap();
    assert_eq!(names(&taken), ["A", "b"]);
}

#[test]
fn an_owner_is_erased_and_nobody_else() {
    let store = with(&[("a", 1), ("b", 1)]);
    let mut other = receipt("c");
    other.owner_id = Uuid::from_u128(2);
    now_or_never(store.record(vec![other], at(1))).unwrap();
    now_or_never(store.take_due(at(1), at(5), limit(1))).unwrap();
    assert_eq!(now_or_never(store.erase_owner(Uuid::from_u128(1))), Ok(2));
    assert_eq!(now_or_never(store.erase_owner(Uuid::from_u128(1))), Ok(0));
    assert_eq!(store.len(), 1);
}

#[test]
fn instants_are_checked_first_and_nothing_is_recorded_by_half() {
    let store = with(&[("a", 1)]);
    let extremes = [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC];
    for bad in extremes {
        let refused = Err(PushStoreError::OutOfRange);
        assert_eq!(now_or_never(store.record(vec![], bad)), refused);
        let mut late = receipt("c");
        late.sent_at = bad;
        let call = vec![receipt("b"), late];
        assert_eq!(now_or_never(store.record(call, at(1))), refused);
        assert_eq!(now_or_never(store.purge(bad, ALL)), refused);
        assert_eq!(
            now_or_never(store.take_due(bad, at(1), ALL)),
            Err(PushStoreError::OutOfRange)
        );
        assert_eq!(
            now_or_never(store.take_due(at(1), bad, ALL)),
            Err(PushStoreError::OutOfRange)
        );
    }
    assert_eq!(store.len(), 1);
    assert_eq!(store.get(&ticket("a")).unwrap().1, at(1));
}

#[test]
fn a_future_that_is_never_polled_does_nothing_and_clones_share() {
    let store = with(&[("a", 1)]);
    drop(store.record(vec![receipt("b")], at(1)));
    drop(store.take_due(at(1), at(9), ALL));
    drop(store.delete(vec![ticket("a")]));
    drop(store.purge(at(99), ALL));
    drop(store.erase_owner(Uuid::from_u128(1)));
    assert_eq!(store.get(&ticket("a")).unwrap().1, at(1));
    let clone = store.clone();
    assert_eq!(now_or_never(clone.delete(vec![ticket("a")])), Ok(1));
    assert!(store.is_empty());
    assert!(!format!("{store:?}").contains("token-of"));
}
