//! Connections that are lost, and a server that goes away and comes back.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use duebox_postgres::{Database, Kind, Outbox, Outcome, Statement};
use tokio::sync::watch;

use crate::place::{Place, at, every_way, sqlx_at, tokio_at};
use crate::proxy::Proxy;

/// After so long a test fails instead of waiting on. It measures nothing.
const PATIENCE: Duration = Duration::from_mins(2);

/// Between two calls: nothing of it is seen, or one call fails and the next works.
pub(crate) async fn a_cut_connection_is_replaced() {
    let place = Place::new().await;
    place.make_outbox().await;
    let outbox = Outbox::new("outbox");
    for (name, db) in every_way(&place.url(), 2).await {
        for round in 0..5 {
            db.now().await.expect("a time");
            place.cut().await;
            let enqueue = outbox.enqueue_statement(
                &format!("{name}-{round}").replace([' ', ','], ""),
                "t",
                "",
                None,
                &at(0),
            );
            let mut answer = db.execute(&enqueue).await;
            for _ in 0..3 {
                match &answer {
                    Ok(_) => break,
                    Err(error) => assert_eq!(error.kind(), Kind::Unavailable, "{name}: {error}"),
                }
                answer = db.execute(&enqueue).await;
            }
            answer.unwrap_or_else(|error| panic!("{name}: {error}"));
        }
    }
    place.close().await;
}

/// In the middle of a statement: the answer is an error, in time, and its outcome
/// open.
pub(crate) async fn a_statement_that_is_cut_off_is_unknown() {
    let place = Place::new().await;
    for (name, db) in every_way(&place.url(), 2).await {
        let cut = async {
            place.sleeping(1).await;
            place.cut().await;
        };
        let (answer, ()) = tokio::join!(
            async {
                db.query(&Statement::new("SELECT 1 AS one FROM pg_sleep(600)"))
                    .await
            },
            cut
        );
        let error = answer.expect_err("it was cut off");
        assert_eq!(error.kind(), Kind::Unavailable, "{name}: {error}");
        // What runs in a transaction that was not committed is certain.
        let expected = if name == "sqlx, unprepared" {
            Outcome::NotApplied
        } else {
            Outcome::Unknown
        };
        assert_eq!(error.outcome(), expected, "{name}: {error}");
        db.now().await.expect("another connection");
    }
    place.close().await;
}

/// The claim was done and its answer lost: the rows come back at the end of the
/// lease, counted once.
pub(crate) async fn a_lost_claim_comes_back() {
    let place = Place::new().await;
    place.make_outbox().await;
    place.fill(10).await;
    let outbox = Outbox::new("outbox");
    for way in 0..4 {
        let proxy = Proxy::new(Duration::from_millis(5)).await;
        let (name, db) = every_way(&proxy.url(&place.url()), 1)
            .await
            .swap_remove(way);
        let start = 100 * u32::try_from(way).unwrap();
        // So that the statement is prepared, and all of it is one message.
        assert!(
            outbox
                .claim_due(&*db, "2026-02-01T00:00:00Z", "2026-02-01T00:00:01Z", 1)
                .await
                .expect("claim")
                .is_empty()
        );
        let lose = async {
            // The trigger keeps the claim from ending before its answer is lost.
            place.sleeping(1).await;
            proxy.mute(true);
            place.sleeping(0).await;
            // What the server says next is on its way, and gets no further.
            tokio::time::sleep(Duration::from_millis(100)).await;
            proxy.cut();
            proxy.mute(false);
        };
        place
            .run(
                "CREATE OR REPLACE FUNCTION slowly() RETURNS trigger LANGUAGE plpgsql
                     AS $$ BEGIN PERFORM pg_sleep(1); RETURN NULL; END $$;
                 CREATE TRIGGER slowly AFTER UPDATE ON outbox EXECUTE FUNCTION slowly()",
            )
            .await;
        let (answer, ()) = tokio::join!(
            async {
                outbox
                    .claim_due(&*db, &at(start + 1), &at(start + 50), 5)
                    .await
            },
            lose
        );
        place.run("DROP TRIGGER slowly ON outbox").await;
        let error = answer.expect_err("the answer is lost");
        assert_eq!(error.kind(), Kind::Unavailable, "{name}: {error}");
        let until = at(start + 50);
        let leased = format!("SELECT count(*) FROM outbox WHERE locked_until = '{until}'");
        let expected = if name == "sqlx, unprepared" { 0 } else { 5 };
        assert_eq!(place.number(&leased).await, expected, "{name}");
        let again = outbox
            .claim_due(&*db, &at(start + 49), &at(start + 51), 10)
            .await
            .expect("claim");
        assert_eq!(again.len() as i64, 10 - expected, "{name}");
        let again = outbox
            .claim_due(&*db, &at(start + 51), &at(start + 52), 10)
            .await
            .expect("claim");
        assert_eq!(again.len(), 10, "{name}: all come back");
        place.run("UPDATE outbox SET locked_until = NULL").await;
    }
    place.close().await;
}

/// A server of this test's own.
pub(crate) struct Server {
    directory: PathBuf,
    pub(crate) url: String,
}

impl Server {
    fn engine(arguments: &[&str]) -> String {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/engine");
        let output = Command::new(script)
            .args(arguments)
            .output()
            .expect("scripts/engine");
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout)
            .expect("a URL")
            .trim()
            .to_owned()
    }

    /// One of the version that the other tests run on.
    pub(crate) async fn start(place: &Place) -> Self {
        let version = place
            .number("SELECT current_setting('server_version_num')::bigint / 10000")
            .await;
        let engine = match version {
            17 => "postgres-17",
            18 => "postgres-18",
            _ => "postgres",
        };
        let directory = std::env::temp_dir().join(format!("{}_server", place.name));
        let path = directory.to_str().expect("a path").to_owned();
        let url = Self::engine(&["up", engine, "--fast", "--dir", &path]);
        Self { directory, url }
    }

    fn path(&self) -> &str {
        self.directory.to_str().expect("a path")
    }

    pub(crate) fn restart(&self, crash: bool) {
        Self::engine(&[if crash { "crash" } else { "stop" }, self.path()]);
        std::thread::sleep(Duration::from_millis(300));
        let engine =
            std::fs::read_to_string(self.directory.join("engine.state")).expect("its state");
        let engine = engine
            .lines()
            .find_map(|line| line.strip_prefix("engine="))
            .expect("its name")
            .to_owned();
        Self::engine(&["up", &engine, "--fast", "--dir", self.path()]);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        Self::engine(&["down", self.path()]);
    }
}

/// Loops go on by themselves, each call ends in time, and nothing is lost.
pub(crate) async fn a_restarted_server_is_found_again() {
    let place = Place::new().await;
    let own = Server::start(&place).await;
    let (tokio, sqlx) = (tokio_at(&own.url, 3).await, sqlx_at(&own.url, 3));
    tokio.migrate().await.expect("migrate");
    let ways: Vec<Arc<dyn Database>> = vec![
        Arc::new(tokio.clone()),
        Arc::new(tokio.clone().with_prepared_statements(false)),
        Arc::new(sqlx),
    ];
    let stop = Arc::new(AtomicBool::new(false));
    let (done, mut seen) = watch::channel([0; 3]);
    let loops: Vec<_> = ways
        .into_iter()
        .enumerate()
        .map(|(number, db)| {
            let (stop, done) = (Arc::clone(&stop), done.clone());
            tokio::spawn(async move {
                let outbox = Outbox::new("outbox");
                let (mut enqueued, mut failures) = (0_u64, 0);
                while !stop.load(Ordering::SeqCst) {
                    let id = format!("{number}-{enqueued}");
                    let batch = [outbox.enqueue_statement(&id, "t", "", None, &at(0))];
                    let answer = tokio::time::timeout(PATIENCE, db.batch_atomic(&batch)).await;
                    match answer.expect("a call hangs") {
                        Ok(_) => {}
                        // It was done, and the answer lost.
                        Err(error) if error.kind() == Kind::Conflict => {}
                        Err(error) => {
                            assert_eq!(error.kind(), Kind::Unavailable, "{error}");
                            failures += 1;
                            tokio::time::sleep(Duration::from_millis(20)).await;
                            continue;
                        }
                    }
                    enqueued += 1;
                    done.send_modify(|done| done[number] = enqueued);
                    tokio::time::sleep(Duration::from_millis(2)).await;
                }
                (enqueued, failures)
            })
        })
        .collect();
    let soak = std::env::var_os("DUEBOX_TEST_SOAK_MINUTES").is_some();
    let rounds = if soak { 10 } else { 2 };
    let own = tokio::task::spawn_blocking(move || {
        for round in 0..rounds {
            std::thread::sleep(Duration::from_millis(500));
            own.restart(round % 2 == 1);
        }
        own
    })
    .await
    .expect("restarts");
    let before = *seen.borrow();
    let all_go_on = seen.wait_for(|now| now.iter().zip(before).all(|(now, then)| *now > then));
    let _ = tokio::time::timeout(PATIENCE, all_go_on)
        .await
        .expect("a loop does not go on");
    stop.store(true, Ordering::SeqCst);
    let (mut enqueued, mut failed) = (0, 0);
    for task in loops {
        let (some, failures) = task.await.expect("a loop");
        (enqueued, failed) = (enqueued + some, failed + failures);
    }
    assert!(failed > 0, "the restarts were seen");
    let rows = tokio
        .query(&Statement::new("SELECT count(*) AS n FROM outbox"))
        .await
        .expect("count");
    assert_eq!(rows[0].get::<u64>("n").unwrap(), enqueued);
    tokio::task::spawn_blocking(move || drop(own))
        .await
        .expect("down");
    place.close().await;
}
