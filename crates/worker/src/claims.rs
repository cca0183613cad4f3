//! When to claim, and how much.

use std::time::Duration;

use crate::db::Pauses;

/// How long room is left empty so that one claim fills more of it.
pub(crate) const GATHER: Duration = Duration::from_millis(3);

/// How often a worker looks for work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Polls {
    /// The longest pause if nobody tells of work.
    pub(crate) alone: Duration,
    /// The longest pause while a source of wake-ups is heard.
    pub(crate) listening: Duration,
}

/// What a decision is made from. Times are elapsed ones.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sight {
    pub(crate) now: Duration,
    pub(crate) nudged: bool,
    pub(crate) listening: bool,
    /// Whether room for rows of a backlog was left empty for [`GATHER`].
    pub(crate) gathered: bool,
    /// How many rows there is room for.
    pub(crate) free: usize,
    /// The most that are claimed at once, and no more than may run.
    pub(crate) batch: usize,
    /// When a row is due that this worker has put off itself.
    pub(crate) own_due: Option<Duration>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Decision {
    /// Claim up to so many rows.
    Claim(usize),
    /// Do in a moment, when there is room for more.
    Gather,
    /// Do not before this time, or something that changes.
    Wait(Option<Duration>),
}

/// The pace of claims.
#[derive(Debug)]
pub(crate) struct Claims {
    polls: Polls,
    /// How long after the last claim the next is made if nothing happens.
    idle: Duration,
    last: Option<Duration>,
    /// The last claim got all it asked for: there is more.
    backlog: bool,
    /// Until when a failure keeps us from asking again.
    failed_until: Option<Duration>,
    pauses: Pauses,
    /// A nudge whose claim came back empty is answered once more: the clock
    /// of who enqueued may be ahead of ours by as much as both are accurate.
    echo_at: Option<Duration>,
}

impl Claims {
    /// The first pause of a queue that has just become empty.
    const SHORTEST: Duration = Duration::from_millis(100);
    const ECHO: Duration = Duration::from_millis(4);

    pub(crate) fn new(polls: Polls) -> Self {
        Self {
            polls,
            idle: Self::SHORTEST,
            last: None,
            backlog: false,
            failed_until: None,
            pauses: Pauses::default(),
            echo_at: None,
        }
    }

    pub(crate) fn decide(&mut self, sight: Sight) -> Decision {
        let Sight { now, free, .. } = sight;
        if free == 0 {
            return Decision::Wait(None);
        }
        if let Some(until) = self.failed_until
            && now < until
        {
            return Decision::Wait(Some(until));
        }
        let asks = free.min(sight.batch);
        let Some(last) = self.last else {
            return Decision::Claim(asks);
        };
        if self.backlog {
            // A claim of half a batch costs little more than one of a single row.
            let enough = free >= sight.batch.div_ceil(2);
            return if enough || sight.gathered {
                Decision::Claim(asks)
            } else {
                Decision::Gather
            };
        }
        if sight.nudged {
            return Decision::Claim(asks);
        }
        let longest = if sight.listening {
            self.polls.listening
        } else {
            self.polls.alone
        };
        let poll = last + self.idle.min(longest);
        let next = [Some(poll), sight.own_due, self.echo_at]
            .into_iter()
            .flatten()
            .min()
            .unwrap_or(poll);
        if now >= next {
            Decision::Claim(asks)
        } else {
            Decision::Wait(Some(next))
        }
    }

    /// Takes note of a claim that began at `began` with or without a nudge.
    pub(crate) fn claimed(&mut self, began: Duration, nudged: bool, asked: usize, got: usize) {
        self.failed_until = None;
        self.pauses.reset();
        self.last = Some(began);
        self.backlog = got >= asked;
        self.idle = if got > 0 {
            Self::SHORTEST
        } else {
            (self.idle * 2).min(self.polls.alone.max(self.polls.listening))
        };
        self.echo_at = (nudged && got == 0).then_some(began + Self::ECHO);
    }

    /// Takes note of a claim that failed; returns how long to wait.
    pub(crate) fn failed(&mut self, now: Duration) -> Duration {
        let pause = self.pauses.next();
        self.failed_until = Some(now + pause);
        self.last.get_or_insert(now);
        pause
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn claims() -> Claims {
        Claims::new(Polls {
            alone: MS * 1_000,
            listening: MS * 6_000,
        })
    }

    fn sight(now: u32) -> Sight {
        Sight {
            now: MS * now,
            nudged: false,
            listening: false,
            gathered: false,
            free: 32,
            batch: 32,
            own_due: None,
        }
    }

    #[test]
    fn an_idle_worker_with_a_source_claims_at_most_12_times_a_minute() {
        let mut claims = claims();
        let (mut now, mut count) = (0, 0);
        let listening = |now| Sight {
            listening: true,
            ..sight(now)
        };
        // It has been idle for a minute before they are counted.
        while now < 120_000 {
            match claims.decide(listening(now)) {
                Decision::Claim(asked) => {
                    claims.claimed(MS * now, false, asked, 0);
                    count += u32::from(now >= 60_000);
                }
                Decision::Gather => panic!("idle"),
                Decision::Wait(until) => {
                    now = u32::try_from(until.expect("a poll").as_millis()).expect("small");
                }
            }
        }
        assert_eq!(count, 10);
    }

    #[test]
    fn polls_double_up_to_the_longest() {
        let mut claims = claims();
        let mut now = 0;
        let mut pauses = Vec::new();
        for _ in 0..6 {
            assert_eq!(claims.decide(sight(now)), Decision::Claim(32));
            claims.claimed(MS * now, false, 32, 0);
            let Decision::Wait(Some(until)) = claims.decide(sight(now)) else {
                panic!("idle");
            };
            pauses.push(until.as_millis() - u128::from(now));
            now = u32::try_from(until.as_millis()).expect("small");
        }
        assert_eq!(pauses, [200, 400, 800, 1_000, 1_000, 1_000]);
    }

    #[test]
    fn a_nudge_is_answered_at_once_and_once_more_if_nothing_was_found() {
        let mut claims = claims();
        claims.claimed(MS, false, 32, 0);
        let nudged = Sight {
            nudged: true,
            ..sight(2)
        };
        assert_eq!(claims.decide(nudged), Decision::Claim(32));
        claims.claimed(MS * 2, true, 32, 0);
        assert_eq!(claims.decide(sight(3)), Decision::Wait(Some(MS * 6)));
        assert_eq!(claims.decide(sight(6)), Decision::Claim(32));
        claims.claimed(MS * 6, false, 32, 0);
        assert!(matches!(claims.decide(sight(7)), Decision::Wait(Some(until)) if until > MS * 100));
    }

    #[test]
    fn a_backlog_is_claimed_by_half_batches_or_after_a_moment() {
        let mut claims = claims();
        claims.claimed(MS, false, 32, 32);
        let free = |now, free| Sight { free, ..sight(now) };
        assert_eq!(claims.decide(free(1, 0)), Decision::Wait(None));
        assert_eq!(claims.decide(free(2, 16)), Decision::Claim(16));
        assert_eq!(claims.decide(free(2, 3)), Decision::Gather);
        let gathered = Sight {
            gathered: true,
            ..free(2, 4)
        };
        assert_eq!(claims.decide(gathered), Decision::Claim(4));
    }

    #[test]
    fn a_row_that_was_put_off_here_is_claimed_on_time() {
        let mut claims = claims();
        claims.claimed(MS, false, 32, 0);
        let own = |now| Sight {
            own_due: Some(MS * 50),
            ..sight(now)
        };
        assert_eq!(claims.decide(own(2)), Decision::Wait(Some(MS * 50)));
        assert_eq!(claims.decide(own(50)), Decision::Claim(32));
    }

    #[test]
    fn a_failure_is_followed_by_a_pause_that_nudges_do_not_end() {
        let mut claims = claims();
        let pause = claims.failed(MS);
        let nudged = |now| Sight {
            nudged: true,
            ..sight(now)
        };
        assert_eq!(claims.decide(nudged(2)), Decision::Wait(Some(MS + pause)));
        assert_eq!(claims.decide(nudged(200)), Decision::Claim(32));
        let mut longest = Duration::ZERO;
        for _ in 0..100 {
            longest = longest.max(claims.failed(MS));
        }
        assert!(longest <= MS * 5_000 && longest > MS * 2_500);
    }
}
