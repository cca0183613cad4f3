//! What the shared suite cannot ask: that which MySQL and MariaDB do, and how
//! their sessions, locks, types and errors are met. Each test runs on every
//! server whose address is set.

#[path = "../common/mod.rs"]
mod common;

mod cancel;
mod failover;
mod failures;
mod locks;
mod login;
mod migrations;
mod outcomes;
mod pools;
mod proxy;
mod receipts;
mod settings;
mod sizes;
mod soak;
mod transactions;
mod values;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::process::ExitCode;
use std::sync::{PoisonError, RwLock};

use libtest_mimic::{Arguments, Failed, Trial};

use self::common::{SERVERS, Server};

type Run = fn(Server) -> Pin<Box<dyn Future<Output = ()> + Send>>;

struct Test {
    name: &'static str,
    run: Run,
    /// It changes the whole server for a while.
    alone: bool,
}

/// `tests!(chapter: one, another; alone: a_third)`
macro_rules! tests {
    ($chapter:ident: $($name:ident),* $(; alone: $($alone:ident),*)?) => {
        pub(crate) fn tests() -> Vec<crate::Test> {
            vec![
                $(crate::Test {
                    name: concat!(stringify!($chapter), "::", stringify!($name)),
                    run: |server| Box::pin($name(server)),
                    alone: false,
                },)*
                $($(crate::Test {
                    name: concat!(stringify!($chapter), "::", stringify!($alone)),
                    run: |server| Box::pin($alone(server)),
                    alone: true,
                },)*)?
            ]
        }
    };
}
pub(crate) use tests;

/// Held to read by every test, and to write by those that change a server.
static SERVER: RwLock<()> = RwLock::new(());

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let mut trials = Vec::new();
    for server in SERVERS {
        let chapters = [
            cancel::tests(),
            failover::tests(),
            failures::tests(),
            locks::tests(),
            login::tests(),
            migrations::tests(),
            outcomes::tests(),
            pools::tests(),
            receipts::tests(),
            settings::tests(),
            sizes::tests(),
            soak::tests(),
            transactions::tests(),
            values::tests(),
        ];
        for test in chapters.into_iter().flatten() {
            let name = format!("{}::{}", server.name, test.name);
            trials.push(match server.unavailable() {
                None => Trial::test(name, move || run(server, &test)),
                Some(why) if required => Trial::test(name, move || Err(Failed::from(why))),
                Some(why) => Trial::test(name, || Ok(()))
                    .with_kind(why)
                    .with_ignored_flag(true),
            });
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run(server: Server, test: &Test) -> Result<(), Failed> {
    // What a panic of another test left behind is for that one to report.
    let (_shared, _alone) = if test.alone {
        (
            None,
            Some(SERVER.write().unwrap_or_else(PoisonError::into_inner)),
        )
    } else {
        (
            Some(SERVER.read().unwrap_or_else(PoisonError::into_inner)),
            None,
        )
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()?;
    let outcome = catch_unwind(AssertUnwindSafe(|| runtime.block_on((test.run)(server))));
    runtime.shutdown_background();
    outcome.map_err(|panic| {
        let said = panic.downcast_ref::<String>().map(String::as_str);
        let said = said.or_else(|| panic.downcast_ref::<&str>().copied());
        Failed::from(said.unwrap_or("panicked"))
    })
}
