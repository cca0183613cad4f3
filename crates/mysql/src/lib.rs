#![doc = include_str!("../README.md")]

mod config;
mod database;
mod error;
mod migrate;
mod receipts;
mod reruns;
mod row;
mod server;
mod session;
mod transaction;
mod url;

pub use duebox_core::{self, *};
pub use sqlx;

pub use self::config::MySqlOptions;
pub use self::database::MySqlDatabase;
pub use self::receipts::MySqlReceipts;
pub use self::transaction::{erase_owner, execute, query};
