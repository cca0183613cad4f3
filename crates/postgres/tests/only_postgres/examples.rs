//! The examples, as they were built beside this test.

use std::path::PathBuf;
use std::process::Command;

use crate::place::Place;

fn binary(name: &str) -> PathBuf {
    let test = std::env::current_exe().expect("this test's path");
    let target = test.ancestors().nth(2).expect("the directory of the build");
    target.join("examples").join(name)
}

pub(crate) fn unavailable() -> Option<String> {
    let built = ["own_deadpool", "own_sqlx_pool", "own_transaction"]
        .into_iter()
        .all(|name| binary(name).exists());
    (!built).then(|| "no examples: run `cargo test` without --test".into())
}

pub(crate) async fn all_of_them_run() {
    let place = Place::new().await;
    for name in ["own_deadpool", "own_sqlx_pool", "own_transaction"] {
        let output = Command::new(binary(name))
            .env("DATABASE_URL", place.url())
            .output()
            .expect(name);
        let (out, err) = (
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr),
        );
        assert!(output.status.success(), "{name}: {err}");
        assert!(out.ends_with("delivered 1\n"), "{name}: {out}");
    }
    assert_eq!(
        place.number("SELECT count(*) FROM example_account").await,
        3
    );
    assert_eq!(
        place.number("SELECT count(*) FROM example_welcomed").await,
        1
    );
    for table in ["example_deadpool", "example_sqlx", "example_transaction"] {
        assert_eq!(
            place.number(&format!("SELECT count(*) FROM {table}")).await,
            0,
            "{table}"
        );
    }
    place.close().await;
}
