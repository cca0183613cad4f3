//! Everything that can go wrong, made to go wrong.

use std::sync::Arc;
use std::time::Duration;

use duebox_core::Statement;
use duebox_sqlite::{JournalMode, SqliteOptions};

use super::calls::{self, Before, Way};
use super::ear::Ear;
use super::marks::{MARK, NUMBER};
use super::stage::{Stage, ways};
use crate::place::{Engine, address};
use crate::proxy::Proxy;
use crate::server::Fallible;
use crate::tally::Tally;

const NOTHING: Before<'static> = &|| {};

/// Both ports, by every way, under a name.
async fn all(ear: &mut Ear, scene: &str, ways: &[Way], before: Before<'_>) {
    for way in ways {
        let scene = format!("{scene}, {}", way.name);
        calls::outbox(ear, &scene, way, before).await;
        calls::receipts(ear, &scene, way, before).await;
        ear.hear_log(&scene);
    }
}

pub(super) async fn play(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    all(ear, "nothing wrong", &stage.ways().await?, NOTHING).await;
    statements(ear, stage).await?;
    refusals(ear, stage).await?;
    corrupt(ear, stage).await?;
    locked(ear, stage).await?;
    missing(ear, stage).await?;
    read_only(ear, stage).await?;
    if stage.server.is_some() {
        away(ear, stage).await?;
        cut(ear, stage).await?;
        killed(ear, stage).await?;
        deadlocks(ear, stage).await?;
    } else {
        files(ear, stage).await?;
    }
    Ok(())
}

/// The caller's own statements, which the database refuses.
async fn statements(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage
        .run(&[
            "CREATE TABLE town (name VARCHAR(40) NOT NULL PRIMARY KEY)",
            "CREATE TABLE person (
                mail VARCHAR(40) NOT NULL PRIMARY KEY, age INT NOT NULL CHECK (age < 200),
                town VARCHAR(40) REFERENCES town (name), FOREIGN KEY (town) REFERENCES town (name))",
        ])
        .await?;
    let insert = Statement::new("INSERT INTO person (mail, age, town) VALUES (?, ?, ?)");
    let row =
        |mail: &str, age: i64, town: Option<&str>| insert.clone().bind(mail).bind(age).bind(town);
    let long = MARK.repeat(30);
    let one = |sql: &'static str| Statement::new(sql).bind(MARK);
    let refused = [
        row(MARK, 1, None),
        row(MARK, 1, None), // twice
        row("a", NUMBER, None),
        row("a", 300, None),
        row("a", 1, Some(MARK)),
        row(&long, 1, None),
        insert.clone().bind(MARK).bind(MARK).bind(MARK),
        insert
            .clone()
            .bind(MARK)
            .bind(None::<i64>)
            .bind(None::<String>),
        one("UPDATE person SET age = ?"),
        one("SELECT nowhere(?)"),
        one("SELECT * FROM nowhere WHERE a = ?"),
        one("SELECT nothing FROM person WHERE mail = ?"),
        one("SELECT FROM WHERE ?"),
        one("SELECT CAST(? AS DECIMAL) / 0"),
        one("UPDATE person SET age = 9 WHERE mail = ?").expect_rows(9),
        one("DELETE FROM person WHERE mail = ?"),
    ];
    for way in stage.ways().await? {
        let scene = format!("the caller's statements, {}", way.name);
        for statement in &refused {
            ear.call(&scene, way.db.execute(statement)).await;
            ear.call(&scene, way.db.query(statement)).await;
            let batch = [row("z", 1, None), statement.clone()];
            ear.call(&scene, way.db.batch_atomic(&batch)).await;
        }
        ear.hear_log(&scene);
    }
    Ok(())
}

/// Checks and triggers that somebody added, which quote what they refuse.
async fn refusals(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let ways = stage.ways().await?;
    // Something to refuse the change of.
    for way in &ways {
        calls::outbox(ear, "before a trigger", way, NOTHING).await;
        let all = vec![calls::receipt(1)];
        let due = duebox_core::chrono::DateTime::UNIX_EPOCH;
        ear.call("before a trigger", way.store.record(all, due))
            .await;
    }
    stage.run(triggers(stage.engine)).await?;
    all(ear, "a trigger that quotes", &ways, NOTHING).await;
    stage.renew().await?;
    let checks: &[&str] = match stage.engine {
        Engine::Sqlite => &[],
        _ => &[
            "ALTER TABLE outbox ADD CONSTRAINT short CHECK (CHAR_LENGTH(payload) < 3)",
            "ALTER TABLE pending_receipts ADD CONSTRAINT brief CHECK (CHAR_LENGTH(token) < 3)",
        ],
    };
    stage.run(checks).await?;
    all(ear, "a check", &stage.ways().await?, NOTHING).await;
    Ok(())
}

fn triggers(engine: Engine) -> &'static [&'static str] {
    match engine {
        Engine::Sqlite => &[
            "CREATE TRIGGER a BEFORE INSERT ON outbox BEGIN SELECT RAISE(ABORT, 'S3cretMark said it'); END",
            "CREATE TRIGGER b BEFORE UPDATE ON outbox BEGIN SELECT RAISE(FAIL, 'S3cretMark said it'); END",
            "CREATE TRIGGER c BEFORE DELETE ON outbox BEGIN SELECT RAISE(ROLLBACK, 'S3cretMark said it'); END",
            "CREATE TRIGGER d BEFORE INSERT ON pending_receipts BEGIN SELECT RAISE(ABORT, 'S3cretMark'); END",
            "CREATE TRIGGER e BEFORE DELETE ON pending_receipts BEGIN SELECT RAISE(ABORT, 'S3cretMark'); END",
        ],
        Engine::Postgres => &[
            "CREATE FUNCTION tell() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
                RAISE WARNING 'soon refused % %', NEW, OLD;
                RAISE EXCEPTION 'refused % %', NEW, OLD USING DETAIL = NEW::text, HINT = OLD::text;
             END $$",
            "CREATE TRIGGER a BEFORE INSERT OR UPDATE OR DELETE ON outbox
                FOR EACH ROW EXECUTE FUNCTION tell()",
            "CREATE TRIGGER b BEFORE INSERT OR UPDATE OR DELETE ON pending_receipts
                FOR EACH ROW EXECUTE FUNCTION tell()",
        ],
        Engine::Mysql | Engine::Mariadb => &[
            "CREATE TRIGGER a BEFORE INSERT ON outbox FOR EACH ROW BEGIN
                DECLARE said VARCHAR(128) DEFAULT LEFT(CONCAT('refused ', NEW.payload), 100);
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END",
            "CREATE TRIGGER b BEFORE UPDATE ON outbox FOR EACH ROW BEGIN
                DECLARE said VARCHAR(128) DEFAULT LEFT(CONCAT('refused ', NEW.payload), 100);
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END",
            "CREATE TRIGGER c BEFORE DELETE ON outbox FOR EACH ROW BEGIN
                DECLARE said VARCHAR(128) DEFAULT LEFT(CONCAT('refused ', OLD.payload), 100);
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END",
            "CREATE TRIGGER d BEFORE INSERT ON pending_receipts FOR EACH ROW BEGIN
                DECLARE said VARCHAR(128) DEFAULT LEFT(CONCAT('refused ', NEW.ticket), 100);
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END",
            "CREATE TRIGGER e BEFORE DELETE ON pending_receipts FOR EACH ROW BEGIN
                DECLARE said VARCHAR(128) DEFAULT LEFT(CONCAT('refused ', OLD.ticket), 100);
                SIGNAL SQLSTATE '45000' SET MESSAGE_TEXT = said; END",
        ],
    }
}

/// Rows that were not written by the library.
async fn corrupt(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let insert = format!(
        "INSERT INTO outbox (id, topic, payload, subject, created_at, next_attempt_at) \
         VALUES ('w', 't', '{MARK}', '{}', 'never', '0000')",
        calls::subject()
    );
    stage.run(&[&insert]).await?;
    let outbox = duebox_core::Outbox::new("outbox");
    for way in stage.ways().await? {
        let now = calls::at(1);
        ear.call("corrupt rows", outbox.stats(&*way.db, &now)).await;
        let rows = Statement::new("SELECT payload FROM outbox WHERE payload = ?").bind(MARK);
        for row in way.db.query(&rows).await? {
            let number = std::future::ready(row.get::<i64>("payload"));
            ear.call("corrupt rows", number).await;
        }
    }
    let owner = match stage.engine {
        Engine::Postgres => "'5ec2e75e-c2e7-5ec2-e75e-c2e75ec2e75e'",
        _ => "x'5ec2e75ec2e75ec2e75ec2e75ec2e75e'",
    };
    let time = match stage.engine {
        Engine::Sqlite => "0",
        Engine::Postgres => "'2020-01-01T00:00:00Z'",
        _ => "'2020-01-01 00:00:00'",
    };
    let ticket = format!(
        "INSERT INTO pending_receipts (ticket, owner_id, token, sent_at, due_at) \
         VALUES ('ticket {MARK}', {owner}, 'token {MARK}', {time}, {time})"
    );
    stage.run(&[&ticket]).await?;
    all(ear, "corrupt rows", &stage.ways().await?, NOTHING).await;
    Ok(())
}

/// Another session has what is asked for.
async fn locked(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
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
async fn missing(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
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
async fn read_only(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let scene = "read-only";
    match stage.engine {
        Engine::Sqlite => {
            let open = stage.open().await?;
            let db = open.sqlite.ok_or("no file")?;
            db.with_connection(|conn| conn.execute_batch("PRAGMA query_only = 1"))
                .await??;
            all(ear, scene, &[super::stage::sqlite(db)], NOTHING).await;
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

/// Nobody there, or nobody who lets us in.
async fn away(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    let with = format!("nobody_there:{MARK}");
    let urls = [
        ("connection refused", stage.at(&with, Some(9), "test")),
        ("log-in refused", stage.at(&with, None, &stage.database)),
        ("no such database", {
            let user = match stage.engine {
                Engine::Postgres => "postgres",
                _ => "test:test",
            };
            stage.at(user, None, "nowhere_at_all")
        }),
    ];
    for (scene, url) in urls {
        let ways = ways(stage.engine, &url.ok_or("no URL")?).await?;
        for way in &ways {
            ear.call(scene, way.db.now()).await;
            ear.hear_log(scene);
        }
        // One call each is enough: they all begin with a connection.
        let work = Statement::new("SELECT ?").bind(MARK);
        for way in &ways {
            ear.call(scene, way.db.query(&work)).await;
            ear.hear_log(scene);
        }
    }
    Ok(())
}

/// The way breaks at every call, before it arrives and after.
async fn cut(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let server = stage.server.as_ref().ok_or("no server")?;
    let address = address(&server.url).ok_or("no address")?;
    let proxy = Proxy::start(address, Arc::new(Tally::default())).await?;
    let url = crate::place::with(&stage.url, Some(proxy.port), &stage.database);
    let ways = ways(stage.engine, &url.ok_or("no URL")?).await?;
    let before = || proxy.way.cut_before(1);
    all(ear, "cut before", &ways, &before).await;
    proxy.way.mend();
    let after = || proxy.way.cut_after(1);
    all(ear, "cut after", &ways, &after).await;
    Ok(())
}

/// Sessions are killed all the time.
async fn killed(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let server = stage.server.as_ref().ok_or("no server")?;
    let ways = stage.ways().await?;
    let kills = async {
        loop {
            // The server may be busy with the last ones.
            let _ = server.kill_sessions(&stage.database, 9).await;
            tokio::time::sleep(Duration::from_millis(7)).await;
        }
    };
    tokio::select! {
        () = kills => {}
        () = all(ear, "sessions killed", &ways, NOTHING) => {}
    }
    Ok(())
}

/// Callers whose own batches lock each other out.
async fn deadlocks(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
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
async fn files(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    stage.renew().await?;
    let db = stage.open().await?.sqlite.ok_or("no file")?;
    db.with_connection(|conn| conn.execute_batch("PRAGMA max_page_count = 1"))
        .await??;
    let full = super::stage::sqlite(db);
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
    let lost = super::stage::sqlite(lost.open().await?);
    std::fs::remove_dir_all(&none)?;
    all(ear, "a folder that is gone", &[lost], NOTHING).await;
    ear.hear_log("files");
    Ok(())
}
