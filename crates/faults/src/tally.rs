//! How often each kind of fault struck.

use std::sync::atomic::{AtomicU64, Ordering};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// Bytes took long.
    Delayed,
    /// A connection ended before what was asked arrived.
    CutBefore,
    /// A connection ended when it was done, before the answer arrived.
    CutAfter,
    /// A connection was held half-open for longer than a lease.
    HeldOpen,
    /// A process was killed.
    Killed,
    /// A process stood still for longer than a lease.
    Stopped,
    /// A session was killed in the server.
    SessionKilled,
    /// The server was stopped in good order and started.
    Restarted,
    /// The server was killed and started.
    Crashed,
    /// The disk of the database was full.
    DiskFull,
    /// Another process held the lock of the file.
    LockHeld,
    /// A process had a wrong clock.
    WrongClock,
}

impl Fault {
    pub(crate) const ALL: [Self; 12] = [
        Self::Delayed,
        Self::CutBefore,
        Self::CutAfter,
        Self::HeldOpen,
        Self::Killed,
        Self::Stopped,
        Self::SessionKilled,
        Self::Restarted,
        Self::Crashed,
        Self::DiskFull,
        Self::LockHeld,
        Self::WrongClock,
    ];

    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Delayed => "delayed",
            Self::CutBefore => "cut before",
            Self::CutAfter => "cut after",
            Self::HeldOpen => "held open",
            Self::Killed => "kill -9",
            Self::Stopped => "stopped",
            Self::SessionKilled => "session",
            Self::Restarted => "restart",
            Self::Crashed => "crash",
            Self::DiskFull => "disk full",
            Self::LockHeld => "locked",
            Self::WrongClock => "clock",
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Tally([AtomicU64; Fault::ALL.len()]);

impl Tally {
    pub(crate) fn count(&self, fault: Fault) {
        self.0[fault as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn get(&self, fault: Fault) -> u64 {
        self.0[fault as usize].load(Ordering::Relaxed)
    }
}
