//! Dropped futures: whatever was begun is done or not done, and the handle
//! works on.
//!
//! A future can be dropped wherever it waits. Each test drops a call after one
//! poll, after two, and so on, on fresh rows, until the call is done; once right
//! after the poll, while the work is under way, and once when it is woken, with
//! the answer there and unread. What a dropped call has begun may still end
//! later, so each test looks at all of its rows in one query, and then writes
//! the same rows from another handle, which waits for whoever holds them.

mod cuts;

use std::sync::Arc;

use duebox_core::{
    Database, DbError, Kind, Lease, ListOptions, Outbox, Outcome, PARKED, Retry, Statement,
};

use self::cuts::{Cut, Cuts};
use super::chapter;
use crate::Context;
use crate::context::{account, at, in_time};

chapter!(cancel:
    a_dropped_batch_leaves_all_of_its_rows_or_none,
    a_dropped_statement_is_done_or_not_done,
    many_batches_dropped_at_once_leave_the_handle_working,
    a_dropped_claim_leases_all_of_its_rows_or_none,
    a_dropped_completion_sent_again_is_done_once,
    a_dropped_fenced_call_sent_again_acts_once,
    a_dropped_call_by_id_is_done_or_not_done,
    a_dropped_operators_call_changes_all_of_its_rows_or_none,
    a_dropped_erasure_erases_all_of_its_rows_or_none,
    a_dropped_read_leaves_the_handle_working,
);

/// Both halves of a unit of work: the caller's state and what must follow.
fn work(outbox: &Outbox, id: &str) -> [Statement; 2] {
    [
        account(id),
        outbox.enqueue_statement(id, "t", id, Some(id), &at(0)),
    ]
}

/// How many rows of the state and of the outbox there are of these ids, at one
/// instant.
async fn halves(db: &dyn Database, id: &str) -> (i64, i64) {
    let count = Statement::new(
        "SELECT (SELECT COUNT(*) FROM account WHERE id = ?) AS a, \
         (SELECT COUNT(*) FROM outbox WHERE id = ?) AS b",
    );
    let rows = db.query(&count.bind(id).bind(id)).await.expect("count");
    (
        rows[0].get("a").expect("a count"),
        rows[0].get("b").expect("a count"),
    )
}

/// How many rows of the outbox there are, at one instant, of which this holds.
async fn count_where(db: &dyn Database, condition: &str) -> i64 {
    let count = Statement::new(format!(
        "SELECT COUNT(*) AS n FROM outbox WHERE {condition}"
    ));
    let rows = db.query(&count).await.expect("count");
    rows[0].get("n").expect("a count")
}

/// Fails unless what the first handle writes is there for another to see.
async fn works_on(cx: &Context, other: &dyn Database, id: &str) {
    let id = format!("{id}-after");
    let done = in_time(cx.db.batch_atomic(&work(&cx.outbox, &id))).await;
    assert_eq!(done.expect("the handle works"), [1, 1]);
    assert_eq!(halves(other, &id).await, (1, 1), "it was committed");
    let delete = [
        "DELETE FROM account WHERE id = ?",
        "DELETE FROM outbox WHERE id = ?",
    ]
    .map(|sql| Statement::new(sql).bind(&id));
    let gone = in_time(other.batch_atomic(&delete)).await;
    assert_eq!(gone.expect("delete"), [1, 1]);
}

/// Does the same work from another handle, where it has not been done.
async fn finish(other: &dyn Database, outbox: &Outbox, id: &str) {
    match in_time(other.batch_atomic(&work(outbox, id))).await {
        Ok(counts) => assert_eq!(counts, [1, 1]),
        Err(error) => {
            assert_eq!(error.kind(), Kind::Conflict, "{error}");
            assert_eq!(error.outcome(), Outcome::NotApplied);
        }
    }
    assert_eq!(halves(other, id).await, (1, 1));
}

async fn a_dropped_batch_leaves_all_of_its_rows_or_none(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    let mut cuts = Cuts::of(0);
    while cuts.next() {
        let id = cuts.id();
        let batch = work(&cx.outbox, &id);
        let answer = cuts.call(cx.db.batch_atomic(&batch)).await;
        let (accounts, rows) = halves(&*other, &id).await;
        assert_eq!(accounts, rows, "poll {}", cuts.cut.polls);
        if let Some(answer) = answer {
            assert_eq!(answer.expect("it was done"), [1, 1]);
            assert_eq!(rows, 1);
        }
        finish(&*other, &cx.outbox, &id).await;
        works_on(&cx, &*other, &id).await;
    }
}

async fn a_dropped_statement_is_done_or_not_done(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    for expects in [false, true] {
        let mut cuts = Cuts::of(expects.into());
        while cuts.next() {
            let id = cuts.id();
            let [insert, _] = work(&cx.outbox, &id);
            let insert = if expects {
                insert.expect_rows(1)
            } else {
                insert
            };
            let answer = cuts.call(cx.db.execute(&insert)).await;
            assert!(answer.is_none_or(|answer| answer.expect("done") == 1));
            match in_time(other.execute(&insert)).await {
                Ok(rows) => assert_eq!(rows, 1),
                Err(error) => assert_eq!(error.kind(), Kind::Conflict, "{error}"),
            }
            assert_eq!(halves(&*other, &id).await, (1, 0));
            works_on(&cx, &*other, &id).await;
        }
    }
}

async fn many_batches_dropped_at_once_leave_the_handle_working(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    let tasks: Vec<_> = (0..64)
        .map(|number| {
            let cx = Arc::clone(&cx);
            let cut = Cut {
                polls: number % 8,
                when_woken: number % 16 < 8,
            };
            tokio::spawn(async move {
                let id = format!("many-{number}");
                let batch = work(&cx.outbox, &id);
                cut.call(cx.db.batch_atomic(&batch)).await;
                id
            })
        })
        .collect();
    for task in tasks {
        let id = in_time(task).await.expect("a task");
        let (accounts, rows) = halves(&*other, &id).await;
        assert_eq!(accounts, rows, "{id}");
        finish(&*other, &cx.outbox, &id).await;
    }
    for number in 0..16 {
        works_on(&cx, &*other, &format!("after-{number}")).await;
    }
}

/// Enqueues two rows of this place, for the subject of this place.
async fn two_rows(cx: &Context, cuts: &Cuts) -> [String; 2] {
    let ids = ["a", "b"].map(|letter| format!("{}{letter}", cuts.id()));
    for id in &ids {
        cx.enqueue_for(id, &cuts.id(), &at(cuts.second())).await;
    }
    ids
}

async fn claim_two(cx: &Context, cuts: &Cuts) -> Vec<Lease> {
    two_rows(cx, cuts).await;
    let now = at(cuts.second());
    let claimed = cx.claim(&now, &at(cuts.second() + 10), 2).await;
    claimed.into_iter().map(|record| record.lease).collect()
}

async fn a_dropped_claim_leases_all_of_its_rows_or_none(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    let mut cuts = Cuts::of(0);
    while cuts.next() {
        let ids = two_rows(&cx, &cuts).await;
        let (now, until) = (at(cuts.second()), at(cuts.second() + 10));
        let answer = cuts
            .call(cx.outbox.claim_due(&*cx.db, &now, &until, 9))
            .await;
        let leased = count_where(&*other, "locked_until IS NOT NULL").await;
        assert!(leased == 0 || leased == 2, "{leased} of 2 are leased");
        if let Some(records) = answer {
            assert_eq!((records.expect("claim").len(), leased), (2, 2));
        }
        // What the dropped call may still hold is waited for; then both come back.
        let mut back = 0;
        for _ in 0..4 {
            for id in &ids {
                let touch = Statement::new("UPDATE outbox SET topic = 't' WHERE id = ?");
                let touched = in_time(other.execute(&touch.bind(id))).await;
                assert_eq!(touched.expect("touch"), 1);
            }
            let (now, until) = (at(cuts.second() + 10), at(cuts.second() + 20));
            let again = cx.outbox.claim_due(&*other, &now, &until, 9).await;
            for record in again.expect("claim") {
                assert!(record.claims <= 2 && record.attempts == 0);
                back += 1;
            }
            if back == 2 {
                break;
            }
        }
        assert_eq!(back, 2, "no row is stranded");
        for id in &ids {
            cx.outbox.complete(&*other, id).await.expect("complete");
        }
        works_on(&cx, &*other, &cuts.id()).await;
    }
}

async fn a_dropped_completion_sent_again_is_done_once(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    let mut cuts = Cuts::of(0);
    while cuts.next() {
        let leases = claim_two(&cx, &cuts).await;
        let answer = cuts
            .call(cx.outbox.complete_claimed(&*cx.db, &leases))
            .await;
        let left = count_where(&*other, "subject IS NOT NULL").await;
        assert!(left == 0 || left == 2, "{left} of 2 are left");
        if let Some(outcomes) = answer {
            assert!(outcomes.expect("done").iter().all(|held| held.is_held()));
            assert_eq!(left, 0);
        }
        let again = in_time(cx.outbox.complete_claimed(&*other, &leases)).await;
        let again = again.expect("complete");
        assert_eq!(again[0], again[1], "both were held or both lost");
        assert_eq!(count_where(&*other, "subject IS NOT NULL").await, 0);
        works_on(&cx, &*other, &cuts.id()).await;
    }
}

async fn a_dropped_fenced_call_sent_again_acts_once(cx: Arc<Context>) {
    // What each does to both of its rows, as a condition on one that it has changed.
    let changes = [
        "attempts = 1 AND last_error = 'no' AND locked_until IS NULL",
        "attempts = 1 AND failed_at IS NOT NULL AND next_attempt_at > '9999'",
        "attempts = 0 AND locked_until IS NULL",
        "attempts = 0 AND locked_until IS NULL AND lapses = 0",
        "attempts = 0 AND locked_until > '2026-03-31'",
    ];
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    for (which, changed) in (0..).zip(changes) {
        let mut cuts = Cuts::of(which);
        while cuts.next() {
            let leases = claim_two(&cx, &cuts).await;
            let later = at(2_000_000);
            let send = async |db: &dyn Database| send(&cx.outbox, db, which, &leases, &later).await;
            cuts.call(send(&*cx.db)).await;
            let done = count_where(&*other, changed).await;
            assert!(done == 0 || done == 2, "{done} of 2 have {changed}");
            in_time(send(&*other)).await.expect("send again");
            assert_eq!(count_where(&*other, changed).await, 2, "{changed}");
            let erased = cx.outbox.erase_subject(&*other, &cuts.id(), 9).await;
            assert_eq!(erased.expect("erase"), 2);
            works_on(&cx, &*other, &cuts.id()).await;
        }
    }
}

async fn send(
    outbox: &Outbox,
    db: &dyn Database,
    which: u64,
    leases: &[Lease],
    later: &str,
) -> Result<(), DbError> {
    let retries: Vec<_> = leases
        .iter()
        .map(|lease| Retry {
            lease,
            next_attempt_at: later,
            error: "no",
        })
        .collect();
    let outcomes = match which {
        0 => outbox.retry_claimed(db, &at(1), &retries).await,
        1 => outbox.park_claimed(db, leases, &at(1), "no").await,
        2 => outbox.reschedule_claimed(db, leases, later).await,
        3 => outbox.release_claimed(db, leases, later).await,
        _ => {
            outbox
                .extend_claimed(db, leases, "2026-04-01T00:00:00Z")
                .await
        }
    };
    outcomes.map(drop)
}

async fn a_dropped_call_by_id_is_done_or_not_done(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    let mut cuts = Cuts::of(0);
    while cuts.next() {
        let [id, _] = two_rows(&cx, &cuts).await;
        let later = at(2_000_000);
        cuts.call(cx.outbox.retry_later(&*cx.db, &id, &later)).await;
        let row = cx.outbox.get(&*other, &id).await.expect("get");
        let row = row.expect("the row is there");
        assert_eq!(row.attempts == 1, row.next_attempt_at == later);
        works_on(&cx, &*other, &cuts.id()).await;
    }
    let mut cuts = Cuts::of(1);
    while cuts.next() {
        let id = cuts.id();
        cx.enqueue(&id, &at(0)).await;
        cuts.call(cx.outbox.complete(&*cx.db, &id)).await;
        in_time(cx.outbox.complete(&*other, &id))
            .await
            .expect("complete");
        assert_eq!(cx.outbox.get(&*other, &id).await.expect("get"), None);
        works_on(&cx, &*other, &cuts.id()).await;
    }
}

async fn a_dropped_operators_call_changes_all_of_its_rows_or_none(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    for (which, changed) in [
        (0, format!("next_attempt_at = '{PARKED}'")),
        (1, "next_attempt_at = '2026-03-01T00:00:07.000000Z'".into()),
        (2, "locked_until IS NULL".into()),
        (3, String::new()),
    ] {
        let mut cuts = Cuts::of(which);
        while cuts.next() {
            let leases = claim_two(&cx, &cuts).await;
            let ids: Vec<&str> = leases.iter().map(Lease::id).collect();
            let (outbox, now) = (&cx.outbox, at(7));
            if which == 1 {
                outbox.park(&*cx.db, &ids, &now, "").await.expect("park");
            }
            let send = async |db: &dyn Database| match which {
                0 => outbox.park(db, &ids, &now, "why").await,
                1 => outbox.unpark(db, &ids, &now).await,
                2 => outbox.release(db, &ids).await,
                _ => outbox.delete(db, &ids).await,
            };
            cuts.call(send(&*cx.db)).await;
            let condition = if which == 3 {
                "subject IS NOT NULL"
            } else {
                &changed
            };
            let done = count_where(&*other, condition).await;
            assert!(done == 0 || done == 2, "{done} of 2 have {condition}");
            in_time(send(&*other)).await.expect("send again");
            let expected = if which == 3 { 0 } else { 2 };
            assert_eq!(count_where(&*other, condition).await, expected);
            outbox.delete(&*other, &ids).await.expect("delete");
            works_on(&cx, &*other, &cuts.id()).await;
        }
    }
}

async fn a_dropped_erasure_erases_all_of_its_rows_or_none(cx: Arc<Context>) {
    cx.make_account().await;
    let other = cx.sandbox.another().await;
    let mut cuts = Cuts::of(0);
    while cuts.next() {
        two_rows(&cx, &cuts).await;
        cx.enqueue_for("bobs", "bob", &at(0)).await;
        cuts.call(cx.outbox.erase_subject(&*cx.db, &cuts.id(), 9))
            .await;
        let left = count_where(&*other, "subject <> 'bob'").await;
        assert!(left == 0 || left == 2, "{left} of 2 are left");
        let again = in_time(cx.outbox.erase_subject(&*other, &cuts.id(), 9)).await;
        assert!([0, 2].contains(&again.expect("erase")));
        assert_eq!(count_where(&*other, "subject <> 'bob'").await, 0);
        let bobs = cx.outbox.erase_subject(&*other, "bob", 9).await;
        assert_eq!(bobs.expect("erase"), 1);
        works_on(&cx, &*other, &cuts.id()).await;
    }
}

async fn a_dropped_read_leaves_the_handle_working(cx: Arc<Context>) {
    cx.make_account().await;
    cx.enqueue_numbered(200, &at(0)).await;
    let other = cx.sandbox.another().await;
    let all = Statement::new("SELECT id, payload FROM outbox");
    for which in 0..6 {
        let mut cuts = Cuts::of(which);
        while cuts.next() {
            let (db, outbox, now) = (&*cx.db, &cx.outbox, at(1));
            let options = ListOptions::new();
            let read = async || match which {
                0 => outbox.get(db, "r000").await.map(drop),
                1 => outbox.list(db, &now, &options).await.map(drop),
                2 => outbox.stats(db, &now).await.map(drop),
                3 => outbox.export_subject(db, "ada", None, 9).await.map(drop),
                4 => db.query(&all).await.map(drop),
                _ => db.now().await.map(drop),
            };
            if let Some(answer) = cuts.call(read()).await {
                answer.expect("it was read");
            }
            works_on(&cx, &*other, &cuts.id()).await;
        }
    }
}
