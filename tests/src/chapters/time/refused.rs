//! What is no time, in every place that takes one.

use std::sync::Arc;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{DbError, Enqueue, Kind, Lease, ListOptions, Outbox, Retry};

use crate::Context;
use crate::context::{assert_refused, at};

/// No time in RFC 3339, or none of the years 1 to 9999 in UTC.
const BAD: [&str; 36] = [
    "",
    " ",
    "now",
    "2026",
    "2026-01-15",
    "2026-01-15T17:30Z",
    "2026-01-15T17:30:00",
    "2026-01-15 17:30:00Z",
    "2026-01-15T17:30:00 Z",
    " 2026-01-15T17:30:00Z",
    "2026-01-15T17:30:00Z ",
    "2026-01-15T17:30:00Z\0",
    "2026-01-15T17:30:00.Z",
    "2026-01-15T17:30:00,5Z",
    "2026-01-15T17:30:00.5.5Z",
    "2026-01-15T17:30:00+05",
    "2026-01-15T17:30:00+0530",
    "2026-01-15T17:30:00+05:3",
    "2026-01-15T17:30:00+24:00",
    "2026-01-15T17:30:00+05:60",
    "2026-01-15T17:30:00UTC",
    "2026-01-15T17:30:00ZZ",
    "2026-02-30T00:00:00Z",
    "2025-02-29T00:00:00Z",
    "2026-13-01T00:00:00Z",
    "2026-00-01T00:00:00Z",
    "2026-01-15T24:00:00Z",
    "2026-01-15T17:60:00Z",
    "2026-01-15T17:30:61Z",
    "2026-1-5T17:30:00Z",
    "２026-01-15T17:30:00Z",
    "0000-12-31T23:59:59Z",
    "0001-01-01T00:00:00+00:01",
    "-0001-01-01T00:00:00Z",
    "10000-01-01T00:00:00Z",
    "9999-12-31T23:59:59-00:01",
];

pub(super) async fn what_is_no_time_stops_a_batch_before_it_runs(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    for time in BAD {
        let retry = |next_attempt_at| Retry {
            lease: &lease,
            next_attempt_at,
            error: "no",
        };
        let outbox = &cx.outbox;
        for statement in [
            outbox.enqueue_statement("b", "t", "p", None, time),
            outbox.enqueue_once_statement("b", "t", "p", None, time),
            outbox.retry_statement(&at(1), retry(time)),
            outbox.retry_statement(time, retry(&at(2))),
        ] {
            cx.refuses(statement, Kind::InvalidArgument, time).await;
        }
    }
    let row = cx.entry("a").await;
    assert_eq!((row.claims, row.attempts), (1, 0));
    assert_eq!(cx.count().await, 1);
}

pub(super) async fn no_call_takes_what_is_no_time(cx: Arc<Context>) {
    // If a call asked the database it would miss the table.
    let outbox = Outbox::new("nowhere");
    let db = &*cx.db;
    let good = at(1);
    let leases = [Lease::new("a", 1, at(0))];
    for time in BAD {
        let mut answers = vec![
            outbox.claim_due(db, time, &good, 1).await.map(drop),
            outbox.claim_due(db, &good, time, 1).await.map(drop),
            outbox.retry_later(db, "a", time).await,
            outbox.reschedule_claimed(db, &leases, time).await.map(drop),
            outbox.release_claimed(db, &leases, time).await.map(drop),
            outbox.extend_claimed(db, &leases, time).await.map(drop),
            outbox.park_claimed(db, &leases, time, "no").await.map(drop),
            outbox.stats(db, time).await.map(drop),
            outbox.list(db, time, &ListOptions::new()).await.map(drop),
            outbox
                .list(db, &good, &ListOptions::new().created_before(time))
                .await
                .map(drop),
            outbox.park(db, &["a"], time, "no").await.map(drop),
            outbox.unpark(db, &["a"], time).await.map(drop),
        ];
        for (now, next_attempt_at) in [(time, &*good), (&*good, time)] {
            let retry = Retry {
                lease: &leases[0],
                next_attempt_at,
                error: "no",
            };
            answers.push(outbox.retry_claimed(db, now, &[retry]).await.map(drop));
        }
        for (call, answer) in answers.into_iter().enumerate() {
            let error = answer.as_ref().expect_err(time);
            assert!(!error.to_string().is_empty(), "call {call}");
            assert_refused(answer, Kind::InvalidArgument);
        }
    }
}

pub(super) async fn a_year_beyond_9999_is_refused_and_makes_nothing_due(cx: Arc<Context>) {
    cx.enqueue("a", &at(100)).await;
    let before = cx.entry("a").await;
    let furthest = DateTime::<Utc>::MAX_UTC.to_rfc3339();
    let earliest = DateTime::<Utc>::MIN_UTC.to_rfc3339();
    for time in [
        "+10000-01-01T00:00:00Z",
        "10000-01-01T00:00:00Z",
        "9999-12-31T23:59:60Z",
        "9999-12-31T23:59:59.999999-23:59",
        &furthest,
        &earliest,
    ] {
        let answer: Result<(), DbError> = cx.outbox.retry_later(&*cx.db, "a", time).await;
        // A leap second is the last microsecond before it.
        if time.ends_with(":60Z") {
            answer.expect("the last instant");
            assert_eq!(cx.entry("a").await.next_attempt_at, duebox_core::PARKED);
            let back = cx.outbox.unpark(&*cx.db, &["a"], &at(100)).await;
            assert_eq!(back.expect("unpark"), 1);
            continue;
        }
        assert_refused(answer, Kind::InvalidArgument);
        assert_eq!(cx.entry("a").await.next_attempt_at, before.next_attempt_at);
    }
    for time in [DateTime::<Utc>::MAX_UTC, DateTime::<Utc>::MIN_UTC] {
        let work = Enqueue::new("t").id("b").at(time);
        cx.refuses(cx.outbox.enqueue(work), Kind::InvalidArgument, "a year")
            .await;
    }
    assert!(cx.claim(&at(99), &at(200), 9).await.is_empty());
    assert_eq!(cx.count().await, 1);
}
