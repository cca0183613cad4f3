//! Completing and retrying in the batch in which a handler has its effect.

use std::sync::Arc;

use duebox_core::{Kind, Lease, Outcome, Retry, Statement};

use crate::Context;
use crate::context::{account, assert_refused, at};

/// A handler's effect: it must not happen twice.
fn effect() -> Statement {
    Statement::new("UPDATE account SET version = version + 1 WHERE id = 'a'").expect_rows(1)
}

async fn effects(cx: &Context) -> i64 {
    let rows = cx
        .query(Statement::new("SELECT version FROM account"))
        .await;
    rows[0].get("version").expect("a version")
}

async fn with_account(cx: &Context) {
    cx.make_account().await;
    cx.batch(&[account("a")]).await.expect("insert");
    cx.enqueue("w", &at(0)).await;
}

pub(super) async fn a_handler_takes_effect_once(cx: Arc<Context>) {
    with_account(&cx).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    let batch = [
        effect(),
        cx.outbox.complete_statement(&lease),
        cx.outbox.enqueue_statement("next", "t", "p", None, &at(0)),
    ];
    assert_eq!(cx.batch(&batch).await.expect("the effect"), [1, 1, 1]);
    assert_eq!(effects(&cx).await, 1);
    assert!(cx.row("w").await.is_none());
    // The answer was lost, and the same batch is sent again.
    for _ in 0..3 {
        let error = cx.batch(&batch).await.expect_err("it was done");
        assert_eq!(error.kind(), Kind::RowCount, "{error}");
        assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        assert_eq!(error.statement(), Some(1), "{error}");
    }
    assert_eq!(effects(&cx).await, 1);
    assert_eq!(cx.count().await, 1);
    // Even once the id is there again.
    cx.outbox.delete(&*cx.db, &["next"]).await.expect("delete");
    cx.enqueue("w", &at(1)).await;
    cx.claim_one(&at(1), &at(10)).await;
    assert_refused(cx.batch(&batch).await, Kind::RowCount);
    assert_eq!(effects(&cx).await, 1);
    assert_eq!(cx.count().await, 1);
}

pub(super) async fn a_handler_that_lost_its_lease_takes_no_effect(cx: Arc<Context>) {
    with_account(&cx).await;
    let first = cx.claim_one(&at(0), &at(10)).await.lease;
    let second = cx.claim_one(&at(10), &at(20)).await.lease;
    let batch = |lease: &Lease| [effect(), cx.outbox.complete_statement(lease)];
    assert_refused(cx.batch(&batch(&first)).await, Kind::RowCount);
    assert_eq!(effects(&cx).await, 0);
    assert_eq!(cx.entry("w").await.locked_until, Some(at(20)));
    // A lease that nobody retook is held, however late.
    assert_eq!(cx.batch(&batch(&second)).await.expect("held"), [1, 1]);
    assert_eq!(effects(&cx).await, 1);

    // An operator ends a lease too, and so does the seed's retry.
    cx.enqueue("w", &at(0)).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    cx.outbox.release(&*cx.db, &["w"]).await.expect("release");
    assert_refused(cx.batch(&batch(&lease)).await, Kind::RowCount);
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    let retried = cx.outbox.retry_later(&*cx.db, "w", &at(5)).await;
    retried.expect("retry");
    assert_refused(cx.batch(&batch(&lease)).await, Kind::RowCount);
    let lease = cx.claim_one(&at(5), &at(10)).await.lease;
    let parked = cx.outbox.park(&*cx.db, &["w"], &at(6), "no").await;
    assert_eq!(parked.expect("park"), 1);
    assert_refused(cx.batch(&batch(&lease)).await, Kind::RowCount);
    assert_eq!(effects(&cx).await, 1);
    assert_eq!(cx.count().await, 1);
}

pub(super) async fn a_lease_that_was_kept_elsewhere_completes_its_row(cx: Arc<Context>) {
    with_account(&cx).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    let kept = |id: &str, claims: u64, created_at: &str| {
        let lease = Lease::new(id, claims, created_at);
        cx.outbox.complete_statement(&lease)
    };
    // Each of its three parts counts.
    for wrong in [
        kept("W", 1, lease.created_at()),
        kept("w", 0, lease.created_at()),
        kept("w", 2, lease.created_at()),
        kept("w", u64::MAX, lease.created_at()),
        kept("w", 1, &at(1)),
    ] {
        assert_refused(cx.batch(&[effect(), wrong]).await, Kind::RowCount);
    }
    assert_eq!(effects(&cx).await, 0);
    let right = kept(lease.id(), lease.claims(), lease.created_at());
    assert_eq!(cx.batch(&[effect(), right]).await.expect("held"), [1, 1]);
    assert_eq!(cx.count().await, 0);
}

pub(super) async fn a_retry_in_a_batch_is_done_with_it(cx: Arc<Context>) {
    with_account(&cx).await;
    let lease = cx.claim_one(&at(0), &at(10)).await.lease;
    cx.outbox.release(&*cx.db, &["w"]).await.expect("release");
    cx.claim_one(&at(0), &at(1)).await;
    let record = cx.claim_one(&at(1), &at(10)).await;
    assert_eq!((record.claims, record.lapses), (3, 1));
    let retry = |lease| {
        let (next_attempt_at, error) = (at(60), "timed\nout");
        let retry = Retry {
            lease,
            next_attempt_at: &next_attempt_at,
            error,
        };
        cx.outbox.retry_statement(&at(5), retry)
    };
    assert_refused(cx.batch(&[effect(), retry(&lease)]).await, Kind::RowCount);
    let answer = cx.batch(&[retry(&record.lease), account("a")]).await;
    assert_refused(answer, Kind::Conflict);
    let row = cx.entry("w").await;
    assert_eq!((row.attempts, row.locked_until), (0, Some(at(10))));

    let counts = cx.batch(&[effect(), retry(&record.lease)]).await;
    assert_eq!(counts.expect("held"), [1, 1]);
    let row = cx.entry("w").await;
    assert_eq!((row.attempts, row.claims, row.lapses), (1, 3, 0));
    assert_eq!((row.locked_until, row.locked_by), (None, None));
    assert_eq!(row.next_attempt_at, at(60));
    assert_eq!(row.last_error.as_deref(), Some("timed out"));
    assert_eq!(row.failed_at, Some(at(5)));
    let again = cx.batch(&[effect(), retry(&record.lease)]).await;
    assert_refused(again, Kind::RowCount);
    assert_eq!(cx.entry("w").await.attempts, 1);
    assert_eq!(effects(&cx).await, 1);
}
