//! What the sender and the receipt source promise, against canned answers.

mod fake;

use std::sync::Arc;
use std::time::Duration;

use duebox_core::{
    DeviceToken, PushDeliveryStatus, PushErrorKind, PushMessage, PushReceiptSource,
    PushReceiptStatus, PushRejection, PushSender, PushSent, PushTicketId,
};
use duebox_expo::{ExpoConfigError, ExpoPush};
use fake::{Clock, Fake, http};

fn messages(count: usize) -> Vec<PushMessage> {
    (0..count)
        .map(|at| PushMessage::new(DeviceToken::new(format!("ExponentPushToken[{at}]")).unwrap()))
        .collect()
}

fn tickets(from: usize, count: usize) -> String {
    let each: Vec<_> = (from..from + count)
        .map(|at| format!(r#"{{"status":"ok","id":"t-{at}"}}"#))
        .collect();
    http(200, "", &format!(r#"{{"data":[{}]}}"#, each.join(",")))
}

fn client(fake: &Fake, clock: &Clock) -> ExpoPush {
    ExpoPush::builder()
        .base_url(fake.url.clone())
        .access_token("secret-bearer")
        .clock(Arc::new(clock.clone()))
        .max_answer_bytes(64 * 1024)
        .build()
        .unwrap()
}

fn sent(status: &PushDeliveryStatus) -> Option<PushSent> {
    match status {
        PushDeliveryStatus::Rejected(rejection) => Some(rejection.sent()),
        _ => None,
    }
}

#[tokio::test]
async fn a_failed_chunk_takes_no_ticket_from_the_others() {
    let fake = Fake::start(vec![
        tickets(0, 100),
        http(504, "", "<html>"),
        tickets(200, 50),
    ])
    .await;
    let outcomes = client(&fake, &Clock::default())
        .send(messages(250))
        .await
        .unwrap();
    assert_eq!(outcomes.len(), 250);
    for (at, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.token.as_str(), format!("ExponentPushToken[{at}]"));
        if (100..200).contains(&at) {
            assert_eq!(sent(&outcome.status), Some(PushSent::PerhapsSent));
        } else {
            let ticket = PushTicketId::new(format!("t-{at}")).unwrap();
            assert_eq!(outcome.status, PushDeliveryStatus::Accepted(ticket));
        }
    }
    assert_eq!(fake.requests().len(), 3);
    assert!(fake.requests()[0].contains("content-encoding: gzip"));
}

#[tokio::test]
async fn what_is_perhaps_sent_is_not_sent_again() {
    let cut = "HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"data\":[".to_owned();
    let long = http(200, "", &"x".repeat(100_000));
    for answer in [
        http(500, "", "{}"),
        http(502, "", "<html>"),
        http(200, "", "no json"),
        http(200, "", r#"{"data":[]}"#),
        http(200, "", r#"{"data":"text"}"#),
        http(302, "location: http://127.0.0.1:1/\r\n", ""),
        cut,
        long,
        String::new(),
    ] {
        let fake = Fake::start(vec![answer, tickets(0, 1)]).await;
        let clock = Clock::default();
        let error = client(&fake, &clock).send(messages(1)).await.unwrap_err();
        assert_eq!(error.sent(), PushSent::PerhapsSent, "{error}");
        assert_eq!(fake.requests().len(), 1, "{error}");
    }
}

#[tokio::test]
async fn too_many_requests_waits_as_told() {
    for (header, expected) in [
        ("retry-after: 7\r\n", 7),
        ("retry-after: Thu, 01 Jan 1970 00:00:09 GMT\r\n", 9),
    ] {
        let fake = Fake::start(vec![http(429, header, ""), tickets(0, 1)]).await;
        let clock = Clock::default();
        let outcomes = client(&fake, &clock).send(messages(1)).await.unwrap();
        assert_eq!(sent(&outcomes[0].status), None);
        assert_eq!(clock.waits(), [Duration::from_secs(expected)]);
    }
}

#[tokio::test]
async fn a_long_wait_is_left_to_the_caller() {
    let fake = Fake::start(vec![http(429, "retry-after: 3600\r\n", "")]).await;
    let clock = Clock::default();
    let error = client(&fake, &clock).send(messages(1)).await.unwrap_err();
    assert_eq!(error.kind(), PushErrorKind::RateLimited);
    assert_eq!(error.retry_after(), Some(Duration::from_hours(1)));
    assert!(error.is_retryable());
    assert_eq!(clock.waits(), []);
}

#[tokio::test]
async fn nobody_there_is_not_sent() {
    let expo = ExpoPush::builder()
        .base_url("http://127.0.0.1:1")
        .max_retries(0)
        .build()
        .unwrap();
    let error = expo.send(messages(250)).await.unwrap_err();
    assert_eq!(error.sent(), PushSent::NotSent);
    assert!(error.is_retryable());
}

#[tokio::test]
async fn an_impossible_ticket_spoils_only_itself() {
    let body = r#"{"data":[{"status":"ok"},{"status":"ok","id":"two words"},{"status":"ok","id":7},
        null,{"status":"ok","id":"good"},{"status":"ok","id":"twice"},{"status":"ok","id":"twice"},
        {"status":"error","details":{"error":"DeviceNotRegistered"}},
        {"status":"error","details":{"error":"New: ExponentPushToken[0]"}}]}"#;
    let fake = Fake::start(vec![http(200, "", body)]).await;
    let outcomes = client(&fake, &Clock::default())
        .send(messages(9))
        .await
        .unwrap();
    for at in [0, 1, 2, 3, 5, 6] {
        assert_eq!(sent(&outcomes[at].status), Some(PushSent::PerhapsSent));
    }
    let good = PushTicketId::new("good").unwrap();
    assert_eq!(outcomes[4].status, PushDeliveryStatus::Accepted(good));
    assert_eq!(
        outcomes[7].status,
        PushDeliveryStatus::Rejected(PushRejection::DeviceNotRegistered)
    );
    assert!(matches!(&outcomes[8].status,
        PushDeliveryStatus::Rejected(PushRejection::Other(code)) if code.as_str() == "New"));
}

#[tokio::test]
async fn several_projects_are_split_as_listed() {
    let error = r#"{"errors":[{"code":"PUSH_TOO_MANY_EXPERIENCE_IDS","details":{
        "@a/a":["ExponentPushToken[0]","ExponentPushToken[2]"],"@b/b":["ExponentPushToken[1]"]}}]}"#;
    let fake = Fake::start(vec![http(400, "", error), tickets(0, 2), tickets(9, 1)]).await;
    let outcomes = client(&fake, &Clock::default())
        .send(messages(3))
        .await
        .unwrap();
    for (outcome, expected) in outcomes.iter().zip(["t-0", "t-9", "t-1"]) {
        let ticket = PushTicketId::new(expected).unwrap();
        assert_eq!(outcome.status, PushDeliveryStatus::Accepted(ticket));
    }
}

#[tokio::test]
async fn receipts_are_read_again_after_a_failure() {
    let body = r#"{"data":{"a":{"status":"ok"},"b":{"status":"error","details":{"error":
        "DeviceNotRegistered"}},"c":{"status":"new"},"stranger":{"status":"ok"}}}"#;
    let fake = Fake::start(vec![http(503, "", "<html>"), http(200, "", body)]).await;
    let clock = Clock::default();
    let asked = ["a", "b", "c", "d", "a"].map(|id| PushTicketId::new(id).unwrap());
    let receipts = client(&fake, &clock)
        .receipts(asked.to_vec())
        .await
        .unwrap();
    assert_eq!(receipts.len(), 2);
    assert_eq!(receipts[0].status, PushReceiptStatus::Delivered);
    assert_eq!(
        receipts[1].status,
        PushReceiptStatus::Rejected(PushRejection::DeviceNotRegistered)
    );
    assert_eq!(clock.waits().len(), 1);
}

#[tokio::test]
async fn errors_say_nothing_private() {
    let body = r#"{"errors":[{"code":"NEW ExponentPushToken[0]","message":"secret-bearer"}]}"#;
    let fake = Fake::start(vec![http(400, "", body)]).await;
    let expo = client(&fake, &Clock::default());
    let error = expo.send(messages(1)).await.unwrap_err();
    assert_eq!(error.code().unwrap().as_str(), "NEW");
    let said = format!("{error} {error:?} {expo:?}");
    assert!(
        !said.contains("secret") && !said.contains("ExponentPushToken"),
        "{said}"
    );
}

#[test]
fn what_cannot_be_used_is_refused_at_once() {
    let build = |token: &str, url: &str| {
        let builder = ExpoPush::builder().access_token(token).base_url(url);
        builder.build().map(|_| ())
    };
    for token in ["", "a\r\nx: y", "a b", "ä"] {
        let refused = build(token, "https://exp.host");
        assert_eq!(refused, Err(ExpoConfigError::AccessToken));
    }
    for url in [
        "http://exp.host",
        "https://a:b@exp.host",
        "ftp://exp.host",
        "x",
    ] {
        assert_eq!(build("token", url), Err(ExpoConfigError::BaseUrl));
    }
    assert_eq!(build("token", "https://exp.host/base"), Ok(()));
}

#[tokio::test]
async fn every_issued_ticket_is_in_an_outcome_whatever_fails_around_it() {
    for seed in 0..100 {
        let mut random = fastrand::Rng::with_seed(seed);
        let count = random.usize(1..500);
        let (mut answers, mut issued) = (Vec::new(), Vec::new());
        for from in (0..count).step_by(100) {
            for _ in 0..random.usize(0..3) {
                answers.push(http(429, "", ""));
            }
            let size = (count - from).min(100);
            answers.push(match random.u8(0..4) {
                0 => http(504, "", "<html>"),
                1 => http(200, "", "no json"),
                _ => {
                    issued.extend(from..from + size);
                    tickets(from, size)
                }
            });
        }
        let requests = answers.len();
        let fake = Fake::start(answers).await;
        let sent_all = client(&fake, &Clock::default()).send(messages(count)).await;
        let outcomes = sent_all.unwrap_or_default();
        let found: Vec<usize> = (0..outcomes.len())
            .filter(|at| match &outcomes[*at].status {
                PushDeliveryStatus::Accepted(ticket) => ticket.as_str() == format!("t-{at}"),
                _ => false,
            })
            .collect();
        assert_eq!(found, issued, "seed {seed}");
        // Once for each canned answer: nothing was sent again but after a 429.
        assert_eq!(fake.requests().len(), requests, "seed {seed}");
    }
}
