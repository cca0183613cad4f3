use async_trait::async_trait;

use crate::{IntoOutcome, Job, Outcome};

/// Does the work of a topic.
///
/// A handler runs **at least once** for each job: again after a failure, and
/// again if its process dies, or stands still for longer than the lease, before
/// its end was written. Make its effect one that may be repeated, or have it in
/// the outbox's own database together with the end of the job; see
/// [`Outcome::Ended`]. Jobs come in no order that could be relied on, and two of
/// one subject may run at once.
///
/// # Panics
///
/// A panic is a failure like another; its text is not kept.
///
/// # Cancellation
///
/// The future is dropped when the handler's time is up, and when a
/// [shutdown](crate::Worker::shutdown) can wait no longer. That happens at an
/// `await` only: one that blocks its thread holds up both.
///
/// ```
/// use duebox_worker::{Handler, Job, Outcome};
///
/// struct Welcome { /* a client of a mail service */ }
///
/// #[async_trait::async_trait]
/// impl Handler for Welcome {
///     async fn handle(&self, job: Job) -> Outcome {
///         println!("deliver {}", job.id());
///         Outcome::Done
///     }
/// }
/// ```
#[async_trait]
pub trait Handler: Send + Sync + 'static {
    /// Does the work of one job.
    async fn handle(&self, job: Job) -> Outcome;
}

#[async_trait]
impl<F, Fut> Handler for F
where
    F: Fn(Job) -> Fut + Send + Sync + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    async fn handle(&self, job: Job) -> Outcome {
        self(job).await.into_outcome()
    }
}

/// A payload that is not the JSON that its handler reads. Quotes nothing of it.
#[cfg(feature = "json")]
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the payload is not the JSON that its handler reads: {what} at line {line}, column {column}"
)]
pub struct NotJson {
    what: &'static str,
    line: usize,
    column: usize,
}

#[cfg(feature = "json")]
impl From<serde_json::Error> for NotJson {
    fn from(error: serde_json::Error) -> Self {
        use serde_json::error::Category;
        Self {
            what: match error.classify() {
                Category::Io | Category::Syntax => "no JSON",
                Category::Data => "another shape",
                Category::Eof => "its end",
            },
            line: error.line(),
            column: error.column(),
        }
    }
}

/// An async function of a state, a job and the model that the payload holds.
#[cfg(feature = "json")]
pub(crate) struct Json<S, F, T> {
    state: S,
    function: F,
    model: std::marker::PhantomData<fn() -> T>,
}

#[cfg(feature = "json")]
impl<S, F, T> Json<S, F, T> {
    pub(crate) fn new(state: S, function: F) -> Self {
        Self {
            state,
            function,
            model: std::marker::PhantomData,
        }
    }
}

#[cfg(feature = "json")]
#[async_trait]
impl<S, F, T, Fut> Handler for Json<S, F, T>
where
    S: Clone + Send + Sync + 'static,
    F: Fn(S, Job, T) -> Fut + Send + Sync + 'static,
    T: serde::de::DeserializeOwned + Send + 'static,
    Fut: Future<Output: IntoOutcome> + Send + 'static,
{
    async fn handle(&self, job: Job) -> Outcome {
        // Retried, not parked: a newer process may know the shape that this one does not.
        match job.json() {
            Ok(model) => (self.function)(self.state.clone(), job, model)
                .await
                .into_outcome(),
            Err(error) => Outcome::Retry(error.to_string().into()),
        }
    }
}
