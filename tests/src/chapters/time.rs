//! Times: every spelling of an instant is that instant, and `now` alone counts.

use std::sync::Arc;

use duebox_core::{Kind, LeaseOutcome, PARKED, Retry, RowState};

use super::chapter;
use crate::Context;
use crate::context::{assert_refused, at, at_micros, ids};

mod clocks;
mod refused;

use clocks::{
    clocks_that_differ_cost_a_delivery_and_lose_none, no_statement_asks_the_server_for_the_time,
    only_the_now_of_the_call_counts, settings_of_a_session_move_no_time,
    the_hours_of_a_clock_change_are_instants_like_others,
};
use refused::{
    a_year_beyond_9999_is_refused_and_makes_nothing_due, no_call_takes_what_is_no_time,
    what_is_no_time_stops_a_batch_before_it_runs,
};

chapter!(time:
    every_spelling_of_an_instant_is_stored_alike,
    rows_are_due_and_ordered_by_instant,
    an_offset_is_applied,
    a_lease_is_compared_by_instant_too,
    the_time_of_day_counts,
    what_is_below_a_microsecond_is_floored,
    the_first_and_the_last_instant_are_kept,
    what_is_no_time_stops_a_batch_before_it_runs,
    no_call_takes_what_is_no_time,
    a_year_beyond_9999_is_refused_and_makes_nothing_due,
    only_the_now_of_the_call_counts,
    no_statement_asks_the_server_for_the_time,
    settings_of_a_session_move_no_time,
    the_hours_of_a_clock_change_are_instants_like_others,
    clocks_that_differ_cost_a_delivery_and_lose_none,
);

/// One instant.
const SPELLINGS: [&str; 12] = [
    "2026-01-15T17:30:00.5Z",
    "2026-01-15T17:30:00.500000Z",
    "2026-01-15t17:30:00.50z",
    "2026-01-15T17:30:00.5+00:00",
    "2026-01-15T17:30:00.5-00:00",
    "2026-01-15T23:00:00.5+05:30",
    "2026-01-15T09:30:00.5-08:00",
    "2026-01-16T17:29:00.500+23:59",
    "2026-01-14T17:31:00.500-23:59",
    "2026-01-15T17:30:00.500000000Z",
    "2026-01-15T17:30:00.5000000000000Z",
    "2026-01-15T17:30:00.5000009999999Z",
];
const STORED: &str = "2026-01-15T17:30:00.500000Z";

async fn every_spelling_of_an_instant_is_stored_alike(cx: Arc<Context>) {
    for (number, time) in SPELLINGS.into_iter().enumerate() {
        let id = format!("r{number}");
        cx.enqueue(&id, time).await;
        let row = cx.entry(&id).await;
        assert_eq!(row.created_at, STORED, "{time}");
        assert_eq!(row.next_attempt_at, STORED, "{time}");

        cx.outbox
            .retry_later(&*cx.db, &id, time)
            .await
            .expect("retry");
        assert_eq!(cx.entry(&id).await.next_attempt_at, STORED, "{time}");
        assert_eq!(cx.claim(time, &at(0), 1).await.len(), 1, "{time}");
        cx.outbox.complete(&*cx.db, &id).await.expect("complete");
    }
    cx.enqueue("a", "2026-01-01T00:00:00Z").await;
    for time in SPELLINGS {
        let lease = [cx.claim_one("2026-01-02T00:00:00Z", time).await.lease];
        assert_eq!(cx.entry("a").await.locked_until.as_deref(), Some(STORED));
        let retry = Retry {
            lease: &lease[0],
            next_attempt_at: time,
            error: "no",
        };
        let outcome = cx.outbox.retry_claimed(&*cx.db, time, &[retry]).await;
        assert_eq!(outcome.expect("retry"), [LeaseOutcome::Held]);
        let row = cx.entry("a").await;
        assert_eq!(row.next_attempt_at, STORED, "{time}");
        assert_eq!(row.failed_at.as_deref(), Some(STORED), "{time}");

        let lease = [cx.claim_one(time, "2026-01-16T00:00:00Z").await.lease];
        cx.outbox
            .extend_claimed(&*cx.db, &lease, "2026-01-17T00:00:00Z")
            .await
            .expect("extend");
        let outcome = cx
            .outbox
            .release_claimed(&*cx.db, &lease, "2026-01-01T00:00:00Z")
            .await;
        assert_eq!(outcome.expect("release"), [LeaseOutcome::Held]);
    }
}

async fn rows_are_due_and_ordered_by_instant(cx: Arc<Context>) {
    // The ids run against the instants; two instants are one microsecond.
    for (id, time) in [
        ("c2", "2026-01-15T17:30:00.500Z"),
        ("e", "2026-01-15T17:30:00Z"),
        ("a", "2026-01-15T17:30:01Z"),
        ("c1", "2026-01-15T17:30:00.50000001Z"),
        ("b", "2026-01-15T19:30:00.75+02:00"),
        ("c3", "2026-01-15T17:30:00.5Z"),
        ("d", "2026-01-15T17:30:00.000001Z"),
    ] {
        cx.enqueue(id, time).await;
    }
    let all = ["e", "d", "c1", "c2", "c3", "b", "a"];
    for (now, due) in [
        ("2026-01-15T17:29:59.999999Z", 0),
        ("2026-01-15T17:30:00Z", 1),
        ("2026-01-15T17:30:00.0Z", 1),
        ("2026-01-15T18:30:00+01:00", 1),
        ("2026-01-15T17:30:00.0000009Z", 1),
        ("2026-01-15T17:30:00.000001Z", 2),
        ("2026-01-15T17:30:00.499999999Z", 2),
        ("2026-01-15T17:30:00.5Z", 5),
        ("2026-01-15T17:30:00.50000001Z", 5),
        ("2026-01-15T17:30:00.500Z", 5),
        ("2026-01-15T17:30:00.75Z", 6),
        ("2026-01-15t17:30:01z", 7),
        ("2026-01-15T09:30:01-08:00", 7),
    ] {
        let records = cx.claim(now, "2027-01-01T00:00:00Z", 99).await;
        assert_eq!(ids(&records), all[..due], "{now}");
        cx.outbox.release(&*cx.db, &all).await.expect("release");
    }
}

async fn an_offset_is_applied(cx: Arc<Context>) {
    cx.enqueue("east", "2026-01-15T23:00:00+05:30").await;
    cx.enqueue("west", "2026-01-15T10:00:00-08:00").await;
    let until = "2026-01-16T00:00:00Z";
    let none = cx.claim("2026-01-15T17:29:59.999999Z", until, 9).await;
    assert!(none.is_empty());
    let due = cx.claim("2026-01-15T17:30:01Z", until, 9).await;
    assert_eq!(ids(&due), ["east"]);
    let none = cx.claim("2026-01-15T17:59:59Z", until, 9).await;
    assert!(none.is_empty());
    let due = cx.claim("2026-01-15T18:00:00Z", until, 9).await;
    assert_eq!(ids(&due), ["west"]);
    assert_eq!(due[0].created_at, "2026-01-15T18:00:00.000000Z");
}

async fn a_lease_is_compared_by_instant_too(cx: Arc<Context>) {
    cx.enqueue("a", "2026-01-15T00:00:00Z").await;
    // As text this end comes before that now.
    let record = cx
        .claim_one("2026-01-15T12:00:00Z", "2026-01-15T05:00:00-08:00")
        .await;
    assert_eq!(
        cx.entry("a").await.locked_until.as_deref(),
        Some("2026-01-15T13:00:00.000000Z")
    );
    let until = "2026-01-16T00:00:00Z";
    let none = cx.claim("2026-01-15T18:29:59.9+05:30", until, 1).await;
    assert!(none.is_empty());
    let again = cx.claim_one("2026-01-15T18:30:00+05:30", until).await;
    assert_eq!(again.claims, 2);
    assert_eq!(cx.complete(&record.lease).await, LeaseOutcome::Lost);
    // And this one ends after it as text, but not as an instant.
    let answer = cx
        .outbox
        .claim_due(
            &*cx.db,
            "2026-01-16T00:00:00Z",
            "2026-01-16T05:00:00+05:30",
            1,
        )
        .await;
    assert_refused(answer, Kind::InvalidArgument);
}

async fn the_time_of_day_counts(cx: Arc<Context>) {
    cx.enqueue("a", "2026-03-01T12:00:00Z").await;
    let lease = cx
        .claim_one("2026-03-01T12:00:00Z", "2026-03-01T13:00:00Z")
        .await
        .lease;
    let minute_later = cx
        .claim("2026-03-01T12:01:00Z", "2026-03-01T14:00:00Z", 1)
        .await;
    assert!(minute_later.is_empty());
    let answer = cx
        .outbox
        .release_claimed(&*cx.db, &[lease], "2026-03-01T12:01:00Z")
        .await;
    assert_eq!(answer.expect("release"), [LeaseOutcome::Held]);
    cx.claim_one("2026-03-01T12:01:00Z", "2026-03-01T12:01:02Z")
        .await;
    let record = cx
        .claim_one("2026-03-01T12:01:03Z", "2026-03-01T12:02:00Z")
        .await;
    assert_eq!(record.claims, 3);
}

async fn what_is_below_a_microsecond_is_floored(cx: Arc<Context>) {
    cx.enqueue("a", "2022-12-31T23:59:59.6000009Z").await;
    cx.enqueue("b", "2022-12-31T23:59:59.999999999Z").await;
    assert_eq!(
        cx.entry("a").await.created_at,
        "2022-12-31T23:59:59.600000Z"
    );
    let b = cx.entry("b").await;
    assert_eq!(b.next_attempt_at, "2022-12-31T23:59:59.999999Z");
    let until = "2022-12-31T23:59:59.9999989Z";
    let due = cx.claim("2022-12-31T23:59:59.600000Z", until, 9).await;
    assert_eq!(ids(&due), ["a"]);
    assert_eq!(
        cx.entry("a").await.locked_until.as_deref(),
        Some("2022-12-31T23:59:59.999998Z")
    );
    // The now is floored, so it is not yet the instant at which `b` is due.
    let until = "2023-01-01T00:00:00Z";
    let due = cx.claim("2022-12-31T23:59:59.9999989Z", until, 9).await;
    assert_eq!(ids(&due), ["a"]);
    let due = cx.claim("2022-12-31T23:59:59.9999999Z", until, 9).await;
    assert_eq!(ids(&due), ["b"]);
    // A lease that ends within the microsecond in which it begins is none.
    let answer = cx
        .outbox
        .claim_due(
            &*cx.db,
            "2023-01-01T00:00:00.000001Z",
            "2023-01-01T00:00:00.0000019Z",
            1,
        )
        .await;
    assert_refused(answer, Kind::InvalidArgument);
}

async fn the_first_and_the_last_instant_are_kept(cx: Arc<Context>) {
    const FIRST: &str = "0001-01-01T00:00:00.000000Z";
    const LAST: &str = "9999-12-31T23:59:59.999998Z";
    cx.enqueue("first", "0001-01-01T00:00:00Z").await;
    cx.enqueue("last", LAST).await;
    cx.enqueue("parked", "9999-12-31T23:59:59.9999999Z").await;
    cx.enqueue("now", &at(0)).await;
    assert_eq!(cx.entry("first").await.next_attempt_at, FIRST);
    let last = cx.entry("last").await;
    assert_eq!(last.next_attempt_at, LAST);
    assert_eq!(last.state(&at(0)), RowState::Waiting);
    let parked = cx.entry("parked").await;
    assert_eq!(parked.next_attempt_at, PARKED);
    assert_eq!(parked.state(&at(0)), RowState::Parked);

    assert_eq!(ids(&cx.claim(FIRST, &at(0), 9).await), ["first"]);
    assert_eq!(
        ids(&cx.claim(&at(0), &at(1), 9).await),
        ["first", "now"],
        "a lease that ends now is over"
    );
    assert!(cx.claim(&at_micros(999_999), LAST, 9).await.is_empty());
    assert_eq!(
        ids(&cx.claim(LAST, PARKED, 9).await),
        ["first", "now", "last"]
    );
    assert!(cx.claim(LAST, PARKED, 9).await.is_empty());
}
