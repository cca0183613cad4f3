//! The operator's calls: what stands where, and putting it right.

use std::sync::Arc;

use duebox_core::chrono::TimeDelta;
use duebox_core::{
    Claim, DbError, Kind, Lease, LeaseOutcome, ListOptions, OutboxEntry, PARKED, Retry, RowState,
};

use super::chapter;
use crate::Context;
use crate::context::{assert_refused, at, at_micros, ids, numbered};

chapter!(operator:
    an_empty_outbox_counts_nothing,
    each_row_is_counted_once_where_it_stands,
    the_oldest_due_row_is_measured_from_when_it_fell_due,
    rows_can_be_counted_at_any_time,
    a_list_comes_in_pages_in_byte_order_of_id,
    a_list_shows_no_payload_but_its_size,
    a_list_filters_by_state_as_the_counts_do,
    a_list_filters_by_topic_and_age,
    a_row_is_shown_whole_by_its_id,
    parking_a_leased_row_makes_its_holder_lose,
    unparking_begins_anew_and_touches_only_parked_rows,
    releasing_a_leased_row_makes_its_holder_lose,
    deleting_a_leased_row_makes_its_holder_lose,
    ids_that_are_not_there_change_nothing,
    ids_are_told_apart_byte_by_byte,
    each_id_counts_once_among_thousands,
    an_impossible_argument_is_refused_before_any_row_is_touched,
);

/// Two rows each: `due-…`, `waiting-…`, `leased-…`, `lapsed-…`, `parked-…`,
/// all of them at the very edge of their state at `now`.
pub(super) async fn at_the_edges(cx: &Context, now: u64) {
    let before = at_micros(now - 1);
    for id in ["leased-a", "leased-b", "lapsed-a", "lapsed-b"] {
        cx.enqueue(id, &at(0)).await;
    }
    let until = [at_micros(now), at_micros(now + 1)];
    assert_eq!(cx.claim(&before, &until[0], 2).await.len(), 2);
    assert_eq!(cx.claim(&before, &until[1], 2).await.len(), 2);
    cx.enqueue("due-a", &at_micros(now)).await;
    cx.enqueue("due-b", &before).await;
    cx.enqueue("waiting-a", &at_micros(now + 1)).await;
    cx.enqueue("waiting-b", &at(80_000)).await;
    cx.enqueue("parked-a", PARKED).await;
    cx.enqueue("parked-b", &at(0)).await;
    park(cx, "parked-b").await;
}

async fn park(cx: &Context, id: &str) {
    let parked = cx.outbox.park(&*cx.db, &[id], &at(4), "why").await;
    assert_eq!(parked.expect("park"), 1);
}

async fn list(cx: &Context, now: &str, options: &ListOptions) -> Vec<OutboxEntry> {
    cx.outbox
        .list(&*cx.db, now, options)
        .await
        .expect("list rows")
}

fn listed(rows: &[OutboxEntry]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

async fn stays_lost(cx: &Context, lease: &Lease) {
    assert_eq!(cx.complete(lease).await, LeaseOutcome::Lost);
    let retry = Retry {
        lease,
        next_attempt_at: &at(1),
        error: "late",
    };
    let outcome = cx.outbox.retry_claimed(&*cx.db, &at(1), &[retry]).await;
    assert_eq!(outcome.expect("retry"), [LeaseOutcome::Lost]);
}

async fn an_empty_outbox_counts_nothing(cx: Arc<Context>) {
    let stats = cx.outbox.stats(&*cx.db, &at(0)).await.expect("stats");
    let counts = (stats.waiting, stats.due, stats.leased, stats.parked);
    assert_eq!((counts, stats.oldest_due), ((0, 0, 0, 0), None));
    assert_eq!(list(&cx, &at(0), &ListOptions::new()).await, []);
}

async fn each_row_is_counted_once_where_it_stands(cx: Arc<Context>) {
    let now = 10_000_000;
    at_the_edges(&cx, now).await;
    // What holds at each instant around the edges: waiting, due, leased, parked.
    for (micros, expected) in [
        (now - 1, (3, 1, 4, 2)),
        (now, (2, 4, 2, 2)),
        (now + 1, (1, 7, 0, 2)),
    ] {
        let stats = cx.outbox.stats(&*cx.db, &at_micros(micros)).await;
        let stats = stats.expect("stats");
        let counts = (stats.waiting, stats.due, stats.leased, stats.parked);
        assert_eq!(counts, expected, "{micros} µs");
    }
    let due = cx.claim(&at_micros(now), &at(90), u64::MAX).await.len();
    assert_eq!(due, 4, "what counts as due is what a claim takes");
}

async fn the_oldest_due_row_is_measured_from_when_it_fell_due(cx: Arc<Context>) {
    let oldest = async |now: &str| {
        let stats = cx.outbox.stats(&*cx.db, now).await;
        stats.expect("stats").oldest_due
    };
    cx.enqueue("a", &at(10)).await;
    assert_eq!(oldest(&at_micros(9_999_999)).await, None);
    assert_eq!(oldest(&at(10)).await, Some(TimeDelta::zero()));
    assert_eq!(
        oldest(&at_micros(70_000_001)).await,
        Some(TimeDelta::microseconds(60_000_001))
    );
    // Under lease it is not due; when the lease lapses it falls due once more.
    cx.claim_one(&at(70), &at(100)).await;
    assert_eq!(oldest(&at(99)).await, None);
    assert_eq!(oldest(&at(103)).await, Some(TimeDelta::seconds(3)));
    park(&cx, "a").await;
    assert_eq!(oldest(&at(200)).await, None, "what is parked is not due");
}

async fn rows_can_be_counted_at_any_time(cx: Arc<Context>) {
    cx.enqueue("first", "0001-01-01T00:00:00Z").await;
    cx.enqueue("last", "9999-12-31T23:59:59.999998Z").await;
    cx.enqueue("parked", PARKED).await;
    for (now, expected) in [
        ("0001-01-01T00:00:00Z", (1, 1, 1)),
        ("9999-12-31T23:59:59.999997Z", (1, 1, 1)),
        ("9999-12-31T23:59:59.999998Z", (0, 2, 1)),
        (PARKED, (0, 2, 1)),
    ] {
        let stats = cx.outbox.stats(&*cx.db, now).await.expect("stats");
        assert_eq!((stats.waiting, stats.due, stats.parked), expected, "{now}");
        assert!(stats.oldest_due.is_some());
    }
}

async fn a_list_comes_in_pages_in_byte_order_of_id(cx: Arc<Context>) {
    let in_order = ["0", "10", "9", "A", "Z", "_", "a", "aA", "aa", "~"];
    for place in 0..in_order.len() {
        let id = in_order[place * 7 % in_order.len()];
        cx.enqueue(id, &at(100 - place as u64)).await;
    }
    let mut all: Vec<String> = Vec::new();
    for rows in [4, 4, 2, 0] {
        let mut options = ListOptions::new().limit(4);
        if let Some(last) = all.last() {
            options = options.after(last);
        }
        let page = list(&cx, &at(0), &options).await;
        assert_eq!(page.len(), rows);
        all.extend(page.into_iter().map(|row| row.id));
    }
    assert_eq!(all, in_order);
    let everything = ListOptions::new().limit(u64::MAX);
    assert_eq!(listed(&list(&cx, &at(0), &everything).await), in_order);
    let nothing = ListOptions::new().limit(0);
    assert_eq!(list(&cx, &at(0), &nothing).await, []);
    cx.enqueue_numbered(120, &at(0)).await;
    assert_eq!(list(&cx, &at(0), &ListOptions::new()).await.len(), 100);
}

async fn a_list_shows_no_payload_but_its_size(cx: Arc<Context>) {
    let row = cx
        .outbox
        .enqueue_statement("a", "mail", "héllo 😀", Some("ada"), &at(0));
    cx.db.batch_atomic(&[row]).await.expect("enqueue");
    let rows = list(&cx, &at(0), &ListOptions::new()).await;
    assert_eq!(
        (rows[0].payload.as_deref(), rows[0].payload_bytes),
        (None, 11)
    );
    assert_eq!(rows[0].topic, "mail");
    assert_eq!(rows[0].subject.as_deref(), Some("ada"));
}

async fn a_list_filters_by_state_as_the_counts_do(cx: Arc<Context>) {
    let now = 10_000_000;
    at_the_edges(&cx, now).await;
    let now = at_micros(now);
    let expected: [(RowState, &[&str]); 4] = [
        (RowState::Waiting, &["waiting-a", "waiting-b"]),
        (RowState::Due, &["due-a", "due-b", "lapsed-a", "lapsed-b"]),
        (RowState::Leased, &["leased-a", "leased-b"]),
        (RowState::Parked, &["parked-a", "parked-b"]),
    ];
    for (state, expected) in expected {
        let rows = list(&cx, &now, &ListOptions::new().state(state)).await;
        assert_eq!(listed(&rows), expected, "{state:?}");
        assert!(rows.iter().all(|row| row.state(&now) == state));
    }
    let all = list(&cx, &now, &ListOptions::new()).await;
    assert_eq!(all.len(), 10, "every row is in one state");
}

async fn a_list_filters_by_topic_and_age(cx: Arc<Context>) {
    for (place, topic) in (0..).zip(["mail", "MAIL", "mail ", "mail%", "mai_"]) {
        let id = numbered(place);
        let row = cx
            .outbox
            .enqueue_statement(&id, topic, "", None, &at(place as u64));
        cx.db.batch_atomic(&[row]).await.expect("enqueue");
        let rows = list(&cx, &at(0), &ListOptions::new().topic(topic)).await;
        assert_eq!(listed(&rows), [id], "{topic:?} is told apart");
    }
    for (before, rows) in [
        (at(0), 0),
        (at_micros(1), 1),
        (at(2), 2),
        ("2026-03-01T01:00:02.0000010+01:00".to_owned(), 3),
        (at(90), 5),
    ] {
        let options = ListOptions::new().created_before(&before);
        assert_eq!(list(&cx, &at(50), &options).await.len(), rows, "{before}");
    }
    let options = ListOptions::new()
        .topic("mail")
        .state(RowState::Due)
        .created_before(at(1));
    assert_eq!(listed(&list(&cx, &at(50), &options).await), ["r000"]);
    let options = options.after("r000");
    assert_eq!(list(&cx, &at(50), &options).await, []);
}

async fn a_row_is_shown_whole_by_its_id(cx: Arc<Context>) {
    assert_eq!(cx.row("a").await, None);
    let row = cx
        .outbox
        .enqueue_statement("a", "mail", "héllo", Some("ada"), &at(3));
    cx.db.batch_atomic(&[row]).await.expect("enqueue");
    let claim = Claim::new(at(4), at(9)).locked_by("mailer 1");
    cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    let row = cx.entry("a").await;
    assert_eq!((row.id.as_str(), row.topic.as_str()), ("a", "mail"));
    assert_eq!(row.payload.as_deref(), Some("héllo"));
    assert_eq!(row.payload_bytes, 6);
    assert_eq!(row.subject.as_deref(), Some("ada"));
    assert_eq!((row.attempts, row.claims, row.lapses), (0, 1, 0));
    assert_eq!((row.created_at, row.next_attempt_at), (at(3), at(3)));
    assert_eq!(row.locked_until, Some(at(9)));
    assert_eq!(row.locked_by.as_deref(), Some("mailer 1"));
    assert_eq!((row.last_error, row.failed_at), (None, None));
}

async fn parking_a_leased_row_makes_its_holder_lose(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    cx.enqueue("b", &at(1)).await;
    let lease = cx.claim_one(&at(2), &at(60)).await.lease;
    let reason = "by hand\u{0}: ".to_owned() + &"€".repeat(2_000);
    let parked = cx.outbox.park(&*cx.db, &["a", "b"], &at(5), &reason).await;
    assert_eq!(parked.expect("park"), 2);
    stays_lost(&cx, &lease).await;
    for id in ["a", "b"] {
        let row = cx.entry(id).await;
        assert_eq!((row.next_attempt_at.as_str(), row.attempts), (PARKED, 0));
        assert_eq!((row.locked_until, row.locked_by), (None, None));
        assert_eq!(row.failed_at, Some(at(5)));
        let kept = row.last_error.expect("a reason");
        assert!(kept.starts_with("by hand : €") && kept.len() > 4_090);
        assert!(kept.len() <= 4_096, "it is cut");
    }
    assert!(cx.claim(&at(1_000), &at(2_000), 9).await.is_empty());
}

async fn unparking_begins_anew_and_touches_only_parked_rows(cx: Arc<Context>) {
    for (seconds, id) in (0..).zip(["parked", "leased", "due", "waiting"]) {
        cx.enqueue(id, &at(seconds * 5)).await;
    }
    // Two lapses and one failure before it is parked.
    cx.claim_one(&at(0), &at(1)).await;
    cx.claim_one(&at(1), &at(2)).await;
    let lease = [cx.claim_one(&at(2), &at(3)).await.lease];
    let parked = cx.outbox.park_claimed(&*cx.db, &lease, &at(3), "no").await;
    assert_eq!(parked.expect("park"), [LeaseOutcome::Held]);
    let held = cx.claim_one(&at(6), &at(600)).await;
    assert_eq!(held.id, "leased");
    let before = [
        cx.entry("leased").await,
        cx.entry("due").await,
        cx.entry("waiting").await,
    ];
    let all = ["leased", "due", "waiting", "parked"];
    let unparked = cx.outbox.unpark(&*cx.db, &all, &at(12)).await;
    assert_eq!(unparked.expect("unpark"), 1);
    let row = cx.entry("parked").await;
    assert_eq!((row.attempts, row.lapses), (0, 0));
    assert_eq!(row.next_attempt_at, at(12));
    for row in before {
        assert_eq!(cx.entry(&row.id).await, row);
    }
    assert_eq!(
        ids(&cx.claim(&at_micros(11_999_999), &at(99), 9).await),
        ["due"]
    );
    let record = cx.claim_one(&at(12), &at(99)).await;
    assert_eq!(record.id, "parked");
    assert_eq!((record.attempts, record.claims, record.lapses), (0, 4, 0));
    assert_eq!(cx.complete(&held.lease).await, LeaseOutcome::Held);
    let again = cx.outbox.unpark(&*cx.db, &["parked"], &at(13)).await;
    assert_eq!(again.expect("unpark"), 0);
}

async fn releasing_a_leased_row_makes_its_holder_lose(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    cx.enqueue("lapsed", &at(1)).await;
    cx.enqueue("waiting", &at(800)).await;
    cx.enqueue("parked", PARKED).await;
    let leases = [
        cx.claim_one(&at(2), &at(600)).await.lease,
        cx.claim_one(&at(2), &at(3)).await.lease,
    ];
    let all = ["a", "lapsed", "waiting", "parked"];
    let released = cx.outbox.release(&*cx.db, &all).await;
    assert_eq!(released.expect("release"), 2, "only what is under lease");
    for lease in &leases {
        stays_lost(&cx, lease).await;
    }
    let row = cx.entry("a").await;
    assert_eq!((row.locked_until, row.locked_by), (None, None));
    assert_eq!((row.attempts, row.last_error), (0, None));
    let got = cx.claim(&at(4), &at(60), 9).await;
    assert_eq!(ids(&got), ["a", "lapsed"], "both are due at once");
    assert!(got.iter().all(|record| record.claims == 2));
}

async fn deleting_a_leased_row_makes_its_holder_lose(cx: Arc<Context>) {
    for id in ["a", "b", "c", "d"] {
        cx.enqueue(id, &at(0)).await;
    }
    park(&cx, "b").await;
    let lease = cx.claim_one(&at(2), &at(600)).await.lease;
    let deleted = cx.outbox.delete(&*cx.db, &["a", "b", "c"]).await;
    assert_eq!(deleted.expect("delete"), 3);
    stays_lost(&cx, &lease).await;
    assert_eq!(cx.row("a").await, None);
    assert_eq!(cx.count().await, 1);
    assert_eq!(ids(&cx.claim(&at(1_000), &at(2_000), 9).await), ["d"]);
}

async fn ids_that_are_not_there_change_nothing(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let before = cx.entry("a").await;
    let (db, outbox, now) = (&*cx.db, &cx.outbox, at(1));
    for ids in [&[][..], &["b"], &["b", "c", "A"]] {
        assert_eq!(outbox.park(db, ids, &now, "why").await.expect("park"), 0);
        assert_eq!(outbox.unpark(db, ids, &now).await.expect("unpark"), 0);
        assert_eq!(outbox.release(db, ids).await.expect("release"), 0);
        assert_eq!(outbox.delete(db, ids).await.expect("delete"), 0);
    }
    assert_eq!(cx.entry("a").await, before);
    assert_eq!(cx.count().await, 1);
    let parked = outbox.park(db, &["b", "a", "c"], &now, "why").await;
    assert_eq!(parked.expect("park"), 1);
    let deleted = outbox.delete(db, &["b", "a", "c"]).await;
    assert_eq!(deleted.expect("delete"), 1);
}

async fn ids_are_told_apart_byte_by_byte(cx: Arc<Context>) {
    let all = [
        "ab", "AB", "aB", "Ab", "a", "b", "a%", "a_", "%", "ab.", "ab'",
    ];
    for id in all {
        cx.enqueue(id, &at(0)).await;
    }
    let (db, outbox) = (&*cx.db, &cx.outbox);
    for (left, id) in (0..all.len()).rev().zip(all) {
        assert_eq!(outbox.park(db, &[id], &at(1), "x").await.expect("park"), 1);
        assert_eq!(outbox.unpark(db, &[id], &at(1)).await.expect("unpark"), 1);
        assert_eq!(cx.entry(id).await.payload.as_deref(), Some(id));
        assert_eq!(outbox.delete(db, &[id]).await.expect("delete"), 1);
        assert_eq!(usize::try_from(cx.count().await), Ok(left));
    }
}

async fn each_id_counts_once_among_thousands(cx: Arc<Context>) {
    const ROWS: usize = 2_500;
    cx.enqueue_each((0..ROWS).map(|number| (format!("r{number:04}"), at(0))))
        .await;
    // Each twice, far apart, and as many that are not there.
    let named: Vec<String> = (0..2 * ROWS)
        .chain(0..ROWS)
        .map(|number| format!("r{number:04}"))
        .collect();
    let named: Vec<&str> = named.iter().map(String::as_str).collect();
    let (db, outbox, rows) = (&*cx.db, &cx.outbox, ROWS as u64);
    let parked = outbox.park(db, &named, &at(1), "why").await;
    assert_eq!(parked.expect("park"), rows);
    let unparked = outbox.unpark(db, &named, &at(1)).await;
    assert_eq!(unparked.expect("unpark"), rows);
    assert_eq!(cx.claim(&at(2), &at(60), u64::MAX).await.len(), ROWS);
    let released = outbox.release(db, &named).await;
    assert_eq!(released.expect("release"), rows);
    let deleted = outbox.delete(db, &named).await;
    assert_eq!(deleted.expect("delete"), rows);
    assert_eq!(cx.count().await, 0);
}

async fn an_impossible_argument_is_refused_before_any_row_is_touched(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    cx.claim_one(&at(1), &at(60)).await;
    let before = cx.entry("a").await;
    let refused = |answer: Result<u64, DbError>| assert_refused(answer, Kind::InvalidArgument);
    let (db, outbox, now) = (&*cx.db, &cx.outbox, at(2));
    for impossible in ["", " ", "a b", "é", "a\0", &"x".repeat(65)] {
        let ids = ["a", impossible];
        refused(outbox.park(db, &ids, &now, "why").await);
        refused(outbox.unpark(db, &ids, &now).await);
        refused(outbox.release(db, &ids).await);
        refused(outbox.delete(db, &ids).await);
        assert_refused(outbox.get(db, impossible).await, Kind::InvalidArgument);
    }
    for time in ["", "now", "2026-02-30T00:00:00Z", "2026-03-01T00:00:00"] {
        refused(outbox.park(db, &["a"], time, "why").await);
        refused(outbox.unpark(db, &["a"], time).await);
        assert_refused(outbox.stats(db, time).await, Kind::InvalidArgument);
        let all = ListOptions::new();
        assert_refused(outbox.list(db, time, &all).await, Kind::InvalidArgument);
        let since = ListOptions::new().created_before(time);
        assert_refused(outbox.list(db, &now, &since).await, Kind::InvalidArgument);
    }
    assert_eq!(cx.entry("a").await, before);
}
