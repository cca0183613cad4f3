//! Which tickets are taken, in which order, and what taking changes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::context::{
    ALL, ReceiptContext, a_large_call, at, at_micros, end_of_time, limit, many, names, numbered,
    receipt, ticket,
};
use super::{Change, chapter};

chapter!(taking:
    a_ticket_due_now_is_due,
    a_ticket_due_a_microsecond_later_is_not_due,
    nothing_due_gives_nothing,
    tickets_come_oldest_due_first,
    tickets_of_one_instant_come_in_the_order_of_their_bytes,
    a_limit_cuts_in_the_order_of_tickets_too,
    the_order_survives_changes,
    a_taken_ticket_is_due_again_at_its_retry_and_not_before,
    exactly_the_tickets_returned_are_moved,
    a_retry_at_now_leaves_the_ticket_due,
    a_retry_before_now_leaves_the_ticket_due,
    a_retry_at_the_due_instant_gives_the_ticket_all_the_same,
    a_limit_is_kept,
    the_largest_limit_takes_all,
    what_was_taken_and_not_deleted_comes_back,
    tickets_that_never_settle_do_not_starve_fresh_ones,
    taking_changes_nothing_but_the_due_instant;
    Refuse => a_call_that_fails_moves_nothing,
);

async fn a_ticket_due_now_is_due(cx: Arc<ReceiptContext>) {
    cx.put("a", at(10)).await;
    assert_eq!(cx.take(at(10), at(20)).await.len(), 1);
    assert_eq!(cx.take(at(20), at(30)).await.len(), 1, "and at its retry");
}

async fn a_ticket_due_a_microsecond_later_is_not_due(cx: Arc<ReceiptContext>) {
    cx.put("a", at(10)).await;
    let before = at_micros(9_999_999);
    assert!(cx.take(before, at(20)).await.is_empty());
    assert_eq!(cx.take(at(10), at(20)).await.len(), 1, "it was not moved");
    let before = at_micros(19_999_999);
    assert!(cx.take(before, at(30)).await.is_empty());
}

async fn nothing_due_gives_nothing(cx: Arc<ReceiptContext>) {
    assert!(cx.take(at(0), at(1)).await.is_empty());
    cx.put("a", at(10)).await;
    assert!(cx.take(at(0), at(1)).await.is_empty());
    assert_eq!(cx.due(at(10)).await, 1);
}

async fn tickets_come_oldest_due_first(cx: Arc<ReceiptContext>) {
    for (name, due) in [("c", 4), ("a", 5), ("e", 1), ("b", 3), ("d", 2), ("z", 9)] {
        cx.put(name, at(due)).await;
    }
    assert_eq!(
        names(&cx.take_up_to(at(8), at(100), limit(2)).await),
        ["e", "d"]
    );
    assert_eq!(names(&cx.take(at(8), at(100)).await), ["b", "c", "a"]);
    assert_eq!(names(&cx.take(at(9), at(100)).await), ["z"]);
}

async fn tickets_of_one_instant_come_in_the_order_of_their_bytes(cx: Arc<ReceiptContext>) {
    // Where a language's order differs from that of the bytes.
    let mut all = [
        "a", "B", "A", "b", "_a", "-a", "a-b", "ab", "a_b", "Z", "z", "~", "!", "1", "10", "2",
        "aB", "Ab", "AB", "a.b", "a/b", "a:b", "[", "]", "^", "`", "{",
    ];
    cx.record(all.iter().map(|name| receipt(name)).collect(), at(0))
        .await;
    cx.put("0-but-later", at_micros(1)).await;
    all.sort_unstable();
    let mut taken = Vec::new();
    loop {
        let batch = cx.take_up_to(at_micros(0), at(5), limit(4)).await;
        if batch.is_empty() {
            break;
        }
        taken.extend(batch);
    }
    assert_eq!(names(&taken), all);
    // And again by way of the same retry.
    assert_eq!(names(&cx.take(at(5), at(6)).await)[1..], all);
}

async fn a_limit_cuts_in_the_order_of_tickets_too(cx: Arc<ReceiptContext>) {
    // Neither in order nor in reverse: 97 and 300 have no divisor in common.
    let shuffled = (0..300).map(|each| receipt(&numbered(each * 97 % 300)));
    let shuffled = shuffled.collect();
    assert_eq!(cx.record(shuffled, at(0)).await, 300);
    for batch in 0..3 {
        let taken = cx.take_up_to(at(0), at(100), limit(100)).await;
        let expected: Vec<_> = (batch * 100..(batch + 1) * 100).map(numbered).collect();
        assert_eq!(names(&taken), expected);
    }
}

async fn the_order_survives_changes(cx: Arc<ReceiptContext>) {
    // What is stored, as it should be: the due instant of each ticket.
    let mut model = BTreeMap::new();
    for number in 0..200 {
        let due = i64::try_from(number * 71 % 200).expect("small");
        cx.put(&numbered(number), at(due)).await;
        model.insert(numbered(number), due);
    }
    let mut expect = |now: i64, retry: i64, size: usize| {
        let mut due: Vec<_> = model
            .iter()
            .map(|(name, due)| (*due, name.clone()))
            .collect();
        due.retain(|(due, _)| *due <= now);
        due.sort();
        due.truncate(size);
        for (_, name) in &due {
            model.insert(name.clone(), retry);
        }
        due.into_iter().map(|(_, name)| name).collect::<Vec<_>>()
    };
    for round in 0..40 {
        let now = i64::from(round * 37 % 160);
        let (retry, size) = (now + i64::from(round % 7) * 10, 1 + round * 13 % 60);
        let taken = cx.take_up_to(at(now), at(retry), limit(size)).await;
        let expected = expect(now, retry, size as usize);
        assert_eq!(names(&taken), expected, "round {round}");
    }
}

async fn a_taken_ticket_is_due_again_at_its_retry_and_not_before(cx: Arc<ReceiptContext>) {
    cx.record(many(50), at(0)).await;
    assert_eq!(cx.take(at(0), at(900)).await.len(), 50);
    for now in [at(0), at(899), at_micros(899_999_999)] {
        assert!(cx.take(now, at(9_999)).await.is_empty());
    }
    assert_eq!(cx.take(at(900), at(9_999)).await.len(), 50);
}

async fn exactly_the_tickets_returned_are_moved(cx: Arc<ReceiptContext>) {
    cx.record(many(100), at(0)).await;
    let mut taken = BTreeSet::new();
    for size in [1, 5, 7, 1, 20] {
        let batch = cx.take_up_to(at(0), at(900), limit(size)).await;
        assert_eq!(batch.len(), size as usize);
        taken.extend(batch.into_iter().map(|each| each.ticket));
    }
    assert_eq!(taken.len(), 34, "no ticket twice");
    let rest = cx.take(at(0), at(1_000)).await;
    assert_eq!(rest.len(), 66, "those not returned are still due");
    let back = cx.take(at(900), at(2_000)).await;
    let back: BTreeSet<_> = back.into_iter().map(|each| each.ticket).collect();
    assert!(back == taken, "those returned are due at their retry");
}

async fn a_retry_at_now_leaves_the_ticket_due(cx: Arc<ReceiptContext>) {
    cx.put("a", at(3)).await;
    cx.put("b", at(4)).await;
    for _ in 0..3 {
        assert_eq!(names(&cx.take_up_to(at(5), at(5), ALL).await), ["a", "b"]);
    }
    cx.put("c", at_micros(4_999_999)).await;
    let taken = cx.take(at(5), at(9)).await;
    assert_eq!(names(&taken), ["c", "a", "b"], "they are due since 5");
}

async fn a_retry_before_now_leaves_the_ticket_due(cx: Arc<ReceiptContext>) {
    cx.put("a", at(3)).await;
    cx.put("b", at(2)).await;
    let first = cx.take_up_to(at(5), at(1), limit(1)).await;
    assert_eq!(names(&first), ["b"]);
    let again = cx.take_up_to(at(5), at(4), limit(1)).await;
    assert_eq!(names(&again), ["b"], "it is due since 1");
    assert_eq!(names(&cx.take(at(5), at(9)).await), ["a", "b"]);
}

async fn a_retry_at_the_due_instant_gives_the_ticket_all_the_same(cx: Arc<ReceiptContext>) {
    // Some databases do not count a row that is set to what it held.
    cx.record(many(10), at(5)).await;
    for _ in 0..2 {
        assert_eq!(cx.take(at(5), at(5)).await.len(), 10);
        assert_eq!(cx.take_up_to(at(9), at(5), limit(4)).await.len(), 4);
    }
}

async fn a_limit_is_kept(cx: Arc<ReceiptContext>) {
    cx.record(many(25), at(0)).await;
    for expected in [10, 10, 5, 0] {
        let taken = cx.take_up_to(at(0), at(1), limit(10)).await;
        assert_eq!(taken.len(), expected);
    }
}

async fn the_largest_limit_takes_all(cx: Arc<ReceiptContext>) {
    cx.record(many(5), at(0)).await;
    for size in [1 << 31, (1 << 31) - 1, u32::MAX - 1, u32::MAX] {
        assert_eq!(cx.take_up_to(at(0), at(0), limit(size)).await.len(), 5);
    }
}

async fn what_was_taken_and_not_deleted_comes_back(cx: Arc<ReceiptContext>) {
    cx.record(many(1_000), at(0)).await;
    // A poller takes them and dies before it asks.
    assert_eq!(
        cx.take_up_to(at(0), at(900), limit(1_000)).await.len(),
        1_000
    );
    assert!(cx.take(at_micros(899_999_999), at(999)).await.is_empty());
    // The next one gets an answer about 300.
    let taken = cx.take_up_to(at(900), at(1_800), limit(1_000)).await;
    assert_eq!(taken.len(), 1_000);
    assert_eq!(cx.delete(&names(&taken)[..300]).await, 300);
    assert!(cx.take(at(1_799), at(9_999)).await.is_empty());
    assert_eq!(cx.take(at(1_800), at(9_999)).await.len(), 700);
}

async fn tickets_that_never_settle_do_not_starve_fresh_ones(cx: Arc<ReceiptContext>) {
    // Named so that they would come first among equals.
    let never = (0..1_000)
        .map(|each| receipt(&format!("a{each:04}")))
        .collect();
    cx.record(never, at(0)).await;
    cx.record(many(1_000), at(60)).await;
    let first = cx.take_up_to(at(60), at(960), limit(1_000)).await;
    assert!(names(&first).iter().all(|name| name.starts_with('a')));
    let second = cx.take_up_to(at(61), at(961), limit(1_000)).await;
    assert_eq!(second.len(), 1_000);
    assert!(names(&second).iter().all(|name| name.starts_with('t')));
}

async fn taking_changes_nothing_but_the_due_instant(cx: Arc<ReceiptContext>) {
    cx.put("a", at(0)).await;
    for round in 0..3 {
        let taken = cx.take(at(round), at(round + 1)).await;
        assert!(taken == [receipt("a")], "round {round}");
    }
    assert_eq!(cx.purge(at(0), ALL).await, 0, "sent_at is as it was");
    assert_eq!(cx.purge(at_micros(1), ALL).await, 1);
}

async fn a_call_that_fails_moves_nothing(cx: Arc<ReceiptContext>) {
    let size = a_large_call();
    cx.record(many(size), at(0)).await;
    let last = ticket(&numbered(size - 1));
    cx.sandbox.refuse(Change::Update, &last).await;
    let refused = cx.store.take_due(at(0), at(900), ALL).await;
    refused.expect_err("the database refuses the last ticket");
    // Without the last one nothing stands in the way.
    let others = limit(u32::try_from(size).expect("small") - 1);
    let taken = cx.take_up_to(at(0), end_of_time(), others).await;
    assert_eq!(taken.len(), size - 1);
}
