//! Every subcommand through the binary, on every engine: on SQLite always, on
//! the others where `DUEBOX_TEST_POSTGRES_URL`, `DUEBOX_TEST_MYSQL_URL` or
//! `DUEBOX_TEST_MARIADB_URL` names a server. A missing server is reported as
//! ignored, and is a failure with `DUEBOX_TEST_REQUIRE=all`.

mod bench;
mod deliver;
mod drill;
mod enqueue;
mod place;
mod rows;
mod server;
mod session;
mod shell;
mod tools;
mod verifier;

use std::process::ExitCode;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use libtest_mimic::{Arguments, Failed, Trial};

use self::place::{ENGINES, Place};

/// Held for a test's time: some change the whole server, and run alone.
static SERVERS: RwLock<()> = RwLock::new(());

enum Hold {
    Alone(#[expect(dead_code, reason = "it is held")] RwLockWriteGuard<'static, ()>),
    Beside(#[expect(dead_code, reason = "it is held")] RwLockReadGuard<'static, ()>),
}

impl Hold {
    fn new(alone: bool) -> Self {
        // A test that failed has broken nothing of the others.
        if alone {
            Self::Alone(SERVERS.write().unwrap_or_else(PoisonError::into_inner))
        } else {
            Self::Beside(SERVERS.read().unwrap_or_else(PoisonError::into_inner))
        }
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let mut trials: Vec<Trial> = shell::TESTS
        .iter()
        .map(|&(name, test)| {
            Trial::test(name, move || {
                test();
                Ok(())
            })
        })
        .collect();
    let checker = verifier::is_here();
    for (engine, variable) in ENGINES {
        let url = variable.map(|name| std::env::var(name).unwrap_or_default());
        let alone = drill::ALONE.iter().map(|test| (test, true));
        let beside = [
            rows::TESTS,
            drill::TESTS,
            tools::TESTS,
            enqueue::TESTS,
            deliver::TESTS,
            bench::TESTS,
        ];
        let beside = beside.into_iter().flatten();
        let verified = std::iter::once(&deliver::VERIFIED);
        let tests = beside
            .chain(verified)
            .map(|test| (test, false))
            .chain(alone);
        for (&(name, test), alone) in tests {
            let full = format!("{engine}::{name}");
            let url = url.clone();
            let not_run = name == deliver::VERIFIED.0 && !checker;
            trials.push(match url.as_deref() {
                _ if not_run => Trial::test(full, || Ok(())).with_ignored_flag(true),
                Some("") if required => {
                    Trial::test(full, || Err(Failed::from("no server is named")))
                }
                Some("") => Trial::test(full, || Ok(())).with_ignored_flag(true),
                _ => Trial::test(full, move || {
                    let _held = Hold::new(alone);
                    test(&Place::new(url));
                    Ok(())
                }),
            });
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
