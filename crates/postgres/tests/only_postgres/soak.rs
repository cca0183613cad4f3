//! Enqueuers and drainers while connections are killed.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use duebox_postgres::{Claim, Database, DbError, Enqueue, Kind, Outbox, Statement, format_time};

use crate::place::{self, Place, sqlx_at, tokio_at};
use crate::recovery::Server;

/// The time at which a loop last got something done.
struct Pulse(AtomicU64);

/// A call that fails is made again; one that was done is found out by its key.
async fn enqueue(
    db: &dyn Database,
    outbox: &Outbox,
    task: usize,
    number: u64,
) -> Result<(), DbError> {
    let id = format!("{task}-{number}");
    let now = db.now().await?;
    let work = Enqueue::new("t")
        .id(id.as_str())
        .payload("x".repeat(200))
        .at(now);
    let state = Statement::new("INSERT INTO state (id) VALUES (?)").bind(id);
    match db.batch_atomic(&[state, outbox.enqueue(work)]).await {
        Err(error) if error.kind() == Kind::Conflict => Ok(()),
        answer => answer.map(drop),
    }
}

/// Each delivery is noted in the batch that completes it, so a row that two hold at
/// once, or that is delivered twice, would be noted twice.
async fn drain(db: &dyn Database, outbox: &Outbox, name: &str) -> Result<usize, DbError> {
    let now = db.now().await?;
    let claim = Claim::new(
        format_time(now)?,
        format_time(now + Duration::from_secs(2))?,
    )
    .limit(20)
    .locked_by(name);
    let records = outbox.claim(db, &claim).await?;
    let count = records.len();
    for record in records {
        let note = Statement::new("INSERT INTO delivered (id, holder) VALUES (?, ?)")
            .bind(&record.id)
            .bind(name);
        match db
            .batch_atomic(&[outbox.complete_statement(&record.lease), note])
            .await
        {
            Ok(_) => {}
            // It was done and the answer lost, or another has it by now.
            Err(error) if error.kind() == Kind::RowCount => {}
            Err(error) => return Err(error),
        }
    }
    Ok(count)
}

/// The long form has a server of its own, which is restarted twice.
pub(crate) async fn nothing_is_lost_while_connections_are_killed() {
    let minutes = std::env::var("DUEBOX_TEST_SOAK_MINUTES")
        .ok()
        .and_then(|minutes| minutes.parse::<u64>().ok());
    let Some(minutes) = minutes else {
        return run(Place::new().await, Duration::from_secs(5), None).await;
    };
    let place = Place::new().await;
    let own = Arc::new(Server::start(&place).await);
    let length = Duration::from_secs(60 * minutes);
    let restarts = tokio::task::spawn_blocking({
        let own = Arc::clone(&own);
        move || {
            for crash in [false, true] {
                std::thread::sleep(length / 3);
                own.restart(crash);
            }
        }
    });
    run(Place::on(&own.url).await, length, Some(own.url.clone())).await;
    restarts.await.expect("restarts");
    tokio::task::spawn_blocking(move || drop(own))
        .await
        .expect("down");
    place.close().await;
}

/// Nothing is lost, nothing held by two at once, and every loop goes on: within
/// five seconds where that is measured, and else at all.
async fn run(mut place: Place, length: Duration, restarted: Option<String>) {
    place.make_outbox().await;
    place.run("CREATE TABLE state (id text PRIMARY KEY); CREATE TABLE delivered (id text, holder text)").await;
    let tokio: Arc<dyn Database> = Arc::new(tokio_at(&place.url(), 8).await);
    let sqlx: Arc<dyn Database> = Arc::new(sqlx_at(&place.url(), 8));
    let (enqueuing, draining) = (
        Arc::new(AtomicBool::new(true)),
        Arc::new(AtomicBool::new(true)),
    );
    let started = Instant::now();
    let patience = if restarted.is_some() { 5_000 } else { 60_000 };
    let pulses: Arc<Vec<Pulse>> = Arc::new((0..16).map(|_| Pulse(AtomicU64::new(0))).collect());
    let outbox = Outbox::new("outbox");
    let spawn = |task: usize, go: &Arc<AtomicBool>| {
        let db = if task.is_multiple_of(2) {
            Arc::clone(&tokio)
        } else {
            Arc::clone(&sqlx)
        };
        let (outbox, go, pulses) = (outbox.clone(), Arc::clone(go), Arc::clone(&pulses));
        tokio::spawn(async move {
            let (mut done, mut failed) = (0, 0_u64);
            while go.load(Ordering::SeqCst) {
                let answer = if task < 8 {
                    enqueue(&*db, &outbox, task, done).await.map(|()| 1)
                } else {
                    drain(&*db, &outbox, &task.to_string()).await
                };
                match answer {
                    Ok(count) => {
                        done += 1;
                        pulses[task]
                            .0
                            .store(started.elapsed().as_millis() as u64, Ordering::SeqCst);
                        if count == 0 {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                    }
                    Err(error) => {
                        assert!(
                            matches!(error.kind(), Kind::Unavailable | Kind::Busy),
                            "{error}"
                        );
                        failed += 1;
                        tokio::time::sleep(Duration::from_millis(5)).await;
                    }
                }
            }
            (done, failed)
        })
    };
    let enqueuers: Vec<_> = (0..8).map(|task| spawn(task, &enqueuing)).collect();
    let drainers: Vec<_> = (8..16).map(|task| spawn(task, &draining)).collect();
    let mut stalled = HashMap::new();
    while started.elapsed() < length {
        tokio::time::sleep(Duration::from_millis(60)).await;
        let kill = format!(
            "SELECT count(pg_terminate_backend(pid)) FROM (
                 SELECT pid FROM pg_stat_activity WHERE application_name = '{}' ORDER BY random() LIMIT 1
             ) AS one",
            place.name
        );
        if place.admin.query_one(&kill, &[]).await.is_err() {
            let url = restarted
                .as_deref()
                .expect("the connection is lost only where there are restarts");
            if let Some(admin) = place::reconnect(url, &place.name).await {
                place.admin = admin;
            }
        }
        for (task, pulse) in pulses.iter().enumerate() {
            let age = started.elapsed().as_millis() as u64 - pulse.0.load(Ordering::SeqCst);
            if age > patience {
                stalled.insert(task, age);
            }
        }
    }
    assert!(
        stalled.is_empty(),
        "loops that did not go on, with the milliseconds: {stalled:?}"
    );
    enqueuing.store(false, Ordering::SeqCst);
    let (mut enqueued, mut failed) = (0, 0);
    for task in enqueuers {
        let (done, failures) = task.await.expect("an enqueuer");
        (enqueued, failed) = (enqueued + done, failed + failures);
    }
    for _ in 0..200 {
        if place.number("SELECT count(*) FROM outbox").await == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    draining.store(false, Ordering::SeqCst);
    for task in drainers {
        failed += task.await.expect("a drainer").1;
    }
    assert!(failed > 0, "the kills were seen");
    let states = place.number("SELECT count(*) FROM state").await;
    // The last one of an enqueuer may have been done although it saw a failure.
    assert!(
        (enqueued..=enqueued + 8).contains(&u64::try_from(states).unwrap()),
        "{enqueued} {states}"
    );
    assert_eq!(place.number("SELECT count(*) FROM outbox").await, 0);
    assert_eq!(place.number("SELECT count(*) FROM delivered").await, states);
    assert_eq!(
        place
            .number("SELECT count(DISTINCT id) FROM delivered")
            .await,
        states
    );
    assert_eq!(place.idle_in_transaction().await, 0);
    place.close().await;
}
