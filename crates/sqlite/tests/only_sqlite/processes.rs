//! Many processes on one file: this program, started again and again.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{Folder, LATER, NOW, number, run};
use duebox_sqlite::{
    Database, DbError, JournalMode, Outbox, SqliteDatabase, SqliteOptions, Statement,
};

const FILE: &str = "DUEBOX_TEST_SHARED_FILE";
const MODE: &str = "DUEBOX_TEST_SHARED_MODE";
const NAME: &str = "DUEBOX_TEST_SHARED_NAME";
const PROCESSES: usize = 16;

/// Three seconds, or the minutes of a soak.
fn span() -> Duration {
    let minutes = std::env::var("DUEBOX_TEST_SOAK_MINUTES").ok();
    let minutes = minutes.and_then(|text| text.parse::<u64>().ok());
    minutes.map_or(Duration::from_secs(3), |minutes| {
        Duration::from_secs(60 * minutes)
    })
}

fn mode(name: &str) -> JournalMode {
    match name {
        "delete" => JournalMode::Delete,
        _ => JournalMode::Wal,
    }
}

#[tokio::test]
async fn many_processes_write_one_file_and_none_is_told_that_it_is_busy() {
    if let Some(file) = std::env::var_os(FILE) {
        let options = SqliteOptions::new(file).journal_mode(mode(&std::env::var(MODE).unwrap()));
        let db = options.open().await.unwrap();
        let rounds = write(&db, &std::env::var(NAME).unwrap()).await.unwrap();
        println!("rounds={rounds}");
        return;
    }
    for name in ["wal", "delete"] {
        let folder = Folder::new();
        let db = folder
            .options()
            .journal_mode(mode(name))
            .open()
            .await
            .unwrap();
        db.migrate().await.unwrap();
        run(&db, "CREATE TABLE account (id TEXT PRIMARY KEY) STRICT").await;
        let children: Vec<Child> = (0..PROCESSES)
            .map(|number| {
                Command::new(std::env::current_exe().unwrap())
                    .args(["many_processes_write_one_file", "--nocapture"])
                    .env(FILE, folder.file())
                    .env(MODE, name)
                    .env(NAME, format!("p{number}"))
                    .stdout(Stdio::piped())
                    .stderr(Stdio::piped())
                    .spawn()
                    .unwrap()
            })
            .collect();
        let mut total = 0;
        for child in children {
            let output = child.wait_with_output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            let rounds = said.split("rounds=").nth(1).and_then(|rest| {
                let digits = rest.split(|c: char| !c.is_ascii_digit()).next();
                digits.and_then(|digits| digits.parse::<i64>().ok())
            });
            let Some(rounds) = rounds.filter(|_| output.status.success()) else {
                panic!("{said}{}", String::from_utf8_lossy(&output.stderr));
            };
            assert!(rounds > 0, "a process that never got the lock");
            total += rounds;
        }
        println!("{name}: {total} rounds by {PROCESSES} processes");
        assert_eq!(
            number(&db, "SELECT COUNT(*) AS n FROM account").await,
            total
        );
        let left = "SELECT COUNT(*) AS n FROM outbox";
        let gone = number(
            &db,
            "SELECT COUNT(*) AS n FROM account WHERE id NOT IN (SELECT id FROM outbox)",
        )
        .await;
        assert_eq!(number(&db, left).await + gone, total);
    }
}

async fn write(db: &SqliteDatabase, name: &str) -> Result<u64, DbError> {
    let outbox = Outbox::new("outbox");
    let (began, span) = (Instant::now(), span());
    let mut rounds = 0;
    while began.elapsed() < span {
        let id = format!("{name}-{rounds}");
        db.batch_atomic(&[
            Statement::new("SELECT COUNT(*) FROM account"),
            Statement::new("INSERT INTO account VALUES (?)")
                .bind(&id)
                .expect_rows(1),
            outbox.enqueue_statement(&id, "mail", "{}", Some(&id), NOW),
        ])
        .await?;
        let claimed = outbox.claim_due(db, NOW, LATER, 2).await?;
        let leases: Vec<_> = claimed.into_iter().map(|record| record.lease).collect();
        outbox.complete_claimed(db, &leases).await?;
        rounds += 1;
    }
    Ok(rounds)
}
