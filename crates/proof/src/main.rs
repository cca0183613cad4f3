#![doc = include_str!("../README.md")]

use std::process::ExitCode;
use std::time::Duration;

use duebox_proof::fuzz::{TARGETS, Target};
use duebox_proof::model;
use lexopt::prelude::*;

const HELP: &str = "\
duebox-proof model                   check the lease protocol whole, and show that it
                                     fails where rows are completed by their id alone
duebox-proof fuzz [TARGET...] [OPTIONS]
                                     look at texts made at random
  --minutes N   of each target (1)
  --seed N      repeat a run
";

type Fallible<T> = Result<T, Box<dyn std::error::Error + Send + Sync>>;

fn main() -> ExitCode {
    match run() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("duebox-proof: {error}\n\n{HELP}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Fallible<bool> {
    let mut parser = lexopt::Parser::from_env();
    let (mut command, mut targets) = (None, Vec::new());
    let (mut minutes, mut seed) = (1, fastrand::u64(..));
    while let Some(argument) = parser.next()? {
        match argument {
            Short('h') | Long("help") => {
                print!("{HELP}");
                return Ok(true);
            }
            Long("minutes") => minutes = parser.value()?.parse()?,
            Long("seed") => seed = parser.value()?.parse()?,
            Value(word) if command.is_none() => command = Some(word.string()?),
            Value(word) => {
                let name = word.string()?;
                let target = Target::named(&name);
                targets.push(target.ok_or_else(|| format!("there is no target {name}"))?);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    match command.as_deref() {
        Some("model") => Ok(model::show()),
        Some("fuzz") => {
            if targets.is_empty() {
                targets = TARGETS.to_vec();
            }
            fuzz(&targets, seed, Duration::from_mins(minutes))
        }
        _ => Err("say model or fuzz".into()),
    }
}

fn fuzz(targets: &[Target], seed: u64, time: Duration) -> Fallible<bool> {
    let mut whole = true;
    println!("| target | texts | seconds | findings |\n|---|--:|--:|--:|");
    for target in targets {
        let seconds = time.as_secs();
        match target.run(seed, u64::MAX, time)? {
            Ok(texts) => println!("| {} | {texts} | {seconds} | 0 |", target.name),
            Err(found) => {
                whole = false;
                println!("| {} | | | 1 |", target.name);
                eprintln!("seed {seed}: {}: {:?}", found.why, found.text);
                let path = target.folder().join(format!("found-{seed:016x}"));
                std::fs::write(path, found.text)?;
            }
        }
    }
    Ok(whole)
}
