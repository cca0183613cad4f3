use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use super::{ReceiptContext, ReceiptHarness, ReceiptHook, receipt_tests};

type Run = fn(Arc<ReceiptContext>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// One promise about push receipts, as a test that any store can run.
#[derive(Clone, Copy)]
pub struct ReceiptTest {
    pub(super) name: &'static str,
    pub(super) needs: Option<ReceiptHook>,
    pub(super) run: Run,
}

impl std::fmt::Debug for ReceiptTest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReceiptTest")
            .field("name", &self.name)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

impl ReceiptTest {
    /// The chapter and the promise: `taking::a_ticket_due_now_is_due`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The hook that it needs, if it needs one.
    #[must_use]
    pub fn needs(&self) -> Option<ReceiptHook> {
        self.needs
    }

    /// Runs the test against a new store of the harness.
    ///
    /// # Errors
    ///
    /// What the test says if the promise is broken.
    pub fn run(&self, harness: &dyn ReceiptHarness) -> Result<(), String> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime: {error}"))?;
        let body = async {
            let context = Arc::new(ReceiptContext::open(harness).await);
            (self.run)(Arc::clone(&context)).await;
            if let Some(context) = Arc::into_inner(context) {
                context.close().await;
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(body)));
        runtime.shutdown_background();
        outcome.map_err(|panic| {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            text.or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("panicked")
                .to_owned()
        })
    }
}

/// Runs the chapters about push receipts against each harness, with the
/// command line of a test binary. For a store without an outbox beside it; see
/// [`Harness::receipts`](crate::Harness::receipts) for one with.
#[must_use]
pub fn run_receipts(harnesses: Vec<Arc<dyn ReceiptHarness>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = harnesses
        .into_iter()
        .flat_map(|harness| trials(&harness))
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

pub(crate) fn trials(harness: &Arc<dyn ReceiptHarness>) -> Vec<Trial> {
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let trial = |test: ReceiptTest| {
        let name = format!("{}::receipts::{}", harness.name(), test.name);
        let missing = test.needs.filter(|hook| !harness.hooks().contains(hook));
        match (harness.unavailable(), missing) {
            (Some(why), _) if required => Trial::test(name, move || Err(Failed::from(why))),
            (Some(why), _) => skipped(name, why),
            (None, Some(hook)) => {
                skipped(name, format!("not run: the harness has no hook {hook:?}"))
            }
            (None, None) => {
                let harness = Arc::clone(harness);
                Trial::test(name, move || Ok(test.run(&*harness)?))
            }
        }
    };
    receipt_tests().into_iter().map(trial).collect()
}

/// The tests of a harness that has no receipts, none of which is run.
pub(crate) fn absent(harness: &str) -> Vec<Trial> {
    let trial = |test: ReceiptTest| {
        let name = format!("{harness}::receipts::{}", test.name);
        skipped(name, "not run: the harness has no receipts".to_owned())
    };
    receipt_tests().into_iter().map(trial).collect()
}

fn skipped(name: String, why: String) -> Trial {
    Trial::test(name, || Ok(()))
        .with_kind(why)
        .with_ignored_flag(true)
}
