//! What a worker promises, on every engine: on SQLite always, on the others
//! where `DUEBOX_TEST_POSTGRES_URL`, `DUEBOX_TEST_MYSQL_URL` or
//! `DUEBOX_TEST_MARIADB_URL` names a server. A missing server is reported as
//! ignored, and is a failure with `DUEBOX_TEST_REQUIRE=all`.
//!
//! Time is a [`ManualClock`](duebox_worker::ManualClock), so no test sleeps;
//! tests end by what their handlers report.

mod away;
mod failing;
mod kill;
mod leases;
mod place;
mod poison;
mod running;
mod stage;
mod stopping;
mod telemetry;
mod wake;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use self::place::Engine;

pub(crate) type Test = (&'static str, fn(Engine) -> Result<(), String>);

/// Lists the tests of a file: `chapter!(running: first, second)`.
macro_rules! chapter {
    ($chapter:ident: $($test:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[crate::Test] = &[$((
            concat!(stringify!($chapter), "::", stringify!($test)),
            |engine| crate::stage::run(engine, $test),
        )),+];
    };
}
pub(crate) use chapter;

fn main() -> ExitCode {
    if let Some(code) = kill::child() {
        return code;
    }
    let arguments = Arguments::from_args();
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let chapters = [
        running::TESTS,
        failing::TESTS,
        leases::TESTS,
        stopping::TESTS,
        poison::TESTS,
        away::TESTS,
        kill::TESTS,
        telemetry::TESTS,
    ];
    let mut trials = Vec::new();
    for engine in Engine::ALL {
        let own = match engine {
            Engine::Postgres => wake::POSTGRES,
            _ => &[],
        };
        for &(name, test) in chapters.into_iter().chain([wake::TESTS, own]).flatten() {
            let name = format!("{}::{name}", engine.name());
            let trial = match engine.unavailable() {
                Some(why) if required => Trial::test(name, move || Err(Failed::from(why))),
                Some(why) => Trial::test(name, || Ok(()))
                    .with_kind(why)
                    .with_ignored_flag(true),
                None => Trial::test(name, move || Ok(test(engine)?)),
            };
            trials.push(trial);
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
