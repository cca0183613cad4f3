//! What is recorded comes back as it was, byte by byte.

use std::sync::Arc;

use duebox_core::PendingReceipt;
use duebox_core::chrono::DateTime;
use duebox_core::uuid::Uuid;

use super::chapter;
use super::context::{
    ReceiptContext, at, end_of_time, names, owned, owner, receipt, ticket, token,
};

chapter!(round_trip:
    a_receipt_comes_back_as_it_was_recorded,
    a_ticket_that_looks_like_a_number_or_a_pattern_is_itself,
    tickets_that_differ_by_case_are_two,
    owners_that_differ_in_one_bit_are_two,
    a_store_is_used_through_pointers_to_it,
);

/// Every byte that a ticket or a token may hold, as often as it takes.
fn every_byte(length: usize) -> String {
    (0x21..=0x7E_u8)
        .map(char::from)
        .cycle()
        .take(length)
        .collect()
}

async fn a_receipt_comes_back_as_it_was_recorded(cx: Arc<ReceiptContext>) {
    let epoch = DateTime::UNIX_EPOCH;
    let receipts = [
        (every_byte(128), every_byte(512), Uuid::nil(), epoch),
        ("!".to_owned(), "~".to_owned(), Uuid::max(), end_of_time()),
        ("'\"\\`;--".to_owned(), "\\".repeat(512), owner(1), at(0)),
        ("$1?1:a@b%s{}".to_owned(), "''".to_owned(), owner(2), at(1)),
        ("\\N".to_owned(), "{\"a\",NULL}".to_owned(), owner(3), at(2)),
        (
            "~".repeat(128),
            "ExponentPushToken[xxxxxxxxxxxxxxxxxxxxxx]".to_owned(),
            Uuid::from_u128(0x0102_0304_0506_0708_090a_0b0c_0d0e_0f10),
            at(86_400 / 2),
        ),
    ]
    .map(|(name, device, owner_id, sent_at)| PendingReceipt {
        ticket: ticket(&name),
        owner_id,
        token: token(&device),
        sent_at,
    });
    let mut expected = receipts.to_vec();
    expected.sort_by(|a, b| a.ticket.cmp(&b.ticket));
    assert_eq!(cx.record(receipts.to_vec(), at(0)).await, 6);
    // `assert_eq!` would show nothing of what differs, since Debug hides it.
    let taken = cx.take(at(0), at(1)).await;
    assert_eq!(names(&taken), names(&expected));
    for (got, put) in taken.iter().zip(&expected) {
        assert_eq!(got.token.as_str(), put.token.as_str());
        assert_eq!(got.owner_id, put.owner_id);
        assert_eq!(got.sent_at, put.sent_at);
    }
    assert_eq!(cx.delete(&names(&expected)).await, 6);
}

async fn a_ticket_that_looks_like_a_number_or_a_pattern_is_itself(cx: Arc<ReceiptContext>) {
    let mut strange = [
        "7", "07", "7.0", "7e0", "0x7", "-0", "0", "00", "1e999", "NaN", "NULL", "null", "true",
        "TRUE", "%", "_", "%%", "a%", "a_", "ab", "a", "*", "a*", "[a]", "{}", "\"\"", "''", "\\",
        "\\\\",
    ];
    strange.sort_unstable();
    let receipts = strange.iter().map(|name| receipt(name)).collect();
    assert_eq!(cx.record(receipts, at(0)).await, strange.len() as u64);
    assert_eq!(names(&cx.take(at(0), at(1)).await), strange);
    for name in ["7", "a%", "_", "0", "null", "\\"] {
        assert_eq!(cx.delete(&[name]).await, 1, "{name} alone");
    }
    let left = cx.all().await;
    assert_eq!(left.len(), strange.len() - 6);
    for each in left {
        let device = format!("token-of-{}", each.ticket.as_str());
        assert_eq!(each.token.as_str(), device);
    }
}

async fn tickets_that_differ_by_case_are_two(cx: Arc<ReceiptContext>) {
    let both = vec![owned("abc", owner(1)), owned("ABC", owner(2))];
    assert_eq!(cx.record(both, at(0)).await, 2);
    let taken = cx.take(at(0), at(0)).await;
    assert_eq!(names(&taken), ["ABC", "abc"]);
    assert_eq!(taken[0].owner_id, owner(2));
    assert_eq!(taken[0].token.as_str(), "token-of-ABC");
    assert_eq!(taken[1].token.as_str(), "token-of-abc");
    assert_eq!(cx.delete(&["Abc"]).await, 0);
    assert_eq!(cx.delete(&["abc"]).await, 1);
    assert_eq!(names(&cx.take(at(0), at(0)).await), ["ABC"]);
    cx.record(vec![owned("abc", owner(1))], at(0)).await;
    assert_eq!(cx.erase(owner(2)).await, 1);
    assert_eq!(names(&cx.all().await), ["abc"]);
}

async fn owners_that_differ_in_one_bit_are_two(cx: Arc<ReceiptContext>) {
    let owners: Vec<_> = (0..128).map(|bit| Uuid::from_u128(1 << bit)).collect();
    let receipts = owners
        .iter()
        .enumerate()
        .map(|(bit, owner_id)| owned(&format!("{bit:03}"), *owner_id))
        .collect();
    cx.record(receipts, at(0)).await;
    assert_eq!(cx.erase(Uuid::nil()).await, 0);
    for (bit, owner_id) in owners.iter().enumerate().step_by(9) {
        assert_eq!(cx.erase(*owner_id).await, 1, "bit {bit}");
        assert_eq!(cx.delete(&[format!("{bit:03}")]).await, 0);
    }
    assert_eq!(cx.all().await.len(), 128 - 15);
}

async fn a_store_is_used_through_pointers_to_it(cx: Arc<ReceiptContext>) {
    use duebox_core::PendingReceiptStore;

    async fn put(store: impl PendingReceiptStore, name: &str) -> u64 {
        let recorded = store.record(vec![receipt(name)], at(0)).await;
        recorded.expect("record")
    }
    let dynamic: &dyn PendingReceiptStore = &*cx.store;
    let boxed: Box<dyn PendingReceiptStore> = Box::new(Arc::clone(&cx.store));
    assert_eq!(put(dynamic, "a").await, 1);
    assert_eq!(put(&boxed, "b").await, 1);
    assert_eq!(put(Arc::clone(&cx.store), "b").await, 0);
    assert_eq!(names(&cx.all().await), ["a", "b"]);
}
