//! Rows that somebody else's transaction holds: taking and purging pass them
//! over, an erasure waits for them.

use std::sync::Arc;
use std::time::Duration;

use super::chapter;
use super::context::{ALL, ReceiptContext, at, limit, many, names, numbered, ticket};

chapter!(locks:
    ;
    Lock =>
        a_taker_passes_over_what_another_holds,
        a_purge_passes_over_what_another_holds,
        an_erasure_waits_for_what_another_holds,
);

/// Long enough for a call that does not wait, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(10);

async fn a_taker_passes_over_what_another_holds(cx: Arc<ReceiptContext>) {
    cx.record(many(10), at(0)).await;
    let held = cx.sandbox.lock(&ticket(&numbered(0))).await;
    let take = cx.take_up_to(at(0), at(900), limit(4));
    let taken = tokio::time::timeout(PATIENCE, take).await;
    let taken = taken.expect("a taker does not wait for a locked row");
    let expected: Vec<_> = (1..5).map(numbered).collect();
    assert_eq!(
        names(&taken),
        expected,
        "its limit is filled from the others"
    );
    drop(held);
    // The lock ends with its transaction, which may take the server a moment.
    let mut first = Vec::new();
    for _ in 0..1_000 {
        first = cx.take_up_to(at(0), at(900), limit(1)).await;
        if names(&first) == [numbered(0)] {
            return;
        }
        cx.record(vec![], at(0)).await;
    }
    panic!("the lock does not end; the next was {:?}", names(&first));
}

async fn a_purge_passes_over_what_another_holds(cx: Arc<ReceiptContext>) {
    cx.record(many(10), at(0)).await;
    let held = cx.sandbox.lock(&ticket(&numbered(0))).await;
    let purge = cx.purge(at(1), ALL);
    let purged = tokio::time::timeout(PATIENCE, purge).await;
    assert_eq!(purged.expect("a purge does not wait for a locked row"), 9);
    drop(held);
    assert_eq!(cx.delete(&[numbered(0)]).await, 1, "it is still there");
}

async fn an_erasure_waits_for_what_another_holds(cx: Arc<ReceiptContext>) {
    cx.record(many(10), at(0)).await;
    let held = cx.sandbox.lock(&ticket(&numbered(0))).await;
    let caller = Arc::clone(&cx);
    let mut erasure = tokio::spawn(async move {
        let owner_id = many(1)[0].owner_id;
        caller.store.erase_owner(owner_id).await
    });
    let early = tokio::time::timeout(Duration::from_millis(300), &mut erasure).await;
    assert!(early.is_err(), "it does not end while a row is locked");
    drop(held);
    let late = tokio::time::timeout(PATIENCE, erasure).await;
    let gone = late.expect("it ends with the lock").expect("no panic");
    assert_eq!(gone, Ok(10), "and leaves nothing");
}
