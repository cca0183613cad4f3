use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::{Context, Harness, Hook, Schema, broken, chapters, receipts};

type Run = fn(Arc<Context>) -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// One promise, as a test that any adapter can run.
#[derive(Clone, Copy)]
pub struct Test {
    pub(crate) name: &'static str,
    pub(crate) needs: Option<Hook>,
    pub(crate) run: Run,
}

impl std::fmt::Debug for Test {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Test")
            .field("name", &self.name)
            .field("needs", &self.needs)
            .finish_non_exhaustive()
    }
}

impl Test {
    /// The chapter and the promise: `lease::a_lease_ends_at_lease_until`.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Runs the test against a new database of the harness.
    ///
    /// # Errors
    ///
    /// What the test says if the promise is broken.
    pub fn run(&self, harness: &dyn Harness, schema: Schema) -> Result<(), String> {
        let quiet = broken::is_quiet();
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .on_thread_start(move || broken::set_quiet(quiet))
            .enable_all()
            .build()
            .map_err(|error| format!("no runtime: {error}"))?;
        let test = async {
            let context = Arc::new(Context::open(harness, schema).await);
            (self.run)(Arc::clone(&context)).await;
            if let Some(context) = Arc::into_inner(context) {
                context.close().await;
            }
        };
        let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on(test)));
        runtime.shutdown_background();
        outcome.map_err(|panic| {
            let said = panic.downcast_ref::<String>().map(String::as_str);
            said.or_else(|| panic.downcast_ref::<&str>().copied())
                .unwrap_or("panicked")
                .to_owned()
        })
    }
}

/// All tests of the suite, in the order of its chapters.
#[must_use]
pub fn tests() -> Vec<Test> {
    chapters::all()
}

/// Runs the whole suite against each harness, with the command line of a test
/// binary; see [`main!`](crate::main).
#[must_use]
pub fn run(harnesses: Vec<Arc<dyn Harness>>) -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = harnesses
        .into_iter()
        .flat_map(|harness| {
            let receipts = match harness.receipts() {
                Some(harness) => receipts::trials(&harness),
                None => receipts::absent(&harness.name()),
            };
            let broken = if harness.checks_suite() && harness.unavailable().is_none() {
                broken::trials(&harness)
            } else {
                Vec::new()
            };
            trials(&harness).into_iter().chain(receipts).chain(broken)
        })
        .collect();
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(harness: &Arc<dyn Harness>) -> Vec<Trial> {
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let mut trials = Vec::new();
    for schema in Schema::ALL {
        for test in tests() {
            let name = format!("{}::{}::{}", harness.name(), schema.name(), test.name);
            let missing = test.needs.filter(|hook| !harness.hooks().contains(hook));
            let trial = match (harness.unavailable(), missing) {
                (Some(why), _) if required => Trial::test(name, move || Err(Failed::from(why))),
                (Some(why), _) => Trial::test(name, || Ok(()))
                    .with_kind(why)
                    .with_ignored_flag(true),
                (None, Some(hook)) => Trial::test(name, || Ok(()))
                    .with_kind(format!("not run: the harness has no hook {hook:?}"))
                    .with_ignored_flag(true),
                (None, None) => {
                    let harness = Arc::clone(harness);
                    Trial::test(name, move || Ok(test.run(&*harness, schema)?))
                }
            };
            trials.push(trial);
        }
    }
    trials
}
