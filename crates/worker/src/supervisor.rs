//! Watches the tasks of a worker, and ends them.

use std::future::pending;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, timeout_at};

use crate::shared::Shared;
use crate::worker::{Stopped, WorkerError};

/// What a worker that was dropped has for writing.
const DROPPED: Duration = Duration::from_secs(5);
/// How much of a shutdown's time is kept for writing, at most.
const WRITING: Duration = Duration::from_secs(1);

pub(crate) struct Tasks {
    engine: JoinHandle<()>,
    completer: JoinHandle<()>,
    helpers: JoinSet<()>,
}

impl Tasks {
    pub(crate) fn new(engine: JoinHandle<()>, completer: JoinHandle<()>) -> Self {
        Self {
            engine,
            completer,
            helpers: JoinSet::new(),
        }
    }

    /// Adds a task that runs until the others have ended.
    pub(crate) fn help(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.helpers.spawn(task);
    }

    /// Waits until one ends, which none does unless it is told to or panics.
    async fn one_has_died(&mut self) {
        tokio::select! {
            _ = &mut self.engine => {}
            _ = &mut self.completer => {}
            Some(_) = self.helpers.join_next() => {}
            () = pending() => {}
        }
    }
}

pub(crate) struct Supervisor {
    shared: Arc<Shared>,
    tasks: Tasks,
}

impl Supervisor {
    pub(crate) fn new(shared: Arc<Shared>, tasks: Tasks) -> Self {
        Self { shared, tasks }
    }

    pub(crate) async fn run(
        mut self,
        stop: oneshot::Receiver<Duration>,
    ) -> Result<Stopped, WorkerError> {
        let told = tokio::select! {
            told = stop => told.ok(),
            () = self.tasks.one_has_died() => return self.died(),
        };
        let (grace, writing) = match told {
            Some(grace) => (grace, WRITING.min(grace / 4)),
            None => (DROPPED, DROPPED),
        };
        self.stop(grace, writing).await
    }

    fn died(mut self) -> Result<Stopped, WorkerError> {
        tracing::error!(outbox = self.shared.outbox.table(), "a worker died");
        self.shared.stopping.cancel();
        self.shared.abort.cancel();
        self.tasks.engine.abort();
        self.tasks.completer.abort();
        self.tasks.helpers.abort_all();
        Err(WorkerError::Died)
    }

    async fn stop(mut self, grace: Duration, writing: Duration) -> Result<Stopped, WorkerError> {
        let deadline = Instant::now() + grace;
        self.shared.stopping.cancel();
        // The completer ends once the loop and all handlers have.
        let completer = &mut self.tasks.completer;
        let finished = timeout_at(deadline - writing, completer).await.is_ok();
        let mut interrupted = 0;
        if !finished {
            interrupted = self.shared.running.load(Ordering::Acquire);
            self.shared.abort.cancel();
            let done = timeout_at(deadline, &mut self.tasks.completer).await;
            if done.is_err() {
                let left = self.shared.held.len() + self.shared.unwritten.load(Ordering::Acquire);
                tracing::error!(
                    outbox = self.shared.outbox.table(),
                    left,
                    "jobs are still under lease after a shutdown"
                );
                self.tasks.engine.abort();
                self.tasks.completer.abort();
                self.tasks.helpers.abort_all();
                return Err(WorkerError::Unfinished { left });
            }
        }
        self.tasks.helpers.abort_all();
        Ok(Stopped { interrupted })
    }
}
