#![doc = include_str!("../README.md")]

mod busy;
mod config;
mod connection;
mod database;
mod error;
mod group;
mod job;
mod migrate;
mod reader;
mod receipts;
mod row;
#[cfg(feature = "sqlx")]
mod sqlx_handle;
mod transaction;
mod undo;
mod writer;

pub use duebox_core::{self, *};
pub use rusqlite;
#[cfg(feature = "sqlx")]
pub use sqlx;

pub use self::config::{JournalMode, SqliteOptions};
pub use self::database::SqliteDatabase;
pub use self::receipts::SqliteReceipts;
#[cfg(feature = "sqlx")]
pub use self::sqlx_handle::{sqlx_erase_owner, sqlx_execute, sqlx_query};
pub use self::transaction::{erase_owner, execute, query};
