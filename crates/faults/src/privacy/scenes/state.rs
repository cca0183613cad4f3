//! States of a database in which calls cannot be done.

use std::time::Duration;

use duebox_core::Statement;
use duebox_sqlite::{JournalMode, SqliteOptions};

use super::{NOTHING, all};
use crate::place::Engine;
use crate::privacy::calls;
use crate::privacy::ear::Ear;
use crate::privacy::marks::MARK;
use crate::privacy::stage::{self, Stage, ways};
use crate::server::Fallible;

/// Another session has what is asked for.
pub(super) async fn locked(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let scene = "a lock that is not granted";
    for way in stage.ways().await? {
        calls::receipts(ear, scene, &way, NOTHING).await;
        let work = duebox_core::Outbox::new("outbox").enqueue_statement(
            &format!("held-{}", way.name.len()),
            "t",
            MARK,
            Some(MARK),
            &calls::at(0),
        );
        ear.call(scene, way.db.execute(&work)).await;
    }
    if stage.engine == Engine::Sqlite {
        let ways = stage.ways().await?;
        let holder = duebox_sqlite::rusqlite::Connection::open(&stage.url)?;
        holder.execute_batch("BEGIN EXCLUSIVE")?;
        all(ear, scene, &ways, NOTHING).await;
        holder.execute_batch("ROLLBACK")?;
        return Ok(());
    }
    // Rows are held by a transaction that sleeps.
    let sleep = match stage.engine {
        Engine::Postgres => "SELECT pg_sleep(7) IS NULL AS slept",
        _ => "SELECT SLEEP(7) AS slept",
    };
    for way in stage.ways().await? {
        // A pool of our own waits for as long as the server is set to: 50 s.
        if stage.engine != Engine::Postgres && way.name == stage.engine.name() {
            continue;
        }
        let holder = stage.open().await?;
        let held = tokio::spawn(async move {
            let update = Statement::new("UPDATE outbox SET topic = 'u'");
            let batch = [update, Statement::new(sleep)];
            holder.db.batch_atomic(&batch).await
        });
        tokio::time::sleep(Duration::from_millis(300)).await;
        let scene = format!("{scene}, {}", way.name);
        let update = Statement::new("UPDATE outbox SET payload = ?").bind(MARK);
        ear.call(&scene, way.db.execute(&update)).await;
        ear.hear_log(&scene);
        held.await??;
    }
    Ok(())
}

/// No tables, and no right to them.
pub(super) async fn missing(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    let open = stage.ways().await?;
    stage
        .run(&["DROP TABLE outbox", "DROP TABLE pending_receipts"])
        .await?;
    all(ear, "no tables", &open, NOTHING).await;
    all(ear, "no tables", &stage.ways().await?, NOTHING).await;
    stage.renew().await?;
    if stage.engine == Engine::Sqlite {
        return Ok(());
    }
    let user = format!("{}_nobody", stage.database);
    let made = match stage.engine {
        Engine::Postgres => vec![format!("CREATE ROLE {user} LOGIN PASSWORD '{MARK}'")],
        _ => vec![
            format!("CREATE USER {user} IDENTIFIED BY '{MARK}'"),
            // Without a right to anything in a database it cannot connect to that.
            "CREATE TABLE for_all (a INT)".to_owned(),
            format!("GRANT SELECT ON for_all TO {user}"),
        ],
    };
    let made: Vec<&str> = made.iter().map(String::as_str).collect();
    stage.run(&made).await?;
    let url = stage.at(&format!("{user}:{MARK}"), None, &stage.database);
    let ways = ways(stage.engine, &url.ok_or("no URL")?).await?;
    all(ear, "no right", &ways, NOTHING).await;
    drop(ways);
    let what = match stage.engine {
        Engine::Postgres => "ROLE",
        _ => "USER",
    };
    stage.run(&[&format!("DROP {what} {user}")]).await
}

/// A session, or a file, that takes no writes.
pub(super) async fn read_only(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let scene = "read-only";
    match stage.engine {
        Engine::Sqlite => {
            let open = stage.open().await?;
            let db = open.sqlite.ok_or("no file")?;
            db.with_connection(|conn| conn.execute_batch("PRAGMA query_only = 1"))
                .await??;
            all(ear, scene, &[stage::sqlite(db)], NOTHING).await;
        }
        Engine::Postgres => {
            let url = format!("{}%20-c%20default_transaction_read_only%3Don", stage.url);
            all(ear, scene, &ways(stage.engine, &url).await?, NOTHING).await;
        }
        Engine::Mysql | Engine::Mariadb => {
            let open = stage.open().await?;
            let set = Statement::new("SET SESSION TRANSACTION READ ONLY");
            // The connection that was set is closed after it, as is promised.
            ear.call(scene, open.db.execute(&set)).await;
            ear.hear_log(scene);
        }
    }
    Ok(())
}

/// Callers whose own batches lock each other out.
pub(super) async fn deadlocks(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let scene = "deadlocks";
    for way in stage.ways().await? {
        let outbox = duebox_core::Outbox::new("outbox");
        let work = ["left", "right"]
            .map(|id| outbox.enqueue_statement(id, "t", MARK, Some(MARK), &calls::at(0)));
        ear.call(scene, way.db.batch_atomic(&work)).await;
        let touch = |id: &str| {
            Statement::new("UPDATE outbox SET payload = ? WHERE id = ?")
                .bind(MARK)
                .bind(id)
        };
        for _ in 0..10 {
            let (one, other) = (
                [touch("left"), touch("right")],
                [touch("right"), touch("left")],
            );
            let (one, other) = tokio::join!(way.db.batch_atomic(&one), way.db.batch_atomic(&other));
            ear.call(scene, std::future::ready(one)).await;
            ear.call(scene, std::future::ready(other)).await;
        }
        let clean = Statement::new("DELETE FROM outbox");
        ear.call(scene, way.db.execute(&clean)).await;
        ear.hear_log(scene);
    }
    Ok(())
}

/// Files that are none, or full.
pub(super) async fn files(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let db = stage.open().await?.sqlite.ok_or("no file")?;
    db.with_connection(|conn| conn.execute_batch("PRAGMA max_page_count = 1"))
        .await??;
    let full = stage::sqlite(db);
    let big = Statement::new("CREATE TABLE big AS SELECT ? AS a").bind(MARK.repeat(100_000));
    ear.call("disk full", full.db.execute(&big)).await;
    all(ear, "disk full", &[full], NOTHING).await;
    let none = format!("{}-{MARK}", stage.url);
    std::fs::write(&none, format!("{MARK} is no database").repeat(99))?;
    let opened = duebox_sqlite::SqliteDatabase::open(&none).await;
    ear.call("no database", std::future::ready(opened)).await;
    std::fs::remove_file(&none)?;
    std::fs::create_dir(&none)?;
    let opened = duebox_sqlite::SqliteDatabase::open(&none).await;
    ear.call("a folder", std::future::ready(opened)).await;
    std::fs::remove_dir(&none)?;
    // A journal that cannot be made, for its folder is gone.
    std::fs::create_dir(&none)?;
    let lost = SqliteOptions::new(format!("{none}/lost.db")).journal_mode(JournalMode::Delete);
    let lost = stage::sqlite(lost.open().await?);
    std::fs::remove_dir_all(&none)?;
    all(ear, "a folder that is gone", &[lost], NOTHING).await;
    ear.hear_log("files");
    Ok(())
}
