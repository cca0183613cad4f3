//! More rows, leases and ids in one call than a statement can bind.

use std::collections::BTreeSet;
use std::sync::Arc;

use duebox_core::{Enqueue, Kind, LeaseOutcome, OutboxRecord, Retry, Statement, parse_time};

use crate::Context;
use crate::context::{account, assert_refused, at, at_micros};

const MANY: usize = 3_000;

fn work(rows: usize) -> impl Iterator<Item = Enqueue> {
    let time = parse_time(&at(0)).expect("a time");
    (0..rows).map(move |number| Enqueue::new("t").id(format!("r{number:05}")).at(time))
}

async fn claim_many(cx: &Context) -> Vec<OutboxRecord> {
    let statement = cx.outbox.enqueue_many_statement(work(MANY));
    cx.batch(&[statement]).await.expect("enqueue");
    let records = cx.claim(&at(0), &at(10), u64::MAX).await;
    assert_eq!(records.len(), MANY);
    assert!(records.is_sorted_by(|a, b| a.id < b.id));
    records
}

async fn count_where(cx: &Context, condition: &str) -> i64 {
    let sql = format!("SELECT COUNT(*) AS n FROM outbox WHERE {condition}");
    let rows = cx.query(Statement::new(sql)).await;
    rows[0].get("n").expect("a count")
}

pub(super) async fn ten_thousand_rows_are_enqueued_by_one_statement(cx: Arc<Context>) {
    cx.make_account().await;
    let too_many = cx.outbox.enqueue_many_statement(work(10_001));
    cx.refuses(too_many, Kind::InvalidArgument, "10 001 rows")
        .await;
    let all = cx.outbox.enqueue_many_statement(work(10_000));
    let answer = cx.batch(&[all.clone(), account("a"), account("a")]).await;
    assert_refused(answer, Kind::Conflict);
    assert_eq!(cx.count().await, 0);
    let counts = cx.batch(&[account("a"), all.clone()]).await;
    assert_eq!(counts.expect("enqueue"), [1, 10_000]);
    assert_eq!(cx.count().await, 10_000);
    assert_refused(cx.db.execute(&all).await, Kind::Conflict);
    assert_eq!(cx.count().await, 10_000);
}

pub(super) async fn thousands_of_leases_are_completed_by_one_call(cx: Arc<Context>) {
    let records = claim_many(&cx).await;
    let lost = &records[1_500];
    cx.outbox
        .release(&*cx.db, &[&lost.id])
        .await
        .expect("release");
    let leases: Vec<_> = records.iter().map(|record| record.lease.clone()).collect();
    let outcomes = cx
        .outbox
        .complete_claimed(&*cx.db, &leases)
        .await
        .expect("complete");
    assert_eq!(outcomes.len(), MANY);
    for (number, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.is_held(), number != 1_500, "{number}");
    }
    assert_eq!(cx.count().await, 1);
    let again = cx.outbox.complete_claimed(&*cx.db, &leases).await;
    assert_eq!(again.expect("complete"), [LeaseOutcome::Lost; MANY]);
}

pub(super) async fn thousands_of_retries_each_keep_their_own(cx: Arc<Context>) {
    let records = claim_many(&cx).await;
    let own: Vec<(String, String)> = (0..MANY)
        .map(|number| {
            let time = at_micros(60_000_000 + number as u64);
            (time, format!("failure {number}"))
        })
        .collect();
    let retries: Vec<Retry<'_>> = records
        .iter()
        .zip(&own)
        .map(|(record, (next_attempt_at, error))| Retry {
            lease: &record.lease,
            next_attempt_at,
            error,
        })
        .collect();
    let outcomes = cx.outbox.retry_claimed(&*cx.db, &at(5), &retries).await;
    assert_eq!(outcomes.expect("retry"), [LeaseOutcome::Held; MANY]);
    let sql = "SELECT id, next_attempt_at, last_error, attempts FROM outbox ORDER BY id";
    let rows = cx.query(Statement::new(sql)).await;
    for (row, (next_attempt_at, error)) in rows.iter().zip(&own) {
        let text = |name| row.get::<String>(name).expect("a text");
        assert_eq!(&text("next_attempt_at"), next_attempt_at);
        assert_eq!(&text("last_error"), error);
        assert_eq!(row.get::<i64>("attempts").expect("a number"), 1);
    }
    let due = cx.claim(&at_micros(60_000_999), &at(90), u64::MAX).await;
    assert_eq!(due.len(), 1_000);
}

pub(super) async fn thousands_of_leases_are_ended_by_one_call(cx: Arc<Context>) {
    let mut records = claim_many(&cx).await;
    let held = [LeaseOutcome::Held; MANY];
    let (db, outbox) = (&*cx.db, &cx.outbox);
    let leases = |records: &[OutboxRecord]| -> Vec<_> {
        records.iter().map(|record| record.lease.clone()).collect()
    };
    let extended = outbox.extend_claimed(db, &leases(&records), &at(20)).await;
    assert_eq!(extended.expect("extend"), held);
    let until = format!("locked_until = '{}'", at(20));
    assert_eq!(count_where(&cx, &until).await, 3_000);
    let released = outbox.release_claimed(db, &leases(&records), &at(1)).await;
    assert_eq!(released.expect("release"), held);
    assert_eq!(count_where(&cx, "locked_until IS NULL").await, 3_000);

    records = cx.claim(&at(1), &at(10), u64::MAX).await;
    let rescheduled = outbox
        .reschedule_claimed(db, &leases(&records), &at(2))
        .await;
    assert_eq!(rescheduled.expect("reschedule"), held);
    records = cx.claim(&at(2), &at(10), u64::MAX).await;
    let parked = outbox
        .park_claimed(db, &leases(&records), &at(3), "no")
        .await;
    assert_eq!(parked.expect("park"), held);
    let stats = outbox.stats(db, &at(3)).await.expect("stats");
    assert_eq!((stats.parked, stats.due, stats.leased), (3_000, 0, 0));
}

pub(super) async fn operators_calls_take_thousands_of_ids(cx: Arc<Context>) {
    let records = claim_many(&cx).await;
    let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
    let mut more = ids.clone();
    more.extend(["not", "there"]);
    let (db, outbox) = (&*cx.db, &cx.outbox);
    let all = MANY as u64;
    assert_eq!(outbox.release(db, &more).await.expect("release"), all);
    assert_eq!(outbox.release(db, &more).await.expect("release"), 0);
    let parked = outbox.park(db, &more, &at(1), "no").await;
    assert_eq!(parked.expect("park"), all);
    assert_eq!(outbox.stats(db, &at(1)).await.expect("stats").parked, all);
    let unparked = outbox.unpark(db, &more, &at(1)).await;
    assert_eq!(unparked.expect("unpark"), all);
    assert_eq!(outbox.stats(db, &at(1)).await.expect("stats").due, all);
    let deleted = outbox.delete(db, &more[1..]).await;
    assert_eq!(deleted.expect("delete"), all - 1);
    let left = cx.query(Statement::new("SELECT id FROM outbox")).await;
    let left: BTreeSet<String> = left.iter().map(|row| row.get("id").expect("id")).collect();
    assert_eq!(left, BTreeSet::from([ids[0].to_owned()]));
}

pub(super) async fn no_lease_and_no_id_is_no_work(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let before = cx.entry("a").await;
    let (db, outbox) = (&*cx.db, &cx.outbox);
    for outcomes in [
        outbox.complete_claimed(db, &[]).await,
        outbox.retry_claimed(db, &at(0), &[]).await,
        outbox.reschedule_claimed(db, &[], &at(0)).await,
        outbox.release_claimed(db, &[], &at(0)).await,
        outbox.extend_claimed(db, &[], &at(0)).await,
        outbox.park_claimed(db, &[], &at(0), "no").await,
    ] {
        assert!(outcomes.expect("nothing to do").is_empty());
    }
    for count in [
        outbox.park(db, &[], &at(0), "no").await,
        outbox.unpark(db, &[], &at(0)).await,
        outbox.release(db, &[]).await,
        outbox.delete(db, &[]).await,
    ] {
        assert_eq!(count.expect("nothing to do"), 0);
    }
    assert_eq!(cx.entry("a").await, before);
}
