//! The processes of a history.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};

use crate::place::Place;
use crate::plan::Cast;
use crate::role::Role;
use crate::server::Fallible;

pub(crate) struct Troupe {
    place: Place,
    journals: PathBuf,
    full: Option<PathBuf>,
    seed: u64,
    actors: Vec<Actor>,
}

struct Actor {
    cast: Cast,
    /// How often it was started anew.
    lives: u64,
    child: Child,
}

/// Enough for a worker to shut down and for the last call to be given up.
const GRACE: Duration = Duration::from_mins(1);

impl Troupe {
    pub(crate) fn start(
        place: Place,
        journals: PathBuf,
        full: Option<PathBuf>,
        seed: u64,
        cast: &[Cast],
    ) -> Fallible<Self> {
        let mut troupe = Self {
            place,
            journals,
            full,
            seed,
            actors: Vec::new(),
        };
        for (number, cast) in cast.iter().enumerate() {
            let child = troupe.spawn(number, *cast, 0)?;
            troupe.actors.push(Actor {
                cast: *cast,
                lives: 0,
                child,
            });
        }
        Ok(troupe)
    }

    fn spawn(&self, number: usize, cast: Cast, lives: u64) -> Fallible<Child> {
        let name = format!("{}{number}g{lives}", cast.role.name());
        let seed = self.seed ^ (u64::try_from(number)? << 32) ^ (lives << 48);
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("process")
            .arg(cast.role.name())
            .args(["--engine", self.place.engine.name()])
            .args(["--url", &self.place.url])
            .args(["--table", &self.place.table])
            .args(["--name", &name])
            .args(["--seed", &seed.to_string()])
            .args(["--skew-ms", &cast.skew_ms.to_string()])
            .arg("--journals")
            .arg(&self.journals);
        if let Some(full) = &self.full {
            command.arg("--full").arg(full);
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .kill_on_drop(true)
            .spawn()?;
        Ok(child)
    }

    fn signal(&self, number: usize, signal: Signal) -> bool {
        let pid = self.actors[number].child.id();
        let pid = pid.and_then(|pid| i32::try_from(pid).ok());
        pid.and_then(Pid::from_raw)
            .is_some_and(|pid| kill_process(pid, signal).is_ok())
    }

    /// Kills it and starts it anew.
    pub(crate) async fn kill(&mut self, number: usize) -> Fallible<()> {
        self.actors[number].child.kill().await?;
        self.actors[number].lives += 1;
        let (cast, lives) = (self.actors[number].cast, self.actors[number].lives);
        self.actors[number].child = self.spawn(number, cast, lives)?;
        Ok(())
    }

    pub(crate) fn stand_still(&self, number: usize) -> bool {
        self.signal(number, Signal::STOP)
    }

    pub(crate) fn go_on(&self, number: usize) {
        self.signal(number, Signal::CONT);
    }

    /// Tells those of some roles to stop and waits until they have; names
    /// those that did not.
    pub(crate) async fn dismiss(&mut self, leaves: impl Fn(Role) -> bool) -> Vec<String> {
        let mut stuck = Vec::new();
        for actor in &mut self.actors {
            if leaves(actor.cast.role) {
                drop(actor.child.stdin.take());
            }
        }
        for (number, actor) in self.actors.iter_mut().enumerate() {
            if !leaves(actor.cast.role) {
                continue;
            }
            let name = format!("{}{number}", actor.cast.role.name());
            match tokio::time::timeout(GRACE, actor.child.wait()).await {
                Ok(Ok(status)) if status.success() => {}
                Ok(Ok(status)) => stuck.push(format!("{name} ended with {status}")),
                Ok(Err(error)) => stuck.push(format!("{name}: {error}")),
                Err(_) => {
                    stuck.push(format!("{name} did not end"));
                    // Whether it could be killed shows in no result.
                    let _ = actor.child.kill().await;
                }
            }
        }
        stuck
    }
}
