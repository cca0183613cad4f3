//! What ends a lease, and who may.

use std::sync::Arc;

use duebox_core::{Kind, LeaseOutcome, Retry, RowState};

use crate::Context;
use crate::context::{assert_refused, at, at_micros, ids};

/// In one call, and whichever comes first.
pub(super) async fn a_stale_lease_beside_the_current_one_changes_nothing(cx: Arc<Context>) {
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

pub(super) async fn a_stale_holder_changes_nothing(cx: Arc<Context>) {
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

pub(super) async fn a_completed_row_stays_gone(cx: Arc<Context>) {
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

pub(super) async fn fenced_calls_answer_each_lease_in_order(cx: Arc<Context>) {
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

pub(super) async fn a_retry_counts_and_keeps_its_error(cx: Arc<Context>) {
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

pub(super) async fn a_reschedule_counts_nothing(cx: Arc<Context>) {
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

pub(super) async fn a_release_counts_nothing(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    let outcome = cx.outbox.release_claimed(&*cx.db, &[lease], &at(2)).await;
    assert_eq!(outcome.expect("release"), [LeaseOutcome::Held]);
    assert!(cx.claim(&at(1), &at(10), 1).await.is_empty());
    let record = cx.claim_one(&at(2), &at(10)).await;
    assert_eq!((record.attempts, record.claims), (0, 2));
}

pub(super) async fn an_extension_never_shortens(cx: Arc<Context>) {
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

pub(super) async fn a_note_is_kept_and_ends_nothing(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let (db, outbox) = (&*cx.db, &cx.outbox);
    let stale = [cx.claim_one(&at(0), &at(10)).await.lease];
    let lease = [cx.claim_one(&at(11), &at(70)).await.lease];
    let before = cx.entry("a").await;
    let noted = outbox.note_claimed(db, &lease, "runs\talone").await;
    assert_eq!(noted.expect("note"), [LeaseOutcome::Held]);
    let row = cx.entry("a").await;
    assert_eq!(row.last_error.as_deref(), Some("runs alone"));
    assert_eq!((row.attempts, row.lapses), (before.attempts, before.lapses));
    assert_eq!(row.locked_until, before.locked_until);
    assert_eq!(
        (row.next_attempt_at, row.failed_at),
        (before.next_attempt_at, None)
    );

    let lost = outbox.note_claimed(db, &stale, "late").await;
    assert_eq!(lost.expect("note"), [LeaseOutcome::Lost]);
    assert_eq!(
        cx.entry("a").await.last_error.as_deref(),
        Some("runs alone")
    );
    let ended = outbox.complete_claimed(db, &lease).await;
    assert_eq!(ended.expect("complete"), [LeaseOutcome::Held]);
}

pub(super) async fn a_parked_row_is_never_claimed(cx: Arc<Context>) {
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

pub(super) async fn an_id_used_again_is_fenced_by_its_time(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let old = cx.claim_one(&at(0), &at(10)).await.lease;
    assert_eq!(cx.complete(&old).await, LeaseOutcome::Held);
    cx.enqueue("a", &at(1)).await;
    let new = cx.claim_one(&at(1), &at(10)).await.lease;
    assert_eq!(old.claims(), new.claims());
    assert_eq!(cx.complete(&old).await, LeaseOutcome::Lost);
    assert_eq!(cx.complete(&new).await, LeaseOutcome::Held);
}
