//! Sizes: large payloads, many rows at once, and the bounds of a claim.

use std::sync::Arc;

use duebox_core::{Claim, Enqueue, Kind, LeaseOutcome, parse_time};

use super::chapter;
use crate::Context;
use crate::context::{assert_refused, at, ids, numbered};

mod many;

use many::{
    no_lease_and_no_id_is_no_work, operators_calls_take_thousands_of_ids,
    ten_thousand_rows_are_enqueued_by_one_statement, thousands_of_leases_are_completed_by_one_call,
    thousands_of_leases_are_ended_by_one_call, thousands_of_retries_each_keep_their_own,
};

chapter!(size:
    payloads_around_64_kib_are_kept_whole,
    a_payload_of_8_mib_is_kept_whole,
    a_payload_over_8_mib_is_refused_before_any_sql,
    a_batch_of_large_payloads_is_one_unit,
    a_claim_stops_before_its_bytes_are_passed,
    a_claim_takes_one_row_at_least,
    an_empty_payload_costs_a_claim_nothing,
    bytes_are_counted_and_not_characters,
    a_claim_without_a_bound_on_bytes_takes_all,
    ten_thousand_rows_are_enqueued_by_one_statement,
    thousands_of_leases_are_completed_by_one_call,
    thousands_of_retries_each_keep_their_own,
    thousands_of_leases_are_ended_by_one_call,
    operators_calls_take_thousands_of_ids,
    no_lease_and_no_id_is_no_work,
);

/// The largest payload there may be.
const EIGHT_MIB: usize = 8 * 1024 * 1024;

async fn enqueue_payload(cx: &Context, id: &str, payload: &str) {
    let statement = cx.outbox.enqueue_statement(id, "t", payload, None, &at(0));
    let counts = cx.batch(&[statement]).await.expect("enqueue");
    assert_eq!(counts, [1]);
}

async fn payloads_around_64_kib_are_kept_whole(cx: Arc<Context>) {
    let payloads = [
        "x".repeat(65_535),
        "x".repeat(65_536),
        "0123456789".repeat(7_000),
        "😀".repeat(20_000),
        "\"\\\n".repeat(25_000),
    ];
    for (number, payload) in payloads.iter().enumerate() {
        enqueue_payload(&cx, &numbered(number), payload).await;
    }
    let records = cx.claim(&at(0), &at(10), 9).await;
    assert_eq!(records.len(), payloads.len());
    for (record, payload) in records.iter().zip(&payloads) {
        assert!(&record.payload == payload, "{}", record.id);
        let entry = cx.entry(&record.id).await;
        assert_eq!(entry.payload_bytes, payload.len() as u64);
        assert!(entry.payload.as_ref() == Some(payload), "{}", record.id);
    }
}

async fn a_payload_of_8_mib_is_kept_whole(cx: Arc<Context>) {
    let line = "0123456789 'quoted' \"twice\" \\ é😀\n";
    let mut payload = line.repeat(EIGHT_MIB / line.len());
    payload.push_str(&"x".repeat(EIGHT_MIB - payload.len()));
    assert_eq!(payload.len(), EIGHT_MIB);
    enqueue_payload(&cx, "a", &payload).await;
    let record = cx.claim_one(&at(0), &at(10)).await;
    assert!(record.payload == payload, "every byte came back");
    let entry = cx.entry("a").await;
    assert_eq!(entry.payload_bytes, EIGHT_MIB as u64);
    assert!(entry.payload == Some(payload));
    assert_eq!(cx.complete(&record.lease).await, LeaseOutcome::Held);
}

async fn a_payload_over_8_mib_is_refused_before_any_sql(cx: Arc<Context>) {
    for payload in ["x".repeat(EIGHT_MIB + 1), "x".repeat(2 * EIGHT_MIB)] {
        let statement = cx
            .outbox
            .enqueue_statement("a", "t", &payload, None, &at(0));
        cx.refuses(statement, Kind::InvalidArgument, "a payload")
            .await;
        let work = Enqueue::new("t")
            .payload(payload)
            .at(parse_time(&at(0)).expect("a time"));
        let statement = cx.outbox.enqueue_many_statement([work]);
        cx.refuses(statement, Kind::InvalidArgument, "a payload")
            .await;
    }
}

async fn a_batch_of_large_payloads_is_one_unit(cx: Arc<Context>) {
    let payload = "x".repeat(1_000_000);
    let enqueue = |id: &str| cx.outbox.enqueue_statement(id, "t", &payload, None, &at(0));
    let all: Vec<_> = (0..12).map(|n| enqueue(&numbered(n))).collect();
    let mut failing = all.clone();
    failing.push(enqueue(&numbered(0)));
    assert_refused(cx.batch(&failing).await, Kind::Conflict);
    assert_eq!(cx.count().await, 0);
    assert_eq!(cx.batch(&all).await.expect("enqueue"), [1; 12]);
    let records = cx.claim(&at(0), &at(10), u64::MAX).await;
    assert_eq!(records.len(), 12);
    assert!(records.iter().all(|record| record.payload == payload));
}

/// Claims with a bound on bytes, and says which rows; exactly those are leased.
async fn within(cx: &Context, bytes: u64, limit: u64) -> Vec<String> {
    let leased = || async {
        let stats = cx.outbox.stats(&*cx.db, &at(0)).await;
        stats.expect("stats").leased
    };
    let before = leased().await;
    let claim = Claim::new(at(0), at(10)).limit(limit).max_bytes(bytes);
    let records = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    assert_eq!(leased().await - before, records.len() as u64);
    let ids: Vec<String> = ids(&records).iter().map(|id| (*id).to_owned()).collect();
    for record in &records {
        assert_eq!(record.claims, 1, "the others were not claimed before");
    }
    ids
}

async fn a_claim_stops_before_its_bytes_are_passed(cx: Arc<Context>) {
    for number in 0..8 {
        enqueue_payload(&cx, &numbered(number), &"x".repeat(100)).await;
    }
    // A small row behind a large one is not taken before it.
    enqueue_payload(&cx, "r100", &"x".repeat(500)).await;
    enqueue_payload(&cx, "r101", "x").await;
    assert_eq!(within(&cx, 299, 9).await, ["r000", "r001"]);
    assert_eq!(within(&cx, 300, 9).await, ["r002", "r003", "r004"]);
    assert_eq!(within(&cx, 300, 2).await, ["r005", "r006"]);
    assert_eq!(within(&cx, 599, 9).await, ["r007"]);
    assert_eq!(within(&cx, 501, 9).await, ["r100", "r101"]);
}

async fn a_claim_takes_one_row_at_least(cx: Arc<Context>) {
    for number in 0..5 {
        enqueue_payload(&cx, &numbered(number), &"x".repeat(1_000)).await;
    }
    for (number, bytes) in [0, 1, 999, 1_000].into_iter().enumerate() {
        assert_eq!(within(&cx, bytes, 9).await, [numbered(number)]);
    }
    assert!(within(&cx, 0, 0).await.is_empty());
    assert_eq!(within(&cx, u64::MAX, 9).await, ["r004"]);
    assert!(within(&cx, 1, 9).await.is_empty());
}

async fn an_empty_payload_costs_a_claim_nothing(cx: Arc<Context>) {
    for number in 0..20 {
        let payload = if number % 5 == 0 { "xx" } else { "" };
        enqueue_payload(&cx, &numbered(number), payload).await;
    }
    let first: Vec<_> = (0..10).map(numbered).collect();
    assert_eq!(within(&cx, 4, 99).await, first);
    let next: Vec<_> = (10..15).map(numbered).collect();
    assert_eq!(within(&cx, 0, 99).await, next[..1]);
    assert_eq!(within(&cx, 0, 99).await, next[1..]);
}

async fn bytes_are_counted_and_not_characters(cx: Arc<Context>) {
    for number in 0..4 {
        enqueue_payload(&cx, &numbered(number), &"😀".repeat(25)).await;
    }
    assert_eq!(within(&cx, 199, 9).await, ["r000"]);
    assert_eq!(within(&cx, 200, 9).await, ["r001", "r002"]);
}

async fn a_claim_without_a_bound_on_bytes_takes_all(cx: Arc<Context>) {
    let payload = "x".repeat(3_000_000);
    for number in 0..23 {
        enqueue_payload(&cx, &numbered(number), &payload).await;
    }
    // 69 MB: one row more than what `claim` takes unless it is said.
    let claim = Claim::new(at(0), at(1));
    let bounded = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    assert_eq!(bounded.len(), 22);
    drop(bounded);
    let all = cx.claim(&at(1), &at(2), u64::MAX).await;
    assert_eq!(all.len(), 23);
}
