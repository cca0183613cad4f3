use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// When rows of a topic that has no room for them will have their turn.
///
/// Rows that were claimed and cannot start are given back, so that rows of
/// other topics behind them are reached. Each is given back until the time at
/// which the topic will have come to it, going by how long its handler takes.
pub(crate) struct Pace(Mutex<Turns>);

#[derive(Default)]
struct Turns {
    /// A moving mean of the handler's time.
    mean: Duration,
    /// When the row given back last will have its turn, by the elapsed time.
    last: Duration,
}

impl Pace {
    const SOONEST: Duration = Duration::from_millis(100);
    const LATEST: Duration = Duration::from_mins(1);

    pub(crate) fn new() -> Self {
        Self(Mutex::default())
    }

    pub(crate) fn took(&self, time: Duration) {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        turns.mean = if turns.mean.is_zero() {
            time
        } else {
            (turns.mean * 7 + time) / 8
        };
    }

    /// How long the next row that is given back waits, if `limit` run at once.
    pub(crate) fn turn(&self, now: Duration, limit: usize) -> Duration {
        let mut turns = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let each = turns.mean / u32::try_from(limit.max(1)).unwrap_or(u32::MAX);
        let turn = turns.last.max(now + Self::SOONEST) + each;
        turns.last = turn.min(now + Self::LATEST);
        turns.last.saturating_sub(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn rows_are_given_back_at_the_pace_of_their_topic() {
        let pace = Pace::new();
        pace.took(MS * 40);
        let turns: Vec<_> = (0..3).map(|_| pace.turn(MS, 2).as_millis()).collect();
        assert_eq!(turns, [120, 140, 160]);
        // Much later those have had their turn.
        assert_eq!(pace.turn(MS * 10_000, 2), MS * 120);
    }

    #[test]
    fn none_waits_for_more_than_a_minute() {
        let pace = Pace::new();
        pace.took(MS * 3_600_000);
        assert_eq!(pace.turn(MS, 1), Pace::LATEST);
        assert_eq!(pace.turn(MS, 1), Pace::LATEST);
    }
}
