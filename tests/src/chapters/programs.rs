//! Programs of all calls at random, against a plain reference.

mod real;
mod reference;
mod step;

use std::sync::Arc;

use duebox_core::Statement;

use self::reference::Reference;
use self::step::{Step, program};
use super::chapter;
use crate::Context;
use crate::random::{Random, seeds};

chapter!(programs:
    programs_of_all_calls_are_answered_as_the_reference_answers,
);

/// What is run where nobody asks for more, on each of two tables.
const USUAL: u64 = 50;

async fn programs_of_all_calls_are_answered_as_the_reference_answers(cx: Arc<Context>) {
    let (mut programs, mut calls) = (0_u64, 0_u64);
    for seed in seeds(USUAL) {
        let steps = program(&mut Random::new(seed));
        programs += 1;
        calls += steps.len() as u64;
        if let Err(why) = run(&cx, &steps).await {
            let (steps, why) = shorten(&cx, steps, why).await;
            panic!("DUEBOX_TEST_PROGRAMS_SEED={seed}: {why}\n{steps:#?}");
        }
    }
    if programs > USUAL {
        println!("{programs} programs of {calls} calls, no violation");
    }
}

/// Leaves out steps for as long as the rest fails.
async fn shorten(cx: &Context, mut steps: Vec<Step>, mut why: String) -> (Vec<Step>, String) {
    let mut place = 0;
    while place < steps.len() {
        let mut fewer = steps.clone();
        fewer.remove(place);
        match run(cx, &fewer).await {
            Err(still) => (steps, why) = (fewer, still),
            Ok(()) => place += 1,
        }
    }
    (steps, why)
}

/// Runs a program; an error says where the two differ. A server that a busy
/// machine keeps from answering in time is asked once more from the start.
async fn run(cx: &Context, steps: &[Step]) -> Result<(), String> {
    match run_once(cx, steps).await {
        Err(why) if why.contains(real::AWAY) => run_once(cx, steps).await,
        outcome => outcome,
    }
}

async fn run_once(cx: &Context, steps: &[Step]) -> Result<(), String> {
    let all = Statement::new("DELETE FROM outbox");
    cx.db.execute(&all).await.expect("an empty outbox");
    let (mut reference, mut real) = (Reference::default(), real::Real::new(cx));
    for (place, step) in steps.iter().enumerate() {
        let (answer, expected) = (real.run(step).await, reference.run(step));
        if answer != expected {
            return Err(format!("step {place}: {answer} is not {expected}"));
        }
        if step.writes() {
            let (content, expected) = (real.content().await, reference.content());
            if content != expected {
                return Err(format!("after step {place}: {content} is not {expected}"));
            }
        }
    }
    Ok(())
}
