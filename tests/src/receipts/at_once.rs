//! Many callers at once, each with a handle of its own. What happens when is
//! left to luck; what is counted in the end is not.

use std::collections::HashSet;
use std::future::Future;
use std::sync::Arc;

use duebox_core::{PendingReceiptStore, PushStoreError};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::chapter;
use super::context::{
    ALL, ReceiptContext, at, limit, many, numbered, owned, owner, receipt, sent, tickets,
};

chapter!(at_once:
    takers_get_disjoint_batches_and_together_all,
    tickets_recorded_by_many_are_new_once,
    overlapping_records_in_any_order_do_not_lock_each_other_out,
    a_ticket_recorded_while_it_is_taken_and_deleted_is_counted_exactly,
    deleters_count_each_ticket_once,
    purgers_count_each_ticket_once,
    erasers_count_each_ticket_once,
    what_is_deleted_while_it_is_taken_stays_deleted,
    what_is_purged_while_it_is_taken_stays_purged,
    what_is_erased_while_it_is_taken_stays_erased,
);

const TASKS: usize = 8;

/// Runs that many tasks, each with its own handle, from one starting signal,
/// and returns what they returned.
async fn together<T, F>(
    cx: &ReceiptContext,
    tasks: usize,
    work: impl Fn(usize, Arc<dyn PendingReceiptStore>) -> F,
) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(tasks));
    let mut running = JoinSet::new();
    for task in 0..tasks {
        let work = work(task, cx.sandbox.another().await);
        let barrier = Arc::clone(&barrier);
        running.spawn(async move {
            barrier.wait().await;
            work.await
        });
    }
    running.join_all().await
}

/// Calls until the store is not busy, as the port says that a caller may.
async fn patiently<T, F>(call: impl Fn() -> F) -> T
where
    F: Future<Output = Result<T, PushStoreError>>,
{
    for _ in 0..1_000 {
        match call().await {
            Ok(done) => return done,
            Err(error) if error.is_retryable() => tokio::task::yield_now().await,
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the store is busy for ever");
}

async fn takers_get_disjoint_batches_and_together_all(cx: Arc<ReceiptContext>) {
    cx.record(many(5_000), at(0)).await;
    let taken = together(&cx, TASKS, |_, store| async move {
        let mut mine = Vec::new();
        loop {
            let batch = patiently(|| store.take_due(at(0), at(900), limit(100))).await;
            assert!(batch.len() <= 100);
            // Others may hold the last tickets for a moment.
            if batch.is_empty() {
                return mine;
            }
            mine.extend(batch);
        }
    })
    .await;
    let all: Vec<_> = taken.into_iter().flatten().collect();
    let distinct: HashSet<_> = all.iter().map(|each| each.ticket.clone()).collect();
    assert_eq!(distinct.len(), all.len(), "no ticket twice");
    let left = cx.take(at(0), at(900)).await.len();
    assert_eq!(left + all.len(), 5_000, "no ticket is lost");
    assert_eq!(
        left, 0,
        "a caller that finds nothing has nobody ahead of it"
    );
    assert!(cx.take(at(899), at(900)).await.is_empty());
    assert_eq!(cx.take(at(900), at(900)).await.len(), 5_000);
}

async fn tickets_recorded_by_many_are_new_once(cx: Arc<ReceiptContext>) {
    let counts = together(&cx, TASKS, |task, store| async move {
        let mut new = 0;
        for round in 0..10 {
            let call = (0..50)
                .map(|each| {
                    owned(
                        &numbered(round * 50 + each),
                        owner(u32::try_from(task).expect("small")),
                    )
                })
                .collect::<Vec<_>>();
            new += patiently(|| store.record(call.clone(), at(0))).await;
        }
        new
    })
    .await;
    assert_eq!(counts.iter().sum::<u64>(), 500, "{counts:?}");
    assert_eq!(cx.all().await.len(), 500);
}

async fn overlapping_records_in_any_order_do_not_lock_each_other_out(cx: Arc<ReceiptContext>) {
    // No patience here: the order of a call's tickets must not matter.
    let counts = together(&cx, TASKS, |task, store| async move {
        let mut new = 0;
        for round in 0..5 {
            let mut call = many(400);
            if task % 2 == 0 {
                call.reverse();
            }
            call.rotate_left((task * 50 + round) % 400);
            new += store.record(call, at(0)).await.expect("record");
        }
        new
    })
    .await;
    assert_eq!(counts.iter().sum::<u64>(), 400, "{counts:?}");
}

async fn a_ticket_recorded_while_it_is_taken_and_deleted_is_counted_exactly(
    cx: Arc<ReceiptContext>,
) {
    let all: Vec<_> = (0..40).map(numbered).collect();
    // Recorded and deleted over and over: each deletion follows its record.
    let counts = together(&cx, TASKS, |task, store| {
        let all = tickets(&all);
        async move {
            let (mut new, mut gone) = (0, 0);
            for _ in 0..30 {
                match task % 3 {
                    0 => new += patiently(|| store.record(many(40), at(10))).await,
                    1 => gone += patiently(|| store.delete(all.clone())).await,
                    _ => {
                        let taken = patiently(|| store.take_due(at(10), at(100), ALL)).await;
                        assert!(taken.len() <= 40);
                    }
                }
            }
            (new, gone)
        }
    })
    .await;
    let new: u64 = counts.iter().map(|(new, _)| new).sum();
    let gone: u64 = counts.iter().map(|(_, gone)| gone).sum();
    let left = cx.all().await;
    assert_eq!(new, gone + left.len() as u64, "recorded, deleted, left");
    for each in left {
        assert!(each == receipt(each.ticket.as_str()), "none was changed");
    }
}

async fn deleters_count_each_ticket_once(cx: Arc<ReceiptContext>) {
    cx.record(many(2_000), at(0)).await;
    let counts = together(&cx, TASKS, |task, store| async move {
        let mut gone = 0;
        for round in 0..10 {
            let mut call: Vec<_> = (round * 200..(round + 1) * 200).map(numbered).collect();
            if task % 2 == 0 {
                call.reverse();
            }
            let call = tickets(&call);
            gone += patiently(|| store.delete(call.clone())).await;
        }
        gone
    })
    .await;
    assert_eq!(counts.iter().sum::<u64>(), 2_000, "{counts:?}");
    assert!(cx.all().await.is_empty());
}

async fn purgers_count_each_ticket_once(cx: Arc<ReceiptContext>) {
    let call = (0..2_000).map(|each| sent(&numbered(each), at(i64::from(each >= 1_500))));
    cx.record(call.collect(), at(0)).await;
    let counts = together(&cx, TASKS, |_, store| async move {
        let mut gone = 0;
        loop {
            let went = patiently(|| store.purge(at(1), limit(50))).await;
            gone += went;
            if went == 0 {
                return gone;
            }
        }
    })
    .await;
    let left = cx.purge(at(1), ALL).await;
    assert_eq!(counts.iter().sum::<u64>() + left, 1_500, "{counts:?}");
    assert_eq!(cx.all().await.len(), 500);
}

async fn erasers_count_each_ticket_once(cx: Arc<ReceiptContext>) {
    let call = (0..2_000).map(|each| owned(&numbered(each), owner(u32::from(each % 2 == 0))));
    cx.record(call.collect(), at(0)).await;
    let counts = together(&cx, TASKS, |_, store| async move {
        patiently(|| store.erase_owner(owner(1))).await
    })
    .await;
    assert_eq!(counts.iter().sum::<u64>(), 1_000, "{counts:?}");
    assert_eq!(cx.all().await.len(), 1_000);
}

/// One half takes all the time, the other half removes 2 000 tickets bit by
/// bit. Returns how many went, and fails if a ticket that was removed comes
/// back, or is counted twice.
async fn taken_while_removed<F>(
    cx: &ReceiptContext,
    remove: impl Fn(usize, Arc<dyn PendingReceiptStore>) -> F + Copy,
) -> u64
where
    F: Future<Output = u64> + Send + 'static,
{
    let counts = together(cx, TASKS, |task, store| {
        let removing = (task % 2 == 0).then(|| remove(task / 2, Arc::clone(&store)));
        async move {
            let Some(removing) = removing else {
                for _ in 0..60 {
                    patiently(|| store.take_due(at(0), at(0), limit(100))).await;
                }
                return 0;
            };
            removing.await
        }
    })
    .await;
    let left = cx.all().await;
    let gone = counts.iter().sum::<u64>();
    assert_eq!(gone + left.len() as u64, 2_000, "removed and left");
    gone
}

async fn what_is_deleted_while_it_is_taken_stays_deleted(cx: Arc<ReceiptContext>) {
    cx.record(many(2_000), at(0)).await;
    let gone = taken_while_removed(&cx, |task, store| async move {
        let mut gone = 0;
        for start in (task * 500..(task + 1) * 500).step_by(25) {
            let call = tickets(&(start..start + 25).map(numbered).collect::<Vec<_>>());
            gone += patiently(|| store.delete(call.clone())).await;
        }
        gone
    })
    .await;
    assert_eq!(gone, 2_000, "a deletion waits for what a taker holds");
}

async fn what_is_purged_while_it_is_taken_stays_purged(cx: Arc<ReceiptContext>) {
    cx.record(many(2_000), at(0)).await;
    let gone = taken_while_removed(&cx, |_, store| async move {
        let mut gone = 0;
        for _ in 0..40 {
            gone += patiently(|| store.purge(at(1), limit(25))).await;
        }
        gone
    })
    .await;
    // What a taker held was passed over, and is still there.
    assert_eq!(gone + cx.purge(at(1), ALL).await, 2_000);
}

async fn what_is_erased_while_it_is_taken_stays_erased(cx: Arc<ReceiptContext>) {
    let call = (0..2_000).map(|each| owned(&numbered(each), owner(each_owner(each))));
    cx.record(call.collect(), at(0)).await;
    let gone = taken_while_removed(&cx, |task, store| async move {
        let mut gone = 0;
        for each in (task * 500..(task + 1) * 500).step_by(25) {
            gone += patiently(|| store.erase_owner(owner(each_owner(each)))).await;
        }
        gone
    })
    .await;
    assert_eq!(gone, 2_000, "an erasure waits for what a taker holds");
}

/// 25 tickets an owner.
fn each_owner(ticket: usize) -> u32 {
    u32::try_from(ticket / 25).expect("small")
}
