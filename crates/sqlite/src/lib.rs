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
mod transaction;
mod undo;
mod writer;

pub use duebox_core::{self, *};
pub use rusqlite;

pub use self::config::{JournalMode, SqliteOptions};
pub use self::database::SqliteDatabase;
pub use self::receipts::SqliteReceipts;
pub use self::transaction::{erase_owner, execute, query};
