//! Deleting what is too old to be answered.

use std::sync::Arc;

use super::chapter;
use super::context::{
    ALL, ReceiptContext, at, at_micros, end_of_time, limit, many, names, receipt, sent,
};

chapter!(purging:
    a_ticket_sent_at_that_instant_stays,
    a_purge_is_bounded_and_takes_the_oldest_first,
    a_purge_does_not_ask_whether_a_ticket_is_due,
    the_largest_limit_purges_all,
    a_purge_of_nothing_counts_nothing,
    a_ticket_that_never_settles_is_gone_after_its_day,
);

async fn a_ticket_sent_at_that_instant_stays(cx: Arc<ReceiptContext>) {
    let call = vec![
        sent("a", at_micros(999_999)),
        sent("b", at_micros(1_000_000)),
        sent("c", at_micros(1_000_001)),
    ];
    cx.record(call, at(0)).await;
    assert_eq!(cx.purge(at_micros(1_000_000), ALL).await, 1);
    assert_eq!(names(&cx.all().await), ["b", "c"]);
    assert_eq!(cx.purge(at_micros(1_000_001), ALL).await, 1);
    assert_eq!(names(&cx.all().await), ["c"]);
}

async fn a_purge_is_bounded_and_takes_the_oldest_first(cx: Arc<ReceiptContext>) {
    // The newest first, and of one instant the lowest ticket.
    let call = (0..25).map(|each: i64| {
        let name = format!("t{:02}", 24 - each);
        sent(&name, at(each / 2))
    });
    cx.record(call.collect(), at(0)).await;
    assert_eq!(cx.purge(at(100), limit(10)).await, 10);
    let left = cx.all().await;
    let expected: Vec<_> = (0..15).map(|each| format!("t{each:02}")).collect();
    assert_eq!(names(&left), expected);
    assert_eq!(cx.purge(at(100), limit(10)).await, 10);
    assert_eq!(cx.purge(at(100), limit(10)).await, 5);
    assert_eq!(cx.purge(at(100), limit(10)).await, 0);
}

async fn a_purge_does_not_ask_whether_a_ticket_is_due(cx: Arc<ReceiptContext>) {
    cx.put("taken", at(0)).await;
    assert_eq!(cx.take(at(0), at(999)).await.len(), 1);
    cx.put("due", at(0)).await;
    cx.put("not-yet", end_of_time()).await;
    cx.record(vec![sent("young", at(30 * 60))], at(0)).await;
    assert_eq!(cx.purge(at(60), ALL).await, 3);
    assert_eq!(names(&cx.all().await), ["young"]);
}

async fn the_largest_limit_purges_all(cx: Arc<ReceiptContext>) {
    for size in [1 << 31, (1 << 31) - 1, u32::MAX - 1, u32::MAX] {
        cx.record(many(5), at(0)).await;
        assert_eq!(cx.purge(at(1), limit(size)).await, 5);
    }
}

async fn a_purge_of_nothing_counts_nothing(cx: Arc<ReceiptContext>) {
    assert_eq!(cx.purge(at(0), ALL).await, 0);
    cx.put("a", at(0)).await;
    assert_eq!(cx.purge(at(0), limit(1)).await, 0);
    assert_eq!(cx.due(at(0)).await, 1, "it is still due");
}

async fn a_ticket_that_never_settles_is_gone_after_its_day(cx: Arc<ReceiptContext>) {
    let day = 24 * 3_600;
    cx.record(vec![receipt("never")], at(900)).await;
    let mut takes = 0;
    for half_hour in 0..96 {
        let now = at(half_hour * 1_800);
        takes += cx.take(now, at(half_hour * 1_800 + 900)).await.len();
        if half_hour * 1_800 >= day {
            cx.purge(at(half_hour * 1_800 - day), ALL).await;
        }
    }
    // Due at 15 minutes, asked about each half hour up to the end of the day.
    assert_eq!(takes, 49);
    assert!(cx.all().await.is_empty());
}
