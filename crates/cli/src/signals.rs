//! What tells a command that runs for long to stop.

use crate::error::CliError;

/// Ctrl-C and, on Unix, SIGTERM.
pub(crate) struct Signals {
    #[cfg(unix)]
    term: tokio::signal::unix::Signal,
}

impl Signals {
    pub(crate) fn new() -> Result<Self, CliError> {
        Ok(Self {
            #[cfg(unix)]
            term: tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())
                .map_err(|error| CliError::Io("listen to signals", error))?,
        })
    }

    /// Waits for the next of them; says the code to exit with.
    pub(crate) async fn next(&mut self) -> u8 {
        #[cfg(unix)]
        tokio::select! {
            _ = tokio::signal::ctrl_c() => 130,
            _ = self.term.recv() => 0,
        }
        #[cfg(not(unix))]
        {
            let _ = tokio::signal::ctrl_c().await;
            130
        }
    }
}
