//! A person's rows: shown whole, erased whole, and nobody else's.

use std::sync::Arc;

use duebox_core::{DbError, Dialect, Kind, LeaseOutcome, OutboxEntry, Retry, RowState, Statement};

use super::chapter;
use crate::context::{account, assert_refused, at, in_time, numbered};
use crate::{Context, Hook};

chapter!(subject:
    an_export_shows_every_row_whole_in_whatever_state,
    an_export_comes_in_pages_in_byte_order_of_id,
    only_the_exact_subject_is_exported,
    only_the_exact_subject_is_erased,
    rows_that_name_nobody_are_left_alone,
    erasing_reaches_every_state,
    erasing_is_bounded_by_its_limit,
    erasing_is_bounded_however_the_table_was_counted,
    the_largest_limits_erase_all,
    a_completion_after_erasure_is_lost,
    a_claim_beside_erasure_brings_nothing_back,
    rows_of_a_subject_are_erased_with_the_callers_own_or_not_at_all,
    an_impossible_subject_is_refused_before_any_sql;
    Hook::Lock => erasing_waits_for_a_locked_row,
);

/// Subjects that a collation or a pattern could take for `user_a`.
const ALIKE: [&str; 14] = [
    "USER_A",
    "User_a",
    "usér_a",
    "use\u{301}r_a",
    "user_a ",
    " user_a",
    "user_a\u{a0}",
    "user_ａ",
    "user%a",
    "userXa",
    "user\\_a",
    "user_",
    "%",
    "user_a'--",
];

async fn export(cx: &Context, subject: &str) -> Vec<OutboxEntry> {
    cx.outbox
        .export_subject(&*cx.db, subject, None, u64::MAX)
        .await
        .expect("export")
}

async fn erase(cx: &Context, subject: &str, limit: u64) -> u64 {
    cx.outbox
        .erase_subject(&*cx.db, subject, limit)
        .await
        .expect("erase")
}

fn entry_ids(entries: &[OutboxEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

/// Rows of one subject that are parked, failed, leased, due and waiting, with
/// the two others' that stand between them.
async fn in_every_state(cx: &Context) {
    for (seconds, id) in (0..).zip(["failed", "leased", "lapsed", "parked"]) {
        cx.enqueue_for(id, "ada", &at(seconds)).await;
        cx.enqueue_for(&format!("{id}-of-another"), "bob", &at(seconds))
            .await;
    }
    for record in cx.claim(&at(10), &at(20), 2).await {
        let retry = Retry {
            lease: &record.lease,
            next_attempt_at: &at(900),
            error: "mailbox of ada is full",
        };
        cx.outbox
            .retry_claimed(&*cx.db, &at(11), &[retry])
            .await
            .expect("retry");
    }
    cx.claim(&at(12), &at(90), 2).await;
    cx.claim(&at(12), &at(13), 2).await;
    let parked = cx
        .outbox
        .park(&*cx.db, &["parked"], &at(14), "ada moved")
        .await;
    assert_eq!(parked.expect("park"), 1);
    cx.enqueue_for("due", "ada", &at(15)).await;
    cx.enqueue_for("waiting", "ada", &at(700)).await;
}

async fn an_export_shows_every_row_whole_in_whatever_state(cx: Arc<Context>) {
    in_every_state(&cx).await;
    let rows = export(&cx, "ada").await;
    let states: Vec<(&str, RowState)> = rows
        .iter()
        .map(|row| (row.id.as_str(), row.state(&at(50))))
        .collect();
    assert_eq!(
        states,
        [
            ("due", RowState::Due),
            ("failed", RowState::Waiting),
            ("lapsed", RowState::Due),
            ("leased", RowState::Leased),
            ("parked", RowState::Parked),
            ("waiting", RowState::Waiting),
        ]
    );
    for row in &rows {
        assert_eq!(row.subject.as_deref(), Some("ada"));
        assert_eq!(row.payload.as_deref(), Some(row.id.as_str()));
        assert_eq!(row.payload_bytes, row.id.len() as u64);
        assert_eq!(Some(row), cx.row(&row.id).await.as_ref());
    }
    assert_eq!(rows[1].attempts, 1);
    assert_eq!(
        rows[1].last_error.as_deref(),
        Some("mailbox of ada is full")
    );
    assert_eq!(rows[1].failed_at, Some(at(11)));
    assert_eq!(rows[3].locked_until, Some(at(90)));
    assert_eq!(rows[4].last_error.as_deref(), Some("ada moved"));
}

async fn an_export_comes_in_pages_in_byte_order_of_id(cx: Arc<Context>) {
    let in_order = ["0", "10", "9", "A", "Z", "_", "a", "aA", "aa", "~"];
    for place in 0..in_order.len() {
        let id = in_order[place * 7 % in_order.len()];
        cx.enqueue_for(id, "ada", &at(place as u64)).await;
        cx.enqueue_for(&format!("{id}-"), "bob", &at(0)).await;
    }
    let mut all = Vec::new();
    let mut after: Option<String> = None;
    for rows in [4, 4, 2, 0] {
        let page = cx
            .outbox
            .export_subject(&*cx.db, "ada", after.as_deref(), 4)
            .await
            .expect("export");
        assert_eq!(page.len(), rows);
        after = page.last().map(|row| row.id.clone()).or(after);
        all.extend(page.into_iter().map(|row| row.id));
    }
    assert_eq!(all, in_order);
    let none = cx.outbox.export_subject(&*cx.db, "ada", None, 0).await;
    assert_eq!(none.expect("export"), []);
}

async fn only_the_exact_subject_is_exported(cx: Arc<Context>) {
    enqueue_alike(&cx).await;
    assert_eq!(entry_ids(&export(&cx, "user_a").await), ["exact"]);
    for (number, subject) in ALIKE.iter().enumerate() {
        let rows = export(&cx, subject).await;
        assert_eq!(entry_ids(&rows), [numbered(number)], "{subject:?}");
        assert_eq!(rows[0].subject.as_deref(), Some(*subject));
    }
}

async fn only_the_exact_subject_is_erased(cx: Arc<Context>) {
    enqueue_alike(&cx).await;
    assert_eq!(erase(&cx, "user_a", u64::MAX).await, 1);
    assert_eq!(cx.row("exact").await, None);
    assert_eq!(usize::try_from(cx.count().await), Ok(ALIKE.len()));
    for (number, subject) in ALIKE.iter().enumerate().rev() {
        assert!(cx.row(&numbered(number)).await.is_some(), "{subject:?}");
        assert_eq!(erase(&cx, subject, u64::MAX).await, 1, "{subject:?}");
        assert_eq!(cx.row(&numbered(number)).await, None, "{subject:?}");
    }
}

async fn enqueue_alike(cx: &Context) {
    cx.enqueue_for("exact", "user_a", &at(0)).await;
    for (number, subject) in ALIKE.iter().enumerate() {
        cx.enqueue_for(&numbered(number), subject, &at(0)).await;
    }
}

async fn rows_that_name_nobody_are_left_alone(cx: Arc<Context>) {
    cx.enqueue("nobody", &at(0)).await;
    cx.enqueue_for("null", "null", &at(0)).await;
    assert_eq!(entry_ids(&export(&cx, "null").await), ["null"]);
    assert_eq!(erase(&cx, "nobody", u64::MAX).await, 0);
    assert_eq!(erase(&cx, "null", u64::MAX).await, 1);
    assert_eq!(cx.entry("nobody").await.subject, None);
}

async fn erasing_reaches_every_state(cx: Arc<Context>) {
    in_every_state(&cx).await;
    assert_eq!(erase(&cx, "ada", u64::MAX).await, 6);
    assert_eq!(export(&cx, "ada").await, []);
    assert_eq!(export(&cx, "bob").await.len(), 4);
    assert_eq!(cx.count().await, 4);
    let left = cx.claim(&at(10_000), &at(20_000), u64::MAX).await;
    assert!(left.iter().all(|row| row.subject.as_deref() == Some("bob")));
}

async fn erasing_is_bounded_by_its_limit(cx: Arc<Context>) {
    for number in 0..25 {
        cx.enqueue_for(&numbered(number), "ada", &at(0)).await;
    }
    cx.enqueue_for("other", "bob", &at(0)).await;
    assert_eq!(erase(&cx, "ada", 0).await, 0);
    assert_eq!(cx.count().await, 26);
    for (erased, left) in [(10, 16), (10, 6), (5, 1), (0, 1)] {
        assert_eq!(erase(&cx, "ada", 10).await, erased);
        assert_eq!(cx.count().await, left);
    }
    assert!(cx.row("other").await.is_some());
}

/// A planner goes by what it last counted, which may be nothing, or long ago.
async fn erasing_is_bounded_however_the_table_was_counted(cx: Arc<Context>) {
    let count = match cx.dialect() {
        Dialect::MySql => "ANALYZE TABLE outbox",
        _ => "ANALYZE outbox",
    };
    for counted in [0, 1, 40] {
        cx.execute("DELETE FROM outbox").await;
        let enqueue = async |rows: std::ops::Range<usize>| {
            for row in rows {
                cx.enqueue_for(&numbered(row), "ada", &at(0)).await;
            }
        };
        enqueue(0..counted).await;
        cx.query(Statement::new(count)).await;
        enqueue(counted..counted + 5).await;
        let mut left = counted as u64 + 5;
        while left > 0 {
            let erased = erase(&cx, "ada", 2).await;
            assert_eq!(erased, left.min(2), "counted {counted}, left {left}");
            left -= erased;
            assert_eq!(cx.count().await.unsigned_abs(), left);
        }
    }
}

async fn the_largest_limits_erase_all(cx: Arc<Context>) {
    for limit in [1 << 31, 1 << 32, (1 << 32) + 1, 1 << 63, u64::MAX] {
        for id in ["a", "b", "c"] {
            cx.enqueue_for(id, "ada", &at(0)).await;
        }
        let all = cx.outbox.export_subject(&*cx.db, "ada", None, limit).await;
        assert_eq!(entry_ids(&all.expect("export")), ["a", "b", "c"]);
        assert_eq!(erase(&cx, "ada", limit).await, 3, "limit {limit}");
    }
}

async fn a_completion_after_erasure_is_lost(cx: Arc<Context>) {
    for id in ["a", "b"] {
        cx.enqueue_for(id, "ada", &at(0)).await;
    }
    cx.enqueue_for("c", "bob", &at(0)).await;
    let leases: Vec<_> = cx
        .claim(&at(1), &at(60), 9)
        .await
        .into_iter()
        .map(|record| record.lease)
        .collect();
    assert_eq!(erase(&cx, "ada", u64::MAX).await, 2);
    let retry = Retry {
        lease: &leases[0],
        next_attempt_at: &at(2),
        error: "late",
    };
    let late = cx.outbox.retry_claimed(&*cx.db, &at(2), &[retry]).await;
    assert_eq!(late.expect("retry"), [LeaseOutcome::Lost]);
    let outcomes = cx.outbox.complete_claimed(&*cx.db, &leases).await;
    assert_eq!(
        outcomes.expect("complete"),
        [LeaseOutcome::Lost, LeaseOutcome::Lost, LeaseOutcome::Held]
    );
    assert_eq!(cx.count().await, 0);
}

async fn a_claim_beside_erasure_brings_nothing_back(cx: Arc<Context>) {
    const ROWS: usize = 60;
    for number in 0..ROWS {
        cx.enqueue_for(&numbered(number), "ada", &at(0)).await;
    }
    let other = cx.sandbox.another().await;
    let claimer = {
        let cx = Arc::clone(&cx);
        tokio::spawn(async move {
            for round in 0..20 {
                let (now, until) = (at(round * 10), at(round * 10 + 10));
                let got = cx.outbox.claim_due(&other, &now, &until, 7).await;
                let leases: Vec<_> = got
                    .expect("claim")
                    .into_iter()
                    .map(|record| record.lease)
                    .collect();
                cx.outbox
                    .release_claimed(&other, &leases, &now)
                    .await
                    .expect("release");
            }
        })
    };
    let mut erased = 0;
    while erased < ROWS as u64 {
        erased += in_time(erase(&cx, "ada", 7)).await;
    }
    assert_eq!(export(&cx, "ada").await, []);
    in_time(claimer).await.expect("the claimer");
    assert_eq!(cx.count().await, 0);
}

async fn rows_of_a_subject_are_erased_with_the_callers_own_or_not_at_all(cx: Arc<Context>) {
    cx.make_account().await;
    for id in ["a", "b", "c"] {
        cx.enqueue_for(id, "ada", &at(0)).await;
    }
    cx.enqueue_for("d", "bob", &at(0)).await;
    cx.db.batch_atomic(&[account("ada")]).await.expect("insert");
    cx.claim(&at(1), &at(60), 1).await;
    let close = Statement::new("DELETE FROM account WHERE id = ?").bind("ada");
    let erase = || cx.outbox.erase_subject_statement("ada");
    let fails = Statement::new("UPDATE account SET version = 1 WHERE id = 'none'").expect_rows(1);
    let undone = cx.db.batch_atomic(&[close.clone(), erase(), fails]).await;
    assert_refused(undone, Kind::RowCount);
    assert_eq!((cx.count().await, cx.count_in("account").await), (4, 1));
    let counts = cx.db.batch_atomic(&[close, erase()]).await;
    assert_eq!(counts.expect("erase"), [1, 3]);
    assert_eq!((cx.count().await, cx.count_in("account").await), (1, 0));
    assert_eq!(cx.db.execute(&erase()).await.expect("once more"), 0);
}

async fn an_impossible_subject_is_refused_before_any_sql(cx: Arc<Context>) {
    cx.make_account().await;
    let refused = |answer: Result<(), DbError>| assert_refused(answer, Kind::InvalidArgument);
    for subject in ["", "a\0", "a\nb", "\u{7f}", &"x".repeat(256)] {
        let (db, outbox) = (&*cx.db, &cx.outbox);
        refused(outbox.export_subject(db, subject, None, 1).await.map(drop));
        refused(outbox.erase_subject(db, subject, 1).await.map(drop));
        let batch = [account("a"), outbox.erase_subject_statement(subject)];
        refused(db.batch_atomic(&batch).await.map(drop));
    }
    assert_eq!(cx.count_in("account").await, 0);
    let longest = "x".repeat(255);
    cx.enqueue_for("a", &longest, &at(0)).await;
    assert_eq!(entry_ids(&export(&cx, &longest).await), ["a"]);
    assert_eq!(erase(&cx, &longest, 1).await, 1);
}

async fn erasing_waits_for_a_locked_row(cx: Arc<Context>) {
    let other = cx.sandbox.another().await;
    for round in 0..4 {
        for id in ["a", "b", "c"] {
            cx.enqueue_for(id, "ada", &at(0)).await;
        }
        for number in 0..40 {
            let id = format!("w{number}");
            cx.enqueue_for(&id, &id, &at(0)).await;
        }
        let lock = cx.sandbox.lock("outbox", ["b", "a", "c", "b"][round]).await;
        let (start, begun) = tokio::sync::oneshot::channel();
        let erasing = {
            let (outbox, other) = (cx.outbox.clone(), Arc::clone(&other));
            tokio::spawn(async move {
                start.send(()).expect("the test waits");
                outbox.erase_subject(&other, "ada", u64::MAX).await
            })
        };
        begun.await.expect("it has begun");
        // The witnesses: as many erasures of others, from the same handle, end
        // meanwhile, and this one does not.
        for number in 0..40 {
            let subject = format!("w{number}");
            let erased = in_time(cx.outbox.erase_subject(&other, &subject, 9)).await;
            assert_eq!(erased.expect("erase"), 1);
        }
        assert!(!erasing.is_finished(), "it waits for the row");
        drop(lock);
        let erased = in_time(erasing).await.expect("the task");
        assert_eq!(erased.expect("erase"), 3, "no locked row was skipped");
        assert_eq!(cx.count().await, 0);
    }
}
