//! Short histories on every engine, and a look for marks: on SQLite always, on the others where
//! `DUEBOX_TEST_POSTGRES_URL`, `DUEBOX_TEST_MYSQL_URL` or
//! `DUEBOX_TEST_MARIADB_URL` names a server. A missing server is reported as
//! ignored, and is a failure with `DUEBOX_TEST_REQUIRE=all`.
//!
//! `scripts/test --soak MINUTES` plays many, and stops and kills servers of its
//! own in them.

use std::process::{Command, ExitCode};

use libtest_mimic::{Arguments, Failed, Trial};

const ENGINES: [(&str, Option<&str>); 4] = [
    ("sqlite", None),
    ("postgres", Some("DUEBOX_TEST_POSTGRES_URL")),
    ("mysql", Some("DUEBOX_TEST_MYSQL_URL")),
    ("mariadb", Some("DUEBOX_TEST_MARIADB_URL")),
];

/// The name of a test, the command that it runs, and how the last line of that
/// goes on after the engine.
const TESTS: [(&str, &[&str], &str); 2] = [
    (
        "histories_under_faults_keep_what_is_promised",
        &["histories", "--histories=2", "--millis=1000", "--seed=3"],
        "2 |",
    ),
    ("no_mark_is_seen_in_any_output", &["privacy"], ""),
];

/// Runs a command, and fails with what it prints.
fn play(arguments: &[&str], engine: &str, url: Option<&str>, begins: &str) -> Result<(), Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox-faults"));
    command.args(arguments).args(["--engine", engine]);
    if let Some(url) = url {
        command.args(["--url", url]);
    }
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}\n{said}{errors}", output.status).into());
    }
    let row = said.lines().last().unwrap_or_default();
    if row.starts_with(&format!("| {engine} | {begins}")) {
        return Ok(());
    }
    Err(format!("it prints no table:\n{said}").into())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let mut trials = Vec::new();
    for (engine, variable) in ENGINES {
        for (test, command, begins) in TESTS {
            let name = format!("{engine}::{test}");
            let url = variable.map(|name| std::env::var(name).unwrap_or_default());
            let missing = variable.filter(|_| url.as_deref() == Some(""));
            let why = missing.map(|variable| format!("no server: set {variable}"));
            trials.push(match why {
                Some(why) if required => Trial::test(name, || Err(Failed::from(why))),
                Some(why) => Trial::test(name, || Ok(()))
                    .with_kind(why)
                    .with_ignored_flag(true),
                None => Trial::test(name, move || play(command, engine, url.as_deref(), begins)),
            });
        }
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}
