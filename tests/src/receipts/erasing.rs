//! Forgetting a person.

use std::sync::Arc;

use duebox_core::uuid::Uuid;

use super::chapter;
use super::context::{
    ALL, ReceiptContext, at, end_of_time, limit, names, numbered, owned, owner, sent,
};

chapter!(erasing:
    every_ticket_of_the_owner_goes_and_no_other,
    tickets_that_were_taken_go_too,
    a_late_poller_finds_its_tickets_gone,
    an_owner_without_tickets_counts_nothing,
    nil_and_max_are_owners_like_any,
    an_owner_of_many_tickets_is_erased_in_one_call,
    an_erased_owner_may_come_back,
);

async fn every_ticket_of_the_owner_goes_and_no_other(cx: Arc<ReceiptContext>) {
    let call = (0..600).map(|each| {
        owned(
            &numbered(each),
            owner(u32::try_from(each % 3).expect("small")),
        )
    });
    cx.record(call.collect(), at(0)).await;
    assert_eq!(cx.erase(owner(1)).await, 200);
    assert_eq!(cx.erase(owner(1)).await, 0);
    let left = cx.all().await;
    assert_eq!(left.len(), 400);
    assert!(left.iter().all(|each| each.owner_id != owner(1)));
}

async fn tickets_that_were_taken_go_too(cx: Arc<ReceiptContext>) {
    for (name, due) in [("taken", at(0)), ("due", at(1)), ("not-yet", end_of_time())] {
        cx.record(vec![owned(name, owner(7))], due).await;
    }
    cx.record(vec![owned("other", owner(8))], at(2)).await;
    let taken = cx.take_up_to(at(1), at(900), limit(1)).await;
    assert_eq!(names(&taken), ["taken"]);
    assert_eq!(cx.erase(owner(7)).await, 3);
    assert_eq!(names(&cx.all().await), ["other"]);
}

async fn a_late_poller_finds_its_tickets_gone(cx: Arc<ReceiptContext>) {
    cx.record(vec![owned("a", owner(7)), owned("b", owner(8))], at(0))
        .await;
    let taken = cx.take(at(0), at(900)).await;
    assert_eq!(cx.erase(owner(7)).await, 1);
    assert_eq!(cx.delete(&names(&taken)).await, 1, "only the other's");
    assert!(cx.take(at(900), at(901)).await.is_empty());
}

async fn an_owner_without_tickets_counts_nothing(cx: Arc<ReceiptContext>) {
    assert_eq!(cx.erase(owner(1)).await, 0);
    cx.put("a", at(0)).await;
    assert_eq!(cx.erase(owner(2)).await, 0);
    assert_eq!(cx.all().await.len(), 1);
}

async fn nil_and_max_are_owners_like_any(cx: Arc<ReceiptContext>) {
    let call = vec![
        owned("nil", Uuid::nil()),
        owned("max", Uuid::max()),
        owned("a", owner(1)),
    ];
    cx.record(call, at(0)).await;
    assert_eq!(cx.erase(Uuid::nil()).await, 1);
    assert_eq!(names(&cx.all().await), ["a", "max"]);
    assert_eq!(cx.erase(Uuid::max()).await, 1);
    assert_eq!(names(&cx.all().await), ["a"]);
}

async fn an_owner_of_many_tickets_is_erased_in_one_call(cx: Arc<ReceiptContext>) {
    let call = (0..20_000).map(|each| owned(&numbered(each), owner(3)));
    cx.record(call.collect(), at(0)).await;
    cx.record(vec![owned("other", owner(4))], at(0)).await;
    assert_eq!(cx.erase(owner(3)).await, 20_000);
    assert_eq!(names(&cx.all().await), ["other"]);
}

async fn an_erased_owner_may_come_back(cx: Arc<ReceiptContext>) {
    cx.record(vec![owned("a", owner(1))], at(0)).await;
    cx.erase(owner(1)).await;
    let back = sent("a", at(5));
    assert_eq!(cx.record(vec![back.clone()], at(6)).await, 1);
    assert!(cx.take(at(5), at(5)).await.is_empty());
    assert!(cx.take(at(6), at(6)).await == [back]);
    assert_eq!(cx.purge(at(5), ALL).await, 0);
}
