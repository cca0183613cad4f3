#![doc = include_str!("../README.md")]

mod batch;
mod bind;
mod checkout;
mod client;
mod config;
mod database;
mod error;
mod migrate;
mod pipeline;
mod retry;
mod row;
mod server;
mod session;
mod tls;
mod transaction;
mod types;
mod url;

pub use deadpool_postgres;
pub use duebox_core::{self, *};
pub use tokio_postgres;

pub use self::config::PostgresOptions;
pub use self::database::PostgresDatabase;
pub use self::transaction::{Handle, execute, query};
