//! Several handles on what is stored, one after another and at once.

use std::sync::Arc;

use super::chapter;
use super::context::{ReceiptContext, at, many, names, receipt};

chapter!(handles:
    another_handle_sees_what_one_did,
    a_call_is_seen_by_others_as_soon_as_it_returned;
    Reopen => what_is_stored_outlives_its_handles,
);

async fn another_handle_sees_what_one_did(cx: Arc<ReceiptContext>) {
    let other = cx.sandbox.another().await;
    cx.put("a", at(0)).await;
    assert_eq!(other.record(vec![receipt("a")], at(9)).await, Ok(0));
    assert_eq!(other.record(vec![receipt("b")], at(1)).await, Ok(1));
    assert_eq!(names(&cx.take(at(1), at(900)).await), ["a", "b"]);
    let taken = other.take_due(at(899), at(900), super::context::ALL).await;
    assert_eq!(taken.expect("take").len(), 0);
    assert_eq!(other.delete(vec![receipt("a").ticket]).await, Ok(1));
    assert_eq!(other.erase_owner(receipt("b").owner_id).await, Ok(1));
    assert!(cx.all().await.is_empty());
}

async fn a_call_is_seen_by_others_as_soon_as_it_returned(cx: Arc<ReceiptContext>) {
    let other = cx.sandbox.another().await;
    for round in 0..20 {
        let name = format!("t{round}");
        cx.put(&name, at(0)).await;
        let taken = other.take_due(at(0), at(900), super::context::ALL).await;
        assert_eq!(names(&taken.expect("take")), [name.as_str()]);
        assert_eq!(cx.due(at(0)).await, 0);
        assert_eq!(other.delete(vec![receipt(&name).ticket]).await, Ok(1));
        assert_eq!(cx.delete(&[&name]).await, 0);
    }
}

async fn what_is_stored_outlives_its_handles(cx: Arc<ReceiptContext>) {
    cx.record(many(100), at(0)).await;
    cx.record(vec![receipt("later")], at(500)).await;
    assert_eq!(
        cx.take_up_to(at(0), at(900), super::context::limit(40))
            .await
            .len(),
        40
    );
    let anew = cx.sandbox.reopen().await;
    let all = super::context::ALL;
    let due = anew.take_due(at(499), at(1_000), all).await.expect("take");
    assert_eq!(due, many(100)[40..]);
    let later = anew.take_due(at(899), at(1_000), all).await.expect("take");
    assert_eq!(later, [receipt("later")]);
    let back = anew.take_due(at(900), at(1_000), all).await.expect("take");
    assert_eq!(back, many(100)[..40]);
}
