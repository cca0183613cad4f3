//! Counts, where SQLite's own would say something else.

use super::support::{run, sql};
use duebox_sqlite::{Database, SqliteDatabase};

#[tokio::test]
async fn counts_are_of_the_statement_itself() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    run(
        &db,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER);
         CREATE TABLE log (id INTEGER);
         CREATE TABLE child (a INTEGER REFERENCES a (id) ON DELETE CASCADE);
         CREATE TRIGGER logged AFTER INSERT ON a
         BEGIN
             INSERT INTO log VALUES (NEW.id), (NEW.id);
         END;
         CREATE VIEW only_log AS SELECT id FROM log;
         CREATE TRIGGER passed_on INSTEAD OF INSERT ON only_log
         BEGIN
             INSERT INTO log VALUES (NEW.id);
         END;",
    )
    .await;
    let steps = [
        ("INSERT INTO a VALUES (1, 0), (2, 0), (3, 0)", 3),
        ("CREATE TABLE b (id INTEGER)", 0),
        ("UPDATE a SET n = 0", 3),
        ("SELECT id FROM a", 0),
        ("UPDATE a SET n = 1 WHERE id = 9", 0),
        ("UPDATE a SET n = 1 RETURNING id", 0),
        ("CREATE TABLE c AS SELECT id FROM a", 0),
        ("INSERT INTO child VALUES (1), (1), (2)", 3),
        ("DELETE FROM a WHERE id = 1", 1),
        ("INSERT INTO a VALUES (2, 5) ON CONFLICT DO NOTHING", 0),
        (
            "INSERT INTO a VALUES (2, 5) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
            1,
        ),
        ("INSERT OR REPLACE INTO a VALUES (3, 5)", 1),
        ("INSERT INTO only_log VALUES (1)", 0),
        ("DELETE FROM log", 9),
        ("DROP TABLE b", 0),
    ];
    for (text, count) in steps {
        let answer = db.batch_atomic(&[sql(text)]).await;
        assert_eq!(answer, Ok(vec![count]), "{text}");
    }
    assert_eq!(db.execute(&sql("UPDATE a SET n = 2")).await, Ok(2));
    assert_eq!(
        db.execute(&sql("UPDATE a SET n = 2 RETURNING n")).await,
        Ok(0)
    );
    let rows = db
        .query(&sql("UPDATE a SET n = 3 RETURNING n"))
        .await
        .unwrap();
    assert_eq!(rows.len(), 2);
}
