use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::CliError;

/// Whether a [`Stop`] is made, which then takes the first Ctrl-C.
static SOFT: AtomicBool = AtomicBool::new(false);

/// Ends the process at the next Ctrl-C, with the code of that, unless a [`Stop`] is
/// made by then. Whoever started the process may have had the signal ignored, as
/// shells do in the background: one that is sent is meant.
pub(crate) fn at_once() {
    tokio::spawn(async {
        if tokio::signal::ctrl_c().await.is_ok() && !SOFT.load(Ordering::Relaxed) {
            std::process::exit(130);
        }
    });
}

/// Ctrl-C, looked for between batches. A second one ends the process at once,
/// whatever a statement waits for.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn new() -> Self {
        SOFT.store(true, Ordering::Relaxed);
        let stop = Self(Arc::default());
        let seen = stop.0.clone();
        tokio::spawn(async move {
            if tokio::signal::ctrl_c().await.is_ok() {
                seen.store(true, Ordering::Relaxed);
            }
            if tokio::signal::ctrl_c().await.is_ok() {
                std::process::exit(130);
            }
        });
        stop
    }

    /// An error once Ctrl-C came; `done` rows were done until here.
    pub(crate) fn check(&self, done: u64) -> Result<(), CliError> {
        if self.0.load(Ordering::Relaxed) {
            return Err(CliError::Stopped(done));
        }
        Ok(())
    }
}
