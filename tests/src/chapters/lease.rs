//! Leases: who gets a row, until when, and who may end it.

use std::collections::BTreeSet;
use std::sync::Arc;

use duebox_core::{Kind, LeaseOutcome, Retry, RowState};

use super::chapter;
use crate::Context;
use crate::context::{assert_refused, at, at_micros, ids, numbered};

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

/// In one call, and whichever comes first.
async fn a_stale_lease_beside_the_current_one_changes_nothing(cx: Arc<Context>) {
    let (db, outbox) = (&*cx.db, &cx.outbox);
    for (id, stale_first) in [("a", true), ("b", false)] {
        cx.enqueue(id, &at(0)).await;
        let stale = cx.claim_one(&at(0), &at(10)).await.lease;
        let current = cx.claim_one(&at(11), &at(70)).await.lease;
        let (late, soon) = (at(900), at(80));
        let mut retries = vec![
            Retry {
                lease: &stale,
                next_attempt_at: &late,
                error: "stale",
            },
            Retry {
                lease: &current,
                next_attempt_at: &soon,
                error: "current",
            },
        ];
        let mut expected = vec![LeaseOutcome::Lost, LeaseOutcome::Held];
        if !stale_first {
            retries.reverse();
            expected.reverse();
        }
        let answer = outbox.retry_claimed(db, &at(12), &retries).await;
        assert_eq!(answer.expect("retry"), expected);
        let row = cx.entry(id).await;
        assert_eq!(row.next_attempt_at, soon);
        assert_eq!(row.last_error.as_deref(), Some("current"));
        assert_eq!(row.attempts, 1);

        let current = cx.claim_one(&at(80), &at(90)).await.lease;
        let mut leases = vec![stale, current];
        if !stale_first {
            leases.reverse();
        }
        let answer = outbox.complete_claimed(db, &leases).await;
        assert_eq!(answer.expect("complete"), expected);
        assert_eq!(cx.row(id).await, None);
    }
}

async fn a_stale_holder_changes_nothing(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let stale = [cx.claim_one(&at(0), &at(10)).await.lease];
    cx.claim_one(&at(11), &at(70)).await;
    let before = cx.row("a").await;
    let (db, outbox) = (&*cx.db, &cx.outbox);
    let retry = Retry {
        lease: &stale[0],
        next_attempt_at: &at(12),
        error: "late",
    };
    let lost = [LeaseOutcome::Lost];
    assert_eq!(
        outbox
            .retry_claimed(db, &at(12), &[retry])
            .await
            .expect("retry"),
        lost
    );
    assert_eq!(
        outbox.complete_claimed(db, &stale).await.expect("complete"),
        lost
    );
    assert_eq!(
        outbox
            .release_claimed(db, &stale, &at(12))
            .await
            .expect("release"),
        lost
    );
    assert_eq!(
        outbox
            .reschedule_claimed(db, &stale, &at(12))
            .await
            .expect("reschedule"),
        lost
    );
    assert_eq!(
        outbox
            .extend_claimed(db, &stale, &at(900))
            .await
            .expect("extend"),
        lost
    );
    assert_eq!(
        outbox
            .park_claimed(db, &stale, &at(12), "late")
            .await
            .expect("park"),
        lost
    );
    assert_eq!(cx.row("a").await, before);
    assert!(cx.claim(&at(69), &at(90), 1).await.is_empty());
}

async fn a_completed_row_stays_gone(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let first = cx.claim_one(&at(0), &at(10)).await.lease;
    let second = cx.claim_one(&at(11), &at(70)).await.lease;
    assert_eq!(cx.complete(&second).await, LeaseOutcome::Held);
    assert_eq!(
        cx.complete(&second).await,
        LeaseOutcome::Lost,
        "sent again, it is lost"
    );
    cx.outbox
        .complete(&*cx.db, "a")
        .await
        .expect("an id that is not there is no error");
    cx.outbox
        .retry_later(&*cx.db, "a", &at(60))
        .await
        .expect("nor is it here");
    let retry = Retry {
        lease: &first,
        next_attempt_at: &at(60),
        error: "late",
    };
    let outcome = cx
        .outbox
        .retry_claimed(&*cx.db, &at(12), &[retry])
        .await
        .expect("retry");
    assert_eq!(outcome, [LeaseOutcome::Lost]);
    assert!(cx.claim(&at(1_000), &at(2_000), 1).await.is_empty());
    assert_eq!(cx.count().await, 0);
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

async fn fenced_calls_answer_each_lease_in_order(cx: Arc<Context>) {
    cx.enqueue_numbered(6, &at(0)).await;
    let stale = cx.claim(&at(0), &at(10), 3).await;
    let mut leases: Vec<_> = stale.into_iter().map(|record| record.lease).collect();
    leases.extend(
        cx.claim(&at(1), &at(60), 3)
            .await
            .into_iter()
            .map(|record| record.lease),
    );
    cx.claim(&at(10), &at(60), 2).await;
    leases.reverse();
    // r003 to r005 are held, r002 lapsed and was not retaken, r001 and r000 were.
    let outcomes = cx
        .outbox
        .complete_claimed(&*cx.db, &leases)
        .await
        .expect("complete");
    let held: Vec<bool> = outcomes.into_iter().map(LeaseOutcome::is_held).collect();
    assert_eq!(held, [true, true, true, true, false, false]);
    assert_eq!(cx.count().await, 2);
    assert!(
        cx.outbox
            .complete_claimed(&*cx.db, &[])
            .await
            .expect("none")
            .is_empty()
    );
}

async fn a_retry_counts_and_keeps_its_error(cx: Arc<Context>) {
    cx.enqueue_numbered(3, &at(0)).await;
    let records = cx.claim(&at(0), &at(10), 3).await;
    let (times, errors) = (
        [at(20), at(30), at(20)],
        ["timed out\u{7}", "refused", &"é".repeat(4_000)],
    );
    let retries: Vec<Retry<'_>> = records
        .iter()
        .enumerate()
        .map(|(n, record)| Retry {
            lease: &record.lease,
            next_attempt_at: &times[n],
            error: errors[n],
        })
        .collect();
    let outcomes = cx
        .outbox
        .retry_claimed(&*cx.db, &at(5), &retries)
        .await
        .expect("retry");
    assert_eq!(outcomes, [LeaseOutcome::Held; 3]);
    let row = cx.row("r000").await.expect("the row");
    assert_eq!((row.attempts, row.claims, row.lapses), (1, 1, 0));
    assert_eq!((row.locked_until, row.locked_by), (None, None));
    assert_eq!(row.next_attempt_at, at(20));
    assert_eq!(row.last_error.as_deref(), Some("timed out "));
    assert_eq!(row.failed_at, Some(at(5)));
    assert_eq!(
        cx.row("r001").await.expect("the row").next_attempt_at,
        at(30)
    );
    let cut = cx
        .row("r002")
        .await
        .expect("the row")
        .last_error
        .expect("an error");
    assert_eq!(cut.len(), 4_096);
    assert!(
        cx.claim(&at_micros(19_999_999), &at(60), 9)
            .await
            .is_empty()
    );
    assert_eq!(ids(&cx.claim(&at(20), &at(60), 9).await), ["r000", "r002"]);
}

async fn a_reschedule_counts_nothing(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let record = cx.claim_one(&at(0), &at(10)).await;
    let retry = Retry {
        lease: &record.lease,
        next_attempt_at: &at(1),
        error: "no",
    };
    cx.outbox
        .retry_claimed(&*cx.db, &at(0), &[retry])
        .await
        .expect("retry");
    let lease = cx.claim_one(&at(1), &at(10)).await.lease;
    let outcome = cx
        .outbox
        .reschedule_claimed(&*cx.db, &[lease], &at(3_600))
        .await;
    assert_eq!(outcome.expect("reschedule"), [LeaseOutcome::Held]);
    let row = cx.row("a").await.expect("the row");
    assert_eq!(
        (row.attempts, row.lapses, row.last_error, row.failed_at),
        (0, 0, None, None)
    );
    assert_eq!(row.next_attempt_at, at(3_600));
}

async fn a_release_counts_nothing(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    let outcome = cx.outbox.release_claimed(&*cx.db, &[lease], &at(2)).await;
    assert_eq!(outcome.expect("release"), [LeaseOutcome::Held]);
    assert!(cx.claim(&at(1), &at(10), 1).await.is_empty());
    let record = cx.claim_one(&at(2), &at(10)).await;
    assert_eq!((record.attempts, record.claims), (0, 2));
}

async fn an_extension_never_shortens(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lease = [cx.claim_one(&at(0), &at(10)).await.lease];
    for (until, kept) in [(at(30), at(30)), (at(20), at(30)), (at(30), at(30))] {
        let outcome = cx
            .outbox
            .extend_claimed(&*cx.db, &lease, &until)
            .await
            .expect("extend");
        assert_eq!(outcome, [LeaseOutcome::Held]);
        assert_eq!(cx.row("a").await.expect("the row").locked_until, Some(kept));
    }
    assert!(cx.claim(&at(29), &at(60), 1).await.is_empty());
    assert_eq!(cx.complete(&lease[0]).await, LeaseOutcome::Held);
}

async fn a_parked_row_is_never_claimed(cx: Arc<Context>) {
    const END: &str = "9999-12-31T23:59:59.999999Z";
    cx.enqueue("by-time", END).await;
    cx.enqueue("by-holder", &at(0)).await;
    cx.enqueue("by-retry", &at(1)).await;
    cx.enqueue("by-hand", &at(2)).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    let parked = cx
        .outbox
        .park_claimed(
            &*cx.db,
            std::slice::from_ref(&lease),
            &at(3),
            "no such person",
        )
        .await;
    assert_eq!(parked.expect("park"), [LeaseOutcome::Held]);
    cx.outbox
        .retry_later(&*cx.db, "by-retry", END)
        .await
        .expect("retry");
    assert_eq!(
        cx.outbox
            .park(&*cx.db, &["by-hand"], &at(3), "why")
            .await
            .expect("park"),
        1
    );
    for now in [at(100), "9999-12-31T23:59:59.999998Z".into()] {
        assert!(cx.claim(&now, END, u64::MAX).await.is_empty());
    }
    // The one instant at which what is parked would be due by its time.
    let answer = cx.outbox.claim_due(&*cx.db, END, END, 9).await;
    assert_refused(answer, Kind::InvalidArgument);
    for id in ["by-time", "by-holder", "by-retry", "by-hand"] {
        let row = cx.row(id).await.expect("a parked row stays");
        assert_eq!(row.state(&at(100)), RowState::Parked);
    }
    let row = cx.row("by-holder").await.expect("the row");
    assert_eq!(
        (row.attempts, row.last_error.as_deref()),
        (1, Some("no such person"))
    );
    assert_eq!(cx.complete(&lease).await, LeaseOutcome::Lost);
}

async fn an_id_used_again_is_fenced_by_its_time(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let old = cx.claim_one(&at(0), &at(10)).await.lease;
    assert_eq!(cx.complete(&old).await, LeaseOutcome::Held);
    cx.enqueue("a", &at(1)).await;
    let new = cx.claim_one(&at(1), &at(10)).await.lease;
    assert_eq!(old.claims(), new.claims());
    assert_eq!(cx.complete(&old).await, LeaseOutcome::Lost);
    assert_eq!(cx.complete(&new).await, LeaseOutcome::Held);
}

async fn a_late_commit_is_claimed_though_newer_rows_were(cx: Arc<Context>) {
    cx.enqueue("02", &at(2)).await;
    let newer = cx.claim_one(&at(5), &at(60)).await;
    assert_eq!(cx.complete(&newer.lease).await, LeaseOutcome::Held);
    cx.enqueue("01", &at(1)).await;
    assert_eq!(ids(&cx.claim(&at(5), &at(60), 9).await), ["01"]);
}
