//! The lease protocol as a model, checked in every state that it can reach.
//!
//! Rows, holders and a clock, each small. The calls have the names of the outbox's own, and do to a
//! row what its SQL does. Any of them can be made by anybody who ever had a lease, at any moment,
//! more than once; its answer can be lost; a holder can die or stand still with a lease in hand, and
//! one of the holders has a clock that is ahead.
//!
//! That a due row is claimed in the end follows from two things that are checked in every state: a
//! lease ends within its length, and whoever asks for work while a row is due can have it.

use std::hash::Hash;

use stateright::{Checker, Model, Property};

/// How long a lease runs, in ticks.
const LEASE: u8 = 2;

/// What is checked: how much of it, and whether the calls are fenced.
#[derive(Clone, Copy, Debug)]
pub struct Protocol {
    /// Rows that are enqueued at the start.
    pub rows: u8,
    /// Those who claim them; the clock of the last is one tick ahead.
    pub holders: u8,
    /// The last tick.
    pub ticks: u8,
    /// Claims of one row, at most.
    pub claims: u8,
    /// Whether completing acts only on the lease that it is given, as ours does, or
    /// on whatever row has its id.
    pub fenced: bool,
}

/// A row, as its table keeps it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Row {
    claims: u8,
    next_attempt_at: u8,
    locked_until: Option<u8>,
    parked: bool,
}

impl Row {
    fn is_due(self, now: u8) -> bool {
        let free = self.locked_until.is_none_or(|until| until <= now);
        !self.parked && self.next_attempt_at <= now && free
    }
}

/// A lease that somebody was given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Lease {
    row: u8,
    claim: u8,
}

/// Everything at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    now: u8,
    rows: Vec<Option<Row>>,
    /// What each holder last claimed; it may be long over.
    leases: Vec<Option<Lease>>,
    /// Rows of which somebody was told that they are done.
    done: Vec<bool>,
    /// A call changed a row whose lease it did not have.
    trespassed: bool,
    /// A row that was removed is there again.
    returned: bool,
}

/// A call, or what befalls those who call. `heard` says whether its answer arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Time goes on.
    Tick,
    /// A holder asks for one row.
    Claim {
        /// Who.
        holder: u8,
        /// Whether the answer arrives.
        heard: bool,
    },
    /// A holder makes a call on the lease that it has or had.
    Call {
        /// Who.
        holder: u8,
        /// Which.
        call: Call,
        /// Whether the answer arrives.
        heard: bool,
    },
    /// A holder dies, and another takes its place.
    Crash {
        /// Who.
        holder: u8,
    },
    /// An operator ends whatever lease there is, and parks nothing.
    Release {
        /// Which row.
        row: u8,
    },
    /// An operator makes a parked row due again.
    Unpark {
        /// Which row.
        row: u8,
    },
}

/// The fenced calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// `complete_claimed`
    Complete,
    /// `retry_claimed`, a tick later
    Retry,
    /// `release_claimed`, at once
    Release,
    /// `extend_claimed`
    Extend,
    /// `park_claimed`
    Park,
}

const CALLS: [Call; 5] = [
    Call::Complete,
    Call::Retry,
    Call::Release,
    Call::Extend,
    Call::Park,
];

impl World {
    fn row(&self, lease: Lease) -> Option<Row> {
        self.rows[usize::from(lease.row)]
    }

    /// Whether a row is under exactly this lease.
    fn is_held(&self, lease: Lease) -> bool {
        self.row(lease)
            .is_some_and(|row| row.claims == lease.claim && row.locked_until.is_some())
    }

    fn holders_of(&self, row: u8) -> usize {
        let leases = self.leases.iter().flatten();
        leases
            .filter(|lease| lease.row == row && self.is_held(**lease))
            .count()
    }
}

impl Protocol {
    fn clock(self, world: &World, holder: u8) -> u8 {
        // The last one's is wrong.
        world.now + u8::from(holder + 1 == self.holders)
    }

    fn claim(self, world: &mut World, holder: u8, heard: bool) -> bool {
        let now = self.clock(world, holder);
        // Oldest first, then by id.
        let due = (0..self.rows)
            .filter(|row| world.rows[usize::from(*row)].is_some_and(|row| row.is_due(now)))
            .min_by_key(|row| {
                let at = world.rows[usize::from(*row)].map(|row| {
                    row.locked_until
                        .map_or(row.next_attempt_at, |until| until.max(row.next_attempt_at))
                });
                (at, *row)
            });
        let Some(number) = due else { return false };
        let Some(row) = &mut world.rows[usize::from(number)] else {
            return false;
        };
        row.claims += 1;
        row.locked_until = Some(now + LEASE);
        let lease = Lease {
            row: number,
            claim: row.claims,
        };
        world.leases[usize::from(holder)] = heard.then_some(lease);
        true
    }

    fn call(self, world: &mut World, holder: u8, call: Call, heard: bool) -> bool {
        let Some(lease) = world.leases[usize::from(holder)] else {
            return false;
        };
        let held = world.is_held(lease);
        let place = usize::from(lease.row);
        if held || (!self.fenced && call == Call::Complete) {
            let before = world.rows[place];
            let clock = self.clock(world, holder);
            world.rows[place] = before.and_then(|row| after(row, call, clock));
            if !held && world.rows[place] != before {
                world.trespassed = true;
            }
            if call == Call::Complete && before.is_some() {
                world.done[place] = true;
            }
        }
        // Held or lost, whoever hears it has nothing to call for any more, but for
        // an extension that was held.
        if heard && !(held && call == Call::Extend) {
            world.leases[usize::from(holder)] = None;
        }
        true
    }
}

/// What a call makes of a row: nothing, if it is removed.
fn after(mut row: Row, call: Call, now: u8) -> Option<Row> {
    match call {
        Call::Complete => return None,
        Call::Extend => {
            row.locked_until = row.locked_until.map(|until| until.max(now + LEASE));
        }
        Call::Retry => {
            row.next_attempt_at = now + 1;
            row.locked_until = None;
        }
        Call::Release => {
            row.next_attempt_at = now;
            row.locked_until = None;
        }
        Call::Park => {
            row.parked = true;
            row.locked_until = None;
        }
    }
    Some(row)
}

impl Model for Protocol {
    type State = World;
    type Action = Step;

    fn init_states(&self) -> Vec<World> {
        let row = Row {
            claims: 0,
            next_attempt_at: 0,
            locked_until: None,
            parked: false,
        };
        vec![World {
            now: 0,
            rows: vec![Some(row); usize::from(self.rows)],
            leases: vec![None; usize::from(self.holders)],
            done: vec![false; usize::from(self.rows)],
            trespassed: false,
            returned: false,
        }]
    }

    fn actions(&self, world: &World, steps: &mut Vec<Step>) {
        if world.now < self.ticks {
            steps.push(Step::Tick);
        }
        for holder in 0..self.holders {
            for heard in [true, false] {
                steps.push(Step::Claim { holder, heard });
                if world.leases[usize::from(holder)].is_some() {
                    steps.extend(CALLS.map(|call| Step::Call {
                        holder,
                        call,
                        heard,
                    }));
                }
            }
            steps.push(Step::Crash { holder });
        }
        for row in 0..self.rows {
            steps.push(Step::Release { row });
            steps.push(Step::Unpark { row });
        }
    }

    fn next_state(&self, before: &World, step: Step) -> Option<World> {
        let mut world = before.clone();
        let changed = match step {
            Step::Tick => {
                world.now += 1;
                true
            }
            Step::Claim { holder, heard } => self.claim(&mut world, holder, heard),
            Step::Call {
                holder,
                call,
                heard,
            } => self.call(&mut world, holder, call, heard),
            Step::Crash { holder } => world.leases[usize::from(holder)].take().is_some(),
            Step::Release { row } => match &mut world.rows[usize::from(row)] {
                Some(row) => row.locked_until.take().is_some(),
                None => false,
            },
            Step::Unpark { row } => match &mut world.rows[usize::from(row)] {
                Some(row) if row.parked => {
                    row.parked = false;
                    row.next_attempt_at = before.now;
                    true
                }
                _ => false,
            },
        };
        let again = |(was, is): (&Option<Row>, &Option<Row>)| was.is_none() && is.is_some();
        world.returned |= before.rows.iter().zip(&world.rows).any(again);
        changed.then_some(world)
    }

    fn within_boundary(&self, world: &World) -> bool {
        let mut rows = world.rows.iter().flatten();
        rows.all(|row| row.claims <= self.claims)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("no row is lost", |_, world: &World| {
                let mut rows = world.rows.iter().zip(&world.done);
                rows.all(|(row, done)| row.is_some() || *done)
            }),
            Property::always("a lease has one owner", |model: &Self, world: &World| {
                (0..model.rows).all(|row| world.holders_of(row) <= 1)
            }),
            Property::always("a stale caller changes nothing", |_, world: &World| {
                !world.trespassed
            }),
            Property::always("a removed row never returns", |_, world: &World| {
                !world.returned
            }),
            Property::always("a lease ends", |_, world: &World| {
                let mut rows = world.rows.iter().flatten();
                // By the clock that is ahead.
                rows.all(|row| {
                    row.locked_until
                        .is_none_or(|until| until <= world.now + 1 + LEASE)
                })
            }),
            Property::always("a due row can be claimed", |model: &Self, world: &World| {
                let is_due = |row: &Row| row.is_due(world.now);
                let any_due = world.rows.iter().flatten().any(is_due);
                !any_due || model.claim(&mut world.clone(), 0, true)
            }),
            Property::sometimes("a row is done", |_, world: &World| {
                world.done.contains(&true)
            }),
            Property::sometimes("two believe that they hold a row", |_, world: &World| {
                let [Some(one), Some(other), ..] = world.leases[..] else {
                    return false;
                };
                one.row == other.row
            }),
        ]
    }
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct Checked {
    /// Different states.
    pub states: usize,
    /// Properties that do not hold, with the steps that show it.
    pub broken: Vec<(&'static str, String)>,
}

impl Protocol {
    /// Looks at every state.
    #[must_use]
    pub fn check(self) -> Checked {
        let checker = self.checker().threads(2).spawn_bfs().join();
        let properties = self.properties();
        let kind = |name: &str| {
            let found = properties.iter().find(|property| property.name == name);
            found.map(|property| property.expectation.clone())
        };
        let found = checker.discoveries();
        let mut broken: Vec<(&'static str, String)> = found
            .iter()
            .filter(|(name, _)| kind(name) == Some(stateright::Expectation::Always))
            .map(|(name, path)| {
                let steps = path.clone().into_actions();
                (*name, format!("{steps:?}"))
            })
            .collect();
        for property in &properties {
            if property.expectation == stateright::Expectation::Sometimes
                && !found.contains_key(property.name)
            {
                broken.push((property.name, "it never comes to that".to_owned()));
            }
        }
        broken.sort();
        Checked {
            states: checker.unique_state_count(),
            broken,
        }
    }
}

/// Small enough for every test run.
pub const SMALL: [Protocol; 2] = [
    Protocol {
        rows: 1,
        holders: 3,
        ticks: 4,
        claims: 3,
        fenced: true,
    },
    Protocol {
        rows: 2,
        holders: 2,
        ticks: 3,
        claims: 2,
        fenced: true,
    },
];

/// What takes a while.
pub const LARGE: [Protocol; 2] = [
    Protocol {
        rows: 1,
        holders: 3,
        ticks: 7,
        claims: 5,
        fenced: true,
    },
    Protocol {
        rows: 2,
        holders: 3,
        ticks: 3,
        claims: 2,
        fenced: true,
    },
];

/// Checks and prints; whether all is as it should be.
#[must_use]
pub fn show() -> bool {
    let mut whole = true;
    println!(
        "| rows | holders | ticks | claims of a row | fenced | states | properties that fail |"
    );
    println!("|--:|--:|--:|--:|---|--:|---|");
    for fenced in [true, false] {
        for protocol in SMALL.into_iter().chain(LARGE) {
            if !fenced && protocol.rows > 1 {
                continue;
            }
            let protocol = Protocol { fenced, ..protocol };
            let Checked { states, broken } = protocol.check();
            let names: Vec<&str> = broken.iter().map(|(name, _)| *name).collect();
            println!(
                "| {} | {} | {} | {} | {} | {states} | {} |",
                protocol.rows,
                protocol.holders,
                protocol.ticks,
                protocol.claims,
                if fenced { "yes" } else { "by id alone" },
                if names.is_empty() {
                    "none".to_owned()
                } else {
                    names.join(", ")
                },
            );
            for (name, steps) in &broken {
                eprintln!("{name}: {steps}");
            }
            whole &= fenced == broken.is_empty();
        }
    }
    whole
}
