mod ids;
mod instants;
#[cfg(feature = "test-support")]
mod memory;
mod messages;
#[cfg(feature = "test-support")]
mod poll;
mod store;

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use crate::{DeviceToken, PendingReceipt, PushTicketId};

/// Runs a future that waits for nothing.
fn now_or_never<F: Future>(future: F) -> F::Output {
    let mut context = Context::from_waker(Waker::noop());
    match pin!(future).poll(&mut context) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("the future waits for something"),
    }
}

fn ticket(text: &str) -> PushTicketId {
    PushTicketId::new(text).unwrap()
}

fn token(text: &str) -> DeviceToken {
    DeviceToken::new(text).unwrap()
}

/// That many microseconds after an arbitrary instant.
fn at(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_767_225_600_000_000 + micros).unwrap()
}

/// A ticket of owner 1, sent at `at(0)`, whose token is named after it.
fn receipt(name: &str) -> PendingReceipt {
    PendingReceipt {
        ticket: ticket(name),
        owner_id: Uuid::from_u128(1),
        token: token(&format!("token-of-{name}")),
        sent_at: at(0),
    }
}
