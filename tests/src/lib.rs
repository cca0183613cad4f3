#![doc = include_str!("../README.md")]

mod broken;
mod chapters;
mod context;
mod harness;
mod listener;
mod random;
mod receipts;
mod recording;
mod run;
mod unreliable;

pub use self::broken::{Broken, broken};
pub use self::context::Context;
pub use self::harness::{Harness, Hook, Plan, Sandbox, Schema};
pub use self::listener::Listener;
pub use self::receipts::{
    Change, ReceiptContext, ReceiptHarness, ReceiptHook, ReceiptQuery, ReceiptSandbox, ReceiptTest,
    receipt_tests, run_receipts,
};
pub use self::run::{Test, run, tests};
pub use self::unreliable::Unreliable;

/// Makes a test binary's `main` of one or more harnesses:
/// `duebox_conformance::main!(MyHarness, AnotherHarness);`
///
/// The binary needs `harness = false` in its `[[test]]` section.
#[macro_export]
macro_rules! main {
    ($($harness:expr),+ $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            $crate::run(::std::vec![$(::std::sync::Arc::new($harness)),+])
        }
    };
}
