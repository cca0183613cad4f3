//! Whose clock counts: that of the caller, and no other.

use std::sync::Arc;

use duebox_core::{
    Claim, Dialect, Enqueue, LeaseOutcome, ListOptions, Outbox, Retry, RowState, Statement,
    parse_time,
};

use crate::Context;
use crate::context::{at, ids};
use crate::recording::Recording;

pub(super) async fn only_the_now_of_the_call_counts(cx: Arc<Context>) {
    // Far behind and far ahead of the clock of any server.
    for year in ["0051", "1969", "2000", "2500", "9000"] {
        let time = |rest: &str| format!("{year}-{rest}");
        let (noon, one, two) = (
            time("07-01T12:00:00.000000Z"),
            time("07-01T13:00:00.000000Z"),
            time("07-01T14:00:00.000000Z"),
        );
        cx.enqueue("a", &noon).await;
        let before = time("07-01T11:59:59.999999Z");
        assert!(cx.claim(&before, &one, 1).await.is_empty(), "{year}");
        let lease = cx.claim_one(&noon, &one).await.lease;
        let before = time("07-01T12:59:59.999999Z");
        assert!(cx.claim(&before, &two, 1).await.is_empty(), "{year}");
        let stats = cx.outbox.stats(&*cx.db, &noon).await.expect("stats");
        assert_eq!((stats.due, stats.leased), (0, 1), "{year}");
        let stats = cx.outbox.stats(&*cx.db, &one).await.expect("stats");
        assert_eq!((stats.due, stats.leased), (1, 0), "{year}");

        let retry = Retry {
            lease: &lease,
            next_attempt_at: &two,
            error: "no",
        };
        let outcome = cx.outbox.retry_claimed(&*cx.db, &one, &[retry]).await;
        assert_eq!(outcome.expect("retry"), [LeaseOutcome::Held]);
        let row = cx.entry("a").await;
        assert_eq!(row.created_at, noon);
        assert_eq!(row.failed_at.as_deref(), Some(&*one));
        assert_eq!(row.state(&one), RowState::Waiting);
        assert_eq!(row.state(&two), RowState::Due);
        cx.outbox.complete(&*cx.db, "a").await.expect("complete");
    }
}

/// How the engines are asked for the time, in lower case.
const CLOCKS: [&str; 23] = [
    "now(",
    "'now'",
    "current_timestamp",
    "current_time",
    "current_date",
    "curdate",
    "curtime",
    "localtime",
    "sysdate",
    "utc_date",
    "utc_time",
    "unix_timestamp",
    "clock_timestamp",
    "statement_timestamp",
    "transaction_timestamp",
    "timeofday",
    "datetime",
    "date(",
    "time(",
    "strftime",
    "julianday",
    "unixepoch",
    "interval",
];

pub(super) async fn no_statement_asks_the_server_for_the_time(cx: Arc<Context>) {
    let db = Recording::new(Arc::clone(&cx.db));
    let outbox = &cx.outbox;
    let work = |id: &str| {
        let time = parse_time(&at(0)).expect("a time");
        Enqueue::new("t").id(id).subject("s").at(time)
    };
    let mut own = vec![
        outbox.enqueue(work("a")),
        outbox.enqueue_once(work("a")),
        outbox.enqueue_statement("b", "t", "p", None, &at(0)),
        outbox.enqueue_once_statement("b", "t", "p", None, &at(0)),
        outbox.enqueue_many_statement([work("c"), work("d"), work("e"), work("f")]),
        outbox.erase_subject_statement("nobody"),
    ];
    cx.batch(&own).await.expect("enqueue");

    let claim = Claim::new(at(0), at(60)).limit(9).locked_by("me");
    let records = outbox.claim(&db, &claim).await.expect("claim");
    let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
    assert_eq!(leases.len(), 6);
    let retry = |lease, next_attempt_at| Retry {
        lease,
        next_attempt_at,
        error: "no",
    };
    let (one, two) = (at(1), at(2));
    own.push(outbox.complete_statement(&leases[0]));
    own.push(outbox.retry_statement(&one, retry(&leases[0], &two)));
    let (a, b) = (retry(&leases[0], &one), retry(&leases[1], &two));
    let held = [
        outbox.extend_claimed(&db, &leases, &at(70)).await,
        outbox.retry_claimed(&db, &at(1), &[a, b]).await,
        outbox.reschedule_claimed(&db, &leases[2..3], &at(1)).await,
        outbox.release_claimed(&db, &leases[3..4], &at(1)).await,
        outbox.park_claimed(&db, &leases[4..5], &at(1), "no").await,
        outbox.complete_claimed(&db, &leases[5..]).await,
    ];
    for outcomes in held {
        let outcomes = outcomes.expect("a fenced call");
        assert!(outcomes.into_iter().all(LeaseOutcome::is_held));
    }
    outbox.retry_later(&db, "a", &at(1)).await.expect("retry");
    outbox.stats(&db, &at(1)).await.expect("stats");
    for state in [
        RowState::Waiting,
        RowState::Due,
        RowState::Leased,
        RowState::Parked,
    ] {
        let options = ListOptions::new().state(state).topic("t");
        outbox.list(&db, &at(1), &options).await.expect("list");
    }
    outbox.get(&db, "a").await.expect("get");
    outbox.park(&db, &["a"], &at(1), "no").await.expect("park");
    outbox.unpark(&db, &["a"], &at(1)).await.expect("unpark");
    outbox.release(&db, &["a"]).await.expect("release");
    outbox
        .export_subject(&db, "s", None, 9)
        .await
        .expect("export");
    outbox.erase_subject(&db, "s", 9).await.expect("erase");
    outbox.complete(&db, "a").await.expect("complete");
    outbox.delete(&db, &["b"]).await.expect("delete");

    own.push(Statement::new(outbox.create_table_sql()));
    own.extend(db.take());
    assert!(own.len() > 25, "the calls were recorded");
    for statement in own {
        let rendered = statement.render(cx.dialect()).expect("a text");
        let sql = rendered.sql().to_lowercase();
        for clock in CLOCKS {
            assert!(!sql.contains(clock), "{clock} in {sql}");
        }
    }
}

pub(super) async fn settings_of_a_session_move_no_time(cx: Arc<Context>) {
    let settings: [&[&str]; 3] = match cx.dialect() {
        Dialect::Postgres => [
            &["SET TIME ZONE 'UTC'"],
            &["SET TIME ZONE INTERVAL '-08:00' HOUR TO MINUTE"],
            &[
                "SET TIME ZONE INTERVAL '+14:00' HOUR TO MINUTE",
                "SET DATESTYLE = 'SQL, DMY'",
            ],
        ],
        Dialect::MySql => [
            &["SET time_zone = '+00:00'"],
            &["SET time_zone = '-08:00'", "SET sql_mode = ''"],
            &["SET time_zone = '+14:00'"],
        ],
        _ => [&[], &[], &[]],
    };
    let times = [
        "2026-03-01T00:00:00Z",
        "2026-03-01T14:00:00+14:00",
        "2026-02-28T16:00:00-08:00",
    ];
    let mut handles = Vec::new();
    for settings in settings {
        let handle = cx.sandbox.another().await;
        for sql in settings {
            // As many times as reaches each connection; an adapter that keeps
            // such a setting for itself may refuse.
            for _ in 0..8 {
                let _ = handle.execute(&Statement::new(*sql)).await;
            }
        }
        handles.push(handle);
    }
    for (writer, time) in times.into_iter().enumerate() {
        for (reader, handle) in handles.iter().enumerate() {
            let enqueue = cx.outbox.enqueue_statement("a", "t", "p", None, time);
            handles[writer]
                .batch_atomic(&[enqueue])
                .await
                .expect("enqueue");
            let claim =
                |now: &'static str| cx.outbox.claim_due(handle, now, "2026-03-01T01:00:00Z", 1);
            let early = claim("2026-02-28T23:59:59.999999Z").await.expect("claim");
            assert!(early.is_empty(), "{writer} {reader}");
            let due = claim("2026-03-01T00:00:00Z").await.expect("claim");
            assert_eq!(ids(&due), ["a"], "{writer} {reader}");
            let row = cx.entry("a").await;
            assert_eq!(row.created_at, at(0));
            assert_eq!(row.locked_until, Some(at(3_600)));
            cx.complete(&due[0].lease).await;
        }
    }
}

pub(super) async fn the_hours_of_a_clock_change_are_instants_like_others(cx: Arc<Context>) {
    // In central Europe 02:00 to 03:00 of 2026-03-29 is left out, and of
    // 2026-10-25 comes twice; in New York it is so on other days.
    let times = [
        "2026-03-08T02:30:00.000000Z",
        "2026-03-08T07:30:00.000000Z",
        "2026-03-29T00:59:59.999999Z",
        "2026-03-29T01:00:00.000000Z",
        "2026-03-29T02:30:00.000000Z",
        "2026-10-25T00:30:00.000000Z",
        "2026-10-25T01:30:00.000000Z",
        "2026-10-25T02:30:00.000000Z",
        "2026-11-01T05:30:00.000000Z",
        "2026-11-01T06:30:00.000000Z",
    ];
    for (number, time) in times.iter().enumerate().rev() {
        cx.enqueue(&format!("r{number}"), time).await;
    }
    for (number, time) in times.iter().enumerate() {
        let due = cx.claim(time, "2027-01-01T00:00:00Z", 9).await;
        assert_eq!(ids(&due), [format!("r{number}")]);
        assert_eq!(due[0].created_at, *time);
    }
}

pub(super) async fn clocks_that_differ_cost_a_delivery_and_lose_none(cx: Arc<Context>) {
    // Two drainers with leases of 60 s, the second five minutes ahead.
    cx.enqueue("a", &at(0)).await;
    let slow = cx.claim_one(&at(0), &at(60)).await;
    let fast = cx.claim_one(&at(310), &at(370)).await;
    assert_eq!(fast.claims, 2, "it comes again");
    assert_eq!(cx.complete(&slow.lease).await, LeaseOutcome::Lost);
    // The slow one waits for the lease of the fast one, by its own clock.
    assert!(cx.claim(&at(120), &at(180), 1).await.is_empty());
    assert!(cx.claim(&at(369), &at(429), 1).await.is_empty());
    let slow = cx.claim_one(&at(370), &at(430)).await;
    assert_eq!(slow.claims, 3);
    assert_eq!(cx.complete(&fast.lease).await, LeaseOutcome::Lost);
    assert_eq!(cx.complete(&slow.lease).await, LeaseOutcome::Held);
    assert_eq!(cx.count().await, 0);

    let other = Outbox::new("other");
    cx.make(&other).await;
    // A producer that is ahead delays its own row and loses none.
    let ahead = other.enqueue_statement("b", "t", "p", None, &at(300));
    cx.batch(&[ahead]).await.expect("enqueue");
    let early = other.claim_due(&*cx.db, &at(10), &at(70), 1).await;
    assert!(early.expect("claim").is_empty());
    let due = other.claim_due(&*cx.db, &at(300), &at(360), 1).await;
    assert_eq!(due.expect("claim").len(), 1);
}
