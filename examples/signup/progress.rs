//! What the program has done so far, and how it tells.

use std::convert::Infallible;
use std::fmt;
use std::future::pending;
use std::io::{IsTerminal, Write, stderr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duebox_sqlite::OutboxStats;

use crate::accounts::Accounts;
use crate::sign_up::Refusal;

/// Counts of one run.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) read: Counter,
    pub(crate) new: Counter,
    pub(crate) already_there: Counter,
    pub(crate) refused: Counter,
    pub(crate) delivered: Counter,
    /// Of the delivered, those whose row was claimed before by a drainer that did not finish.
    pub(crate) delivered_again: Counter,
    pub(crate) failed: Counter,
}

#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl fmt::Display for Counter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.get().fmt(f)
    }
}

/// The standard error stream: one line that is drawn again on a terminal, a line now and then
/// elsewhere, and the refused lines between.
#[derive(Debug)]
pub(crate) struct Screen {
    terminal: bool,
    quiet: bool,
}

impl Screen {
    pub(crate) fn new(quiet: bool) -> Self {
        Self {
            terminal: stderr().is_terminal(),
            quiet,
        }
    }

    /// Tells of a line that was not taken.
    pub(crate) fn refused(&self, line: u64, why: Refusal) {
        self.print(format_args!("line {line} refused: {why}"), "\n");
    }

    /// Tells how far the program is, until it is dropped.
    pub(crate) async fn show(&self, counters: &Counters, accounts: &Accounts) -> Infallible {
        if self.quiet {
            return pending().await;
        }
        let period = Duration::from_millis(if self.terminal { 200 } else { 2000 });
        let started = Instant::now();
        loop {
            tokio::time::sleep(period).await;
            // Progress is a courtesy: whatever is wrong, the work itself will say.
            let Ok(stats) = accounts.stats().await else {
                continue;
            };
            let text = format_args!(
                "{:5.1} s: read {}, new {}, refused {}; mails: delivered {}, waiting {}",
                started.elapsed().as_secs_f64(),
                counters.read,
                counters.new,
                counters.refused,
                counters.delivered,
                Waiting(&stats),
            )
            .to_string();
            self.print(
                format_args!("{text}"),
                if self.terminal { "" } else { "\n" },
            );
        }
    }

    /// Removes the line that `show` drew last.
    pub(crate) fn clear(&self) {
        if self.terminal {
            self.print(format_args!(""), "");
        }
    }

    fn print(&self, text: fmt::Arguments<'_>, end: &str) {
        if self.quiet {
            return;
        }
        let start = if self.terminal { "\r\x1b[K" } else { "" };
        // Nobody reads this, if it fails.
        let _ = write!(stderr().lock(), "{start}{text}{end}");
    }
}

/// Mails that are not out yet.
struct Waiting<'a>(&'a OutboxStats);

impl fmt::Display for Waiting<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OutboxStats {
            waiting,
            due,
            leased,
            parked,
            ..
        } = self.0;
        write!(f, "{} ({leased} being delivered", waiting + due + leased)?;
        if *parked > 0 {
            write!(f, ", {parked} set aside")?;
        }
        f.write_str(")")
    }
}
