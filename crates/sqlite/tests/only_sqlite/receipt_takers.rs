//! Many processes that take from one file: this program, started again and
//! again.

use std::collections::BTreeSet;
use std::num::NonZeroU32;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::receipts::{ALL, at, many};
use super::support::Folder;
use duebox_sqlite::{PendingReceiptStore, SqliteDatabase};

const FOLDER: &str = "DUEBOX_TEST_TAKERS_FOLDER";
const NAME: &str = "DUEBOX_TEST_TAKERS_NAME";
/// Long enough to start a process, on a slow machine.
const PATIENCE: Duration = Duration::from_secs(30);
const PROCESSES: usize = 8;
const TICKETS: usize = 5_000;

fn wait_for(file: &Path) {
    let began = Instant::now();
    while !file.exists() {
        assert!(began.elapsed() < PATIENCE, "a process that does not start");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[tokio::test]
async fn processes_that_start_together_take_every_ticket_once() {
    if let Some(folder) = std::env::var_os(FOLDER) {
        return take(Path::new(&folder)).await;
    }
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    let receipts = db.receipts();
    receipts.record(many(TICKETS), at(9)).await.unwrap();
    let start = |number: usize| {
        Command::new(std::env::current_exe().unwrap())
            .args(["processes_that_start_together", "--nocapture"])
            .env(FOLDER, folder.path())
            .env(NAME, number.to_string())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let children: Vec<Child> = (0..PROCESSES).map(start).collect();
    for number in 0..PROCESSES {
        wait_for(&folder.path().join(format!("ready-{number}")));
    }
    std::fs::write(folder.path().join("go"), "").unwrap();
    let (mut all, mut takers) = (Vec::new(), 0);
    for child in children {
        let output = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{said}");
        let mine: Vec<_> = said
            .lines()
            .filter_map(|line| line.strip_prefix("taken="))
            .collect();
        takers += usize::from(!mine.is_empty());
        all.extend(mine.into_iter().map(str::to_owned));
    }
    println!("{takers} of {PROCESSES} processes took something");
    let distinct: BTreeSet<_> = all.iter().collect();
    assert_eq!((all.len(), distinct.len()), (TICKETS, TICKETS));
    assert_eq!(receipts.take_due(at(98), at(99), ALL).await, Ok(vec![]));
    let again = receipts.take_due(at(99), at(100), ALL).await.unwrap();
    assert!(again == many(TICKETS), "each is due at its retry");
}

async fn take(folder: &Path) {
    let name = std::env::var(NAME).unwrap();
    let receipts = SqliteDatabase::open(folder.join("test.db"))
        .await
        .unwrap()
        .receipts();
    std::fs::write(folder.join(format!("ready-{name}")), "").unwrap();
    wait_for(&folder.join("go"));
    println!();
    loop {
        let hundred = NonZeroU32::new(100).unwrap();
        let taken = receipts.take_due(at(9), at(99), hundred).await.unwrap();
        assert!(taken.len() <= 100);
        if taken.is_empty() {
            return;
        }
        for receipt in taken {
            println!("taken={}", receipt.ticket.as_str());
        }
    }
}
