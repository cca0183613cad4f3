use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::error::CliError;

/// Ctrl-C, looked for between batches. Until one is made, Ctrl-C ends the
/// process at once; and so does a second one, whatever a statement waits for.
#[derive(Clone, Debug)]
pub(crate) struct Stop(Arc<AtomicBool>);

impl Stop {
    pub(crate) fn new() -> Self {
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
