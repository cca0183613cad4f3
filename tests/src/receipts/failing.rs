//! Stores that fail: errors are typed, name no value, and stop nothing else.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Arc;

use duebox_core::{PushDeliveryStatus, PushOutcome, PushStoreError, PushStoreFuture};

use super::chapter;
use super::context::{
    ALL, ReceiptContext, at, end_of_time, limit, many, names, owner, receipt, ticket, token,
};

chapter!(failing:
    no_debug_shows_a_value;
    Break => a_store_that_is_broken_says_so_in_every_call;
    Damage =>
        a_row_that_cannot_be_read_is_a_typed_error,
        a_row_that_cannot_be_read_stops_no_other;
    Cut => a_store_that_was_cut_off_works_again,
);

/// Looks into all that an error shows, and its sources.
#[track_caller]
fn assert_hidden(error: PushStoreError, marker: &str) {
    let mut shown = vec![format!("{error} {error:?} {error:#?}")];
    let mut source = error.source();
    while let Some(inner) = source {
        shown.push(format!("{inner} {inner:?}"));
        source = inner.source();
    }
    let hidden = !shown.iter().any(|text| text.contains(marker));
    assert!(hidden, "an error shows a value");
}

async fn no_debug_shows_a_value(cx: Arc<ReceiptContext>) {
    let outcome = PushOutcome {
        token: token("marker-token"),
        status: PushDeliveryStatus::Accepted(ticket("marker-ticket")),
    };
    let outcomes = [outcome];
    let new = cx
        .store
        .record_accepted(owner(0xABCD), &outcomes, at(0))
        .await;
    assert_eq!(new, Ok(1));
    let taken = cx.take(end_of_time(), end_of_time()).await;
    let shown = format!("{outcomes:?}{taken:?}{taken:#?}{:?}", taken[0].ticket);
    assert!(!shown.contains("marker"));
    assert!(!shown.to_lowercase().contains("abcd"), "the owner");
}

async fn a_store_that_is_broken_says_so_in_every_call(cx: Arc<ReceiptContext>) {
    #[track_caller]
    fn assert_failed<T: Debug>(answer: Result<T, PushStoreError>) {
        let error = answer.expect_err("a broken store does not answer as if all were well");
        assert_hidden(error, "marker");
        assert!(!error.is_retryable(), "trying again cures nothing: {error}");
    }

    cx.put("marker-a", at(0)).await;
    cx.sandbox.break_down().await;
    let store = &cx.store;
    assert_failed(store.record(vec![receipt("marker-b")], at(0)).await);
    assert_failed(store.take_due(at(0), at(900), ALL).await);
    assert_failed(store.take_due(at(0), at(900), limit(1)).await);
    assert_failed(store.delete(vec![ticket("marker-a")]).await);
    assert_failed(store.purge(at(9), ALL).await);
    assert_failed(store.erase_owner(owner(1)).await);
    let outcomes = [PushOutcome {
        token: token("marker-token"),
        status: PushDeliveryStatus::Accepted(ticket("marker-c")),
    }];
    assert_failed(store.record_accepted(owner(1), &outcomes, at(0)).await);
}

async fn a_row_that_cannot_be_read_is_a_typed_error(cx: Arc<ReceiptContext>) {
    cx.put("marker-ticket", at(0)).await;
    let damaged = ticket("marker-ticket");
    cx.sandbox.damage(&damaged, "no token: marker").await;
    let answer = cx.store.take_due(at(0), at(900), ALL).await;
    let error = answer.expect_err("nothing else is due");
    assert_eq!(error, PushStoreError::Corrupt);
    assert!(!error.is_retryable());
    assert_hidden(error, "marker");
    // It went to the back of the queue, and can be got rid of.
    assert!(cx.take(at(899), at(900)).await.is_empty());
    assert_eq!(cx.delete(&["marker-ticket"]).await, 1);
}

async fn a_row_that_cannot_be_read_stops_no_other(cx: Arc<ReceiptContext>) {
    cx.record(many(10), at(5)).await;
    cx.put("a", at(0)).await;
    cx.put("b", at(1)).await;
    for name in ["a", "b"] {
        cx.sandbox.damage(&ticket(name), "no token: marker").await;
    }
    // Alone in their batch they are an error, once; among others they are
    // left out.
    let answer = cx.store.take_due(at(5), at(900), limit(1)).await;
    assert_eq!(answer.expect_err("only one"), PushStoreError::Corrupt);
    let taken = cx.take(at(5), at(900)).await;
    assert_eq!(taken, many(10));
    assert_eq!(cx.take(at(900), at(901)).await.len(), 10);
    assert_eq!(cx.purge(at(1), ALL).await, 12, "a purge removes them");
}

async fn a_store_that_was_cut_off_works_again(cx: Arc<ReceiptContext>) {
    /// Calls until there is an answer, which must not take for ever.
    async fn answer<T>(
        call: impl Fn() -> PushStoreFuture<'static, Result<T, PushStoreError>>,
    ) -> T {
        for _ in 0..50 {
            match call().await {
                Ok(answer) => return answer,
                Err(error) => {
                    assert!(error.is_retryable(), "{error}");
                    assert_hidden(error, "token-of");
                }
            }
        }
        panic!("the store does not come back");
    }

    cx.record(many(10), at(0)).await;
    let store = Arc::clone(&cx.store);
    let call = move |name: &'static str| -> PushStoreFuture<'static, Result<u64, PushStoreError>> {
        let store = Arc::clone(&store);
        Box::pin(async move {
            match name {
                "record" => store.record(vec![receipt("new")], at(9)).await,
                "take" => {
                    let taken = store.take_due(at(0), at(0), ALL).await;
                    taken.map(|taken| taken.len() as u64)
                }
                "delete" => store.delete(vec![ticket("new")]).await,
                "purge" => store.purge(at(0), ALL).await,
                _ => store.erase_owner(owner(2)).await,
            }
        })
    };
    for name in ["take", "record", "take", "delete", "purge", "erase", "take"] {
        cx.sandbox.cut().await;
        let counted = answer(|| call(name)).await;
        match name {
            "take" => assert_eq!(counted, 10),
            // Done by a call whose answer was lost, it is not counted again.
            "record" | "delete" => assert!(counted <= 1),
            _ => assert_eq!(counted, 0),
        }
    }
    assert_eq!(names(&cx.all().await), names(&many(10)));
}
