use std::num::NonZeroU32;
use std::sync::Mutex;

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{at, now_or_never, receipt, ticket, token};
use crate::{
    DbError, Kind, PendingReceipt, PendingReceiptStore, PushDeliveryStatus, PushOutcome,
    PushRejection, PushStoreError, PushStoreFuture, PushTicketId, RECEIPT_POLL_DELAY,
    RECEIPT_RETENTION, accepted_receipts, distinct_receipts, distinct_tickets, order_taken,
};

/// Keeps what it is asked to record, to see what reaches a store.
#[derive(Default)]
struct Spy(Mutex<Vec<(Vec<PendingReceipt>, DateTime<Utc>)>>);

impl PendingReceiptStore for Spy {
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        let count = receipts.len() as u64;
        self.0.lock().unwrap().push((receipts, due_at));
        Box::pin(std::future::ready(Ok(count)))
    }

    fn take_due(
        &self,
        _: DateTime<Utc>,
        _: DateTime<Utc>,
        _: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
        unreachable!()
    }

    fn delete(&self, _: Vec<PushTicketId>) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        unreachable!()
    }

    fn purge(
        &self,
        _: DateTime<Utc>,
        _: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        unreachable!()
    }

    fn erase_owner(&self, _: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        unreachable!()
    }
}

fn accepted(name: &str, device: &str) -> PushOutcome {
    PushOutcome {
        token: token(device),
        status: PushDeliveryStatus::Accepted(ticket(name)),
    }
}

fn other(device: &str, status: PushDeliveryStatus) -> PushOutcome {
    PushOutcome {
        token: token(device),
        status,
    }
}

#[test]
fn each_ticket_keeps_the_token_of_its_own_outcome() {
    let outcomes = [
        accepted("t1", "a"),
        other(
            "b",
            PushDeliveryStatus::Rejected(PushRejection::MessageTooBig),
        ),
        other("c", PushDeliveryStatus::Delivered),
        accepted("t3", "d"),
    ];
    let receipts = accepted_receipts(Uuid::from_u128(9), &outcomes, at(5));
    let pairs: Vec<_> = receipts
        .iter()
        .map(|each| (each.ticket.as_str(), each.token.as_str()))
        .collect();
    assert_eq!(pairs, [("t1", "a"), ("t3", "d")]);
    for each in &receipts {
        assert_eq!((each.owner_id, each.sent_at), (Uuid::from_u128(9), at(5)));
    }
}

#[test]
fn accepted_tickets_are_first_due_one_delay_after_the_send() {
    let spy = Spy::default();
    let dynamic: &dyn PendingReceiptStore = &spy;
    let outcomes = [accepted("t1", "a"), accepted("t2", "b")];
    let recorded = now_or_never(dynamic.record_accepted(Uuid::nil(), &outcomes, at(0)));
    assert_eq!(recorded, Ok(2));
    let calls = spy.0.lock().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!(calls[0].0.len(), 2);
    assert_eq!(calls[0].1, at(0) + RECEIPT_POLL_DELAY);
}

#[test]
fn without_an_accepted_outcome_the_store_is_not_asked() {
    let spy = Spy::default();
    for outcomes in [
        vec![],
        vec![other("a", PushDeliveryStatus::Delivered)],
        vec![other(
            "a",
            PushDeliveryStatus::Rejected(PushRejection::DeviceNotRegistered),
        )],
    ] {
        let recorded = now_or_never(spy.record_accepted(Uuid::nil(), &outcomes, at(0)));
        assert_eq!(recorded, Ok(0));
    }
    assert!(spy.0.lock().unwrap().is_empty());
}

#[test]
fn an_extreme_instant_of_a_send_is_an_error_and_no_panic() {
    let spy = Spy::default();
    let last = DateTime::from_timestamp(253_402_300_799, 0).unwrap();
    for sent_at in [
        DateTime::<Utc>::MIN_UTC,
        DateTime::<Utc>::MAX_UTC,
        DateTime::from_timestamp(-1, 0).unwrap(),
        last,
        last - RECEIPT_POLL_DELAY + chrono::TimeDelta::seconds(1),
    ] {
        for outcomes in [vec![], vec![accepted("t1", "a")]] {
            assert_eq!(
                now_or_never(spy.record_accepted(Uuid::nil(), &outcomes, sent_at)),
                Err(PushStoreError::OutOfRange)
            );
        }
    }
    assert!(spy.0.lock().unwrap().is_empty());
    let latest = last - RECEIPT_POLL_DELAY;
    assert_eq!(
        now_or_never(spy.record_accepted(Uuid::nil(), &[accepted("t1", "a")], latest)),
        Ok(1)
    );
}

#[test]
fn the_delay_is_15_minutes_and_the_retention_24_hours() {
    assert_eq!(RECEIPT_POLL_DELAY.num_seconds(), 900);
    assert_eq!(RECEIPT_RETENTION.num_seconds(), 86_400);
}

#[test]
fn nothing_of_a_receipt_is_in_its_debug() {
    let mut each = receipt("marker-ticket");
    each.owner_id = Uuid::from_u128(0xabcd_ef01_2345_6789);
    let shown = format!("{each:?}{each:#?}");
    assert!(!shown.contains("marker") && !shown.contains("6789"));
    assert!(shown.contains("2026-01-01"));
}

#[test]
fn the_first_of_equal_tickets_counts_and_all_are_floored_and_sorted() {
    let mut first = receipt("b");
    first.sent_at = DateTime::from_timestamp_nanos(1_999);
    let mut second = receipt("b");
    second.token = token("loser");
    let kept = distinct_receipts(vec![receipt("c"), first, receipt("a"), second]).unwrap();
    let tickets: Vec<_> = kept.iter().map(|each| each.ticket.as_str()).collect();
    assert_eq!(tickets, ["a", "b", "c"]);
    assert_eq!(kept[1].token.as_str(), "token-of-b");
    assert_eq!(kept[1].sent_at, DateTime::from_timestamp_micros(1).unwrap());

    let mut late = receipt("a");
    late.sent_at = DateTime::<Utc>::MAX_UTC;
    assert_eq!(
        distinct_receipts(vec![receipt("a"), late]),
        Err(PushStoreError::OutOfRange)
    );
    assert_eq!(distinct_receipts(vec![]), Ok(vec![]));
}

#[test]
fn tickets_to_delete_are_each_there_once() {
    let tickets = ["b", "a", "b", "A"].map(ticket).to_vec();
    assert_eq!(distinct_tickets(tickets), ["A", "a", "b"].map(ticket));
}

#[test]
fn what_was_taken_is_ordered_by_due_instant_and_then_by_ticket() {
    let rows = [(2, "a"), (1, "b"), (1, "B"), (1, "~"), (1, "a")];
    let taken = order_taken(rows.map(|(due, name)| Ok((due, receipt(name))))).unwrap();
    let tickets: Vec<_> = taken.iter().map(|each| each.ticket.as_str()).collect();
    assert_eq!(tickets, ["B", "a", "b", "~", "a"]);
}

#[test]
fn a_row_that_cannot_be_read_stops_no_other() {
    let corrupt = || Err(PushStoreError::Corrupt);
    let taken = order_taken([corrupt(), Ok((1, receipt("a"))), corrupt()]).unwrap();
    assert_eq!(taken, [receipt("a")]);
    assert_eq!(
        order_taken([corrupt(), corrupt()]),
        Err(PushStoreError::Corrupt)
    );
    assert_eq!(
        order_taken([Ok((1, receipt("a"))), Err(PushStoreError::Busy)]),
        Err(PushStoreError::Busy)
    );
    assert_eq!(order_taken([]), Ok(vec![]));
}

#[test]
fn a_stored_receipt_is_read_as_it_is_or_is_corrupt() {
    let read = |ticket: &str, token: &str, micros| {
        PendingReceipt::from_stored(ticket.into(), Uuid::max(), token.into(), micros)
    };
    let good = read("t", "d", 7).unwrap();
    assert_eq!(
        (good.ticket.as_str(), good.token.as_str(), good.owner_id),
        ("t", "d", Uuid::max())
    );
    assert_eq!(good.sent_at.timestamp_micros(), 7);
    for bad in [read("a b", "d", 7), read("t", "", 7), read("t", "d", -1)] {
        assert_eq!(bad, Err(PushStoreError::Corrupt));
    }
}

#[test]
fn an_error_of_the_database_becomes_one_that_says_what_to_do() {
    for (kind, expected) in [
        (Kind::Unavailable, PushStoreError::Busy),
        (Kind::Busy, PushStoreError::Busy),
        (Kind::InvalidArgument, PushStoreError::Internal),
        (Kind::Corrupt, PushStoreError::Corrupt),
        (Kind::Conflict, PushStoreError::Internal),
        (Kind::Constraint, PushStoreError::Internal),
        (Kind::RowCount, PushStoreError::Internal),
        (Kind::Unsupported, PushStoreError::Internal),
        (Kind::Schema, PushStoreError::Internal),
        (Kind::Other, PushStoreError::Internal),
    ] {
        for error in [
            DbError::new(kind, "marker"),
            DbError::new(kind, "marker").not_applied(),
        ] {
            let error = PushStoreError::from(error);
            assert_eq!(error, expected);
            assert_eq!(error.is_retryable(), expected == PushStoreError::Busy);
            assert!(!format!("{error}{error:?}").contains("marker"));
            assert!(std::error::Error::source(&error).is_none());
        }
    }
}
