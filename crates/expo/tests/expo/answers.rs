//! What the service answers, and what becomes of it.

use std::time::Duration;

use duebox_core::{
    PushDeliveryStatus, PushErrorKind, PushReceiptSource, PushReceiptStatus, PushRejection,
    PushSender, PushSent, PushTicketId,
};
use duebox_expo::{ExpoConfigError, ExpoPush, FakeFault, Spoil};

use crate::stage::{Clock, client, fake, messages, sent, ticket, to, token};
use crate::tests;

tests!(answers:
    a_failed_chunk_takes_no_ticket_from_the_others,
    an_impossible_ticket_spoils_only_itself,
    one_id_in_two_requests_spoils_both,
    data_is_sent_as_it_was_given,
    several_projects_are_split_as_listed,
    errors_beside_tickets_take_none_of_them,
    too_many_requests_waits_as_told,
    a_senseless_retry_after_is_a_backoff_of_our_own,
    a_long_wait_is_left_to_the_caller,
    nobody_there_is_not_sent,
    a_refused_bearer_is_not_sent_and_asked_for_once,
    receipts_come_as_they_are_ready,
    receipts_are_read_again_after_a_failure,
    receipts_are_asked_for_by_three_hundred,
    the_pace_is_kept,
    what_cannot_be_used_is_refused_at_once,
);

async fn a_failed_chunk_takes_no_ticket_from_the_others() {
    let fake = fake().await;
    // The second request is accepted, and its answer is lost.
    fake.then(FakeFault::Spoil(vec![]));
    fake.then(FakeFault::AcceptThen {
        status: 504,
        body: "<html>".into(),
    });
    let outcomes = client(&fake, &Clock::default())
        .send(messages(250))
        .await
        .expect("outcomes");
    assert_eq!(outcomes.len(), 250);
    for (at, outcome) in outcomes.iter().enumerate() {
        assert_eq!(outcome.token, token(&format!("phone-{at}")));
        if (100..200).contains(&at) {
            assert_eq!(sent(&outcome.status), Some(PushSent::PerhapsSent));
        } else {
            assert_eq!(outcome.status, PushDeliveryStatus::Accepted(ticket(at)));
        }
    }
    let requests = fake.requests();
    assert_eq!(requests.len(), 3);
    assert!(
        requests
            .iter()
            .all(|request| request.gzip && request.bearer)
    );
}

async fn an_impossible_ticket_spoils_only_itself() {
    let fake = fake().await;
    fake.then(FakeFault::Spoil(vec![
        (1, Spoil::NoId),
        (2, Spoil::ImpossibleId),
        (3, Spoil::Null),
        (6, Spoil::SameId),
        (8, Spoil::UnheardError),
    ]));
    let names = ["a", "b", "c", "d", "e", "f", "g", "unregistered", "h"];
    let outcomes = client(&fake, &Clock::default())
        .send(to(names))
        .await
        .expect("outcomes");
    for at in [0, 1, 2, 3, 6] {
        assert_eq!(
            sent(&outcomes[at].status),
            Some(PushSent::PerhapsSent),
            "{at}"
        );
    }
    assert_eq!(outcomes[4].status, PushDeliveryStatus::Accepted(ticket(4)));
    assert_eq!(outcomes[5].status, PushDeliveryStatus::Accepted(ticket(5)));
    assert_eq!(
        outcomes[7].status,
        PushDeliveryStatus::Rejected(PushRejection::DeviceNotRegistered)
    );
    assert!(matches!(&outcomes[8].status,
        PushDeliveryStatus::Rejected(PushRejection::Other(code)) if code.as_str() == "Unheard"));
}

async fn one_id_in_two_requests_spoils_both() {
    let fake = fake().await;
    let first = ticket(0);
    fake.then(FakeFault::Spoil(vec![]));
    fake.then(FakeFault::AcceptThen {
        status: 200,
        body: format!(
            r#"{{"data":[{{"status":"ok","id":"{}"}}]}}"#,
            first.as_str()
        ),
    });
    let outcomes = client(&fake, &Clock::default()).send(messages(101)).await;
    let outcomes = outcomes.expect("outcomes");
    for at in [0, 100] {
        assert_eq!(sent(&outcomes[at].status), Some(PushSent::PerhapsSent));
    }
    assert_eq!(outcomes[1].status, PushDeliveryStatus::Accepted(ticket(1)));
}

async fn data_is_sent_as_it_was_given() {
    let fake = fake().await;
    let data = r#"{"n":12345678901234567890123,"x":7.038531e-26,"n":1}"#;
    let mut all = messages(3);
    all[0].data = Some(data.into());
    all[1].data = Some("[1]".into());
    all[2].data = Some("{".into());
    let outcomes = client(&fake, &Clock::default()).send(all).await;
    let outcomes = outcomes.expect("outcomes");
    assert_eq!(sent(&outcomes[0].status), None);
    assert_eq!(sent(&outcomes[1].status), Some(PushSent::NotSent));
    assert_eq!(sent(&outcomes[2].status), Some(PushSent::NotSent));
    let body = &fake.requests()[0].body;
    assert!(body.contains(data), "{body}");
}

async fn several_projects_are_split_as_listed() {
    let fake = fake().await;
    let outcomes = client(&fake, &Clock::default())
        .send(to(["a", "b-project-1", "c", "b-project-2"]))
        .await
        .expect("outcomes");
    // Those of one project were sent first.
    for (outcome, number) in outcomes.iter().zip([0, 2, 1, 3]) {
        assert_eq!(outcome.status, PushDeliveryStatus::Accepted(ticket(number)));
    }
    let items: Vec<usize> = fake
        .requests()
        .iter()
        .map(|request| request.items)
        .collect();
    assert_eq!(items, [4, 2, 2]);
}

async fn errors_beside_tickets_take_none_of_them() {
    let fake = fake().await;
    fake.then(FakeFault::ErrorsBeside("SOMETHING".into()));
    let outcomes = client(&fake, &Clock::default()).send(messages(2)).await;
    let outcomes = outcomes.expect("outcomes");
    assert_eq!(outcomes[1].status, PushDeliveryStatus::Accepted(ticket(1)));
}

async fn too_many_requests_waits_as_told() {
    for (after, expected) in [("7", 7), ("Thu, 01 Jan 1970 00:00:09 GMT", 9)] {
        let fake = fake().await;
        fake.then(FakeFault::too_many_requests(Some(after)));
        let clock = Clock::default();
        let outcomes = client(&fake, &clock).send(messages(1)).await;
        assert_eq!(sent(&outcomes.expect("outcomes")[0].status), None);
        assert_eq!(clock.waits(), [Duration::from_secs(expected)]);
    }
}

async fn a_senseless_retry_after_is_a_backoff_of_our_own() {
    for after in [
        "-5",
        "soon",
        "",
        "1e3",
        "99999999999999999999999",
        "Thu, 99 Foo",
    ] {
        let fake = fake().await;
        fake.then(FakeFault::too_many_requests(Some(after)));
        fake.then(FakeFault::too_many_requests(Some(after)));
        let clock = Clock::default();
        let outcomes = client(&fake, &clock).send(messages(1)).await;
        assert_eq!(
            sent(&outcomes.expect("outcomes")[0].status),
            None,
            "{after}"
        );
        let waits = clock.waits();
        // One second and two, less up to a half of each.
        for (wait, most) in waits.iter().zip([1, 2]) {
            let most = Duration::from_secs(most);
            assert!((most / 2..=most).contains(wait), "{after}: {waits:?}");
        }
        assert_eq!(waits.len(), 2, "{after}");
    }
}

async fn a_long_wait_is_left_to_the_caller() {
    // No more than an hour is told, whatever the service asks for.
    for (after, told) in [("600", 600), ("18446744073709551615", 3600)] {
        let fake = fake().await;
        fake.then(FakeFault::too_many_requests(Some(after)));
        let clock = Clock::default();
        let error = client(&fake, &clock).send(messages(1)).await;
        let error = error.expect_err("it is refused");
        assert_eq!(error.kind(), PushErrorKind::RateLimited);
        assert_eq!(error.retry_after(), Some(Duration::from_secs(told)));
        assert!(error.is_retryable());
        assert_eq!(clock.waits(), []);
    }
}

async fn nobody_there_is_not_sent() {
    let expo = ExpoPush::builder()
        .base_url("http://127.0.0.1:1")
        .max_retries(0)
        .build()
        .expect("a client");
    let error = expo.send(messages(250)).await.expect_err("nobody is there");
    assert_eq!(error.sent(), PushSent::NotSent);
    assert!(error.is_retryable());
}

async fn a_refused_bearer_is_not_sent_and_asked_for_once() {
    let fake = fake().await;
    fake.require_token("another");
    let error = client(&fake, &Clock::default()).send(messages(250)).await;
    let error = error.expect_err("it is refused");
    assert_eq!(error.kind(), PushErrorKind::Unauthorized);
    assert_eq!(error.sent(), PushSent::NotSent);
    assert_eq!(fake.requests().len(), 1);
    assert_eq!(fake.issued(), []);
}

async fn receipts_come_as_they_are_ready() {
    let fake = fake().await;
    let expo = client(&fake, &Clock::default());
    let names = [
        "phone",
        "gone",
        "toobig",
        "rate",
        "mismatch",
        "credentials",
        "unheard",
        "late",
        "never",
    ];
    expo.send(to(names)).await.expect("outcomes");
    let all: Vec<_> = (0..names.len()).map(ticket).collect();
    assert_eq!(expo.receipts(all.clone()).await.expect("receipts"), []);
    fake.advance(Duration::from_mins(15));
    let receipts = expo.receipts(all.clone()).await.expect("receipts");
    let statuses: Vec<&PushReceiptStatus> = receipts.iter().map(|one| &one.status).collect();
    let rejected = PushReceiptStatus::Rejected;
    assert_eq!(
        statuses[..6],
        [
            &PushReceiptStatus::Delivered,
            &rejected(PushRejection::DeviceNotRegistered),
            &rejected(PushRejection::MessageTooBig),
            &rejected(PushRejection::MessageRateExceeded),
            &rejected(PushRejection::MismatchSenderId),
            &rejected(PushRejection::InvalidCredentials),
        ]
    );
    assert!(matches!(statuses[6],
        PushReceiptStatus::Rejected(PushRejection::Other(code)) if code.as_str() == "SomethingUnheardOf"));
    assert_eq!(receipts.len(), 7);
    fake.advance(Duration::from_hours(6));
    assert_eq!(expo.receipts(all).await.expect("receipts").len(), 8);
}

async fn receipts_are_read_again_after_a_failure() {
    for fault in [
        FakeFault::answer(503, "<html>"),
        FakeFault::too_many_requests(None),
        FakeFault::Cut,
        FakeFault::Close,
    ] {
        let fake = fake().await;
        let clock = Clock::default();
        let expo = client(&fake, &clock);
        expo.send(messages(1)).await.expect("outcomes");
        fake.advance(Duration::from_mins(15));
        fake.then(fault);
        let stranger = PushTicketId::new("no-ticket-of-the-service").expect("a ticket");
        let asked = vec![ticket(0), stranger, ticket(0)];
        let receipts = expo.receipts(asked).await.expect("receipts");
        assert_eq!(receipts.len(), 1);
        assert_eq!(receipts[0].status, PushReceiptStatus::Delivered);
        assert_eq!(clock.waits().len(), 1);
        assert_eq!(fake.requests()[1].items, 2, "each is asked for once");
    }
}

async fn receipts_are_asked_for_by_three_hundred() {
    let fake = fake().await;
    let expo = client(&fake, &Clock::default());
    let all: Vec<_> = (0..700).map(ticket).collect();
    expo.receipts(all).await.expect("receipts");
    let items: Vec<usize> = fake
        .requests()
        .iter()
        .map(|request| request.items)
        .collect();
    assert_eq!(items, [300, 300, 100]);
}

async fn the_pace_is_kept() {
    let fake = fake().await;
    let clock = Clock::default();
    let expo = client(&fake, &clock);
    expo.send(messages(1_300)).await.expect("outcomes");
    // Thirteen requests of 100 at 600 a second: the first at once.
    let waited: Duration = clock.waits().iter().sum();
    assert_eq!(waited.as_millis(), 1_999, "{:?}", clock.waits());
}

async fn what_cannot_be_used_is_refused_at_once() {
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
        "https://exp.host?x=1",
        "ftp://exp.host",
        "x",
    ] {
        assert_eq!(build("token", url), Err(ExpoConfigError::BaseUrl));
    }
    assert_eq!(build("token", "https://exp.host/base"), Ok(()));
}
