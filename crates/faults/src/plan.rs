//! What is to happen in a history, drawn from its seed.

use crate::place::Engine;
use crate::role::Role;

/// Something that goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Strike {
    Delay { millis: u64, last: u64 },
    CutBefore { requests: u64 },
    CutAfter { requests: u64 },
    Hold { last: u64 },
    Kill { process: usize },
    Stop { process: usize, last: u64 },
    KillSessions { most: usize },
    Restart,
    Crash,
    Fill { last: u64 },
    Lock { last: u64 },
}

/// One process of a history.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cast {
    pub(crate) role: Role,
    pub(crate) skew_ms: i64,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) table: &'static str,
    pub(crate) cast: Vec<Cast>,
    /// By when, in milliseconds since the start.
    pub(crate) strikes: Vec<(u64, Strike)>,
}

/// What may be done to a server.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Can {
    /// It is our own, and may be ended.
    pub(crate) end: bool,
    /// Its disk may be filled. Then it may end by itself.
    pub(crate) fill: bool,
}

const CAST: [Role; 9] = [
    Role::Enqueuer,
    Role::Enqueuer,
    Role::Worker,
    Role::Worker,
    Role::Drainer,
    Role::Drainer,
    Role::Receipts,
    Role::Receipts,
    Role::Eraser,
];

impl Plan {
    /// The plan of the history of this seed. What is costly, a server's end,
    /// comes with every sixth.
    pub(crate) fn new(seed: u64, engine: Engine, can: Can, millis: u64) -> Self {
        let mut random = fastrand::Rng::with_seed(seed);
        let cast = CAST
            .map(|role| {
                let may = matches!(role, Role::Enqueuer | Role::Drainer | Role::Receipts);
                let wrong = may && random.u8(0..6) == 0;
                let minutes = random.i64(2..10) * if random.bool() { 1 } else { -1 };
                Cast {
                    role,
                    skew_ms: if wrong { minutes * 60_000 } else { 0 },
                }
            })
            .to_vec();
        let mut strikes = Vec::new();
        let latest = millis.saturating_sub(100).max(200);
        for _ in 0..random.u8(5..=8) {
            let strike = if engine == Engine::Sqlite {
                on_a_file(&mut random)
            } else {
                on_the_way(&mut random)
            };
            strikes.push((random.u64(100..latest), strike));
        }
        if can.fill {
            let last = random.u64(100..900);
            strikes.push((random.u64(100..latest), Strike::Fill { last }));
        }
        if can.end {
            match seed % 6 {
                1 => strikes.push((random.u64(300..latest), Strike::Restart)),
                4 => strikes.push((random.u64(300..latest), Strike::Crash)),
                _ => {}
            }
        }
        strikes.sort_by_key(|(at, _)| *at);
        Self {
            seed,
            table: if random.bool() {
                "outbox"
            } else {
                "mail_outbox"
            },
            cast,
            strikes,
        }
    }
}

/// Longer than a lease, which is a second.
fn long(random: &mut fastrand::Rng) -> u64 {
    random.u64(1_100..1_700)
}

fn anywhere(random: &mut fastrand::Rng, kill: bool) -> Strike {
    let process = random.usize(0..CAST.len());
    if kill {
        Strike::Kill { process }
    } else {
        let last = long(random);
        Strike::Stop { process, last }
    }
}

fn on_a_file(random: &mut fastrand::Rng) -> Strike {
    match random.u8(0..10) {
        0..3 => anywhere(random, true),
        3..6 => anywhere(random, false),
        6..8 => Strike::Fill {
            last: random.u64(100..600),
        },
        _ => Strike::Lock {
            last: random.u64(100..1_200),
        },
    }
}

fn on_the_way(random: &mut fastrand::Rng) -> Strike {
    match random.u8(0..14) {
        0..3 => anywhere(random, true),
        3..5 => anywhere(random, false),
        5..7 => Strike::CutBefore {
            requests: random.u64(1..6),
        },
        7..9 => Strike::CutAfter {
            requests: random.u64(1..6),
        },
        9..11 => Strike::Hold { last: long(random) },
        11 => Strike::Delay {
            millis: random.u64(5..60),
            last: random.u64(100..500),
        },
        _ => Strike::KillSessions {
            most: random.usize(1..5),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_plan() {
        let can = Can {
            end: true,
            fill: false,
        };
        let plan = |seed| format!("{:?}", Plan::new(seed, Engine::Mysql, can, 2_000));
        assert_eq!(plan(7), plan(7));
        assert_ne!(plan(7), plan(8));
        assert!(plan(7).contains("Restart"));
    }
}
