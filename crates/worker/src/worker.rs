use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Database, DbError, Outbox};
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::CancellationToken;

use crate::alone::Gate;
use crate::engine::Engine;
use crate::held::Held;
use crate::pace::Pace;
use crate::shared::{Pulse, Settling, Shared, Topic};
use crate::supervisor::{Supervisor, Tasks};
use crate::telemetry::{Telemetry, TopicTelemetry};
use crate::wake::Bell;
use crate::{Clock, Nudger, WorkerBuilder, completer, keeper, sampler, wake};

/// Drains an outbox: claims rows as they fall due, runs their handlers, and
/// ends their leases.
///
/// Any number of workers may drain one outbox, in one process or in many. Each
/// keeps at most 4 calls to the database under way: a claim, the writing of
/// ends, an extension of leases, and one of the clock or the counts, of which
/// the latter two are rare. A pool of four connections never makes it wait.
///
/// Dropping a worker stops it as [`shutdown`](Self::shutdown) with no time to
/// wait does, in the background.
pub struct Worker {
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<Duration>>,
    stopped: watch::Receiver<Option<Result<Stopped, WorkerError>>>,
}

/// How a worker ended that was told to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stopped {
    /// Handlers that were dropped since the time was up. Their rows are due
    /// again, with nothing counted.
    pub interrupted: usize,
}

/// Why a worker did not start, or did not end well.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum WorkerError {
    /// The settings make no sense.
    #[error("start a worker: {0}")]
    Settings(String),
    /// The database did not tell its time.
    #[error("start a worker: {0}")]
    Database(#[from] DbError),
    /// A task of the worker panicked: nothing is claimed any more. What was
    /// claimed comes back when its lease ends.
    #[error("the worker died: a task of it panicked")]
    Died,
    /// The time of a shutdown was up before all leases were ended: the
    /// database did not answer, or a handler blocks its thread. They lapse.
    #[error("{left} jobs were still under lease when the time of the shutdown was up")]
    Unfinished {
        /// How many rows are still under lease.
        left: usize,
    },
}

/// How a worker is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Health {
    /// When a claim last succeeded, whether it found rows or not.
    pub last_claim: Option<DateTime<Utc>>,
    /// How long ago that was. An idle worker claims every few seconds, so a
    /// minute is a sign that the database is away.
    pub since_last_claim: Option<Duration>,
    /// Claims that have failed since.
    pub failed_claims: u64,
    /// Handlers that run.
    pub running: usize,
    /// Rows under lease by this worker whose runs have not ended.
    pub held: usize,
    /// Whether a source of wake-ups is heard.
    pub listening: bool,
    /// Whether the loop is there.
    pub alive: bool,
}

impl Worker {
    /// A worker of this outbox in this database, without handlers yet.
    pub fn builder(outbox: Outbox, db: Arc<dyn Database>) -> WorkerBuilder {
        WorkerBuilder::new(outbox, db)
    }

    pub(crate) async fn start(builder: WorkerBuilder) -> Result<Self, WorkerError> {
        builder.check()?;
        let clock = match &builder.clock {
            Some(clock) => clock.clone(),
            None => Clock::start(Arc::clone(&builder.db)).await?,
        };
        let (shared, source) = share(builder, clock);
        let (ends, ended) = mpsc::unbounded_channel();
        let mut tasks = Tasks::new(
            tokio::spawn(Engine::new(Arc::clone(&shared), ends).run()),
            tokio::spawn(completer::complete(Arc::clone(&shared), ended)),
        );
        tasks.help(keeper::keep(Arc::clone(&shared)));
        if let Some(every) = shared.settings.sample_every {
            tasks.help(sampler::sample(Arc::clone(&shared), every));
        }
        if let Some(source) = source {
            tasks.help(wake::listen(Arc::clone(&shared), source));
        }
        let (stop, told) = oneshot::channel();
        let (report, stopped) = watch::channel(None);
        let supervisor = Supervisor::new(Arc::clone(&shared), tasks);
        tokio::spawn(async move {
            let end = supervisor.run(told).await;
            report.send_replace(Some(end));
        });
        Ok(Self {
            shared,
            stop: Some(stop),
            stopped,
        })
    }

    /// Looks for work at once: call it after a commit that enqueued some. A
    /// nudge that is forgotten costs at most one poll.
    pub fn nudge(&self) {
        self.shared.bell.ring();
    }

    /// What nudges this worker, to hand out to those who enqueue.
    #[must_use]
    pub fn nudger(&self) -> Nudger {
        Nudger::local(Arc::clone(&self.shared.bell))
    }

    /// The clock that this worker goes by; take `at` from it to enqueue.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    /// How it is doing.
    #[must_use]
    pub fn health(&self) -> Health {
        let shared = &self.shared;
        let pulse = *shared.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        let now = shared.clock.elapsed();
        Health {
            last_claim: pulse.last_claim.map(|(time, _)| time),
            since_last_claim: pulse.last_claim.map(|(_, at)| now.saturating_sub(at)),
            failed_claims: pulse.failures,
            running: shared.running.load(Ordering::Acquire),
            held: shared.held.len(),
            listening: shared.listening.load(Ordering::Acquire),
            alive: self.stopped.borrow().is_none(),
        }
    }

    /// Waits until there is nothing to do: until a claim that began after this
    /// call has found no row, and no handler was running then. Rows that are
    /// not due yet, and those that others hold, do not count.
    ///
    /// For tests, and for programs that end when the work does.
    ///
    /// # Errors
    ///
    /// How the worker ended, if it did.
    pub async fn settled(&self) -> Result<(), WorkerError> {
        let settling = &self.shared.settling;
        let mut settled = settling.settled.subscribe();
        settling.waiting.fetch_add(1, Ordering::AcqRel);
        let _waiting = Waiting(&settling.waiting);
        let begun = settling.begun.load(Ordering::Acquire);
        self.nudge();
        tokio::select! {
            // The sender is in what we share.
            _ = settled.wait_for(|number| *number > begun) => Ok(()),
            end = self.wait() => end.map(drop),
        }
    }

    /// Waits until the worker has ended: by a shutdown, or because it died,
    /// which a service should not survive.
    ///
    /// # Errors
    ///
    /// [`WorkerError::Died`] and [`WorkerError::Unfinished`].
    pub async fn wait(&self) -> Result<Stopped, WorkerError> {
        let mut stopped = self.stopped.clone();
        match stopped.wait_for(Option::is_some).await {
            Ok(end) => end.clone().unwrap_or(Err(WorkerError::Died)),
            Err(_) => Err(WorkerError::Died),
        }
    }

    /// Stops: claims nothing more, gives back what was not started, waits for
    /// running handlers, and writes how they ended, all within `grace`.
    ///
    /// Handlers that run when a quarter of it is left (at most a second) are
    /// dropped and their rows given back, uncounted. After `Ok` nothing is left
    /// under lease.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub async fn shutdown(mut self, grace: Duration) -> Result<Stopped, WorkerError> {
        if let Some(stop) = self.stop.take() {
            // If nobody listens it has ended already.
            let _ = stop.send(grace);
        }
        self.wait().await
    }
}

struct Waiting<'a>(&'a AtomicUsize);

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker")
            .field("outbox", &self.shared.outbox)
            .field("health", &self.health())
            .finish_non_exhaustive()
    }
}

fn share(
    builder: WorkerBuilder,
    clock: Clock,
) -> (Arc<Shared>, Option<Box<dyn duebox_core::WakeSource>>) {
    let table = builder.outbox.table().to_owned();
    let topic = |name: &str, settings: Option<&str>, handler| {
        let limit = settings.and_then(|name| builder.limits.get(name));
        let timeout = settings.and_then(|name| builder.timeouts.get(name));
        let backoff = settings.and_then(|name| builder.retries.get(name));
        Arc::new(Topic {
            handler,
            limit: limit.copied(),
            timeout: *timeout.unwrap_or(&builder.timeout),
            backoff: *backoff.unwrap_or(&builder.retry),
            running: AtomicUsize::new(0),
            pace: Pace::new(),
            telemetry: TopicTelemetry::new(&table, name),
        })
    };
    // A topic of that name may have settings, which are not meant for all others.
    let any = builder.any.map(|handler| topic("*", None, handler));
    let topics = builder.handlers.into_iter().map(|(name, handler)| {
        let topic = topic(&name, Some(&name), handler);
        (name, topic)
    });
    let shared = Shared {
        topics: topics.collect(),
        any,
        outbox: builder.outbox,
        db: builder.db,
        clock,
        settings: builder.settings,
        held: Held::default(),
        gate: Gate::of(builder.isolation),
        telemetry: Telemetry::new(&table),
        bell: Arc::new(Bell::default()),
        running: AtomicUsize::new(0),
        bytes: AtomicU64::new(0),
        unwritten: AtomicUsize::new(0),
        listening: AtomicBool::new(false),
        own_due: Mutex::new(BTreeSet::new()),
        stopping: CancellationToken::new(),
        abort: CancellationToken::new(),
        pulse: Mutex::new(Pulse::default()),
        settling: Settling {
            waiting: AtomicUsize::new(0),
            begun: AtomicU64::new(0),
            settled: watch::Sender::new(0),
        },
    };
    (Arc::new(shared), builder.source)
}
