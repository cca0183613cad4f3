//! Deleting what settled.

use std::sync::Arc;

use super::context::{ALL, ReceiptContext, a_large_call, at, many, names, numbered, ticket};
use super::{Change, chapter};

chapter!(deleting:
    only_what_was_there_is_counted,
    a_repeated_ticket_counts_once,
    an_empty_call_deletes_nothing,
    it_does_not_matter_whether_a_ticket_was_taken_or_is_due,
    nothing_but_the_tickets_named_goes;
    Refuse => a_call_whose_last_ticket_is_refused_deletes_nothing,
);

async fn only_what_was_there_is_counted(cx: Arc<ReceiptContext>) {
    cx.record(many(10), at(0)).await;
    let some: Vec<_> = (5..15).map(numbered).collect();
    assert_eq!(cx.delete(&some).await, 5);
    assert_eq!(cx.delete(&some).await, 0);
    assert_eq!(cx.all().await.len(), 5);
}

async fn a_repeated_ticket_counts_once(cx: Arc<ReceiptContext>) {
    cx.record(many(3), at(0)).await;
    let (first, second) = (numbered(0), numbered(1));
    let call = [&first, &first, &second, &first];
    assert_eq!(cx.delete(&call).await, 2);
    // And across whatever border a store cuts calls at.
    cx.record(many(6_000), at(0)).await;
    let twice: Vec<_> = (0..6_000).chain(0..6_000).map(numbered).collect();
    assert_eq!(cx.delete(&twice).await, 6_000);
}

async fn an_empty_call_deletes_nothing(cx: Arc<ReceiptContext>) {
    cx.put("a", at(0)).await;
    assert_eq!(cx.delete::<&str>(&[]).await, 0);
    assert_eq!(cx.all().await.len(), 1);
}

async fn it_does_not_matter_whether_a_ticket_was_taken_or_is_due(cx: Arc<ReceiptContext>) {
    cx.put("taken", at(0)).await;
    cx.take(at(0), at(900)).await;
    cx.put("due", at(0)).await;
    cx.put("not-yet", at(9_999)).await;
    assert_eq!(cx.delete(&["taken", "due", "not-yet"]).await, 3);
    assert!(cx.all().await.is_empty());
}

async fn nothing_but_the_tickets_named_goes(cx: Arc<ReceiptContext>) {
    cx.record(many(3_000), at(0)).await;
    let odd: Vec<_> = (1..3_000).step_by(2).map(numbered).collect();
    assert_eq!(cx.delete(&odd).await, 1_500);
    let even: Vec<_> = (0..3_000).step_by(2).map(numbered).collect();
    assert_eq!(names(&cx.all().await), even);
}

async fn a_call_whose_last_ticket_is_refused_deletes_nothing(cx: Arc<ReceiptContext>) {
    let size = a_large_call();
    cx.record(many(size), at(0)).await;
    let last = numbered(size - 1);
    cx.sandbox.refuse(Change::Delete, &ticket(&last)).await;
    let all: Vec<_> = (0..size).map(numbered).collect();
    let call = all.iter().map(|name| ticket(name)).collect();
    let refused = cx.store.delete(call).await;
    let error = refused.expect_err("the database refuses the last ticket");
    assert!(!format!("{error}{error:?}").contains(&last));
    assert_eq!(cx.take(at(0), at(0)).await.len(), size);
    // So do the others that delete it.
    let erased = cx.store.erase_owner(super::context::owner(1)).await;
    erased.expect_err("the database refuses the last ticket");
    let purged = cx.store.purge(at(1), ALL).await;
    purged.expect_err("the database refuses the last ticket");
    assert_eq!(cx.all().await.len(), size);
    assert_eq!(cx.delete(&all[..size - 1]).await, size as u64 - 1);
}
