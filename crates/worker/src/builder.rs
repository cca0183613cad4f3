use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use duebox_core::{Database, Outbox, WakeSource};

use crate::claims::Polls;
use crate::handler::Handler;
use crate::shared::Settings;
use crate::{Backoff, Clock, Isolation, Worker, WorkerError};

/// How a [`Worker`] works; made by [`Worker::builder`].
#[must_use = "nothing works before `start`"]
pub struct WorkerBuilder {
    pub(crate) outbox: Outbox,
    pub(crate) db: Arc<dyn Database>,
    pub(crate) handlers: HashMap<String, Arc<dyn Handler>>,
    pub(crate) any: Option<Arc<dyn Handler>>,
    pub(crate) limits: HashMap<String, usize>,
    pub(crate) timeouts: HashMap<String, Duration>,
    pub(crate) retries: HashMap<String, Backoff>,
    pub(crate) timeout: Duration,
    pub(crate) retry: Backoff,
    pub(crate) clock: Option<Clock>,
    pub(crate) isolation: Isolation,
    pub(crate) source: Option<Box<dyn WakeSource>>,
    pub(crate) settings: Settings,
    pub(crate) twice: Option<String>,
}

impl WorkerBuilder {
    pub(crate) fn new(outbox: Outbox, db: Arc<dyn Database>) -> Self {
        Self {
            outbox,
            db,
            handlers: HashMap::new(),
            any: None,
            limits: HashMap::new(),
            timeouts: HashMap::new(),
            retries: HashMap::new(),
            timeout: Duration::from_mins(5),
            retry: Backoff::default(),
            clock: None,
            isolation: Isolation::default(),
            source: None,
            settings: Settings {
                name: format!("worker {}", std::process::id()),
                concurrency: 32,
                batch: 256,
                max_bytes: 64 * 1024 * 1024,
                lease: Duration::from_secs(30),
                polls: Polls {
                    alone: Duration::from_secs(1),
                    listening: Duration::from_secs(6),
                },
                sample_every: Some(Duration::from_secs(30)),
            },
            twice: None,
        }
    }

    /// Runs this handler for the jobs of a topic: an object, or an async
    /// function or closure of a [`Job`](crate::Job).
    pub fn handle(mut self, topic: impl Into<String>, handler: impl Handler) -> Self {
        let topic = topic.into();
        if self.handlers.contains_key(&topic) {
            self.twice = Some(topic.clone());
        }
        self.handlers.insert(topic, Arc::new(handler));
        self
    }

    /// Runs this handler for the jobs of all topics that have none of their own,
    /// instead of leaving those for others. The last one that is named counts.
    ///
    /// Settings for one topic are for handlers of their own alone, and in
    /// `metrics` all that this one runs has the topic `*`: the names of topics
    /// that nobody has listed are not bounded.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use duebox_sqlite::{Outbox, SqliteDatabase};
    /// use duebox_worker::{Job, Outcome, Worker};
    ///
    /// # async fn example(db: SqliteDatabase) {
    /// let relay = Worker::builder(Outbox::new("outbox"), Arc::new(db))
    ///     .handle_any(|job: Job| async move {
    ///         println!("hand on {} of {}", job.id(), job.topic());
    ///     });
    /// # let _ = relay;
    /// # }
    /// ```
    pub fn handle_any(mut self, handler: impl Handler) -> Self {
        self.any = Some(Arc::new(handler));
        self
    }

    /// Runs an async function of a state (cloned for each job), a job, and the
    /// model that the payload holds as JSON.
    ///
    /// A payload that cannot be read retries: a process of a newer version may
    /// know its shape. After the last attempt it is parked.
    #[cfg(feature = "json")]
    pub fn handle_json<S, F, T, Fut>(self, topic: impl Into<String>, state: S, function: F) -> Self
    where
        S: Clone + Send + Sync + 'static,
        F: Fn(S, crate::Job, T) -> Fut + Send + Sync + 'static,
        T: serde::de::DeserializeOwned + Send + 'static,
        Fut: Future<Output: crate::IntoOutcome> + Send + 'static,
    {
        self.handle(topic, crate::handler::Json::new(state, function))
    }

    /// How many handlers run at once: 32 unless it is said.
    pub fn concurrency(mut self, handlers: usize) -> Self {
        self.settings.concurrency = handlers.max(1);
        self
    }

    /// How many handlers of this topic run at once: as many as of all unless
    /// it is said. Rows of it beyond that are given back, uncounted, until they
    /// will have their turn, so that they do not stand before others.
    pub fn topic_concurrency(mut self, topic: impl Into<String>, handlers: usize) -> Self {
        self.limits.insert(topic.into(), handlers.max(1));
        self
    }

    /// How long a handler may take: 5 minutes unless it is said. Then it is
    /// dropped, and has failed.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// As [`timeout`](Self::timeout), for one topic.
    pub fn topic_timeout(mut self, topic: impl Into<String>, timeout: Duration) -> Self {
        self.timeouts.insert(topic.into(), timeout);
        self
    }

    /// When failed jobs are tried again, and how often.
    pub fn retry(mut self, backoff: Backoff) -> Self {
        self.retry = backoff;
        self
    }

    /// As [`retry`](Self::retry), for one topic.
    pub fn topic_retry(mut self, topic: impl Into<String>, backoff: Backoff) -> Self {
        self.retries.insert(topic.into(), backoff);
        self
    }

    /// How long claimed rows are out of others' reach, at least a second: what
    /// a crash costs. 30 seconds unless it is said. A handler may take longer:
    /// its lease is extended while it runs.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.settings.lease = lease.max(Duration::from_secs(1));
        self
    }

    /// How many rows one claim takes at most: 256 unless it is said, and never
    /// more than may run.
    pub fn batch(mut self, rows: usize) -> Self {
        self.settings.batch = rows.max(1);
        self
    }

    /// How many bytes of payloads are kept at once: 64 MiB unless it is said.
    /// A single larger payload is still taken.
    pub fn max_bytes(mut self, bytes: u64) -> Self {
        self.settings.max_bytes = bytes.max(1);
        self
    }

    /// The longest pause between two looks for work that nobody told of: a
    /// second unless it is said. While there is work, and for a moment after,
    /// pauses are shorter.
    pub fn poll_every(mut self, pause: Duration) -> Self {
        self.settings.polls.alone = pause.max(Duration::from_millis(1));
        self
    }

    /// Wakes up when this source tells of work, and polls only every 6 seconds
    /// while it is heard: for rows that fall due, and that nobody tells of.
    pub fn wake_on(mut self, source: impl WakeSource + 'static) -> Self {
        self.source = Some(Box::new(source));
        self
    }

    /// The longest pause between polls while a source of wake-ups is heard: 6
    /// seconds unless it is said.
    pub fn poll_every_while_listening(mut self, pause: Duration) -> Self {
        self.settings.polls.listening = pause.max(Duration::from_millis(1));
        self
    }

    /// Who claims, for people who look at the table: `worker` and the number of
    /// the process unless it is said. 1 to 255 bytes.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.settings.name = name.into();
        self
    }

    /// Goes by this clock instead of one of its own: that of a producer in this
    /// process, or a [`ManualClock`](crate::ManualClock)'s.
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = Some(clock);
        self
    }

    /// How far a row that is suspected of killing its process runs alone.
    pub fn isolation(mut self, isolation: Isolation) -> Self {
        self.isolation = isolation;
        self
    }

    /// How often the rows are counted for `metrics`, at least 15 seconds apart:
    /// every 30 seconds unless it is said. `None` never counts.
    pub fn sample_every(mut self, pause: Option<Duration>) -> Self {
        self.settings.sample_every = pause.map(|pause| pause.max(Duration::from_secs(15)));
        self
    }

    /// Starts the worker.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Settings`] if they make no sense, and
    /// [`WorkerError::Database`] if the database does not tell its time.
    ///
    /// # Panics
    ///
    /// Outside a tokio runtime with its clock enabled.
    pub async fn start(self) -> Result<Worker, WorkerError> {
        Worker::start(self).await
    }

    pub(crate) fn check(&self) -> Result<(), WorkerError> {
        if let Some(topic) = &self.twice {
            return Err(WorkerError::Settings(format!(
                "the topic {topic:?} has two handlers"
            )));
        }
        let named = [
            self.limits.keys().collect::<Vec<_>>(),
            self.timeouts.keys().collect(),
            self.retries.keys().collect(),
        ];
        for topic in named.into_iter().flatten() {
            if !self.handlers.contains_key(topic) {
                return Err(WorkerError::Settings(format!(
                    "the topic {topic:?} has settings and no handler"
                )));
            }
        }
        let name = &self.settings.name;
        if name.is_empty() || name.len() > 255 || name.chars().any(char::is_control) {
            return Err(WorkerError::Settings(
                "the worker's name is not 1 to 255 bytes without control characters".into(),
            ));
        }
        Ok(())
    }
}

impl fmt::Debug for WorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut topics: Vec<&String> = self.handlers.keys().collect();
        topics.sort();
        f.debug_struct("WorkerBuilder")
            .field("outbox", &self.outbox)
            .field("topics", &topics)
            .field("any", &self.any.is_some())
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}
