//! Processes that are killed, in earnest: this program starts itself again as
//! a worker, and kills that.
//!
//! `DUEBOX_TEST_KILL_ROUNDS` says how often, 4 times unless it is said; with
//! 100 it takes minutes. `DUEBOX_TEST_KILL_EVERY_MS` keeps kills apart: rows that are in
//! hand at one kill after another within a lease become suspects, which wait for each other.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use duebox_core::{Database, Enqueue, ListOptions, PARKED, RowState};
use duebox_worker::{Clock, Job, Worker};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::sync::mpsc::UnboundedSender;

use crate::chapter;
use crate::place::{Engine, Place};
use crate::stage::{Reports, Stage, in_time, reports};

chapter!(kill:
    a_row_that_kills_its_process_is_parked_and_99_others_are_delivered,
    processes_that_are_killed_under_load_lose_nothing,
);

const CHILD: &str = "DUEBOX_TEST_WORKER_CHILD";
/// Whole seconds, so that a row that nobody extends comes back soon.
const LEASE: Duration = Duration::from_secs(2);
const POLL: Duration = Duration::from_millis(500);

/// If this process was started as a worker, is one until it is killed.
pub(crate) fn child() -> Option<ExitCode> {
    let said = std::env::var(CHILD).ok()?;
    let (engine, table) = said.split_once(' ')?;
    let place = Place::named(Engine::named(engine)?, table.to_owned());
    crate::stage::runtime().block_on(async move {
        let worker = Worker::builder(place.outbox(), place.connect().await)
            .lease(LEASE)
            .poll_every(POLL)
            .concurrency(100)
            .sample_every(None)
            .handle("killer", die)
            .handle("t", |job: Job| async move {
                let record = job.record();
                // One write, so that a line is there as a whole or not at all.
                println!("{} {} {}", record.id, record.claims, record.lapses);
                tokio::time::sleep(Duration::from_millis(fastrand::u64(0..150))).await;
            });
        let worker = worker.start().await.expect("start");
        // It ends by being killed.
        let ended = worker.wait().await;
        panic!("the worker ended: {ended:?}");
    })
}

/// No destructor runs and nobody is told, as by `kill -9`.
async fn die(_: Job) {
    std::process::abort();
}

/// A row that a child has begun.
struct Began {
    id: String,
    claims: u64,
    lapses: u64,
    at: Instant,
    /// Of which of the processes.
    process: usize,
}

fn start(place: &Place, process: usize, began: UnboundedSender<Began>) -> Child {
    let mut child = Command::new(std::env::current_exe().expect("this program"))
        .env(CHILD, format!("{} {}", place.engine.name(), place.table))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .expect("a process");
    let mut lines = BufReader::new(child.stdout.take().expect("piped")).lines();
    tokio::spawn(async move {
        while let Ok(Some(line)) = lines.next_line().await {
            let mut words = line.split(' ').map(str::to_owned);
            let (Some(id), Some(claims), Some(lapses)) = (words.next(), words.next(), words.next())
            else {
                continue;
            };
            let (Ok(claims), Ok(lapses)) = (claims.parse(), lapses.parse()) else {
                continue;
            };
            let at = Instant::now();
            let line = Began {
                id,
                claims,
                lapses,
                at,
                process,
            };
            if began.send(line).is_err() {
                break;
            }
        }
    });
    child
}

async fn enqueue(db: &dyn Database, stage: &Stage, clock: &Clock, topic: &str, ids: Vec<String>) {
    let work = ids
        .into_iter()
        .map(|id| Enqueue::new(topic).id(id).at(clock.now()));
    let statement = stage.outbox.enqueue_many_statement(work);
    db.batch_atomic(&[statement]).await.expect("enqueue");
}

async fn rows(stage: &Stage, clock: &Clock) -> (u64, u64) {
    let now = duebox_core::format_time(clock.now()).expect("a time");
    let stats = stage.outbox.stats(&*stage.db, &now).await.expect("stats");
    (stats.waiting + stats.due + stats.leased, stats.parked)
}

/// Gives rows another chance that were killed three times and more, the last
/// time alone: so many kills are enough to blame an innocent row.
async fn unpark(stage: &Stage, clock: &Clock) -> Vec<String> {
    let now = duebox_core::format_time(clock.now()).expect("a time");
    let parked = ListOptions::new().state(RowState::Parked);
    let parked = stage
        .outbox
        .list(&*stage.db, &now, &parked)
        .await
        .expect("list");
    for row in &parked {
        let why = row.last_error.as_deref().unwrap_or_default();
        assert!(why.contains("while it ran alone"), "{why}");
    }
    let ids: Vec<&str> = parked.iter().map(|row| row.id.as_str()).collect();
    let unparked = stage.outbox.unpark(&*stage.db, &ids, &now).await;
    assert_eq!(unparked.expect("unpark"), ids.len() as u64);
    parked.into_iter().map(|row| row.id).collect()
}

/// A process that was killed, and when that was asked for and done.
struct Kill {
    process: usize,
    before: Instant,
    after: Instant,
}

/// A number that the environment says, or this one.
fn said(variable: &str, otherwise: u64) -> u64 {
    let text = std::env::var(variable).ok();
    text.map_or(otherwise, |text| text.parse().expect("a number"))
}

/// What the children have said so far.
fn read(reports: &mut Reports<Began>, began: &mut BTreeMap<String, Vec<Began>>) {
    for each in reports.rest() {
        began.entry(each.id.clone()).or_default().push(each);
    }
}

async fn a_row_that_kills_its_process_is_parked_and_99_others_are_delivered(stage: Arc<Stage>) {
    let clock = Clock::start(Arc::clone(&stage.db)).await.expect("a clock");
    let good = |from: usize, to: usize| (from..to).map(|n| format!("r{n:02}")).collect();
    enqueue(&*stage.db, &stage, &clock, "t", good(0, 50)).await;
    enqueue(&*stage.db, &stage, &clock, "killer", vec!["killer".into()]).await;
    enqueue(&*stage.db, &stage, &clock, "t", good(50, 99)).await;
    let (sender, mut reports) = reports();
    let mut began = BTreeMap::new();
    let mut deaths = 0;
    let mut child = start(&stage.place, 0, sender.clone());
    in_time(async {
        while rows(&stage, &clock).await != (0, 1) {
            tokio::select! {
                // Whatever looks after it starts it again.
                _ = child.wait() => {
                    deaths += 1;
                    child = start(&stage.place, 0, sender.clone());
                }
                () = clock.sleep(Duration::from_millis(50)) => {}
            }
        }
    })
    .await;
    child.kill().await.expect("kill");
    read(&mut reports, &mut began);
    assert_eq!(began.len(), 99, "all others were run");
    assert_eq!(stage.entry("killer").await.next_attempt_at, PARKED);
    assert_eq!(deaths, 3, "twice in a crowd, once alone");
}

async fn processes_that_are_killed_under_load_lose_nothing(stage: Arc<Stage>) {
    let rounds = said("DUEBOX_TEST_KILL_ROUNDS", 4);
    let apart = Duration::from_millis(said("DUEBOX_TEST_KILL_EVERY_MS", 0));
    let clock = Clock::start(Arc::clone(&stage.db)).await.expect("a clock");
    let (sender, mut reports) = reports();
    let mut began: BTreeMap<String, Vec<Began>> = BTreeMap::new();
    let mut children: Vec<Child> = (0..3)
        .map(|process| start(&stage.place, process, sender.clone()))
        .collect();
    let mut kills: Vec<Kill> = Vec::new();
    let mut enqueued = 0;
    for _ in 0..rounds {
        for _ in 0..3 {
            let ids = (enqueued..enqueued + 50)
                .map(|n| format!("r{n:06}"))
                .collect();
            enqueued += 50;
            enqueue(&*stage.db, &stage, &clock, "t", ids).await;
            clock
                .sleep(Duration::from_millis(fastrand::u64(10..60)))
                .await;
        }
        // Whoever has just begun a row of the last ones is killed with them in hand.
        read(&mut reports, &mut began);
        let ids = (enqueued..enqueued + 50)
            .map(|n| format!("r{n:06}"))
            .collect();
        enqueued += 50;
        enqueue(&*stage.db, &stage, &clock, "t", ids).await;
        let of_these = format!("r{:06}", enqueued - 50);
        let process = loop {
            let first = reports.next().await;
            let (process, is_one) = (first.process, first.id >= of_these);
            began.entry(first.id.clone()).or_default().push(first);
            if is_one {
                break process;
            }
        };
        let victim = &mut children[process];
        let before = Instant::now();
        victim.kill().await.expect("kill");
        kills.push(Kill {
            process,
            before,
            after: Instant::now(),
        });
        *victim = start(&stage.place, process, sender.clone());
        read(&mut reports, &mut began);
        clock.sleep(apart).await;
    }
    let mut unparked = BTreeSet::new();
    in_time(async {
        while rows(&stage, &clock).await != (0, 0) {
            unparked.extend(unpark(&stage, &clock).await);
            clock.sleep(Duration::from_millis(50)).await;
        }
    })
    .await;
    for child in &mut children {
        child.kill().await.expect("kill");
    }
    read(&mut reports, &mut began);
    assert_eq!(began.len(), enqueued, "each row was run");
    let (mut again, mut slowest, mut alone) = (0, Duration::ZERO, Duration::ZERO);
    for (id, runs) in &began {
        for pair in runs.windows(2) {
            again += 1;
            let [first, second] = pair else { continue };
            assert!(second.claims > first.claims, "{id} ran twice in one claim");
            // Unparked, it has no lapse.
            let explained = second.lapses > 0 || unparked.contains(id);
            assert!(explained, "{id} came back without a lapse");
            // A run is short, so it was the first kill of its process after it had begun.
            let kill = kills
                .iter()
                .find(|kill| kill.process == first.process && kill.after > first.at);
            let kill = kill.unwrap_or_else(|| panic!("{id} came back although nobody was killed"));
            assert!(second.at > kill.before, "{id} came back before the kill");
            // A row may be claimed in between by one that is killed before it begins it.
            let claims = u32::try_from(second.claims - first.claims).expect("few");
            let each = second.at.saturating_duration_since(kill.before) / claims;
            if second.lapses == 1 && !unparked.contains(id) {
                slowest = slowest.max(each);
            } else {
                // It is a suspect by now and waits for its turn to run alone, or it was unparked.
                alone = alone.max(each);
            }
        }
    }
    println!(
        "{}: {enqueued} rows, {rounds} kills, {again} redeliveries, {} parked by rule, the slowest {slowest:?} a claim, {alone:?} alone",
        stage.place.engine.name(),
        unparked.len()
    );
    assert!(again > 0, "processes were killed with rows in hand");
}
