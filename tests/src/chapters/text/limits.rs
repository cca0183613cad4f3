//! What is refused, before any SQL.

use std::sync::Arc;

use duebox_core::{Claim, Enqueue, Kind, Outbox, parse_time};

use crate::Context;
use crate::context::{assert_refused, at};

/// Ids that no row can have.
fn bad_ids() -> Vec<String> {
    let mut bad: Vec<String> = ["", " ", "a b", "a ", "a\n", "a\0", "\u{7f}", "é", "a\u{85}"]
        .map(str::to_owned)
        .into();
    bad.push("x".repeat(65));
    bad.push("x".repeat(9_000));
    bad
}

/// Topics and subjects that no row can have.
fn bad_texts() -> Vec<String> {
    let mut bad: Vec<String> = [
        "", "a\0", "\0", "a\nb", "\t", "a\u{7f}", "a\u{85}", "\u{9f}",
    ]
    .map(str::to_owned)
    .into();
    bad.push("x".repeat(256));
    bad.push("é".repeat(128));
    bad.push("😀".repeat(64));
    bad.push("0123456789abcdef".repeat(200));
    bad.push("0123456789abcdef".repeat(600));
    bad
}

pub(super) async fn what_no_row_can_hold_stops_a_batch_before_it_runs(cx: Arc<Context>) {
    let outbox = &cx.outbox;
    let mut bad = Vec::new();
    for id in bad_ids() {
        bad.push((id, "t".to_owned(), "p".to_owned(), None));
    }
    for text in bad_texts() {
        bad.push(("a".into(), text.clone(), "p".into(), None));
        bad.push(("a".into(), "t".into(), "p".into(), Some(text)));
    }
    bad.push(("a".into(), "t".into(), "p\0".into(), None));
    bad.push((
        "a".into(),
        "t".into(),
        "x".repeat(8 * 1024 * 1024 + 1),
        None,
    ));
    for (id, topic, payload, subject) in bad {
        let what = format!(
            "id of {}, topic of {}, payload of {}, subject of {:?} bytes",
            id.len(),
            topic.len(),
            payload.len(),
            subject.as_ref().map(String::len)
        );
        let subject = subject.as_deref();
        let time = parse_time(&at(0)).expect("a time");
        let work = || {
            let work = Enqueue::new(&*topic).id(&*id).payload(&*payload).at(time);
            match subject {
                Some(subject) => work.subject(subject),
                None => work,
            }
        };
        let good = Enqueue::new("t").at(time);
        for statement in [
            outbox.enqueue_statement(&id, &topic, &payload, subject, &at(0)),
            outbox.enqueue_once_statement(&id, &topic, &payload, subject, &at(0)),
            outbox.enqueue(work()),
            outbox.enqueue_once(work()),
            outbox.enqueue_many_statement([good, work()]),
        ] {
            cx.refuses(statement, Kind::InvalidArgument, &what).await;
        }
    }
    assert_eq!(cx.count().await, 0);
}

pub(super) async fn no_call_takes_an_impossible_text(cx: Arc<Context>) {
    // If a call asked the database it would miss the table.
    let outbox = Outbox::new("nowhere");
    let db = &*cx.db;
    for id in bad_ids() {
        let id = id.as_str();
        for answer in [
            outbox.complete(db, id).await,
            outbox.retry_later(db, id, &at(0)).await,
            outbox.get(db, id).await.map(drop),
            outbox.park(db, &["a", id], &at(0), "no").await.map(drop),
            outbox.unpark(db, &["a", id], &at(0)).await.map(drop),
            outbox.release(db, &["a", id]).await.map(drop),
            outbox.delete(db, &["a", id]).await.map(drop),
        ] {
            assert_refused(answer, Kind::InvalidArgument);
        }
    }
    for text in bad_texts() {
        let claim = Claim::new(at(0), at(10)).locked_by(&*text);
        for answer in [
            outbox.claim(db, &claim).await.map(drop),
            outbox.export_subject(db, &text, None, 9).await.map(drop),
            outbox.erase_subject(db, &text, 9).await.map(drop),
        ] {
            assert_refused(answer, Kind::InvalidArgument);
        }
        let erase = outbox.erase_subject_statement(&text);
        cx.refuses(erase, Kind::InvalidArgument, "a subject").await;
    }
}

pub(super) async fn an_empty_subject_is_refused_and_is_not_none(cx: Arc<Context>) {
    let enqueue = |subject| cx.outbox.enqueue_statement("a", "t", "", subject, &at(0));
    cx.refuses(enqueue(Some("")), Kind::InvalidArgument, "no subject")
        .await;
    cx.batch(&[enqueue(None)]).await.expect("enqueue");
    let nulls = "SELECT COUNT(*) AS n FROM outbox WHERE subject IS NULL AND payload = ''";
    let rows = cx.query(duebox_core::Statement::new(nulls)).await;
    assert_eq!(rows[0].get::<i64>("n").expect("a count"), 1);
    assert_eq!(cx.claim_one(&at(0), &at(10)).await.subject, None);
}

pub(super) async fn a_nul_is_refused_everywhere_and_its_escape_is_kept(cx: Arc<Context>) {
    let enqueue = |id, topic, payload, subject| {
        cx.outbox
            .enqueue_statement(id, topic, payload, Some(subject), &at(0))
    };
    for (what, statement) in [
        ("an id", enqueue("a\0b", "t", "p", "s")),
        ("a topic", enqueue("a", "t\0", "p", "s")),
        ("a payload", enqueue("a", "t", "\0", "s")),
        ("a payload's end", enqueue("a", "t", "p\0", "s")),
        ("a subject", enqueue("a", "t", "p", "\0s")),
    ] {
        cx.refuses(statement, Kind::InvalidArgument, what).await;
    }
    let escaped = r#"{"nul":"\u0000"}"#;
    cx.batch(&[enqueue("a", r"\u0000", escaped, r"\0")])
        .await
        .expect("enqueue");
    let record = cx.claim_one(&at(0), &at(10)).await;
    assert_eq!((&*record.topic, &*record.payload), (r"\u0000", escaped));
    assert_eq!(record.subject.as_deref(), Some(r"\0"));
    assert_eq!(cx.count().await, 1);
}
