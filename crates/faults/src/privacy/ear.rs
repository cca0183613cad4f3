//! Hears all that is printed and logged, at every level, and looks for marks in
//! it.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::fmt::Debug;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use duebox_conformance::Listener;
use duebox_core::{DbError, PushStoreError};

use super::marks;

/// What was logged since it was last looked at, and how much by whom.
static LOGGED: Mutex<Log> = Mutex::new(Log {
    text: String::new(),
    targets: BTreeMap::new(),
});

struct Log {
    text: String,
    targets: BTreeMap<String, u64>,
}

/// What logs through `log` and not through `tracing`.
struct Logger;

/// From now on every line of every crate is heard.
pub(super) fn listen() -> Result<(), Box<dyn Error + Send + Sync>> {
    log::set_boxed_logger(Box::new(Logger))?;
    log::set_max_level(log::LevelFilter::Trace);
    tracing::subscriber::set_global_default(Listener::new(|target: &str, fields: &str| {
        note(if target.is_empty() { "span" } else { target }, fields);
    }))?;
    Ok(())
}

fn note(target: &str, text: &str) {
    let mut log = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
    let first = target.split("::").next().unwrap_or(target).to_owned();
    *log.targets.entry(first).or_default() += 1;
    log.text.push_str(target);
    log.text.push_str(text);
    log.text.push('\n');
}

impl log::Log for Logger {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        note(record.target(), &format!(" {}", record.args()));
    }

    fn flush(&self) {}
}

/// Hears the answers of calls.
#[derive(Debug, Default)]
pub(super) struct Ear {
    pub(super) calls: u64,
    pub(super) errors: u64,
    /// The kinds of errors that were made.
    pub(super) kinds: BTreeSet<String>,
    pub(super) lines: BTreeMap<String, u64>,
    /// What showed a mark, each once.
    pub(super) leaks: BTreeSet<String>,
}

/// Longer than any lock that is waited for here; then the call is dropped.
const PATIENCE: Duration = Duration::from_secs(8);

impl Ear {
    pub(super) fn hear(&mut self, scene: &str, printed: &str) {
        if let Some(mark) = marks::seen_in(printed) {
            let line = printed
                .lines()
                .find(|line| marks::seen_in(line).is_some())
                .unwrap_or(printed);
            let shown: String = line.chars().take(300).collect();
            self.leaks.insert(format!("{scene}: {mark}: {shown}"));
        }
    }

    /// Makes a call and looks at everything that its answer can be made to
    /// print.
    pub(super) async fn call<T: Debug, E: Error + 'static>(
        &mut self,
        scene: &str,
        call: impl Future<Output = Result<T, E>>,
    ) -> Option<T> {
        self.calls += 1;
        let answer = tokio::time::timeout(PATIENCE, call).await.ok()?;
        self.hear(scene, &format!("{answer:?} {answer:#?}"));
        match answer {
            Ok(value) => Some(value),
            Err(error) => {
                self.error(scene, &error);
                None
            }
        }
    }

    fn error(&mut self, scene: &str, error: &(dyn Error + 'static)) {
        self.errors += 1;
        let mut cause = Some(error);
        while let Some(error) = cause {
            self.hear(scene, &format!("{error} {error:?} {error:#?}"));
            if let Some(error) = error.downcast_ref::<DbError>() {
                self.kinds.insert(error.kind().to_string());
                self.hear(scene, error.code().unwrap_or_default());
                self.hear(scene, error.constraint().unwrap_or_default());
            }
            if let Some(error) = error.downcast_ref::<PushStoreError>() {
                self.kinds.insert(format!("store {error:?}").to_lowercase());
            }
            cause = error.source();
        }
    }

    /// Looks at what was logged meanwhile.
    pub(super) fn hear_log(&mut self, scene: &str) {
        let mut log = LOGGED.lock().unwrap_or_else(PoisonError::into_inner);
        let text = std::mem::take(&mut log.text);
        for (target, lines) in std::mem::take(&mut log.targets) {
            *self.lines.entry(target).or_default() += lines;
        }
        drop(log);
        self.hear(&format!("{scene}, logged"), &text);
    }
}
