//! What the sender and the receipt source promise, against the fake of the service;
//! that the fake and this client do as the official client does; and the whole life of
//! ten thousand messages, on SQLite always, on the others where
//! `DUEBOX_TEST_POSTGRES_URL`, `DUEBOX_TEST_MYSQL_URL` or `DUEBOX_TEST_MARIADB_URL`
//! names a server. A missing server is reported as ignored, and is a failure with
//! `DUEBOX_TEST_REQUIRE=all`.

mod answers;
mod faults;
mod life;
mod official;
mod property;
mod stage;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

/// Lists the tests of a file: `tests!(faults: first, second)`.
macro_rules! tests {
    ($chapter:ident: $($test:ident),+ $(,)?) => {
        pub(crate) const TESTS: &[(&str, fn())] = &[$((
            concat!(stringify!($chapter), "::", stringify!($test)),
            || $crate::stage::run($test()),
        )),+];
    };
}
pub(crate) use tests;

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let chapters = [
        answers::TESTS,
        faults::TESTS,
        property::TESTS,
        official::TESTS,
    ];
    let mut trials: Vec<Trial> = chapters
        .into_iter()
        .flatten()
        .map(|&(name, test)| {
            Trial::test(name, move || {
                test();
                Ok(())
            })
        })
        .collect();
    trials.push(match official::node() {
        Ok(node) => Trial::test(
            "official::the_client_does_as_the_golden_record_says",
            || {
                official::compare(node);
                Ok(())
            },
        ),
        Err(why) => Trial::test(
            "official::the_client_does_as_the_golden_record_says",
            || Ok(()),
        )
        .with_kind(why)
        .with_ignored_flag(true),
    });
    for engine in life::Engine::ALL {
        let name = format!(
            "{}::ten_thousand_messages_live_their_whole_life",
            engine.name()
        );
        trials.push(match engine.unavailable() {
            Some(why) if required => Trial::test(name, move || Err(Failed::from(why))),
            Some(why) => Trial::test(name, || Ok(()))
                .with_kind(why)
                .with_ignored_flag(true),
            None => Trial::test(name, move || {
                life::ten_thousand(engine);
                Ok(())
            }),
        });
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
