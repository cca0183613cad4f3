//! Futures that are dropped in the middle of their work.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use duebox_postgres::{Database, Outbox, Statement};

use crate::place::{Place, at, every_way};
use crate::proxy::Proxy;

/// One way, so that a round trip takes twice as long.
const DELAY: Duration = Duration::from_millis(20);
/// The moments at which a future is dropped, in milliseconds, and one at which all
/// of them have long ended.
fn moments() -> impl Iterator<Item = u64> {
    (0..400).step_by(7).chain([20_000])
}

/// Drops `work` of each way to work after every so many milliseconds, with one
/// connection in the pool, and then asks that the pool is as good as before.
async fn dropped_at_every_moment<F>(
    place: &Place,
    way: usize,
    work: impl Fn(Arc<dyn Database>, u64) -> F + Copy + Send + Sync + 'static,
) where
    F: Future<Output = ()> + Send,
{
    let proxy = Proxy::new(DELAY).await;
    let url = proxy.url(&place.url());
    let tasks: Vec<_> = moments()
        .map(|millis| {
            let url = url.clone();
            tokio::spawn(async move {
                let (name, db) = every_way(&url, 1).await.swap_remove(way);
                // So that what is dropped is the work and not the connecting.
                db.now().await.expect("a time");
                let dropped = tokio::time::timeout(
                    Duration::from_millis(millis),
                    work(Arc::clone(&db), millis),
                );
                let _ = dropped.await;
                let next = Statement::new("INSERT INTO afterwards (millis) VALUES (?)")
                    .bind(millis.to_string());
                db.batch_atomic(&[next])
                    .await
                    .unwrap_or_else(|error| panic!("{name}, {millis} ms: {error}"));
            })
        })
        .collect();
    for task in tasks {
        task.await.expect("a task");
    }
    assert_eq!(place.idle_in_transaction().await, 0);
    let afterwards = place.number("SELECT count(*) FROM afterwards").await;
    assert_eq!(
        afterwards,
        moments().count() as i64,
        "what came next is visible to others"
    );
}

async fn place() -> Place {
    let place = Place::new().await;
    place.make_outbox().await;
    place
        .run("CREATE TABLE state (id text PRIMARY KEY); CREATE TABLE afterwards (millis numeric PRIMARY KEY)")
        .await;
    place
}

async fn a_batch(way: usize) {
    let place = place().await;
    dropped_at_every_moment(&place, way, |db, millis| async move {
        let outbox = Outbox::new("outbox");
        let id = format!("r-{millis}");
        let batch = [
            Statement::new("INSERT INTO state (id) VALUES (?)").bind(id.as_str()),
            outbox.enqueue_statement(&id, "t", "", None, &at(0)),
            Statement::new("UPDATE state SET id = id WHERE id = ?")
                .bind(id.as_str())
                .expect_rows(1),
        ];
        db.batch_atomic(&batch).await.expect("a batch");
    })
    .await;
    let halves = "SELECT count(*) FROM state FULL JOIN outbox USING (id) WHERE state.id IS NULL OR outbox.id IS NULL";
    assert_eq!(place.number(halves).await, 0, "both or neither");
    assert!(
        place.number("SELECT count(*) FROM state").await > 0,
        "the last one had the time"
    );
    place.close().await;
}

async fn a_claim_and_its_completion(way: usize) {
    let place = place().await;
    place.fill(400).await;
    dropped_at_every_moment(&place, way, |db, _| async move {
        let outbox = Outbox::new("outbox");
        let records = outbox
            .claim_due(&*db, &at(1), &at(2), 2)
            .await
            .expect("claim");
        let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
        outbox
            .complete_claimed(&*db, &leases)
            .await
            .expect("complete");
    })
    .await;
    // What is left is either as it was or under lease, and comes back.
    let left = place.number("SELECT count(*) FROM outbox").await;
    let db = place.connect().await;
    let records = Outbox::new("outbox")
        .claim_due(&db, &at(2), &at(3), u64::MAX)
        .await
        .expect("claim");
    assert_eq!(records.len() as i64, left);
    assert!(left < 400, "the last one had the time");
    place.close().await;
}

pub(crate) async fn a_batch_on_tokio_postgres() {
    a_batch(0).await;
}

pub(crate) async fn a_batch_on_tokio_postgres_unprepared() {
    a_batch(1).await;
}

pub(crate) async fn a_batch_on_sqlx() {
    a_batch(2).await;
}

pub(crate) async fn a_batch_on_sqlx_unprepared() {
    a_batch(3).await;
}

pub(crate) async fn a_claim_on_tokio_postgres() {
    a_claim_and_its_completion(0).await;
}

pub(crate) async fn a_claim_on_tokio_postgres_unprepared() {
    a_claim_and_its_completion(1).await;
}

pub(crate) async fn a_claim_on_sqlx() {
    a_claim_and_its_completion(2).await;
}

pub(crate) async fn a_claim_on_sqlx_unprepared() {
    a_claim_and_its_completion(3).await;
}
