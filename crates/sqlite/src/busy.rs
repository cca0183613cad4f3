//! How long, and how, a thread waits for a lock that another connection has.
//!
//! SQLite's own handler sleeps ever longer, up to 100 ms, so that of many
//! processes the one that came last gets the lock. This one tries again after
//! a short random while, however long it has waited, and so gives all the same
//! chance.

use std::cell::Cell;
use std::hash::{BuildHasher, RandomState};
use std::thread;
use std::time::{Duration, Instant};

use crate::config::DEFAULT_BUSY_TIMEOUT;

/// What the handler, a plain function, knows of the thread that it runs on:
/// each thread here has one connection.
#[derive(Clone, Copy)]
struct Patience {
    timeout: Duration,
    /// When to give up, if not `timeout` after the wait began.
    deadline: Option<Instant>,
    began: Option<Instant>,
    waited: Option<Instant>,
    random: u64,
}

thread_local! {
    static PATIENCE: Cell<Patience> = const {
        Cell::new(Patience {
            timeout: DEFAULT_BUSY_TIMEOUT,
            deadline: None,
            began: None,
            waited: None,
            random: 0,
        })
    };
}

fn with<T>(f: impl FnOnce(&mut Patience) -> T) -> T {
    PATIENCE.with(|cell| {
        let mut patience = cell.get();
        let answer = f(&mut patience);
        cell.set(patience);
        answer
    })
}

/// How long a wait of this thread's connection may take.
pub(crate) fn set_timeout(timeout: Duration) {
    with(|patience| patience.timeout = timeout);
}

/// Runs `f`, in which a wait ends at `deadline`.
pub(crate) fn until<T>(deadline: Instant, f: impl FnOnce() -> T) -> T {
    with(|patience| patience.deadline = Some(deadline));
    let answer = f();
    with(|patience| patience.deadline = None);
    answer
}

/// Whether this thread had to wait for a lock not longer than `span` ago.
pub(crate) fn waited_within(span: Duration) -> bool {
    with(|patience| patience.waited.is_some_and(|at| at.elapsed() < span))
}

/// A random time of at most `most`, never much shorter than a tenth of it.
pub(crate) fn jitter(most: Duration) -> Duration {
    let random = with(|patience| {
        if patience.random == 0 {
            patience.random = RandomState::new().hash_one(thread::current().id()) | 1;
        }
        // Xorshift: cheap, and chance enough for a pause.
        patience.random ^= patience.random << 13;
        patience.random ^= patience.random >> 7;
        patience.random ^= patience.random << 17;
        patience.random
    });
    let share = 100 + u32::try_from(random % 900).unwrap_or(0);
    most * share / 1000
}

/// The busy handler: sleeps and answers whether to try again. `count` is how
/// often it was called in this wait before.
pub(crate) fn handler(count: i32) -> bool {
    let now = Instant::now();
    let deadline = with(|patience| {
        if count == 0 {
            patience.began = Some(now);
        }
        patience.waited = Some(now);
        let began = patience.began.unwrap_or(now);
        patience.deadline.unwrap_or(began + patience.timeout)
    });
    let Some(left) = deadline
        .checked_duration_since(now)
        .filter(|left| !left.is_zero())
    else {
        return false;
    };
    // Most writes are over within a millisecond or a few.
    let most = match count {
        0..5 => Duration::from_micros(300),
        5..50 => Duration::from_millis(2),
        _ => Duration::from_millis(5),
    };
    thread::sleep(jitter(most).min(left));
    true
}
