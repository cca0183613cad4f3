//! The places where a call can be dropped.

use std::future::poll_fn;
use std::task::Poll;

use crate::context::in_time;

/// Where a call is dropped: after so many polls, right away or when it is woken
/// the next time.
#[derive(Clone, Copy, Default)]
pub(super) struct Cut {
    pub(super) polls: usize,
    pub(super) when_woken: bool,
}

impl Cut {
    /// Runs the call up to here; `None` if it was dropped.
    pub(super) async fn call<T>(self, call: impl Future<Output = T>) -> Option<T> {
        let mut call = Box::pin(call);
        let mut polls = 0;
        in_time(poll_fn(|cx| {
            if polls == self.polls {
                return Poll::Ready(None);
            }
            polls += 1;
            match call.as_mut().poll(cx) {
                Poll::Ready(answer) => Poll::Ready(Some(answer)),
                Poll::Pending if polls == self.polls && !self.when_woken => Poll::Ready(None),
                Poll::Pending => Poll::Pending,
            }
        }))
        .await
    }
}

/// All places where a call can be dropped, one after the other.
pub(super) struct Cuts {
    pub(super) cut: Cut,
    begun: bool,
    done: bool,
    number: u64,
}

impl Cuts {
    /// Of the test's call of this number: no row of one call is another's.
    pub(super) fn of(call: u64) -> Self {
        Self {
            cut: Cut::default(),
            begun: false,
            done: false,
            number: call * 1_000,
        }
    }

    /// Goes on to the next place; false once all were tried. Both rounds end
    /// with a call that was done.
    pub(super) fn next(&mut self) -> bool {
        if self.done && self.cut.when_woken {
            return false;
        }
        if self.done {
            self.cut = Cut {
                polls: 0,
                when_woken: true,
            };
            self.done = false;
        } else if self.begun {
            self.cut.polls += 1;
        }
        self.begun = true;
        self.number += 1;
        assert!(self.cut.polls < 400, "it is polled without end");
        true
    }

    /// A name for the rows of this place.
    pub(super) fn id(&self) -> String {
        format!("n{}", self.number)
    }

    /// A second of the tests' day that is this place's own.
    pub(super) fn second(&self) -> u64 {
        self.number * 100
    }

    /// Runs the call up to this place; `None` if it was dropped there.
    pub(super) async fn call<T>(&mut self, call: impl Future<Output = T>) -> Option<T> {
        let answer = self.cut.call(call).await;
        self.done = answer.is_some();
        answer
    }
}
