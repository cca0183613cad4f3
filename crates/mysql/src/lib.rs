#![doc = include_str!("../README.md")]

mod config;
mod database;
mod error;
mod migrate;
mod reruns;
mod row;
mod server;
mod session;
mod transaction;

pub use duebox_core::{self, *};
pub use sqlx;

pub use self::config::MySqlOptions;
pub use self::database::MySqlDatabase;
pub use self::transaction::{execute, query};
