//! Rows that kill, stall or overflow: none of them stops another.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duebox_core::{Dialect, LeaseOutcome, OutboxRecord, PARKED, Retry, Statement};

use super::chapter;
use crate::context::{at, ids, numbered};
use crate::{Context, Schema};

chapter!(poison:
    rows_that_kill_their_holder_move_behind_those_that_do_not,
    a_row_retried_at_now_does_not_come_first_again,
    a_row_retried_in_the_past_comes_first_and_stops_no_other,
    no_counter_overflows,
    a_row_whose_claims_are_at_their_end_can_still_be_fenced,
    a_row_of_the_wrong_types_does_not_stop_those_behind_it,
    rows_that_a_stranger_wrote_are_handed_out,
    the_oldest_due_come_first_under_a_load_that_is_too_much,
);

async fn rows_that_kill_their_holder_move_behind_those_that_do_not(cx: Arc<Context>) {
    const LEASE: u64 = 60;
    for number in 0..10 {
        cx.enqueue(&format!("killer-{number}"), &at(0)).await;
    }
    cx.enqueue_numbered(100, &at(1)).await;
    let mut delivered = BTreeSet::new();
    let mut kills = 0;
    for period in 0..12 {
        let now = 1 + period * LEASE;
        let batch = cx.claim(&at(now), &at(now + LEASE), 10).await;
        // Whoever runs such a row dies with it and with its whole batch.
        if batch.iter().any(|record| record.id.starts_with("killer")) {
            kills += 1;
            continue;
        }
        let leases: Vec<_> = batch.iter().map(|record| record.lease.clone()).collect();
        let outcomes = cx.outbox.complete_claimed(&*cx.db, &leases).await;
        assert!(
            outcomes
                .expect("complete")
                .into_iter()
                .all(LeaseOutcome::is_held)
        );
        delivered.extend(batch.into_iter().map(|record| record.id));
    }
    assert_eq!(delivered, (0..100).map(numbered).collect());
    assert_eq!(kills, 2, "the first batch, and the last");
    assert_eq!(cx.count().await, 10);
    let row = cx.entry("killer-0").await;
    assert_eq!((row.attempts, row.claims, row.lapses), (0, 2, 1));
}

async fn a_row_retried_at_now_does_not_come_first_again(cx: Arc<Context>) {
    cx.enqueue("a-bad", &at(0)).await;
    cx.enqueue_numbered(50, &at(0)).await;
    let (mut good, mut bad) = (0, 0);
    for round in 1..=52 {
        let record = cx.claim_one(&at(round), &at(round + 60)).await;
        if record.id == "a-bad" {
            bad += 1;
            let retry = Retry {
                lease: &record.lease,
                next_attempt_at: &at(round),
                error: "no",
            };
            let outcome = cx.outbox.retry_claimed(&*cx.db, &at(round), &[retry]).await;
            assert_eq!(outcome.expect("retry"), [LeaseOutcome::Held]);
        } else {
            good += 1;
            assert_eq!(cx.complete(&record.lease).await, LeaseOutcome::Held);
        }
    }
    assert_eq!((good, bad), (50, 2), "it waits behind all that were due");
}

async fn a_row_retried_in_the_past_comes_first_and_stops_no_other(cx: Arc<Context>) {
    cx.enqueue("a-bad", &at(100)).await;
    cx.enqueue_numbered(20, &at(100)).await;
    for round in 0..20 {
        let batch = cx.claim(&at(200), &at(260), 2).await;
        let good = numbered(usize::try_from(round).expect("small"));
        assert_eq!(ids(&batch), ["a-bad", good.as_str()]);
        assert_eq!(batch[0].attempts, round);
        cx.outbox
            .retry_later(&*cx.db, "a-bad", &at(50))
            .await
            .expect("retry");
        assert_eq!(cx.entry("a-bad").await.next_attempt_at, at(50));
        assert_eq!(cx.complete(&batch[1].lease).await, LeaseOutcome::Held);
    }
    assert_eq!(cx.count().await, 1);
}

/// Sets what the row counts, and leaves a lease on it that has lapsed.
async fn set_counters(cx: &Context, id: &str, to: i64) {
    let statement = Statement::new(
        "UPDATE outbox SET attempts = ?, claims = ?, lapses = ?, locked_until = ? WHERE id = ?",
    );
    let statement = statement.bind(to).bind(to).bind(to).bind(at(0)).bind(id);
    let answer = cx.batch(&[statement.expect_rows(1)]).await;
    answer.expect("set the counters");
}

async fn no_counter_overflows(cx: Arc<Context>) {
    let counts = [
        127,
        255,
        32_767,
        65_535,
        i64::from(i32::MAX),
        i64::from(u32::MAX),
        i64::MAX - 1,
        i64::MAX,
    ];
    for (number, count) in counts.into_iter().enumerate() {
        let id = format!("full-{number}");
        cx.enqueue(&id, &at(0)).await;
        set_counters(&cx, &id, count).await;
    }
    cx.enqueue_numbered(20, &at(0)).await;
    let batch = cx.claim(&at(0), &at(10), 99).await;
    assert_eq!(batch.len(), 28, "none stops the batch");
    let (full, normal): (Vec<_>, Vec<_>) = batch
        .into_iter()
        .partition(|record| record.id.starts_with("full"));
    assert!(normal.iter().all(|record| record.claims == 1));
    let next = |count: i64| count.saturating_add(1).unsigned_abs();
    for (record, count) in full.iter().zip(counts) {
        let found = (record.attempts, record.claims, record.lapses);
        let expected = (count.unsigned_abs(), next(count), next(count));
        assert_eq!(found, expected, "{count}");
        let row = cx.entry(&record.id).await;
        assert_eq!((row.attempts, row.claims, row.lapses), expected);
    }

    // Each way of counting a failure.
    let mut leases: Vec<_> = full.iter().map(|record| record.lease.clone()).collect();
    let (one, two) = (at(1), at(2));
    let retries: Vec<_> = leases
        .iter()
        .map(|lease| Retry {
            lease,
            next_attempt_at: &two,
            error: "no",
        })
        .collect();
    let outcomes = cx.outbox.retry_claimed(&*cx.db, &one, &retries).await;
    assert_eq!(outcomes.expect("retry"), [LeaseOutcome::Held; 8]);
    for record in &full {
        let later = cx.outbox.retry_later(&*cx.db, &record.id, &two).await;
        later.expect("retry");
    }
    leases = leases_of(&cx, &two).await;
    let parked = cx.outbox.park_claimed(&*cx.db, &leases, &two, "no").await;
    assert_eq!(parked.expect("park"), [LeaseOutcome::Held; 8]);
    for (record, count) in full.iter().zip(counts) {
        let row = cx.entry(&record.id).await;
        let three_more = count.saturating_add(3).unsigned_abs();
        let claims = count.saturating_add(2).unsigned_abs();
        let found = (row.attempts, row.claims, row.lapses);
        assert_eq!(found, (three_more, claims, 0), "{count}");
        assert_eq!(row.next_attempt_at, PARKED);
    }
}

async fn leases_of(cx: &Context, now: &str) -> Vec<duebox_core::Lease> {
    let batch = cx.claim(now, &at(60), 99).await;
    batch.into_iter().map(|record| record.lease).collect()
}

async fn a_row_whose_claims_are_at_their_end_can_still_be_fenced(cx: Arc<Context>) {
    for id in ["a", "b"] {
        cx.enqueue(id, &at(0)).await;
        set_counters(&cx, id, i64::MAX).await;
    }
    let batch = cx.claim(&at(0), &at(10), 9).await;
    assert_eq!(ids(&batch), ["a", "b"]);
    let [a, b] = [&batch[0].lease, &batch[1].lease];
    assert_eq!(a.claims(), i64::MAX.unsigned_abs());
    assert_eq!(cx.complete(a).await, LeaseOutcome::Held);
    assert_eq!(cx.complete(a).await, LeaseOutcome::Lost);
    let complete = cx.outbox.complete_statement(b);
    assert_eq!(cx.batch(&[complete]).await.expect("it is held"), [1]);
    assert_eq!(cx.count().await, 0);
}

async fn a_row_of_the_wrong_types_does_not_stop_those_behind_it(cx: Arc<Context>) {
    // Only SQLite keeps values of another type than the column's, and not in
    // the table of the shipped migrations.
    let set = "UPDATE outbox SET {} WHERE id = ?";
    let wrong = [
        "attempts = 'many'",
        "claims = 1.5",
        "lapses = x'00'",
        "topic = x'ff'",
        "payload = x'00ff'",
        "subject = x'ff'",
        "created_at = x'00'",
        "payload = 7, next_attempt_at = '0'",
    ];
    for (number, change) in wrong.into_iter().enumerate() {
        let id = format!("wrong-{number}");
        cx.enqueue_for(&id, "s", &at(0)).await;
        let statement = Statement::new(set.replace("{}", change)).bind(&id);
        let answer = cx.db.execute(&statement).await;
        if cx.dialect() == Dialect::Sqlite && cx.schema == Schema::Portable {
            assert_eq!(answer.expect("SQLite takes it"), 1);
        }
        // Elsewhere some of these are text, or numbers, or refused.
    }
    cx.enqueue_numbered(5, &at(1)).await;
    let mut good = BTreeSet::new();
    // A claim may be short by the rows that it set aside.
    for _ in 0..4 {
        let batch = cx.claim(&at(2), &at(60), 6).await;
        good.extend(batch.into_iter().map(|record| record.id));
    }
    for number in 0..5 {
        assert!(good.contains(&numbered(number)), "{good:?}");
    }
    assert_eq!(cx.count().await, 13, "none is lost");
    assert!(cx.claim(&at(3), &at(60), 99).await.is_empty());
}

async fn rows_that_a_stranger_wrote_are_handed_out(cx: Arc<Context>) {
    // An empty topic and counters below zero are none of ours, but are work.
    let insert = |id: &str, topic: &str, count: i64| {
        Statement::new(
            "INSERT INTO outbox (id, topic, payload, subject, created_at, next_attempt_at, \
             attempts, claims, lapses) VALUES (?, ?, '', '', ?, ?, ?, ?, ?)",
        )
        .bind(id)
        .bind(topic)
        .bind(at(0))
        .bind(at(0))
        .bind(count)
        .bind(count)
        .bind(count)
    };
    cx.batch(&[insert("a", "", -1), insert("b", "a\nb", -7)])
        .await
        .expect("insert");
    cx.enqueue("c", &at(0)).await;
    let batch = cx.claim(&at(0), &at(10), 9).await;
    assert_eq!(ids(&batch), ["a", "b", "c"]);
    assert_eq!(batch[0].subject.as_deref(), Some(""));
    assert_eq!((batch[1].attempts, batch[1].lapses), (0, 0));
    for id in ["a", "b", "c"] {
        cx.outbox.complete(&*cx.db, id).await.expect("complete");
    }
    assert_eq!(cx.count().await, 0);
}

async fn the_oldest_due_come_first_under_a_load_that_is_too_much(cx: Arc<Context>) {
    // Each second five rows come and four can be worked off, while ten others
    // fail whenever they are tried and come back five seconds later. What a
    // claim must hand out is known from when each row is due, and its id.
    let mut due: BTreeSet<(u64, String)> = BTreeSet::new();
    for number in 0..10 {
        let id = format!("retried-{number}");
        cx.enqueue(&id, &at(0)).await;
        due.insert((0, id));
    }
    let mut tries: BTreeMap<String, u32> = BTreeMap::new();
    for now in 1..=60_u64 {
        for number in 0..5 {
            let id = format!(
                "{}-{number}",
                numbered(usize::try_from(now).expect("small"))
            );
            cx.enqueue(&id, &at(now)).await;
            due.insert((now, id));
        }
        let batch = cx.claim(&at(now), &at(now + 30), 4).await;
        let oldest: Vec<(u64, String)> = due.iter().take(4).cloned().collect();
        let expected: Vec<&str> = oldest.iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(ids(&batch), expected, "at {now}");
        for key in &oldest {
            due.remove(key);
        }
        let (bad, good): (Vec<OutboxRecord>, Vec<OutboxRecord>) = batch
            .into_iter()
            .partition(|record| record.id.starts_with("retried"));
        for record in good {
            assert_eq!(cx.complete(&record.lease).await, LeaseOutcome::Held);
        }
        for record in bad {
            *tries.entry(record.id.clone()).or_default() += 1;
            let next = at(now + 5);
            let retry = Retry {
                lease: &record.lease,
                next_attempt_at: &next,
                error: "no",
            };
            let outcome = cx.outbox.retry_claimed(&*cx.db, &at(now), &[retry]).await;
            assert_eq!(outcome.expect("retry"), [LeaseOutcome::Held]);
            due.insert((now + 5, record.id));
        }
    }
    assert_eq!(tries.len(), 10, "each had its turn");
    assert!(tries.values().all(|tries| *tries > 1), "{tries:?}");
}
