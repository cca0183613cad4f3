//! The benchmark leaves nothing behind, however it ends.

use std::time::Duration;

use duebox_core::{Database, Dialect, Statement};

use crate::place::{Place, interrupt};

type Test = (&'static str, fn(&Place));

pub(crate) const TESTS: &[Test] = &[
    ("a_benchmark_has_figures_and_leaves_nothing", figures),
    ("an_interrupted_benchmark_leaves_nothing", interrupted),
    ("a_failed_benchmark_leaves_nothing", failed),
];

/// The tables of benchmarks.
async fn tables(db: &dyn Database) -> Vec<String> {
    let sql = match db.dialect() {
        Dialect::Sqlite => {
            "SELECT name FROM sqlite_master WHERE name LIKE 'duebox\\_bench%' ESCAPE '\\'"
        }
        Dialect::Postgres => {
            "SELECT relname::text AS name FROM pg_class WHERE relname LIKE 'duebox!_bench%' ESCAPE '!'"
        }
        _ => {
            "SELECT table_name AS name FROM information_schema.tables \
             WHERE table_schema = DATABASE() AND table_name LIKE 'duebox!_bench%' ESCAPE '!'"
        }
    };
    let rows = db.query(&Statement::new(sql)).await.expect("the catalog");
    rows.iter()
        .map(|row| row.get("name").expect("a name"))
        .filter(|name: &String| !name.ends_with("_due") && !name.contains("index"))
        .collect()
}

/// The table of the benchmark that runs, once there are rows in it.
fn running(place: &Place) -> String {
    place.with(async |db| {
        for _ in 0..3_000 {
            if let Some(name) = tables(db).await.into_iter().next() {
                let count = format!("SELECT COUNT(*) AS n FROM {name}");
                let rows = db.query(&Statement::new(count)).await;
                if rows.is_ok_and(|rows| rows[0].get::<i64>("n").is_ok_and(|n| n > 0)) {
                    return name;
                }
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        panic!("no benchmark has begun");
    })
}

#[track_caller]
fn nothing_is_left(place: &Place) {
    let left = place.with(async |db| tables(db).await);
    assert_eq!(left, Vec::<String>::new());
}

fn figures(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let answer = place.run(&["bench", "--rows", "90", "--batch", "7", "--json"]);
    let figures: serde_json::Value = serde_json::from_str(answer.coded(0)).expect("JSON");
    for part in ["enqueue", "drain"] {
        for way in ["duebox", "by_hand"] {
            let figures = &figures[part][way];
            for name in ["rows_per_second", "p50_ms", "p99_ms"] {
                let figure = figures[name].as_f64();
                assert!(
                    figure.is_some_and(|figure| figure > 0.0),
                    "{part} {way} {name}"
                );
            }
        }
        assert!(
            figures[part]["ratio"]
                .as_f64()
                .is_some_and(|ratio| ratio > 0.0)
        );
    }
    let table = place.run(&["bench", "--rows", "10"]);
    for word in ["rows/s", "ms p50", "ms p99", "by hand"] {
        assert!(table.coded(0).contains(word), "{table:?}");
    }
    nothing_is_left(place);
}

fn interrupted(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let child = place.spawn(&["bench", "--rows", "10000000"]);
    running(place);
    interrupt(&child);
    let done = child.wait_with_output().expect("its end");
    assert_eq!(done.status.code(), Some(130), "{done:?}");
    nothing_is_left(place);
}

fn failed(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let child = place.spawn(&["bench", "--rows", "10000000"]);
    let name = running(place);
    // Its columns are gone, and the table is not.
    let mut session = place.session();
    session.run(&format!(
        "ALTER TABLE {name} RENAME COLUMN topic TO subtopic"
    ));
    let done = child.wait_with_output().expect("its end");
    assert_eq!(done.status.code(), Some(3), "{done:?}");
    nothing_is_left(place);
}
