use std::borrow::Cow;
use std::fmt::Display;

use duebox_core::chrono::{DateTime, Utc};

/// How a handler's run ended, and what becomes of the job.
///
/// A text says why. It is kept with the row, in `last_error`, where operators
/// read it and exports show it, and in no log: put no personal data in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// The work is done; the row goes.
    Done,
    /// It failed and may succeed later: counted, and tried again after the
    /// backoff, or parked if that was the last attempt.
    Retry(Cow<'static, str>),
    /// As [`Retry`](Self::Retry), but at this time: what a service says that
    /// is too busy now. A time that has passed is now.
    RetryAt(DateTime<Utc>, Cow<'static, str>),
    /// It failed and no attempt can mend that: the row is set aside, for an
    /// operator to look at.
    Park(Cow<'static, str>),
    /// Recurring work was done: due again at this time, with nothing counted.
    RunAgainAt(DateTime<Utc>),
    /// The handler has ended its lease itself, in the transaction in which it
    /// had its effect; see
    /// [`Outbox::complete_statement`](duebox_core::Outbox::complete_statement).
    /// The worker writes nothing.
    Ended,
}

impl Outcome {
    /// It failed and may succeed later; see [`Retry`](Self::Retry).
    pub fn retry(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Retry(why.into())
    }

    /// It failed for good; see [`Park`](Self::Park).
    pub fn park(why: impl Into<Cow<'static, str>>) -> Self {
        Self::Park(why.into())
    }
}

/// What a handler may return: an [`Outcome`], nothing for
/// [`Outcome::Done`], or a `Result` of either, whose error retries.
pub trait IntoOutcome {
    /// The outcome that this is.
    fn into_outcome(self) -> Outcome;
}

impl IntoOutcome for Outcome {
    fn into_outcome(self) -> Outcome {
        self
    }
}

impl IntoOutcome for () {
    fn into_outcome(self) -> Outcome {
        Outcome::Done
    }
}

impl<T: IntoOutcome, E: Display> IntoOutcome for Result<T, E> {
    fn into_outcome(self) -> Outcome {
        match self {
            Ok(outcome) => outcome.into_outcome(),
            Err(error) => Outcome::Retry(error.to_string().into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plain_error_retries_and_says_why() {
        let failed: Result<(), std::fmt::Error> = Err(std::fmt::Error);
        assert!(matches!(failed.into_outcome(), Outcome::Retry(why) if why.contains("error")));
        let parked: Result<Outcome, String> = Ok(Outcome::park("no such address"));
        assert_eq!(
            parked.into_outcome(),
            Outcome::Park("no such address".into())
        );
        assert_eq!(().into_outcome(), Outcome::Done);
    }
}
