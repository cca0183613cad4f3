//! Every subcommand through the binary, on every engine: on SQLite always, on
//! the others where `DUEBOX_TEST_POSTGRES_URL`, `DUEBOX_TEST_MYSQL_URL` or
//! `DUEBOX_TEST_MARIADB_URL` names a server. A missing server is reported as
//! ignored, and is a failure with `DUEBOX_TEST_REQUIRE=all`.

mod place;
mod rows;
mod shell;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

use self::place::{ENGINES, Place};

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
    for (engine, variable) in ENGINES {
        let url = variable.map(|name| std::env::var(name).unwrap_or_default());
        for &(name, test) in rows::TESTS {
            let full = format!("{engine}::{name}");
            let url = url.clone();
            trials.push(match url.as_deref() {
                Some("") if required => {
                    Trial::test(full, || Err(Failed::from("no server is named")))
                }
                Some("") => Trial::test(full, || Ok(())).with_ignored_flag(true),
                _ => Trial::test(full, move || {
                    test(&Place::new(url));
                    Ok(())
                }),
            });
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
