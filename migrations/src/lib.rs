#![doc = include_str!("../README.md")]

mod bookkeeping;
mod files;
mod migration;
mod split;

pub use bookkeeping::{
    BOOKKEEPING_APPLIED, BOOKKEEPING_CREATE, BOOKKEEPING_RECORD, BOOKKEEPING_TABLE, Lock, lock,
};
pub use files::{all, outbox, receipts};
pub use migration::Migration;
pub use split::split;
