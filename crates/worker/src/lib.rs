#![doc = include_str!("../README.md")]

mod alone;
mod backoff;
mod builder;
mod claims;
mod clock;
mod completer;
mod db;
mod engine;
mod handler;
mod held;
mod job;
mod keeper;
mod outcome;
mod pace;
mod receipts;
mod run;
mod sampler;
mod shared;
mod supervisor;
mod suspect;
mod telemetry;
pub mod testing;
mod wake;
mod worker;

pub use duebox_core;
pub use metrics;
pub use tokio_util::sync::CancellationToken;

pub use self::alone::Isolation;
pub use self::backoff::Backoff;
pub use self::builder::WorkerBuilder;
pub use self::clock::{Clock, ManualClock};
pub use self::handler::Handler;
#[cfg(feature = "json")]
pub use self::handler::NotJson;
pub use self::job::Job;
pub use self::outcome::{IntoOutcome, Outcome};
pub use self::receipts::{ReceiptPoller, ReceiptPollerBuilder};
pub use self::wake::Nudger;
pub use self::worker::{Health, Stopped, Worker, WorkerError};
