//! The chapters about push receipts: what any `PendingReceiptStore` promises,
//! that in memory included.
//!
//! A test is an async function of an `Arc<ReceiptContext>`, listed once in the
//! `chapter!` of its file; one that is not listed is dead code, which the lints
//! deny.

mod at_once;
mod cancelling;
mod context;
mod day;
mod deleting;
mod erasing;
mod failing;
mod handles;
mod harness;
mod instants;
mod locks;
mod plans;
mod polling;
mod programs;
mod provider;
mod purging;
mod recording;
mod round_trip;
mod run;
mod sizes;
mod taking;

pub use self::context::ReceiptContext;
pub use self::harness::{Change, ReceiptHarness, ReceiptHook, ReceiptQuery, ReceiptSandbox};
pub use self::run::{ReceiptTest, run_receipts};
pub(crate) use self::run::{absent, trials};

/// Lists a file's tests: `chapter!(taking: first, second; Hook => third)`,
/// where a hook is a variant of [`ReceiptHook`].
macro_rules! chapter {
    ($chapter:ident: $($test:ident),* $(,)? $(; $hook:ident => $($hooked:ident),+ $(,)?)*) => {
        pub(super) fn tests() -> Vec<$crate::ReceiptTest> {
            vec![
                $($crate::ReceiptTest {
                    name: concat!(stringify!($chapter), "::", stringify!($test)),
                    needs: None,
                    run: |context| Box::pin($test(context)),
                },)*
                $($($crate::ReceiptTest {
                    name: concat!(stringify!($chapter), "::", stringify!($hooked)),
                    needs: Some($crate::ReceiptHook::$hook),
                    run: |context| Box::pin($hooked(context)),
                },)+)*
            ]
        }
    };
}
use chapter;

/// All tests about push receipts, in the order of their chapters.
#[must_use]
pub fn receipt_tests() -> Vec<ReceiptTest> {
    [
        round_trip::tests(),
        recording::tests(),
        taking::tests(),
        deleting::tests(),
        purging::tests(),
        erasing::tests(),
        instants::tests(),
        sizes::tests(),
        handles::tests(),
        at_once::tests(),
        cancelling::tests(),
        failing::tests(),
        locks::tests(),
        plans::tests(),
        polling::tests(),
        programs::tests(),
        day::tests(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
