//! A short history on every engine: on SQLite always, on the others where
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

/// Plays two histories, and fails with what they print.
fn play(engine: &str, url: Option<&str>) -> Result<(), Failed> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox-faults"));
    command.args(["histories", "--engine", engine]).args([
        "--histories",
        "2",
        "--millis",
        "1000",
        "--seed",
        "3",
    ]);
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
    if row.starts_with(&format!("| {engine} | 2 | ")) {
        return Ok(());
    }
    Err(format!("it prints no table:\n{said}").into())
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let trials = ENGINES.map(|(engine, variable)| {
        let url = variable.map(|name| std::env::var(name).unwrap_or_default());
        let name = format!("{engine}::histories_under_faults_keep_what_is_promised");
        match (variable, url) {
            (Some(variable), Some(url)) if url.is_empty() => {
                let why = format!("no server: set {variable}");
                if required {
                    Trial::test(name, || Err(Failed::from(why)))
                } else {
                    Trial::test(name, || Ok(()))
                        .with_kind(why)
                        .with_ignored_flag(true)
                }
            }
            (_, url) => Trial::test(name, move || play(engine, url.as_deref())),
        }
    });
    libtest_mimic::run(&arguments, trials.into()).exit_code()
}
