//! A service and a network that misbehave, and what must not leak meanwhile.

use std::fmt::Write;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use duebox_conformance::Listener;
use duebox_core::{
    PushErrorKind, PushFuture, PushMessage, PushReceiptSource, PushSender, PushSent,
};
use duebox_expo::{ExpoClock, ExpoPush, FakeFault};

use crate::stage::{Clock, builder, client, fake, messages, sent, ticket, to, token};
use crate::tests;

tests!(faults:
    what_is_perhaps_sent_is_not_sent_again,
    a_service_that_never_answers_is_given_up,
    an_answer_without_end_is_cut_off,
    a_redirect_is_not_followed_and_carries_nothing,
    a_dropped_send_leaves_the_client_working,
    sends_that_gave_up_waiting_keep_nobody_waiting,
    a_hundred_thousand_messages_go_one_request_at_a_time,
    nothing_private_is_said_whatever_fails,
);

async fn what_is_perhaps_sent_is_not_sent_again() {
    for fault in [
        FakeFault::AcceptThen {
            status: 500,
            body: "{}".into(),
        },
        FakeFault::AcceptThen {
            status: 502,
            body: "<html>".into(),
        },
        FakeFault::AcceptThen {
            status: 504,
            body: String::new(),
        },
        FakeFault::AcceptThen {
            status: 200,
            body: "no json".into(),
        },
        FakeFault::AcceptThen {
            status: 200,
            body: r#"{"data":[]}"#.into(),
        },
        FakeFault::AcceptThen {
            status: 200,
            body: r#"{"data":"text"}"#.into(),
        },
        FakeFault::AcceptThen {
            status: 200,
            body: r#"{"data":null}"#.into(),
        },
        FakeFault::AcceptThen {
            status: 408,
            body: String::new(),
        },
        FakeFault::Cut,
        FakeFault::Close,
        FakeFault::Endless,
        FakeFault::Bomb,
    ] {
        let fake = fake().await;
        fake.then(fault.clone());
        let error = client(&fake, &Clock::default()).send(messages(1)).await;
        let error = error.expect_err("it fails");
        assert_eq!(error.sent(), PushSent::PerhapsSent, "{fault:?}: {error}");
        assert!(!error.is_retryable(), "{fault:?}: {error}");
        assert_eq!(fake.requests().len(), 1, "{fault:?}");
    }
}

async fn a_service_that_never_answers_is_given_up() {
    let fake = fake().await;
    // Once for the send, then for every attempt at the receipts.
    for _ in 0..4 {
        fake.then(FakeFault::Silence);
    }
    let clock = Clock::default();
    let expo = builder(&fake, &clock)
        .request_timeout(Duration::from_millis(50))
        .build()
        .expect("a client");
    let error = expo.send(messages(1)).await.expect_err("no answer");
    assert_eq!(error.kind(), PushErrorKind::Unavailable);
    assert_eq!(error.sent(), PushSent::PerhapsSent);
    let error = expo.receipts(vec![ticket(0)]).await.expect_err("no answer");
    assert_eq!(error.kind(), PushErrorKind::Unavailable);
    assert_eq!(clock.waits().len(), 2);
    assert_eq!(fake.faults_left(), 0);
}

async fn an_answer_without_end_is_cut_off() {
    let fake = fake().await;
    fake.then(FakeFault::Endless);
    let expo = client(&fake, &Clock::default());
    let error = expo.receipts(vec![ticket(0)]).await.expect_err("no end");
    assert_eq!(error.kind(), PushErrorKind::Unreadable);
}

async fn a_redirect_is_not_followed_and_carries_nothing() {
    let (fake, elsewhere) = (fake().await, fake().await);
    let target = format!("{}/--/api/v2/push/send", elsewhere.url());
    for _ in 0..2 {
        fake.then(FakeFault::Redirect(target.clone()));
    }
    let expo = client(&fake, &Clock::default());
    let error = expo.send(messages(1)).await.expect_err("a redirect");
    assert_eq!(error.status(), Some(307));
    expo.receipts(vec![ticket(0)])
        .await
        .expect_err("a redirect");
    assert_eq!(elsewhere.requests(), []);
}

async fn a_dropped_send_leaves_the_client_working() {
    let fake = fake().await;
    let clock = Clock::default();
    let expo = builder(&fake, &clock)
        .rate(NonZeroU32::new(100).expect("not zero"))
        .build()
        .expect("a client");
    for _ in 0..20 {
        fake.then(FakeFault::Silence);
        let seen = fake.requests().len();
        let sending = expo.send(messages(100));
        tokio::select! {
            _ = sending => panic!("there is no answer"),
            () = async {
                while fake.requests().len() == seen {
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
            } => {}
        }
    }
    let outcomes = expo.send(messages(100)).await.expect("outcomes");
    assert!(
        outcomes
            .iter()
            .all(|outcome| sent(&outcome.status).is_none())
    );
    // Each was sent, so each has its place in time, and none has more.
    let waited: Duration = clock.waits().iter().sum();
    assert_eq!(waited, Duration::from_secs(20));
}

/// The clock stands still: who has to wait waits for ever, and gives up.
async fn sends_that_gave_up_waiting_keep_nobody_waiting() {
    struct Still(Mutex<Vec<Duration>>);
    impl ExpoClock for Still {
        fn elapsed(&self) -> Duration {
            Duration::ZERO
        }
        fn now(&self) -> SystemTime {
            SystemTime::UNIX_EPOCH
        }
        fn sleep(&self, time: Duration) -> PushFuture<'_, ()> {
            self.0.lock().expect("the waits").push(time);
            Box::pin(std::future::pending())
        }
    }
    let fake = fake().await;
    let clock = Arc::new(Still(Mutex::default()));
    let expo = ExpoPush::builder()
        .base_url(fake.url())
        .rate(NonZeroU32::new(10).expect("not zero"))
        .clock(Arc::clone(&clock) as Arc<dyn ExpoClock>)
        .build()
        .expect("a client");
    expo.send(messages(10))
        .await
        .expect("the first waits for nobody");
    for _ in 0..100 {
        tokio::select! {
            biased;
            _ = expo.send(messages(100)) => panic!("it has to wait"),
            () = tokio::task::yield_now() => {}
        }
    }
    let waits = clock.0.lock().expect("the waits").clone();
    assert_eq!(waits, [Duration::from_secs(1); 100]);
}

async fn a_hundred_thousand_messages_go_one_request_at_a_time() {
    let fake = fake().await;
    let expo = client(&fake, &Clock::default());
    let outcomes = expo.send(messages(100_000)).await.expect("outcomes");
    assert_eq!(outcomes.len(), 100_000);
    assert!(
        outcomes
            .iter()
            .all(|outcome| sent(&outcome.status).is_none())
    );
    let requests = fake.requests();
    assert_eq!(requests.len(), 1_000);
    assert!(requests.iter().all(|request| request.items == 100));
}

async fn nothing_private_is_said_whatever_fails() {
    let heard = Arc::new(Mutex::new(String::new()));
    let log = Arc::clone(&heard);
    // Of this thread, on which the calls are made.
    let _guard =
        tracing::subscriber::set_default(Listener::new(move |target: &str, fields: &str| {
            let mut log = log.lock().expect("the log");
            let _ = writeln!(log, "{target}{fields}");
        }));
    tracing::trace!("the log is heard");
    let mut said = String::new();
    let message = || {
        let mut message = PushMessage::new(token("secret-device"));
        message.title = Some("secret-title".into());
        message.body = Some("secret-body".into());
        message.data = Some(r#"{"secret-key":"secret-data"}"#.into());
        vec![message]
    };
    let bodies = [
        r#"{"errors":[{"code":"NEW ExponentPushToken[secret-device]","message":"secret-bearer"}]}"#,
        "secret-text",
    ];
    let mut faults = vec![
        FakeFault::Cut,
        FakeFault::Close,
        FakeFault::Endless,
        FakeFault::Redirect("http://127.0.0.1:1/secret-path".into()),
        FakeFault::Spoil(vec![(0, duebox_expo::Spoil::UnheardError)]),
        FakeFault::ErrorsBeside("secret-device".into()),
    ];
    for body in bodies {
        for status in [200, 400, 401, 403, 404, 413, 429, 500, 503] {
            faults.push(FakeFault::answer(status, body));
        }
    }
    for fault in faults {
        let fake = fake().await;
        fake.then(fault.clone());
        let expo = builder(&fake, &Clock::default()).max_retries(0);
        let _ = write!(said, "{expo:?}");
        let expo = expo.build().expect("a client");
        let answer = expo.send(message()).await;
        let _ = match answer {
            Ok(outcomes) => write!(said, "{outcomes:?}"),
            Err(error) => write!(said, "{error} {error:?} {error:#?}"),
        };
        fake.then(fault);
        let asked = duebox_core::PushTicketId::new("secret-ticket").expect("a ticket");
        if let Err(error) = expo.receipts(vec![asked]).await {
            let _ = write!(said, "{error} {error:?}");
        }
        let _ = write!(said, "{expo:?}");
    }
    // Nobody is there, and a name that is none.
    for url in ["http://127.0.0.1:1", "https://secret-host.invalid"] {
        let expo = ExpoPush::builder()
            .base_url(url)
            .access_token("secret-bearer")
            .max_retries(0)
            .build()
            .expect("a client");
        let error = expo.send(message()).await.expect_err("nobody is there");
        assert_eq!(error.sent(), PushSent::NotSent, "{error}");
        let _ = write!(said, "{error} {error:?}");
    }
    let unsendable = to(["secret-device"]).remove(0);
    let mut unsendable = unsendable;
    unsendable.data = Some("secret-data that is no JSON".into());
    let fake = fake().await;
    let outcomes = client(&fake, &Clock::default())
        .send(vec![unsendable])
        .await;
    let _ = write!(said, "{outcomes:?}");
    assert_eq!(fake.requests(), [], "it is refused before anything is sent");

    let log = heard.lock().expect("the log");
    assert!(log.contains("the log is heard"));
    assert!(!said.contains("secret"), "{said}");
    // Where to is no secret of a person's; the driver's log may name a host.
    let log = log
        .replace("secret-host", "host")
        .replace("secret-path", "path");
    let leak = log.lines().find(|line| line.contains("secret"));
    assert_eq!(leak, None);
}
