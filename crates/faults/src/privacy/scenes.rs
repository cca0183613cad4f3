//! Everything that can go wrong, made to go wrong.

mod state;
mod way;

use duebox_core::Statement;

use super::calls::{self, Before, Way};
use super::ear::Ear;
use super::marks::{MARK, NUMBER};
use super::stage::Stage;
use crate::place::Engine;
use crate::server::Fallible;

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
    state::locked(ear, stage).await?;
    state::missing(ear, stage).await?;
    state::read_only(ear, stage).await?;
    if stage.server.is_some() {
        way::away(ear, stage).await?;
        way::cut(ear, stage).await?;
        way::killed(ear, stage).await?;
        state::deadlocks(ear, stage).await?;
    } else {
        state::files(ear, stage).await?;
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
