//! What a delivery says on standard error.

use std::io::IsTerminal;

use duebox_worker::Outcome;
use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

/// Jobs that fail, and a database that is away. Other crates have no say:
/// drivers log statements.
pub(super) fn start(quiet: bool) {
    let level = if quiet {
        LevelFilter::WARN
    } else {
        LevelFilter::INFO
    };
    let lines = tracing_subscriber::fmt::layer()
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false);
    let ours = Targets::new()
        .with_target("duebox", level)
        .with_target("duebox_worker", level);
    // It fails only if somebody listens already.
    let _ = tracing_subscriber::registry()
        .with(lines)
        .with(ours)
        .try_init();
}

/// Why a job failed, in the words of this program; nothing if it did not.
pub(super) fn outcome(outcome: &Outcome) {
    if let Outcome::Retry(why) | Outcome::RetryAt(_, why) | Outcome::Park(why) = outcome {
        tracing::info!("{why}");
    }
}
