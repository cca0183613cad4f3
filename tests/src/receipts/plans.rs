//! Every call that looks for rows is served by an index.

use std::sync::Arc;

use super::ReceiptQuery;
use super::chapter;
use super::context::{ReceiptContext, at, numbered, owned, owner};

chapter!(plans:
    ;
    Explain =>
        taking_reads_the_due_index_in_its_order,
        purging_reads_the_sent_index_in_its_order,
        erasing_reads_the_owner_index,
        deleting_reads_the_primary_key,
);

/// 20 000 tickets of 10 000 owners, half of them due, all sent apart.
async fn fill(cx: &ReceiptContext) {
    for half in 0..2_usize {
        let receipts = (0..10_000).map(|each| {
            let number = half * 10_000 + each;
            let mut receipt = owned(
                &numbered(number),
                owner(u32::try_from(each).expect("small")),
            );
            receipt.sent_at = at(i64::try_from(number).expect("small"));
            receipt
        });
        let due_at = at(if half == 0 { 0 } else { 80_000 });
        cx.record(receipts.collect(), due_at).await;
    }
}

async fn assert_served(cx: &ReceiptContext, query: ReceiptQuery, index: &str, ordered: bool) {
    fill(cx).await;
    let plans = cx.sandbox.explain(query).await;
    assert!(!plans.is_empty(), "a plan for each statement");
    let used = plans
        .iter()
        .any(|plan| plan.indexes.iter().any(|name| name == index));
    let text: Vec<_> = plans.iter().map(|plan| plan.text.as_str()).collect();
    assert!(used, "{query:?} does not use {index}:\n{}", text.join("\n"));
    for plan in &plans {
        assert!(
            !plan.scans,
            "{query:?} reads the whole table:\n{}",
            plan.text
        );
        assert!(!ordered || !plan.sorts, "{query:?} sorts:\n{}", plan.text);
    }
}

async fn taking_reads_the_due_index_in_its_order(cx: Arc<ReceiptContext>) {
    assert_served(&cx, ReceiptQuery::TakeDue, "pending_receipts_due", true).await;
}

async fn purging_reads_the_sent_index_in_its_order(cx: Arc<ReceiptContext>) {
    assert_served(&cx, ReceiptQuery::Purge, "pending_receipts_sent", true).await;
}

async fn erasing_reads_the_owner_index(cx: Arc<ReceiptContext>) {
    assert_served(
        &cx,
        ReceiptQuery::EraseOwner,
        "pending_receipts_owner",
        false,
    )
    .await;
}

async fn deleting_reads_the_primary_key(cx: Arc<ReceiptContext>) {
    assert_served(&cx, ReceiptQuery::Delete, "primary", false).await;
}
