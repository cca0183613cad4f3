//! Lost answers: the work was done and nobody was told. What is sent again
//! does not act twice, and nothing is stranded.

use std::sync::Arc;

use duebox_core::{
    Claim, Database, DbError, Enqueue, Kind, LeaseOutcome, Outcome, PARKED, Retry, RowState,
    Statement, parse_time,
};

use super::chapter;
use crate::context::{account, assert_refused, at, at_micros, ids, in_time, numbered};
use crate::{Context, Hook, Unreliable};

chapter!(lost_answers:
    a_lost_answer_is_an_error_of_unknown_outcome,
    a_claim_that_nobody_was_told_of_comes_back_at_lease_until,
    a_completion_sent_again_is_harmless,
    a_completion_by_id_sent_again_is_harmless,
    a_retry_sent_again_counts_one_attempt,
    a_parking_sent_again_counts_one_attempt,
    a_reschedule_sent_again_changes_nothing_more,
    a_release_sent_again_does_not_end_the_next_lease,
    an_extension_sent_again_is_still_held,
    an_operators_call_sent_again_does_not_act_twice,
    an_erasure_sent_again_erases_nothing_more,
    a_batch_repeated_with_its_id_is_a_conflict_and_applied_once,
    many_rows_enqueued_again_are_a_conflict_and_there_once,
    an_effect_completed_in_its_batch_takes_place_once,
    a_drain_through_lost_answers_leaves_no_row;
    Hook::Cut => an_error_that_says_not_applied_left_nothing,
);

/// Loses the answer to what is sent next, and to every other call after it.
fn lossy(cx: &Context) -> Unreliable {
    Unreliable::new(Arc::clone(&cx.db))
}

#[track_caller]
fn assert_lost<T: std::fmt::Debug>(answer: Result<T, DbError>) {
    let error = answer.expect_err("the answer is lost");
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown, "{error}");
    assert!(!error.is_retryable());
}

async fn a_lost_answer_is_an_error_of_unknown_outcome(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lossy = lossy(&cx);
    let (outbox, leases) = (&cx.outbox, [cx.claim_one(&at(0), &at(9)).await.lease]);
    assert_lost(outbox.extend_claimed(&lossy, &leases, &at(10)).await);
    lossy.now().await.expect("every other answer comes");
    assert_lost(outbox.claim_due(&lossy, &at(1), &at(9), 1).await);
    lossy.now().await.expect("every other answer comes");
    assert_lost(outbox.stats(&lossy, &at(1)).await);
    lossy.now().await.expect("every other answer comes");
    assert_lost(outbox.delete(&lossy, &["a"]).await);
    assert_eq!(cx.count().await, 0, "it was done");
}

async fn a_claim_that_nobody_was_told_of_comes_back_at_lease_until(cx: Arc<Context>) {
    cx.enqueue_numbered(5, &at(0)).await;
    let lossy = lossy(&cx);
    assert_lost(cx.outbox.claim_due(&lossy, &at(1), &at(10), 3).await);
    let again = cx.outbox.claim_due(&lossy, &at(1), &at(10), 9).await;
    assert_eq!(ids(&again.expect("claim")), ["r003", "r004"]);
    assert!(
        cx.claim(&at_micros(9_999_999), &at(20), 9).await.is_empty(),
        "not before the lease ends"
    );
    let back = cx.claim(&at(10), &at(20), 9).await;
    assert_eq!(ids(&back), ["r000", "r001", "r002", "r003", "r004"]);
    for record in back {
        assert_eq!((record.claims, record.lapses, record.attempts), (2, 1, 0));
        assert_eq!(cx.complete(&record.lease).await, LeaseOutcome::Held);
    }
}

async fn a_completion_sent_again_is_harmless(cx: Arc<Context>) {
    cx.enqueue_numbered(3, &at(0)).await;
    let lossy = lossy(&cx);
    let leases: Vec<_> = cx
        .claim(&at(1), &at(10), 2)
        .await
        .into_iter()
        .map(|record| record.lease)
        .collect();
    assert_lost(cx.outbox.complete_claimed(&lossy, &leases).await);
    assert_eq!(cx.count().await, 1);
    let again = cx.outbox.complete_claimed(&lossy, &leases).await;
    assert_eq!(again.expect("complete"), [LeaseOutcome::Lost; 2]);
    assert_eq!(ids(&cx.claim(&at(100), &at(200), 9).await), ["r002"]);
}

async fn a_completion_by_id_sent_again_is_harmless(cx: Arc<Context>) {
    cx.enqueue_numbered(2, &at(0)).await;
    let lossy = lossy(&cx);
    cx.claim(&at(1), &at(10), 1).await;
    assert_lost(cx.outbox.complete(&lossy, "r000").await);
    assert_eq!(cx.count().await, 1);
    cx.outbox.complete(&lossy, "r000").await.expect("complete");
    assert_eq!(ids(&cx.claim(&at(100), &at(200), 9).await), ["r001"]);
}

async fn a_retry_sent_again_counts_one_attempt(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lossy = lossy(&cx);
    let lease = cx.claim_one(&at(1), &at(10)).await.lease;
    let send = async |now: u64, error: &str| {
        let next = at(now + 60);
        let retry = Retry {
            lease: &lease,
            next_attempt_at: &next,
            error,
        };
        cx.outbox.retry_claimed(&lossy, &at(now), &[retry]).await
    };
    assert_lost(send(2, "first").await);
    let row = cx.entry("a").await;
    assert_eq!((row.attempts, &row.next_attempt_at), (1, &at(62)));
    assert_eq!(send(3, "again").await.expect("retry"), [LeaseOutcome::Lost]);
    assert_eq!(cx.entry("a").await, row);
    let record = cx.claim_one(&at(62), &at(90)).await;
    assert_eq!((record.attempts, record.claims), (1, 2));
}

async fn a_parking_sent_again_counts_one_attempt(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lossy = lossy(&cx);
    let leases = [cx.claim_one(&at(1), &at(10)).await.lease];
    let (outbox, now) = (&cx.outbox, at(2));
    assert_lost(outbox.park_claimed(&lossy, &leases, &now, "no").await);
    let row = cx.entry("a").await;
    assert_eq!((row.attempts, row.next_attempt_at.as_str()), (1, PARKED));
    let again = outbox.park_claimed(&lossy, &leases, &at(3), "again").await;
    assert_eq!(again.expect("park"), [LeaseOutcome::Lost]);
    assert_eq!(cx.entry("a").await, row);
}

async fn a_reschedule_sent_again_changes_nothing_more(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lossy = lossy(&cx);
    let leases = [cx.claim_one(&at(1), &at(10)).await.lease];
    let outbox = &cx.outbox;
    assert_lost(outbox.reschedule_claimed(&lossy, &leases, &at(60)).await);
    let row = cx.entry("a").await;
    assert_eq!(row.next_attempt_at, at(60));
    let again = outbox.reschedule_claimed(&lossy, &leases, &at(70)).await;
    assert_eq!(again.expect("reschedule"), [LeaseOutcome::Lost]);
    assert_eq!(cx.entry("a").await, row, "the next run is not put off");
}

async fn a_release_sent_again_does_not_end_the_next_lease(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lossy = lossy(&cx);
    let leases = [cx.claim_one(&at(1), &at(10)).await.lease];
    let outbox = &cx.outbox;
    assert_lost(outbox.release_claimed(&lossy, &leases, &at(2)).await);
    let next = cx.claim_one(&at(2), &at(60)).await;
    let row = cx.entry("a").await;
    let again = outbox.release_claimed(&lossy, &leases, &at(2)).await;
    assert_eq!(again.expect("release"), [LeaseOutcome::Lost]);
    assert_eq!(cx.entry("a").await, row);
    assert_eq!(cx.complete(&next.lease).await, LeaseOutcome::Held);
}

async fn an_extension_sent_again_is_still_held(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let lossy = lossy(&cx);
    let leases = [cx.claim_one(&at(1), &at(10)).await.lease];
    let outbox = &cx.outbox;
    assert_lost(outbox.extend_claimed(&lossy, &leases, &at(60)).await);
    let row = cx.entry("a").await;
    assert_eq!(row.locked_until, Some(at(60)));
    let again = outbox.extend_claimed(&lossy, &leases, &at(60)).await;
    assert_eq!(again.expect("extend"), [LeaseOutcome::Held]);
    assert_eq!(cx.entry("a").await, row);
    assert_eq!(cx.complete(&leases[0]).await, LeaseOutcome::Held);
}

async fn an_operators_call_sent_again_does_not_act_twice(cx: Arc<Context>) {
    cx.enqueue_numbered(2, &at(0)).await;
    cx.claim(&at(1), &at(600), 1).await;
    let lossy = lossy(&cx);
    let (outbox, ids) = (&cx.outbox, ["r000", "r001", "none"]);

    assert_lost(outbox.release(&lossy, &ids).await);
    cx.claim(&at(2), &at(600), 1).await;
    let row = cx.entry("r001").await;
    let again = outbox.release(&lossy, &["r001"]).await.expect("release");
    assert_eq!((again, cx.entry("r001").await), (0, row));

    assert_lost(outbox.park(&lossy, &ids, &at(3), "why").await);
    let row = cx.entry("r000").await;
    let again = outbox.park(&lossy, &ids, &at(3), "why").await;
    assert_eq!((again.expect("park"), cx.entry("r000").await), (2, row));

    assert_lost(outbox.unpark(&lossy, &ids, &at(4)).await);
    cx.claim(&at(4), &at(600), 1).await;
    let rows = (cx.entry("r000").await, cx.entry("r001").await);
    let again = outbox.unpark(&lossy, &ids, &at(5)).await;
    assert_eq!(again.expect("unpark"), 0, "none is parked any more");
    assert_eq!((cx.entry("r000").await, cx.entry("r001").await), rows);
    assert_eq!(rows.0.state(&at(5)), RowState::Leased);

    assert_lost(outbox.delete(&lossy, &["r000"]).await);
    let again = outbox.delete(&lossy, &["r000"]).await;
    assert_eq!((again.expect("delete"), cx.count().await), (0, 1));
}

async fn an_erasure_sent_again_erases_nothing_more(cx: Arc<Context>) {
    for (id, subject) in [("a", "ada"), ("b", "ada"), ("c", "bob")] {
        cx.enqueue_for(id, subject, &at(0)).await;
    }
    let lossy = lossy(&cx);
    assert_lost(cx.outbox.erase_subject(&lossy, "ada", 9).await);
    let again = cx.outbox.erase_subject(&lossy, "ada", 9).await;
    assert_eq!((again.expect("erase"), cx.count().await), (0, 1));
}

async fn a_batch_repeated_with_its_id_is_a_conflict_and_applied_once(cx: Arc<Context>) {
    cx.make_account().await;
    cx.db.batch_atomic(&[account("a")]).await.expect("insert");
    let lossy = lossy(&cx);
    let batch = [
        Statement::new("UPDATE account SET version = version + 1 WHERE id = ?").bind("a"),
        cx.outbox
            .enqueue_statement("once", "t", "p", Some("ada"), &at(0)),
    ];
    assert_lost(lossy.batch_atomic(&batch).await);
    for _ in 0..2 {
        assert_refused(lossy.batch_atomic(&batch).await, Kind::Conflict);
    }
    let version = Statement::new("SELECT version FROM account WHERE id = 'a'");
    let rows = cx.db.query(&version).await.expect("the state");
    assert_eq!(rows[0].get::<i64>("version").expect("a version"), 1);
    assert_eq!(cx.count().await, 1);
}

async fn many_rows_enqueued_again_are_a_conflict_and_there_once(cx: Arc<Context>) {
    let lossy = lossy(&cx);
    let many = |rows: std::ops::Range<usize>| {
        let time = parse_time(&at(0)).expect("a time");
        let work = rows.map(|number| Enqueue::new("t").id(numbered(number)).at(time));
        [cx.outbox.enqueue_many_statement(work.collect::<Vec<_>>())]
    };
    assert_lost(lossy.batch_atomic(&many(0..50)).await);
    assert_refused(lossy.batch_atomic(&many(0..50)).await, Kind::Conflict);
    assert_refused(lossy.batch_atomic(&many(49..80)).await, Kind::Conflict);
    assert_eq!(cx.count().await, 50, "of the others none");
}

async fn an_effect_completed_in_its_batch_takes_place_once(cx: Arc<Context>) {
    cx.make_account().await;
    cx.db.batch_atomic(&[account("a")]).await.expect("insert");
    cx.enqueue("work", &at(0)).await;
    let lossy = lossy(&cx);
    let lease = cx.claim_one(&at(1), &at(10)).await.lease;
    let batch = [
        Statement::new("UPDATE account SET version = version + 1 WHERE id = ?").bind("a"),
        cx.outbox.complete_statement(&lease),
    ];
    assert_lost(lossy.batch_atomic(&batch).await);
    assert_refused(lossy.batch_atomic(&batch).await, Kind::RowCount);
    let version = Statement::new("SELECT version FROM account WHERE id = 'a'");
    let rows = cx.db.query(&version).await.expect("the state");
    assert_eq!(rows[0].get::<i64>("version").expect("a version"), 1);
    assert_eq!(cx.count().await, 0);
}

async fn a_drain_through_lost_answers_leaves_no_row(cx: Arc<Context>) {
    cx.enqueue_numbered(40, &at(0)).await;
    let lossy = lossy(&cx);
    let mut delivered = vec![0; 40];
    for round in 1..100 {
        let claim = Claim::new(at(round * 10), at(round * 10 + 10)).limit(7);
        // A claim that was lost, or a completion, is met again after its lease.
        let Ok(records) = cx.outbox.claim(&lossy, &claim).await else {
            continue;
        };
        for record in records {
            let number: usize = record.id[1..].parse().expect("its number");
            delivered[number] += 1;
            let leases = [record.lease];
            while cx.outbox.complete_claimed(&lossy, &leases).await.is_err() {}
        }
        if cx.count().await == 0 {
            break;
        }
    }
    assert_eq!(cx.count().await, 0);
    assert_eq!(delivered, [1; 40], "each was delivered once");
}

async fn an_error_that_says_not_applied_left_nothing(cx: Arc<Context>) {
    const TASKS: i64 = 4;
    const BATCHES: i64 = 40;
    cx.make_account().await;
    let tasks: Vec<_> = (0..TASKS)
        .map(|task| {
            let cx = Arc::clone(&cx);
            tokio::spawn(async move {
                let mut answers = Vec::new();
                for number in 0..BATCHES {
                    let id = format!("t{task}-{number}");
                    let enqueue = cx.outbox.enqueue_statement(&id, "t", "p", None, &at(0));
                    let answer = cx.db.batch_atomic(&[account(&id), enqueue]).await;
                    answers.push((id, answer));
                }
                answers
            })
        })
        .collect();
    while tasks.iter().any(|task| !task.is_finished()) {
        in_time(cx.sandbox.cut()).await;
        tokio::task::yield_now().await;
    }
    let mut answers = Vec::new();
    for task in tasks {
        answers.extend(in_time(task).await.expect("a task"));
    }
    let other = cx.sandbox.another().await;
    for (id, answer) in answers {
        // What the server still does for a connection that was cut is waited for.
        let batch = [
            account(&id),
            cx.outbox.enqueue_statement(&id, "t", "p", None, &at(0)),
        ];
        let there = match in_time(other.batch_atomic(&batch)).await {
            Ok(_) => false,
            Err(error) => error.kind() == Kind::Conflict,
        };
        match answer {
            Ok(_) => assert!(there, "{id} was said to be done"),
            Err(error) if error.outcome() == Outcome::NotApplied => {
                assert!(!there, "{id} was said not to be done: {error}");
            }
            Err(error) => assert_eq!(error.kind(), Kind::Unavailable, "{error}"),
        }
    }
    let all = TASKS * BATCHES;
    assert_eq!(
        (cx.count_in("account").await, cx.count().await),
        (all, all),
        "both halves of each, or none"
    );
}
