//! Leases: who gets a row, until when, and who may end it.

use std::collections::BTreeSet;
use std::sync::Arc;

use duebox_core::{Kind, LeaseOutcome, Retry};

use super::chapter;
use crate::Context;
use crate::context::{assert_refused, at, at_micros, ids, numbered};

mod ending;

use ending::{
    a_completed_row_stays_gone, a_note_is_kept_and_ends_nothing, a_parked_row_is_never_claimed,
    a_release_counts_nothing, a_reschedule_counts_nothing, a_retry_counts_and_keeps_its_error,
    a_stale_holder_changes_nothing, a_stale_lease_beside_the_current_one_changes_nothing,
    an_extension_never_shortens, an_id_used_again_is_fenced_by_its_time,
    fenced_calls_answer_each_lease_in_order,
};

chapter!(lease:
    a_lease_ends_at_lease_until,
    a_lease_that_ends_before_it_begins_is_refused,
    exactly_the_rows_returned_are_leased,
    rows_come_oldest_first_and_then_by_id,
    each_claim_raises_the_number_of_claims,
    a_lapsed_lease_counts_a_lapse,
    a_lapsed_lease_is_held_until_it_is_retaken,
    a_stale_holder_changes_nothing,
    a_stale_lease_beside_the_current_one_changes_nothing,
    a_completed_row_stays_gone,
    claims_at_once_are_disjoint_and_complete,
    one_failing_row_is_tried_once_a_window_by_many_claimers,
    fenced_calls_answer_each_lease_in_order,
    a_retry_counts_and_keeps_its_error,
    a_reschedule_counts_nothing,
    a_release_counts_nothing,
    an_extension_never_shortens,
    a_note_is_kept_and_ends_nothing,
    a_parked_row_is_never_claimed,
    an_id_used_again_is_fenced_by_its_time,
    a_late_commit_is_claimed_though_newer_rows_were,
);

async fn a_lease_ends_at_lease_until(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    cx.claim_one(&at(0), &at(10)).await;
    assert!(cx.claim(&at_micros(9_999_999), &at(20), 1).await.is_empty());
    let claims = (0..8).map(|_| {
        let cx = Arc::clone(&cx);
        tokio::spawn(async move { cx.claim(&at(10), &at(20), 1).await.len() })
    });
    let mut won = 0;
    for claim in claims.collect::<Vec<_>>() {
        won += claim.await.expect("a claim");
    }
    assert_eq!(
        won, 1,
        "one of eight callers wins the row at the instant its lease ends"
    );
    assert!(
        cx.claim(&at_micros(10_000_001), &at(21), 1)
            .await
            .is_empty()
    );
}

async fn a_lease_that_ends_before_it_begins_is_refused(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    for until in [at(5), at(4), "later".into(), at_micros(4_999_999) + "9"] {
        let answer = cx.outbox.claim_due(&*cx.db, &at(5), &until, 1).await;
        assert_refused(answer, Kind::InvalidArgument);
    }
    assert_eq!(cx.row("a").await.expect("the row").claims, 0);
}

async fn exactly_the_rows_returned_are_leased(cx: Arc<Context>) {
    cx.enqueue_numbered(40, &at(0)).await;
    let mut leased = 0;
    for limit in [1, 5, 7] {
        leased += cx.claim(&at(1), &at(60), limit).await.len() as u64;
        assert_eq!(
            leased,
            cx.outbox
                .stats(&*cx.db, &at(1))
                .await
                .expect("stats")
                .leased
        );
    }
    assert_eq!(leased, 13);
}

async fn rows_come_oldest_first_and_then_by_id(cx: Arc<Context>) {
    for (id, seconds) in [("b", 2), ("A", 3), ("a", 3), ("Z", 3), ("~", 1), ("c", 2)] {
        cx.enqueue(id, &at(seconds)).await;
    }
    // What was changed in between must not show in the order.
    cx.outbox
        .retry_later(&*cx.db, "~", &at(1))
        .await
        .expect("retry");
    assert_eq!(ids(&cx.claim(&at(9), &at(60), 2).await), ["~", "b"]);
    assert_eq!(
        ids(&cx.claim(&at(9), &at(60), 9).await),
        ["c", "A", "Z", "a"]
    );
}

async fn each_claim_raises_the_number_of_claims(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    for round in 1..=3 {
        let record = cx.claim_one(&at(round * 10), &at(round * 10 + 5)).await;
        assert_eq!(record.claims, round);
        assert_eq!(record.lease.claims(), round);
        assert_eq!(record.attempts, 0);
        assert_eq!(cx.row("a").await.expect("the row").claims, round);
    }
}

async fn a_lapsed_lease_counts_a_lapse(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    assert_eq!(cx.claim_one(&at(0), &at(10)).await.lapses, 0);
    assert_eq!(cx.claim_one(&at(10), &at(20)).await.lapses, 1);
    let record = cx.claim_one(&at(20), &at(30)).await;
    assert_eq!(record.lapses, 2);
    let outcome = cx
        .outbox
        .release_claimed(&*cx.db, &[record.lease], &at(21))
        .await;
    assert_eq!(outcome.expect("release"), [LeaseOutcome::Held]);
    assert_eq!(
        cx.claim_one(&at(21), &at(30)).await.lapses,
        0,
        "a holder ended its lease"
    );
}

async fn a_lapsed_lease_is_held_until_it_is_retaken(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    cx.enqueue("b", &at(0)).await;
    let first = cx.claim_one(&at(0), &at(10)).await;
    assert_eq!(cx.complete(&first.lease).await, LeaseOutcome::Held);
    let late = cx.claim_one(&at(0), &at(10)).await;
    cx.claim_one(&at(100), &at(110)).await;
    assert_eq!(cx.complete(&late.lease).await, LeaseOutcome::Lost);
    assert!(cx.row("b").await.is_some());
}

async fn claims_at_once_are_disjoint_and_complete(cx: Arc<Context>) {
    const ROWS: usize = 400;
    cx.enqueue_numbered(ROWS, &at(0)).await;
    let other = cx.sandbox.another().await;
    let mut tasks = Vec::new();
    for task in 0..8 {
        let db = if task % 2 == 0 {
            Arc::clone(&cx.db)
        } else {
            Arc::clone(&other)
        };
        let outbox = cx.outbox.clone();
        tasks.push(tokio::spawn(async move {
            let mut mine = Vec::new();
            let mut dry = 0;
            // A claim beside another may find the head of the queue locked.
            while dry < 20 {
                let got = outbox
                    .claim_due(&db, &at(1), &at(600), 7)
                    .await
                    .expect("claim");
                dry = if got.is_empty() { dry + 1 } else { 0 };
                mine.extend(got.into_iter().map(|record| record.id));
            }
            mine
        }));
    }
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("a drainer"));
    }
    assert_eq!(all.len(), ROWS, "every row was handed out once");
    let distinct: BTreeSet<String> = all.into_iter().collect();
    assert_eq!(distinct, (0..ROWS).map(numbered).collect());
}

async fn one_failing_row_is_tried_once_a_window_by_many_claimers(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let mut delivered = Vec::new();
    for second in 0..180 {
        for _ in 0..3 {
            for record in cx.claim(&at(second), &at(second + 30), 1).await {
                delivered.push(second);
                let next = at(second + 60);
                let retry = Retry {
                    lease: &record.lease,
                    next_attempt_at: &next,
                    error: "no",
                };
                cx.outbox
                    .retry_claimed(&*cx.db, &at(second), &[retry])
                    .await
                    .expect("retry");
            }
        }
    }
    assert_eq!(delivered, [0, 60, 120]);
    assert_eq!(cx.row("a").await.expect("the row").attempts, 3);
}

async fn a_late_commit_is_claimed_though_newer_rows_were(cx: Arc<Context>) {
    cx.enqueue("02", &at(2)).await;
    let newer = cx.claim_one(&at(5), &at(60)).await;
    assert_eq!(cx.complete(&newer.lease).await, LeaseOutcome::Held);
    cx.enqueue("01", &at(1)).await;
    assert_eq!(ids(&cx.claim(&at(5), &at(60), 9).await), ["01"]);
}
