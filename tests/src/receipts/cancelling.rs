//! Futures that are dropped at any of the points where they wait.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{PendingReceipt, PendingReceiptStore};

use super::chapter;
use super::context::{ALL, ReceiptContext, at, owner, receipt, sent, ticket};

chapter!(cancelling:
    a_record_that_is_dropped_is_done_or_not_as_a_whole,
    a_take_that_is_dropped_loses_no_ticket,
    a_delete_that_is_dropped_is_done_or_not_as_a_whole,
    a_purge_that_is_dropped_is_done_or_not_as_a_whole,
    an_erasure_that_is_dropped_is_done_or_not_as_a_whole,
    a_future_that_is_never_polled_does_nothing,
);

/// How many tickets each call is about.
const BATCH: usize = 30;
/// More often than any call waits.
const POINTS: u32 = 300;

/// Polls a future that many times at most, and then drops it.
pub(super) struct CutShort<F> {
    future: Pin<Box<F>>,
    polls: u32,
}

impl<F: Future> Future for CutShort<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        if self.polls == 0 {
            return Poll::Ready(None);
        }
        self.polls -= 1;
        self.future.as_mut().poll(context).map(Some)
    }
}

pub(super) fn cut_short<F: Future>(future: F, polls: u32) -> CutShort<F> {
    CutShort {
        future: Box::pin(future),
        polls,
    }
}

/// The batch of one round, which no other round touches: a server may still be
/// busy with a call that was dropped. It is sent and due at `moment(round)`.
fn batch(round: u32) -> Vec<PendingReceipt> {
    let batch = (0..BATCH).map(|each| PendingReceipt {
        owner_id: owner(round),
        ..sent(&format!("r{round:03}-{each:02}"), moment(round))
    });
    batch.collect()
}

fn moment(round: u32) -> DateTime<Utc> {
    at(i64::from(round))
}

/// After a dropped call the same handle works, and what it does is seen by
/// others: it is not inside a transaction that somebody left open.
async fn assert_usable(cx: &ReceiptContext, other: &dyn PendingReceiptStore, round: u32) {
    let name = format!("usable-{round}");
    cx.record(vec![sent(&name, at(5_000))], at(5_000)).await;
    let gone = other.delete(vec![ticket(&name)]).await;
    assert_eq!(gone, Ok(1), "after {round} polls");
}

/// All of a batch or none: by an erasure, which waits for what is under way.
async fn assert_whole(cx: &ReceiptContext, round: u32) {
    let left = cx.erase(owner(round)).await;
    assert!(
        left == 0 || left == BATCH as u64,
        "{left} of {BATCH} left after {round} polls"
    );
}

async fn a_record_that_is_dropped_is_done_or_not_as_a_whole(cx: Arc<ReceiptContext>) {
    let other = cx.sandbox.another().await;
    for round in 0..POINTS {
        let done = cut_short(cx.store.record(batch(round), at(0)), round).await;
        assert_usable(&cx, &*other, round).await;
        assert_whole(&cx, round).await;
        if let Some(done) = done {
            assert_eq!(done, Ok(BATCH as u64));
            // What was under way when its future was dropped has ended by now.
            for earlier in 0..round {
                assert_whole(&cx, earlier).await;
            }
            return;
        }
    }
    panic!("a call that waits {POINTS} times");
}

async fn a_take_that_is_dropped_loses_no_ticket(cx: Arc<ReceiptContext>) {
    let other = cx.sandbox.another().await;
    for round in 0..POINTS {
        cx.record(batch(round), moment(round)).await;
        let done = cut_short(cx.store.take_due(moment(round), at(900), ALL), round).await;
        assert_usable(&cx, &*other, round).await;
        // Moved or not, they are all there, and due at their retry at last.
        let call = batch(round).into_iter().map(|each| each.ticket).collect();
        assert_eq!(
            cx.store.delete(call).await,
            Ok(BATCH as u64),
            "after {round} polls"
        );
        if let Some(done) = done {
            assert_eq!(done.expect("take").len(), BATCH);
            return;
        }
    }
    panic!("a call that waits {POINTS} times");
}

async fn a_delete_that_is_dropped_is_done_or_not_as_a_whole(cx: Arc<ReceiptContext>) {
    let other = cx.sandbox.another().await;
    for round in 0..POINTS {
        cx.record(batch(round), moment(round)).await;
        let call = batch(round).into_iter().map(|each| each.ticket).collect();
        let done = cut_short(cx.store.delete(call), round).await;
        assert_usable(&cx, &*other, round).await;
        assert_whole(&cx, round).await;
        if let Some(done) = done {
            assert_eq!(done, Ok(BATCH as u64));
            return;
        }
    }
    panic!("a call that waits {POINTS} times");
}

async fn a_purge_that_is_dropped_is_done_or_not_as_a_whole(cx: Arc<ReceiptContext>) {
    let other = cx.sandbox.another().await;
    for round in 0..POINTS {
        cx.record(batch(round), moment(round)).await;
        let done = cut_short(cx.store.purge(moment(round + 1), ALL), round).await;
        assert_usable(&cx, &*other, round).await;
        assert_whole(&cx, round).await;
        if let Some(done) = done {
            assert_eq!(done, Ok(BATCH as u64));
            return;
        }
    }
    panic!("a call that waits {POINTS} times");
}

async fn an_erasure_that_is_dropped_is_done_or_not_as_a_whole(cx: Arc<ReceiptContext>) {
    let other = cx.sandbox.another().await;
    for round in 0..POINTS {
        cx.record(batch(round), moment(round)).await;
        let done = cut_short(cx.store.erase_owner(owner(round)), round).await;
        assert_usable(&cx, &*other, round).await;
        assert_whole(&cx, round).await;
        if let Some(done) = done {
            assert_eq!(done, Ok(BATCH as u64));
            return;
        }
    }
    panic!("a call that waits {POINTS} times");
}

async fn a_future_that_is_never_polled_does_nothing(cx: Arc<ReceiptContext>) {
    cx.put("a", at(0)).await;
    drop(cx.store.record(vec![receipt("b")], at(0)));
    drop(cx.store.take_due(at(0), at(900), ALL));
    drop(cx.store.delete(vec![ticket("a")]));
    drop(cx.store.purge(at(9), ALL));
    drop(cx.store.erase_owner(receipt("a").owner_id));
    let due = cx.take(at(0), at(0)).await;
    assert!(due == [receipt("a")]);
}
