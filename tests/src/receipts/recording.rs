//! What recording adds, and what it leaves alone.

use std::sync::Arc;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{
    DeviceToken, PendingReceipt, PushDeliveryStatus, PushError, PushErrorKind, PushOutcome,
    PushRejection, RECEIPT_POLL_DELAY,
};

use super::context::{
    ReceiptContext, a_large_call, assert_out_of_range, at, limit, many, names, numbered, owned,
    owner, receipt, sent, ticket, token,
};
use super::{Change, chapter};

chapter!(recording:
    only_new_tickets_are_counted,
    an_empty_call_records_nothing,
    a_recorded_ticket_is_left_as_it_is,
    a_taken_ticket_that_is_recorded_again_stays_taken,
    the_first_of_equal_tickets_counts,
    the_first_of_equal_tickets_counts_however_far_apart_they_are,
    a_deleted_ticket_is_new_again,
    a_call_with_an_impossible_instant_records_nothing,
    accepted_outcomes_are_recorded_with_their_own_tokens,
    accepted_outcomes_before_a_failure_are_recorded,
    accepted_outcomes_are_due_one_delay_after_their_send;
    Refuse => a_call_whose_last_ticket_is_refused_records_nothing,
);

/// Its ticket as it is, all else different.
fn different(name: &str) -> PendingReceipt {
    PendingReceipt {
        ticket: ticket(name),
        owner_id: owner(99),
        token: token("different"),
        sent_at: at(77),
    }
}

fn accepted(name: &str, device: &str) -> PushOutcome {
    PushOutcome {
        token: token(device),
        status: PushDeliveryStatus::Accepted(ticket(name)),
    }
}

fn rejected(device: &str, why: PushRejection) -> PushOutcome {
    PushOutcome {
        token: token(device),
        status: PushDeliveryStatus::Rejected(why),
    }
}

async fn only_new_tickets_are_counted(cx: Arc<ReceiptContext>) {
    assert_eq!(cx.record(many(10), at(0)).await, 10);
    assert_eq!(cx.record(many(10), at(0)).await, 0);
    assert_eq!(cx.record(many(20), at(0)).await, 10);
    assert_eq!(cx.record(many(21), at(9)).await, 1);
    assert_eq!(cx.all().await.len(), 21);
}

async fn an_empty_call_records_nothing(cx: Arc<ReceiptContext>) {
    assert_eq!(cx.record(vec![], at(0)).await, 0);
    assert!(cx.all().await.is_empty());
}

async fn a_recorded_ticket_is_left_as_it_is(cx: Arc<ReceiptContext>) {
    cx.put("a", at(10)).await;
    assert_eq!(cx.record(vec![different("a")], at(5)).await, 0);
    assert_eq!(cx.record(vec![different("a")], at(50)).await, 0);
    assert!(cx.take(at(9), at(9)).await.is_empty(), "its due instant");
    let taken = cx.take(at(10), at(10)).await;
    assert!(taken == [receipt("a")], "its owner, token and sent_at");
    assert_eq!(cx.purge(at(77), limit(9)).await, 1, "the old sent_at");
}

async fn a_taken_ticket_that_is_recorded_again_stays_taken(cx: Arc<ReceiptContext>) {
    cx.put("a", at(10)).await;
    assert_eq!(cx.take(at(10), at(100)).await.len(), 1);
    assert_eq!(cx.record(vec![different("a")], at(10)).await, 0);
    assert!(cx.take(at(99), at(99)).await.is_empty());
    assert!(cx.take(at(100), at(100)).await == [receipt("a")]);
}

async fn the_first_of_equal_tickets_counts(cx: Arc<ReceiptContext>) {
    let call = vec![receipt("b"), different("b"), receipt("a"), different("b")];
    assert_eq!(cx.record(call, at(0)).await, 2);
    assert!(cx.all().await == [receipt("a"), receipt("b")]);
    // Not the one that sorts first, nor the one that was sent first.
    let call = vec![different("c"), receipt("c")];
    assert_eq!(cx.record(call, at(0)).await, 1);
    assert!(cx.all().await[2] == different("c"));
}

async fn the_first_of_equal_tickets_counts_however_far_apart_they_are(cx: Arc<ReceiptContext>) {
    // Equal tickets on both sides of whatever border a store cuts calls at.
    let first = many(9_000);
    let again = first.iter().map(|each| different(each.ticket.as_str()));
    let call = first.clone().into_iter().chain(again).collect();
    assert_eq!(cx.record(call, at(0)).await, 9_000);
    assert!(cx.all().await == first, "the first of each pair is stored");
}

async fn a_deleted_ticket_is_new_again(cx: Arc<ReceiptContext>) {
    cx.put("a", at(0)).await;
    assert_eq!(cx.delete(&["a"]).await, 1);
    assert_eq!(cx.record(vec![different("a")], at(5)).await, 1);
    assert!(cx.take(at(4), at(4)).await.is_empty());
    assert!(cx.take(at(5), at(5)).await == [different("a")]);
}

async fn a_call_with_an_impossible_instant_records_nothing(cx: Arc<ReceiptContext>) {
    cx.put("a", at(0)).await;
    for impossible in [DateTime::<Utc>::MIN_UTC, DateTime::<Utc>::MAX_UTC] {
        // The last one, and one that would be left out as a repetition.
        for name in ["zzz", "t000000"] {
            let mut call = many(2_000);
            call.push(sent(name, impossible));
            assert_out_of_range(cx.store.record(call, at(0)).await);
        }
        assert_out_of_range(cx.store.record(many(3), impossible).await);
        assert_out_of_range(cx.store.record(vec![], impossible).await);
    }
    assert_eq!(names(&cx.all().await), ["a"]);
}

async fn accepted_outcomes_are_recorded_with_their_own_tokens(cx: Arc<ReceiptContext>) {
    let outcomes = [
        rejected("x", PushRejection::MessageTooBig),
        accepted("t1", "a"),
        rejected("b", PushRejection::DeviceNotRegistered),
        accepted("t3", "c"),
        PushOutcome {
            token: token("d"),
            status: PushDeliveryStatus::Delivered,
        },
        accepted("t3", "again"),
    ];
    let recorded = cx.store.record_accepted(owner(5), &outcomes, at(0)).await;
    assert_eq!(recorded, Ok(2));
    let recorded = cx.store.record_accepted(owner(6), &outcomes, at(9)).await;
    assert_eq!(recorded, Ok(0));
    let all = cx.all().await;
    assert_eq!(names(&all), ["t1", "t3"]);
    let devices: Vec<_> = all.iter().map(|each| each.token.as_str()).collect();
    assert_eq!(devices, ["a", "c"]);
    for each in &all {
        assert_eq!((each.owner_id, each.sent_at), (owner(5), at(0)));
    }

    let none = cx.store.record_accepted(owner(5), &outcomes[..1], at(0));
    assert_eq!(none.await, Ok(0));
    let empty = cx.store.record_accepted(owner(5), &[], at(0)).await;
    assert_eq!(empty, Ok(0));
}

async fn accepted_outcomes_before_a_failure_are_recorded(cx: Arc<ReceiptContext>) {
    let failed = PushError::new(PushErrorKind::Unavailable, "the second request failed");
    let device = |number: usize| format!("device-{number}");
    let mut outcomes: Vec<_> = (0..1_500)
        .map(|number| accepted(&numbered(number), &device(number)))
        .collect();
    for number in 1_500..3_000 {
        let why = PushRejection::Failed(failed.clone());
        outcomes.push(rejected(&device(number), why));
    }
    let recorded = cx.store.record_accepted(owner(5), &outcomes, at(0)).await;
    assert_eq!(recorded, Ok(1_500));
    for (number, each) in cx.all().await.iter().enumerate() {
        assert_eq!(each.ticket.as_str(), numbered(number));
        let expected = DeviceToken::new(device(number)).expect("a token");
        assert!(each.token == expected, "the token of {number}");
    }
}

async fn accepted_outcomes_are_due_one_delay_after_their_send(cx: Arc<ReceiptContext>) {
    let outcomes = [accepted("t1", "a")];
    let recorded = cx.store.record_accepted(owner(5), &outcomes, at(0)).await;
    assert_eq!(recorded, Ok(1));
    let due = at(0) + RECEIPT_POLL_DELAY;
    let just_before = due - duebox_core::chrono::TimeDelta::microseconds(1);
    assert!(cx.take(just_before, just_before).await.is_empty());
    assert_eq!(cx.take(due, due).await.len(), 1);
}

async fn a_call_whose_last_ticket_is_refused_records_nothing(cx: Arc<ReceiptContext>) {
    let size = a_large_call();
    let last = numbered(size - 1);
    cx.sandbox.refuse(Change::Insert, &ticket(&last)).await;
    let refused = cx.store.record(many(size), at(0)).await;
    let error = refused.expect_err("the database refuses the last ticket");
    assert!(!format!("{error}{error:?}").contains(&last));
    assert!(cx.all().await.is_empty());
    let others = vec![owned("a", owner(1))];
    assert_eq!(cx.record(others, at(0)).await, 1, "the store still works");
}
