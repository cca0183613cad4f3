//! Who may run beside whom: a suspect row runs with nothing beside it.

use std::sync::{Arc, LazyLock};

use tokio::sync::watch;

/// How far a row that is suspected of killing its process runs alone.
///
/// Such a row was claimed at least three times, and twice or more the holder
/// died or stood still. It then runs with nothing beside it, so that if its
/// process dies again it is known which row did it; that row is parked, and the
/// others of the batch are not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Isolation {
    /// Nothing else runs in this process, whatever worker of it claimed it.
    #[default]
    Process,
    /// Nothing else runs in this worker. Another worker of the process may
    /// kill it meanwhile, and an innocent row is parked: for tests, and where
    /// two workers must not hold each other up.
    Worker,
}

#[derive(Clone)]
pub(crate) struct Gate(Arc<watch::Sender<State>>);

#[derive(Clone, Copy, Default)]
struct State {
    /// Workers with ordinary handlers running.
    crowds: usize,
    /// Suspects that wait until those have ended.
    wanting: usize,
    /// Whether a suspect is running.
    alone: bool,
}

static PROCESS: LazyLock<Gate> = LazyLock::new(Gate::new);

impl Gate {
    fn new() -> Self {
        Self(Arc::new(watch::Sender::new(State::default())))
    }

    pub(crate) fn of(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Process => PROCESS.clone(),
            Isolation::Worker => Self::new(),
        }
    }

    /// Tells of changes that may let somebody in.
    pub(crate) fn changes(&self) -> Changes {
        Changes(self.0.subscribe())
    }

    /// Whether ordinary handlers must not be started now.
    pub(crate) fn is_wanted(&self) -> bool {
        let state = self.0.borrow();
        state.wanting > 0 || state.alone
    }

    /// Lets ordinary handlers of one worker run, unless a suspect runs or
    /// waits.
    pub(crate) fn join(&self) -> Option<Crowd> {
        let joined = self.0.send_if_modified(|state| {
            let free = state.wanting == 0 && !state.alone;
            state.crowds += usize::from(free);
            free
        });
        joined.then(|| Crowd(self.clone()))
    }

    /// Keeps ordinary handlers from being started until a suspect has run.
    pub(crate) fn want(&self) -> Wanting {
        self.0.send_modify(|state| state.wanting += 1);
        Wanting(self.clone())
    }
}

pub(crate) struct Changes(watch::Receiver<State>);

impl Changes {
    pub(crate) async fn next(&mut self) {
        // The sender is in the gate of whoever waits.
        let _ = self.0.changed().await;
    }
}

/// While it is there no suspect runs.
pub(crate) struct Crowd(Gate);

impl Drop for Crowd {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.crowds -= 1);
    }
}

/// A suspect's place in the queue.
pub(crate) struct Wanting(Gate);

impl Wanting {
    /// Waits until nothing else runs.
    pub(crate) async fn granted(self) -> Alone {
        let mut changes = self.0.0.subscribe();
        loop {
            // The sender is in the gate that we hold.
            let _ = changes
                .wait_for(|state| state.crowds == 0 && !state.alone)
                .await;
            let granted = self.0.0.send_if_modified(|state| {
                let free = state.crowds == 0 && !state.alone;
                state.alone |= free;
                free
            });
            if granted {
                return Alone(self.0.clone());
            }
        }
    }
}

impl Drop for Wanting {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.wanting -= 1);
    }
}

/// While it is there nothing else runs.
pub(crate) struct Alone(Gate);

impl Drop for Alone {
    fn drop(&mut self) {
        self.0.0.send_modify(|state| state.alone = false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_suspect_waits_for_the_crowd_and_the_crowd_for_it() {
        let gate = Gate::new();
        let crowd = gate.join().expect("nothing is wanted");
        let wanting = gate.want();
        assert!(gate.is_wanted());
        assert!(gate.join().is_none(), "a suspect waits");
        let mut granted = std::pin::pin!(wanting.granted());
        tokio::select! {
            biased;
            _ = &mut granted => panic!("beside a crowd"),
            () = std::future::ready(()) => {}
        }
        drop(crowd);
        let alone = granted.await;
        assert!(gate.join().is_none(), "a suspect runs");
        drop(alone);
        assert!(!gate.is_wanted());
        assert!(gate.join().is_some());
    }

    #[tokio::test]
    async fn suspects_run_one_at_a_time() {
        let gate = Gate::new();
        let first = gate.want().granted().await;
        let mut second = std::pin::pin!(gate.want().granted());
        tokio::select! {
            biased;
            _ = &mut second => panic!("two at a time"),
            () = std::future::ready(()) => {}
        }
        drop(first);
        second.await;
    }
}
