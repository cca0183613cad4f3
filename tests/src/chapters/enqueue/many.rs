//! Many rows by one statement.

use std::sync::Arc;

use duebox_core::{Enqueue, Kind, Outbox};

use super::time;
use crate::Context;
use crate::context::{account, assert_refused, at, numbered};

/// Payloads that some way of sending many at once could change.
fn strange() -> Vec<String> {
    let mut all: Vec<String> = [
        "",
        " ",
        "'",
        "''",
        "\"",
        "\\",
        "\\\\",
        "\\'",
        "\\n",
        "\\u0000",
        "\n\r\t",
        "NULL",
        "null",
        "true",
        "0",
        "-1.50",
        "1e400",
        "[]",
        "[1,\"a\"]",
        "{}",
        "{\"a\":\"\\\"\\\\\\u0000\"}",
        "\"a\"",
        "{a,b}",
        "{\"a\",NULL}",
        "(a,b)",
        "?",
        "??",
        "$1",
        ":a",
        "%s",
        ";",
        "--",
        "/*",
        "é e\u{301}",
        "😀👩‍👩‍👧‍👦",
        "\u{feff}\u{2028}\u{2029}\u{85}\u{a0}",
        "\u{ffff}\u{10ffff}",
        "</script>",
    ]
    .map(str::to_owned)
    .into();
    all.push((1..0x20_u8).map(char::from).collect());
    all.push((0x7F..0xA0_u8).map(char::from).collect());
    all.push("0123456789".repeat(20_000));
    all.push("\"\\\u{1}😀".repeat(20_000));
    all
}

fn work() -> Vec<Enqueue> {
    let mut all = Vec::new();
    for (number, payload) in strange().into_iter().enumerate() {
        let id = format!("{}\"\\'{{}},?$1", numbered(number));
        // What is allowed in it may be a topic and a subject too.
        let name: String = payload
            .chars()
            .filter(|c| !c.is_control())
            .take(60)
            .collect();
        let name = if name.is_empty() { "-".into() } else { name };
        let work = Enqueue::new(&*name)
            .id(id)
            .payload(payload)
            .at(time(number as u64 % 7));
        all.push(if number % 3 == 0 {
            work
        } else {
            work.subject(name)
        });
    }
    all
}

pub(super) async fn many_are_what_each_alone_would_be(cx: Arc<Context>) {
    let single = Outbox::new("single_outbox");
    cx.make(&single).await;
    let all = work();
    let count = all.len() as u64;
    for work in all.clone() {
        cx.batch(&[single.enqueue(work)])
            .await
            .expect("enqueue one");
    }
    let many = cx.outbox.enqueue_many_statement(all);
    assert_eq!(cx.batch(&[many]).await.expect("enqueue many"), [count]);

    let claim = |outbox: &Outbox| {
        let (outbox, cx) = (outbox.clone(), Arc::clone(&cx));
        async move {
            let claimed = outbox.claim_due(&*cx.db, &at(9), &at(10), u64::MAX).await;
            claimed.expect("claim")
        }
    };
    let (many, each) = (claim(&cx.outbox).await, claim(&single).await);
    assert_eq!(many.len() as u64, count);
    for (many, each) in many.iter().zip(&each) {
        assert!(many == each, "{many:?} {each:?}");
        let entry = cx.entry(&many.id).await;
        let other = single.get(&*cx.db, &each.id).await.expect("get");
        assert!(Some(&entry) == other.as_ref(), "{entry:?} {other:?}");
    }
    let payloads: Vec<_> = many.into_iter().map(|record| record.payload).collect();
    let mut expected = strange();
    let mut found = payloads;
    expected.sort_unstable();
    found.sort_unstable();
    assert!(found == expected, "byte for byte");
}

pub(super) async fn many_are_enqueued_all_or_none(cx: Arc<Context>) {
    cx.make_account().await;
    let rows = |numbers: std::ops::Range<usize>| {
        numbers.map(|number| Enqueue::new("t").id(numbered(number)).at(time(0)))
    };
    cx.enqueue("r007", &at(0)).await;
    let conflicting = cx.outbox.enqueue_many_statement(rows(0..20));
    assert_refused(cx.db.execute(&conflicting).await, Kind::Conflict);
    let answer = cx.batch(&[account("a"), conflicting]).await;
    assert_refused(answer, Kind::Conflict);
    // Two of one id in one statement.
    let twice = cx
        .outbox
        .enqueue_many_statement(rows(20..30).chain(rows(25..26)));
    assert_refused(cx.db.execute(&twice).await, Kind::Conflict);
    // The statement behind it fails.
    let fine = cx.outbox.enqueue_many_statement(rows(20..30));
    let answer = cx.batch(&[fine.clone(), account("a"), account("a")]).await;
    assert_refused(answer, Kind::Conflict);
    assert_eq!((cx.count().await, cx.count_in("account").await), (1, 0));
    let counts = cx.batch(&[account("a"), fine.expect_rows(10)]).await;
    assert_eq!(counts.expect("enqueue"), [1, 10]);
    assert_eq!(cx.count().await, 11);
}

pub(super) async fn one_that_cannot_be_enqueued_stops_all(cx: Arc<Context>) {
    let good = |number: usize| Enqueue::new("t").id(numbered(number)).at(time(0));
    for bad in [
        good(1).payload("a\0b"),
        good(1).subject(""),
        good(1).id(""),
        Enqueue::new("").at(time(0)),
        Enqueue::new("t"),
    ] {
        let many = [good(0), bad, good(2)];
        let statement = cx.outbox.enqueue_many_statement(many);
        let error = statement.sql().expect_err("the second is wrong");
        assert!(error.to_string().contains("row 1"), "{error}");
        cx.refuses(statement, Kind::InvalidArgument, "one of many")
            .await;
    }
    assert_eq!(cx.count().await, 0);
}

pub(super) async fn none_to_enqueue_touches_nothing(cx: Arc<Context>) {
    cx.make_account().await;
    cx.enqueue("a", &at(0)).await;
    let none = || cx.outbox.enqueue_many_statement([]);
    assert_eq!(cx.db.execute(&none()).await.expect("nothing"), 0);
    let counts = cx.batch(&[none(), account("a"), none()]).await;
    assert_eq!(counts.expect("nothing more"), [0, 1, 0]);
    assert_eq!(cx.count().await, 1);
}
