use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{Database, DbError};
use tokio::sync::watch;
use tokio::time::Instant;

/// The database's time, carried by this machine's monotonic clock.
///
/// The database is asked when the clock is made and then once a minute; in
/// between, and while the database is away, the time that has passed here is
/// added. The clock of the machine, which may be wrong or be set, plays no part,
/// so workers on machines that disagree neither take each other's leases early
/// nor leave due rows lying. (SQLite has no other clock than the machine's, and
/// all that share its file are on that machine.)
///
/// **Producers take `at` from it too.** A producer whose own clock is fast
/// enqueues into the future, and delays its work by as much.
///
/// # Accuracy
///
/// To the length of the shortest round trip to the database, and what a
/// monotonic clock goes wrong in a minute. An answer that agrees with what the
/// clock says already does not move it.
///
/// # Clone
///
/// Cheap: clones are one clock. The task that asks the database ends with the
/// last of them.
#[derive(Clone)]
pub struct Clock(Kind);

#[derive(Clone)]
enum Kind {
    Carried(Arc<Carried>),
    Manual(Arc<Manual>),
}

const REFRESH: Duration = Duration::from_mins(1);
/// Between attempts while the database does not answer.
const REFRESH_AGAIN: Duration = Duration::from_secs(15);

impl Clock {
    /// A clock that asks this database, once now and then from a task of its
    /// own.
    ///
    /// # Errors
    ///
    /// What the database says, if it does not tell the time now.
    pub async fn start(db: Arc<dyn Database>) -> Result<Self, DbError> {
        let origin = Instant::now();
        let time = db.now().await?;
        let ended = Instant::now();
        let carried = Arc::new(Carried {
            origin,
            anchor: Mutex::new(Anchor {
                at: ended,
                time: later(time, ended.duration_since(origin) / 2),
            }),
        });
        tokio::spawn(keep(Arc::downgrade(&carried), db));
        Ok(Self(Kind::Carried(carried)))
    }

    /// What time it is at the database.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        match &self.0 {
            Kind::Carried(carried) => carried.at(Instant::now()),
            Kind::Manual(manual) => later(manual.start, *manual.passed.borrow()),
        }
    }

    /// How much time has passed since the clock was made; never goes back.
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        match &self.0 {
            Kind::Carried(carried) => carried.origin.elapsed(),
            Kind::Manual(manual) => *manual.passed.borrow(),
        }
    }

    /// Waits until this much time has passed since the call: by a
    /// [`ManualClock`], until somebody has moved it that far.
    pub fn sleep(&self, duration: Duration) -> impl Future<Output = ()> + Send + use<> {
        self.sleep_until(self.elapsed().saturating_add(duration))
    }

    /// Waits until so much time has passed since the clock was made.
    pub(crate) fn sleep_until(&self, elapsed: Duration) -> impl Future<Output = ()> + Send + use<> {
        let clock = self.clone();
        async move {
            match &clock.0 {
                Kind::Carried(carried) => {
                    let left = elapsed.saturating_sub(carried.origin.elapsed());
                    tokio::time::sleep(left).await;
                }
                Kind::Manual(manual) => {
                    let mut passed = manual.passed.subscribe();
                    // The sender is in the clock that we hold, so this ends well only.
                    let _ = passed.wait_for(|passed| *passed >= elapsed).await;
                }
            }
        }
    }
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Clock").field(&self.now()).finish()
    }
}

/// A time that stands still until it is moved, for tests that do not sleep.
///
/// A worker that is built with [`clock`](Self::clock) waits by it too: moving it
/// on lets polls, lease extensions, timeouts and retries fall due.
///
/// ```
/// use std::time::Duration;
/// use duebox_worker::ManualClock;
///
/// let time = ManualClock::new("2026-01-31T09:30:00Z".parse().unwrap());
/// let clock = time.clock();
/// time.advance(Duration::from_secs(90));
/// assert_eq!(clock.now().to_rfc3339(), "2026-01-31T09:31:30+00:00");
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Manual>);

struct Manual {
    start: DateTime<Utc>,
    passed: watch::Sender<Duration>,
}

impl ManualClock {
    /// A clock that stands at this time.
    #[must_use]
    pub fn new(start: DateTime<Utc>) -> Self {
        Self(Arc::new(Manual {
            start,
            passed: watch::Sender::new(Duration::ZERO),
        }))
    }

    /// The clock that this moves.
    #[must_use]
    pub fn clock(&self) -> Clock {
        Clock(Kind::Manual(Arc::clone(&self.0)))
    }

    /// Moves the time on, and wakes whoever waited for it.
    pub fn advance(&self, by: Duration) {
        self.0
            .passed
            .send_modify(|passed| *passed = passed.saturating_add(by));
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ManualClock")
            .field(&self.clock().now())
            .finish()
    }
}

struct Carried {
    origin: Instant,
    anchor: Mutex<Anchor>,
}

/// An instant of this machine, and what time it was at the database.
#[derive(Clone, Copy)]
struct Anchor {
    at: Instant,
    time: DateTime<Utc>,
}

impl Carried {
    fn at(&self, instant: Instant) -> DateTime<Utc> {
        let anchor = *self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        later(anchor.time, instant.saturating_duration_since(anchor.at))
    }

    /// Takes note that the database said `time` between two instants.
    fn correct(&self, started: Instant, ended: Instant, time: DateTime<Utc>) {
        let (first, last) = (time, later(time, ended.duration_since(started)));
        let time = self.at(ended).clamp(first, last);
        let mut anchor = self.anchor.lock().unwrap_or_else(PoisonError::into_inner);
        *anchor = Anchor { at: ended, time };
    }
}

async fn keep(clock: Weak<Carried>, db: Arc<dyn Database>) {
    let mut pause = REFRESH;
    loop {
        tokio::time::sleep(pause).await;
        if clock.strong_count() == 0 {
            return;
        }
        let started = Instant::now();
        // A clock that was not corrected goes on as it was; the next attempt will do.
        let answer = tokio::time::timeout(REFRESH_AGAIN, db.now()).await;
        let Some(clock) = clock.upgrade() else {
            return;
        };
        pause = match answer {
            Ok(Ok(time)) => {
                clock.correct(started, Instant::now(), time);
                REFRESH
            }
            _ => REFRESH_AGAIN,
        };
    }
}

/// A time so much later, or the last there is.
pub(crate) fn later(time: DateTime<Utc>, duration: Duration) -> DateTime<Utc> {
    time.checked_add_signed(delta(duration))
        .unwrap_or(DateTime::<Utc>::MAX_UTC)
}

/// As a difference of times; one that has no place there is longer than any.
fn delta(duration: Duration) -> TimeDelta {
    TimeDelta::from_std(duration).unwrap_or(TimeDelta::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn carried() -> (Carried, Instant, DateTime<Utc>) {
        let (origin, time) = (Instant::now(), DateTime::UNIX_EPOCH);
        let anchor = Mutex::new(Anchor { at: origin, time });
        (Carried { origin, anchor }, origin, time)
    }

    #[test]
    fn an_answer_that_agrees_does_not_move_the_clock() {
        let (clock, origin, time) = carried();
        clock.correct(origin + MS * 10, origin + MS * 14, time + delta(MS * 11));
        assert_eq!(clock.at(origin + MS * 14), time + delta(MS * 14));
    }

    #[test]
    fn an_answer_that_does_not_agree_moves_it_no_further_than_it_proves() {
        let (clock, origin, time) = carried();
        clock.correct(origin + MS * 10, origin + MS * 14, time + delta(MS * 100));
        assert_eq!(clock.at(origin + MS * 14), time + delta(MS * 100));
        clock.correct(origin + MS * 20, origin + MS * 24, time);
        assert_eq!(clock.at(origin + MS * 25), time + delta(MS * 5));
    }

    #[tokio::test]
    async fn a_manual_clock_wakes_those_who_waited_long_enough() {
        let time = ManualClock::new(DateTime::UNIX_EPOCH);
        let clock = time.clock();
        let sleeper = clock.clone();
        let slept = tokio::spawn(async move { sleeper.sleep(MS * 10).await });
        let mut early = std::pin::pin!(clock.sleep(MS * 11));
        tokio::task::yield_now().await;
        time.advance(MS * 10);
        tokio::select! {
            biased;
            () = &mut early => panic!("a millisecond early"),
            ended = slept => ended.expect("no panic"),
        }
        time.advance(MS);
        early.await;
    }

    #[test]
    fn no_source_of_this_crate_reads_the_clock_of_the_machine() {
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src");
        let mut read = 0;
        for file in std::fs::read_dir(folder).expect("the sources") {
            let path = file.expect("a file").path();
            let text = std::fs::read_to_string(&path).expect("a text");
            for clock in [["Utc", "::now"], ["System", "Time"], ["Local", "::now"]] {
                assert!(!text.contains(&clock.concat()), "{}", path.display());
            }
            read += 1;
        }
        assert!(read > 20, "{read} files");
    }
}
