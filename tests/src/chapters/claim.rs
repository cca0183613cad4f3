//! Claims: which rows, how many, in which order, and beside whom.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use duebox_core::{Claim, ClaimCursor, Kind, PARKED, Retry, RowState, Statement};

use super::chapter;
use crate::context::{assert_refused, at, at_micros, ids, in_time, numbered};
use crate::{Context, Hook};

chapter!(claim:
    an_empty_queue_gives_nothing,
    a_limit_of_zero_touches_nothing,
    the_largest_limits_take_all,
    a_claim_takes_a_hundred_rows_unless_told,
    a_failing_claim_is_an_error_and_never_no_rows,
    a_claim_refuses_an_impossible_holder,
    the_oldest_rows_are_taken_whatever_order_they_are_stored_in,
    rows_of_one_time_come_in_byte_order_of_id_across_claims,
    rows_waiting_leased_or_parked_are_passed_over,
    the_last_instants_are_times_like_others,
    rows_newly_leased_are_the_rows_returned,
    whoever_holds_a_row_is_named_until_the_lease_ends,
    a_row_enqueued_beside_claims_is_handed_out_once_in_its_lease;
    Hook::Lock =>
    a_claim_passes_over_locked_rows_without_waiting,
    a_claim_passes_over_locked_rows_of_a_small_table,
);

async fn an_empty_queue_gives_nothing(cx: Arc<Context>) {
    for limit in [1, 100, u64::MAX] {
        assert!(cx.claim(&at(0), &at(10), limit).await.is_empty());
    }
    cx.enqueue("a", &at(0)).await;
    cx.claim_one(&at(0), &at(10)).await;
    assert!(cx.claim(&at(0), &at(10), 1).await.is_empty());
}

async fn a_limit_of_zero_touches_nothing(cx: Arc<Context>) {
    cx.enqueue_numbered(5, &at(0)).await;
    let before = cx.entry("r000").await;
    assert!(cx.claim(&at(1), &at(10), 0).await.is_empty());
    let claim = Claim::new(at(1), at(10)).limit(0);
    let got = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    assert!(got.is_empty());
    assert_eq!(cx.entry("r000").await, before);
    assert_eq!(
        ids(&cx.claim(&at(1), &at(10), 9).await),
        ["r000", "r001", "r002", "r003", "r004"],
    );
    let refused = cx.outbox.claim_due(&*cx.db, &at(1), &at(1), 0).await;
    assert_refused(refused, Kind::InvalidArgument);
}

async fn the_largest_limits_take_all(cx: Arc<Context>) {
    let limits = [
        1 << 31,
        1 << 32,
        (1 << 32) + 1,
        (1 << 63) - 1,
        1 << 63,
        u64::MAX,
    ];
    cx.enqueue_numbered(5, &at(0)).await;
    for (round, limit) in (1..).zip(limits) {
        let got = cx.claim(&at(round * 10), &at(round * 10 + 10), limit).await;
        assert_eq!(got.len(), 5, "limit {limit}");
        assert!(got.iter().all(|record| record.claims == round));
    }
}

async fn a_claim_takes_a_hundred_rows_unless_told(cx: Arc<Context>) {
    cx.enqueue_numbered(150, &at(0)).await;
    let claim = Claim::new(at(1), at(10));
    for rows in [100, 50, 0] {
        let got = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
        assert_eq!(got.len(), rows);
    }
}

async fn a_failing_claim_is_an_error_and_never_no_rows(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    cx.claim_one(&at(0), &at(1)).await;
    cx.execute("DROP TABLE outbox").await;
    let started = || Duration::ZERO;
    for _ in 0..3 {
        let claim = Claim::new(at(1), at(10));
        let mut cursor = ClaimCursor::new();
        let answers = [
            cx.outbox.claim_due(&*cx.db, &at(1), &at(10), 1).await,
            cx.outbox.claim(&*cx.db, &claim).await,
            cx.outbox
                .claim_through(&*cx.db, &claim, &mut cursor, &started)
                .await,
        ];
        for answer in answers {
            let error = answer.expect_err("there is no table");
            assert_eq!(error.kind(), Kind::Schema, "{error}");
        }
    }
}

async fn a_claim_refuses_an_impossible_holder(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    for name in ["", "a\tb", "a\0b", &"x".repeat(256)] {
        let claim = Claim::new(at(1), at(10)).locked_by(name);
        assert_refused(
            cx.outbox.claim(&*cx.db, &claim).await,
            Kind::InvalidArgument,
        );
    }
    let longest = "é".repeat(127);
    let claim = Claim::new(at(1), at(10)).locked_by(&longest);
    let got = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    assert_eq!(ids(&got), ["a"]);
    assert_eq!(cx.entry("a").await.locked_by, Some(longest));
}

async fn the_oldest_rows_are_taken_whatever_order_they_are_stored_in(cx: Arc<Context>) {
    const ROWS: usize = 1_000;
    // 389 and 1000 have no common factor: each row comes once, out of order.
    let shuffled = || (0..ROWS).map(|place| place * 389 % ROWS);
    let time = |number: usize| at(number as u64 / 2);
    cx.enqueue_each(shuffled().map(|number| (format!("r{number:04}"), time(number))))
        .await;
    for number in shuffled().step_by(3) {
        let id = format!("r{number:04}");
        let again = cx.outbox.enqueue_statement(
            &id,
            "t",
            &"churn ".repeat(number % 50),
            None,
            &time(number),
        );
        let delete = Statement::new("DELETE FROM outbox WHERE id = ?").bind(id);
        cx.db.batch_atomic(&[delete, again]).await.expect("churn");
    }
    cx.execute("UPDATE outbox SET topic = 'u' WHERE id LIKE '%7' OR id LIKE '%0'")
        .await;
    for round in 0..10 {
        let got = cx.claim(&at(1_000), &at(2_000), 100).await;
        let oldest: Vec<String> = (round * 100..round * 100 + 100)
            .map(|number| format!("r{number:04}"))
            .collect();
        assert_eq!(ids(&got), oldest, "round {round}");
    }
}

async fn rows_of_one_time_come_in_byte_order_of_id_across_claims(cx: Arc<Context>) {
    let in_order = [
        "!", "-", "0", "10", "9", "A", "B", "Z", "_", "a", "aA", "aa", "z", "~",
    ];
    let shuffled = (0..in_order.len()).map(|place| in_order[place * 5 % in_order.len()]);
    cx.enqueue_each(shuffled.map(|id| (id.to_owned(), at(0))))
        .await;
    let mut all = Vec::new();
    for _ in 0..5 {
        let got = cx.claim(&at(1), &at(60), 3).await;
        all.extend(got.into_iter().map(|record| record.id));
    }
    assert_eq!(all, in_order);
}

async fn rows_waiting_leased_or_parked_are_passed_over(cx: Arc<Context>) {
    cx.enqueue_each((0..600).map(|number| (format!("later-{number}"), at(1_000 + number))))
        .await;
    cx.enqueue_each((0..600).map(|number| (format!("leased-{number}"), at(number))))
        .await;
    cx.enqueue_each((0..50).map(|number| (format!("parked-{number}"), PARKED.to_owned())))
        .await;
    let held = cx.claim(&at(700), &at(5_000), u64::MAX).await;
    assert_eq!(held.len(), 600);
    // Due before, between and behind what is leased.
    cx.enqueue("first", &at_micros(1)).await;
    cx.enqueue("second", &at(300)).await;
    cx.enqueue("third", &at(750)).await;
    let got = cx.claim(&at(800), &at(5_000), u64::MAX).await;
    assert_eq!(ids(&got), ["first", "second", "third"]);
    let got = cx.claim(&at(1_001), &at(5_000), u64::MAX).await;
    assert_eq!(ids(&got), ["later-0", "later-1"]);
    for record in &held[..2] {
        let leases = [record.lease.clone()];
        let outcome = cx
            .outbox
            .release_claimed(&*cx.db, &leases, &at(900))
            .await
            .expect("release");
        assert!(outcome[0].is_held());
    }
    let got = cx.claim(&at(1_001), &at(5_000), u64::MAX).await;
    assert_eq!(ids(&got), ["leased-0", "leased-1"]);
}

async fn the_last_instants_are_times_like_others(cx: Arc<Context>) {
    const LAST_BUT_ONE: &str = "9999-12-31T23:59:59.999998Z";
    const LAST_BUT_TWO: &str = "9999-12-31T23:59:59.999997Z";
    cx.enqueue("parked", PARKED).await;
    cx.enqueue("last", LAST_BUT_ONE).await;
    assert!(
        cx.claim(LAST_BUT_TWO, PARKED, u64::MAX).await.is_empty(),
        "it is not due a microsecond before its time"
    );
    let got = cx.claim(LAST_BUT_ONE, PARKED, u64::MAX).await;
    assert_eq!(ids(&got), ["last"]);
    // A lease up to the last instant is a lease; the row is not parked by it.
    assert_eq!(cx.entry("last").await.state(LAST_BUT_ONE), RowState::Leased);
    assert!(cx.claim(LAST_BUT_ONE, PARKED, u64::MAX).await.is_empty());
    let released = cx.outbox.release(&*cx.db, &["last", "parked"]).await;
    assert_eq!(released.expect("release"), 1);
    let got = cx.claim(LAST_BUT_ONE, PARKED, u64::MAX).await;
    assert_eq!(ids(&got), ["last"]);
}

async fn rows_newly_leased_are_the_rows_returned(cx: Arc<Context>) {
    const ROWS: usize = 480;
    cx.enqueue_numbered(ROWS, &at(0)).await;
    let other = cx.sandbox.another().await;
    let tasks: Vec<_> = (0..8_u64)
        .map(|task| {
            let cx = Arc::clone(&cx);
            let db = if task < 4 {
                cx.db.clone()
            } else {
                other.clone()
            };
            let limit = if task % 2 == 0 { 1 } else { 5 };
            tokio::spawn(async move {
                let mut all = Vec::new();
                for number in 0..20 {
                    let name = format!("task {task} claim {number}");
                    let claim = Claim::new(at(1), at(600)).limit(limit).locked_by(&name);
                    let got = cx.outbox.claim(&db, &claim).await.expect("claim");
                    let held = Statement::new(
                        "SELECT id FROM outbox WHERE locked_by = ? ORDER BY next_attempt_at, id",
                    )
                    .bind(&name);
                    let held: Vec<String> = db
                        .query(&held)
                        .await
                        .expect("who holds what")
                        .iter()
                        .map(|row| row.get("id").expect("an id"))
                        .collect();
                    assert_eq!(ids(&got), held, "{name}");
                    assert!(held.len() as u64 <= limit);
                    all.extend(held);
                }
                all
            })
        })
        .collect();
    let mut all = Vec::new();
    for task in tasks {
        all.extend(task.await.expect("a claimer"));
    }
    let returned = all.len() as u64;
    let distinct: BTreeSet<String> = all.into_iter().collect();
    assert_eq!(
        distinct.len() as u64,
        returned,
        "no row was handed out twice"
    );
    let stats = cx.outbox.stats(&*cx.db, &at(1)).await.expect("stats");
    assert_eq!(stats.leased, returned);
    assert_eq!(stats.due, ROWS as u64 - returned);
}

async fn whoever_holds_a_row_is_named_until_the_lease_ends(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    for ending in 0..7 {
        let now = at(ending * 10);
        let claim = Claim::new(&*now, at(ending * 10 + 5)).locked_by("mailer 2");
        let mut got = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
        let leases = [got.remove(0).lease];
        let row = cx.entry("a").await;
        assert_eq!(row.locked_by.as_deref(), Some("mailer 2"));
        assert_eq!(row.locked_until, Some(at(ending * 10 + 5)));
        let (db, outbox) = (&*cx.db, &cx.outbox);
        let retry = Retry {
            lease: &leases[0],
            next_attempt_at: &now,
            error: "no",
        };
        let done = match ending {
            0 => outbox.release_claimed(db, &leases, &now).await.map(drop),
            1 => outbox.retry_claimed(db, &now, &[retry]).await.map(drop),
            2 => outbox.reschedule_claimed(db, &leases, &now).await.map(drop),
            3 => outbox.retry_later(db, "a", &now).await,
            4 => outbox.release(db, &["a"]).await.map(drop),
            5 => outbox.park(db, &["a"], &now, "why").await.map(drop),
            _ => outbox.park_claimed(db, &leases, &now, "no").await.map(drop),
        };
        done.expect("end the lease");
        let row = cx.entry("a").await;
        assert_eq!((row.locked_by, row.locked_until), (None, None), "{ending}");
        outbox.unpark(db, &["a"], &now).await.expect("unpark");
    }
    let now = at(100);
    cx.claim_one(&now, &at(110)).await;
    assert_eq!(
        cx.entry("a").await.locked_by,
        None,
        "a claim without a name"
    );
}

async fn a_row_enqueued_beside_claims_is_handed_out_once_in_its_lease(cx: Arc<Context>) {
    const ROWS: usize = 240;
    let taken = Arc::new(AtomicUsize::new(0));
    let enqueuer = {
        let cx = Arc::clone(&cx);
        tokio::spawn(async move {
            for number in 0..ROWS {
                cx.enqueue(&numbered(number), &at(0)).await;
            }
        })
    };
    let other = cx.sandbox.another().await;
    let claimers: Vec<_> = (0..4)
        .map(|task| {
            let cx = Arc::clone(&cx);
            let db = if task < 2 {
                cx.db.clone()
            } else {
                other.clone()
            };
            let taken = Arc::clone(&taken);
            tokio::spawn(async move {
                let mut all = Vec::new();
                while taken.load(Ordering::SeqCst) < ROWS {
                    let got = cx.outbox.claim_due(&db, &at(1), &at(31), 10).await;
                    let got = got.expect("claim");
                    taken.fetch_add(got.len(), Ordering::SeqCst);
                    all.extend(got.into_iter().map(|record| record.id));
                }
                all
            })
        })
        .collect();
    in_time(enqueuer).await.expect("the enqueuer");
    let mut all = Vec::new();
    for claimer in claimers {
        all.extend(in_time(claimer).await.expect("a claimer"));
    }
    all.sort_unstable();
    assert_eq!(all, (0..ROWS).map(numbered).collect::<Vec<_>>());
}

async fn a_claim_passes_over_locked_rows_without_waiting(cx: Arc<Context>) {
    cx.enqueue_numbered(1_000, &at(0)).await;
    passes_over(&cx, &["r000", "r001", "r003", "r011"]).await;
}

/// Planners treat small tables differently, and what is read is locked.
async fn a_claim_passes_over_locked_rows_of_a_small_table(cx: Arc<Context>) {
    cx.enqueue_numbered(300, &at(0)).await;
    passes_over(&cx, &["r001"]).await;
}

async fn passes_over(cx: &Context, locked: &[&str]) {
    let mut locks = Vec::new();
    for id in locked {
        locks.push(cx.sandbox.lock("outbox", id).await);
    }
    let free = (0..).map(numbered).filter(|id| !locked.contains(&&**id));
    let expected: Vec<String> = free.take(10).collect();
    let got = in_time(cx.claim(&at(1), &at(60), 10)).await;
    assert_eq!(ids(&got), expected);
    drop(locks);
    // Whoever locked them is gone when their rows can be written.
    for id in locked {
        let touch = Statement::new("UPDATE outbox SET topic = 't' WHERE id = ?").bind(*id);
        let touched = in_time(cx.db.execute(&touch)).await;
        assert_eq!(touched.expect("touch"), 1);
    }
    let got = cx.claim(&at(1), &at(60), locked.len() as u64).await;
    assert_eq!(ids(&got), locked);
}
