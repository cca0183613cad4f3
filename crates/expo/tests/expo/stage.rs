//! What the tests share: messages, a client of a fake, and a clock that never waits.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use duebox_core::{
    DeviceToken, PushDeliveryStatus, PushFuture, PushMessage, PushSent, PushTicketId,
};
use duebox_expo::{ExpoClock, ExpoPush, ExpoPushBuilder, FakeExpo};

/// Runs a test to its end, and not for ever; all of it on this thread, so that what is
/// logged anywhere in it is heard here.
pub(crate) fn run(test: impl Future<Output = ()>) {
    run_on(tokio::runtime::Builder::new_current_thread(), test);
}

pub(crate) fn run_on(mut runtime: tokio::runtime::Builder, test: impl Future<Output = ()>) {
    let limit = Duration::from_mins(5);
    let runtime = runtime.enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(limit, test).await.expect("it hangs") });
}

/// A clock that goes on by as much as it is asked to wait.
#[derive(Clone, Default)]
pub(crate) struct Clock(Arc<Mutex<Vec<Duration>>>);

impl Clock {
    pub(crate) fn waits(&self) -> Vec<Duration> {
        self.0.lock().expect("the waits").clone()
    }
}

impl ExpoClock for Clock {
    fn elapsed(&self) -> Duration {
        self.0.lock().expect("the waits").iter().sum()
    }

    fn now(&self) -> SystemTime {
        SystemTime::UNIX_EPOCH + self.elapsed()
    }

    fn sleep(&self, time: Duration) -> PushFuture<'_, ()> {
        self.0.lock().expect("the waits").push(time);
        Box::pin(std::future::ready(()))
    }
}

pub(crate) async fn fake() -> FakeExpo {
    FakeExpo::start().await.expect("a fake")
}

pub(crate) fn builder(fake: &FakeExpo, clock: &Clock) -> ExpoPushBuilder {
    ExpoPush::builder()
        .base_url(fake.url())
        .access_token("secret-bearer")
        .clock(Arc::new(clock.clone()))
        .max_answer_bytes(64 * 1024)
}

pub(crate) fn client(fake: &FakeExpo, clock: &Clock) -> ExpoPush {
    builder(fake, clock).build().expect("a client")
}

pub(crate) fn token(name: &str) -> DeviceToken {
    DeviceToken::new(format!("ExponentPushToken[{name}]")).expect("a token")
}

pub(crate) fn to<'a>(names: impl IntoIterator<Item = &'a str>) -> Vec<PushMessage> {
    names
        .into_iter()
        .map(|name| PushMessage::new(token(name)))
        .collect()
}

pub(crate) fn messages(count: usize) -> Vec<PushMessage> {
    (0..count)
        .map(|at| PushMessage::new(token(&format!("phone-{at}"))))
        .collect()
}

/// The ticket that the fake issues as the so manieth, from 0.
pub(crate) fn ticket(number: usize) -> PushTicketId {
    let id = format!("00000000-0000-4000-8000-{number:012}");
    PushTicketId::new(id).expect("a ticket")
}

/// Whether a message that was not accepted was sent.
pub(crate) fn sent(status: &PushDeliveryStatus) -> Option<PushSent> {
    match status {
        PushDeliveryStatus::Rejected(rejection) => Some(rejection.sent()),
        _ => None,
    }
}
