#![doc = include_str!("../README.md")]

mod clock;
mod config;
#[cfg(feature = "test-support")]
mod fake;
mod http;
mod pace;
mod receipts;
mod retry;
mod send;
mod wire;

pub use self::clock::{ExpoClock, SystemExpoClock};
pub use self::config::{ExpoConfigError, ExpoPush, ExpoPushBuilder};
#[cfg(feature = "test-support")]
pub use self::fake::{FakeExpo, FakeFault, FakeRequest, Spoil};
