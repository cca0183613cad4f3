//! Text: what is kept, told apart, and refused, alike on every engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use duebox_core::{Claim, LeaseOutcome, ListOptions, Retry, Statement};

use super::chapter;
use crate::Context;
use crate::context::{at, ids};

mod limits;

use limits::{
    a_nul_is_refused_everywhere_and_its_escape_is_kept,
    an_empty_subject_is_refused_and_is_not_none, no_call_takes_an_impossible_text,
    what_no_row_can_hold_stops_a_batch_before_it_runs,
};

chapter!(text:
    ids_are_told_apart_byte_by_byte,
    ids_are_ordered_byte_by_byte,
    topics_are_told_apart,
    subjects_are_told_apart,
    every_character_of_a_payload_is_kept,
    the_longest_of_every_text_is_kept,
    characters_of_four_bytes_are_kept_in_every_text,
    an_empty_payload_is_kept,
    an_error_is_cleaned_and_cut_and_never_refused,
    an_empty_subject_is_refused_and_is_not_none,
    a_nul_is_refused_everywhere_and_its_escape_is_kept,
    what_no_row_can_hold_stops_a_batch_before_it_runs,
    no_call_takes_an_impossible_text,
);

/// Texts that some collation takes for equal.
const ALIKE: [&str; 16] = [
    "user_a",
    "USER_A",
    "User_a",
    "us\u{e9}r_a",
    "use\u{301}r_a",
    "user_a ",
    "user_a  ",
    " user_a",
    "user%a",
    "user-a",
    "user\\_a",
    "usera",
    "ｕｓｅｒ_ａ",
    "us\u{df}r_a",
    "ussr_a",
    "user_a\u{200d}",
];

async fn ids_are_told_apart_byte_by_byte(cx: Arc<Context>) {
    let all = [
        "abc",
        "ABC",
        "Abc",
        "aBc",
        "a%c",
        "a_c",
        "a.c",
        "abc'",
        "\"abc\"",
        "01JH0000000000000000000ABC",
        "01jh0000000000000000000abc",
    ];
    for id in all {
        cx.enqueue(id, &at(0)).await;
    }
    for id in all {
        assert_eq!(cx.entry(id).await.payload.as_deref(), Some(id));
    }
    let claimed = cx.claim(&at(0), &at(10), 99).await;
    assert_eq!(claimed.len(), all.len());
    let mut left: BTreeSet<&str> = all.into();
    for id in all {
        cx.outbox.complete(&*cx.db, id).await.expect("complete");
        left.remove(id);
        let rows = cx.query(Statement::new("SELECT id FROM outbox")).await;
        let found: Vec<String> = rows.iter().map(|row| row.get("id").expect("id")).collect();
        let found: BTreeSet<&str> = found.iter().map(String::as_str).collect();
        assert_eq!(found, left, "{id} is gone, and it alone");
    }
}

async fn ids_are_ordered_byte_by_byte(cx: Arc<Context>) {
    let all: Vec<String> = (0x21..=0x7E_u8)
        .map(|byte| char::from(byte).to_string())
        .collect();
    for id in all.iter().rev() {
        cx.enqueue(id, &at(0)).await;
    }
    assert_eq!(ids(&cx.claim(&at(0), &at(10), 200).await), all);
    // In pages of seven, behind the last of each.
    let mut listed: Vec<String> = Vec::new();
    loop {
        let mut options = ListOptions::new().limit(7);
        if let Some(last) = listed.last() {
            options = options.after(last.as_str());
        }
        let page = cx
            .outbox
            .list(&*cx.db, &at(0), &options)
            .await
            .expect("list");
        listed.extend(page.iter().map(|entry| entry.id.clone()));
        if page.len() < 7 {
            break;
        }
    }
    assert_eq!(listed, all);
}

async fn topics_are_told_apart(cx: Arc<Context>) {
    for (number, topic) in ALIKE.into_iter().enumerate() {
        let id = format!("r{number}");
        let statement = cx.outbox.enqueue_statement(&id, topic, "p", None, &at(0));
        cx.batch(&[statement]).await.expect("enqueue");
    }
    for (number, topic) in ALIKE.into_iter().enumerate() {
        let options = ListOptions::new().topic(topic);
        let listed = cx
            .outbox
            .list(&*cx.db, &at(0), &options)
            .await
            .expect("list");
        let found: Vec<(&str, &str)> = listed
            .iter()
            .map(|entry| (entry.id.as_str(), entry.topic.as_str()))
            .collect();
        assert_eq!(found, [(format!("r{number}").as_str(), topic)]);
    }
    let records = cx.claim(&at(0), &at(10), 99).await;
    let topics: BTreeSet<&str> = records.iter().map(|record| &*record.topic).collect();
    assert_eq!(topics, ALIKE.into());
}

async fn subjects_are_told_apart(cx: Arc<Context>) {
    for (number, subject) in ALIKE.into_iter().enumerate() {
        cx.enqueue_for(&format!("r{number}"), subject, &at(0)).await;
    }
    for (number, subject) in ALIKE.into_iter().enumerate() {
        let id = format!("r{number}");
        let found = cx
            .outbox
            .export_subject(&*cx.db, subject, None, 99)
            .await
            .expect("export");
        assert_eq!(found.len(), 1, "{subject:?}");
        assert_eq!(found[0].id, id);
        assert_eq!(found[0].subject.as_deref(), Some(subject));
        let left = 15 - i64::try_from(number).expect("small");
        let erased = cx.outbox.erase_subject(&*cx.db, subject, 99).await;
        assert_eq!(erased.expect("erase"), 1, "{subject:?}");
        assert_eq!(cx.count().await, left);
    }
}

async fn every_character_of_a_payload_is_kept(cx: Arc<Context>) {
    let controls: String = (1..0xA0_u8).map(char::from).collect();
    let all = [
        controls,
        "\r\n\n\r\t \u{b}\u{c}".into(),
        "  both ends  ".into(),
        "\u{feff}mark\u{feff}".into(),
        "\u{2028}\u{2029}\u{85}\u{ad}\u{200b}\u{202e}".into(),
        "e\u{301} \u{e9} \u{1e9b}\u{323}".into(),
        "\u{d7ff}\u{e000}\u{fffd}\u{ffff}\u{10000}\u{10ffff}".into(),
        "👩‍👩‍👧‍👦🇩🇪".into(),
        "C:\\new\\table\\0 \\' \\\" \\u0041 \\%".into(),
        "null".into(),
        "123".into(),
        "{\"a\": \"\\\"\\\\\\n\\u0000\"}".into(),
    ];
    for (number, payload) in all.iter().enumerate() {
        let id = format!("r{number:02}");
        let statement = cx
            .outbox
            .enqueue_statement(&id, "t", payload, Some("s"), &at(0));
        cx.batch(&[statement]).await.expect("enqueue");
    }
    let claimed = cx.claim(&at(0), &at(10), 99).await;
    let exported = cx
        .outbox
        .export_subject(&*cx.db, "s", None, 99)
        .await
        .expect("export");
    let rows = cx
        .query(Statement::new("SELECT payload FROM outbox ORDER BY id"))
        .await;
    for (number, payload) in all.iter().enumerate() {
        assert_eq!(&claimed[number].payload, payload);
        assert_eq!(exported[number].payload.as_ref(), Some(payload));
        assert_eq!(exported[number].payload_bytes, payload.len() as u64);
        assert_eq!(
            &rows[number].get::<String>("payload").expect("text"),
            payload
        );
    }
}

/// Enqueues a row, and reads it in each way there is.
async fn is_kept(cx: &Context, id: &str, topic: &str, payload: &str, subject: &str) {
    let statement = cx
        .outbox
        .enqueue_statement(id, topic, payload, Some(subject), &at(0));
    cx.batch(&[statement]).await.expect("enqueue");
    let claim = Claim::new(at(0), at(10)).limit(1).locked_by(topic);
    let claimed = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    let record = &claimed[0];
    assert_eq!(
        (&*record.id, &*record.topic, &*record.payload),
        (id, topic, payload)
    );
    assert_eq!(record.subject.as_deref(), Some(subject));
    let entry = cx.entry(id).await;
    assert_eq!((&*entry.id, &*entry.topic), (id, topic));
    assert_eq!(entry.payload.as_deref(), Some(payload));
    assert_eq!(entry.subject.as_deref(), Some(subject));
    assert_eq!(entry.locked_by.as_deref(), Some(topic));
    let options = ListOptions::new().topic(topic);
    let listed = cx.outbox.list(&*cx.db, &at(0), &options).await;
    assert_eq!(listed.expect("list")[0].subject.as_deref(), Some(subject));
    let exported = cx.outbox.export_subject(&*cx.db, subject, None, 9).await;
    assert_eq!(exported.expect("export")[0].id, id);
    assert_eq!(cx.complete(&record.lease).await, LeaseOutcome::Held);
}

async fn the_longest_of_every_text_is_kept(cx: Arc<Context>) {
    for (id, text) in [
        ("~".repeat(64), "x".repeat(255)),
        ("Z".repeat(64), "é".repeat(127) + "x"),
        ("!".repeat(64), "€".repeat(85)),
        ("\"".repeat(64), "😀".repeat(63) + "€"),
        ("\\".repeat(64), "\\".repeat(255)),
    ] {
        assert_eq!((id.len(), text.len()), (64, 255));
        is_kept(&cx, &id, &text, &text, &text).await;
    }
    is_kept(&cx, "!", "t", "p", "s").await;
    assert_eq!(cx.count().await, 0);
}

async fn characters_of_four_bytes_are_kept_in_every_text(cx: Arc<Context>) {
    is_kept(&cx, "a", "🚀 launch", "{\"to\":\"😀\"}", "😀").await;
    is_kept(&cx, "b", "\u{10ffff}", "\u{10000}", " 𝒳 ").await;
}

async fn an_empty_payload_is_kept(cx: Arc<Context>) {
    is_kept(&cx, "a", "t", "", "s").await;
    let statement = cx.outbox.enqueue_statement("b", "t", "", None, &at(0));
    cx.batch(&[statement]).await.expect("enqueue");
    let record = cx.claim_one(&at(0), &at(10)).await;
    assert_eq!((&*record.payload, record.subject), ("", None));
    let entry = cx.entry("b").await;
    assert_eq!(
        (entry.payload.as_deref(), entry.payload_bytes),
        (Some(""), 0)
    );
}

async fn an_error_is_cleaned_and_cut_and_never_refused(cx: Arc<Context>) {
    let long = format!("x{}", "😀".repeat(5_000));
    let errors = [
        ("", String::new()),
        ("a\0b\r\n\tc\u{7f}\u{85}", "a b   c  ".into()),
        (
            "'; DROP TABLE outbox; -- ? $1 \\",
            "'; DROP TABLE outbox; -- ? $1 \\".into(),
        ),
        (&long, format!("x{}", "😀".repeat(1_023))),
    ];
    for (error, kept) in errors {
        assert!(kept.len() <= 4_096);
        for way in 0..4 {
            cx.enqueue("a", &at(0)).await;
            let lease = cx.claim_one(&at(0), &at(10)).await.lease;
            let retry = Retry {
                lease: &lease,
                next_attempt_at: &at(5),
                error,
            };
            let (db, outbox) = (&*cx.db, &cx.outbox);
            match way {
                0 => drop(
                    outbox
                        .retry_claimed(db, &at(1), &[retry])
                        .await
                        .expect("retry"),
                ),
                1 => {
                    let statement = outbox.retry_statement(&at(1), retry);
                    assert_eq!(cx.batch(&[statement]).await.expect("retry"), [1]);
                }
                2 => {
                    let leases = std::slice::from_ref(&lease);
                    let parked = outbox.park_claimed(db, leases, &at(1), error).await;
                    assert_eq!(parked.expect("park"), [LeaseOutcome::Held]);
                }
                _ => {
                    let parked = outbox.park(db, &["a"], &at(1), error).await;
                    assert_eq!(parked.expect("park"), 1);
                }
            }
            let row = cx.entry("a").await;
            assert_eq!(row.last_error.as_deref(), Some(&*kept), "way {way}");
            assert_eq!(row.failed_at, Some(at(1)));
            outbox.complete(db, "a").await.expect("complete");
        }
    }
}
