#![doc = include_str!("../README.md")]

mod clock;
mod config;
mod http;
mod pace;
mod receipts;
mod retry;
mod send;
mod wire;

pub use self::clock::{ExpoClock, SystemExpoClock};
pub use self::config::{ExpoConfigError, ExpoPush, ExpoPushBuilder};
