#![doc = include_str!("../README.md")]

mod batch;
mod bind;
mod checkout;
mod client;
mod config;
mod connect;
mod database;
mod error;
mod migrate;
mod pipeline;
mod plans;
mod receipts;
mod retry;
mod row;
mod runner;
mod server;
mod session;
#[cfg(feature = "sqlx")]
mod sqlx_bind;
#[cfg(feature = "sqlx")]
mod sqlx_client;
#[cfg(feature = "sqlx")]
mod sqlx_database;
#[cfg(feature = "sqlx")]
mod sqlx_handle;
mod tls;
mod transaction;
mod types;
mod url;
mod wake;

pub use deadpool_postgres;
pub use duebox_core::{self, *};
#[cfg(feature = "sqlx")]
pub use sqlx;
pub use tokio_postgres;

pub use self::config::PostgresOptions;
pub use self::database::PostgresDatabase;
pub use self::receipts::PostgresReceipts;
#[cfg(feature = "sqlx")]
pub use self::receipts::SqlxPostgresReceipts;
#[cfg(feature = "sqlx")]
pub use self::sqlx_database::SqlxPostgresDatabase;
pub use self::transaction::{Handle, erase_owner, execute, query};
pub use self::wake::{PostgresWakeSink, PostgresWakeSource};
