//! Calls that wait for the writer share a transaction.

use std::pin::Pin;

use super::support::{Folder, assert_refused, batch, enqueue, number, run, sql, together};
use duebox_sqlite::{Database, DbError, Kind, ReadThenWrite, SqliteDatabase};

type Call<T> = Pin<Box<dyn Future<Output = T> + Send>>;

async fn counting(folder: &Folder) -> SqliteDatabase {
    let db = folder.open().await;
    db.migrate().await.expect("tables");
    run(
        &db,
        "CREATE TABLE a (id INTEGER PRIMARY KEY, n INTEGER NOT NULL);
         INSERT INTO a VALUES (0, 0);",
    )
    .await;
    db
}

#[tokio::test]
async fn calls_that_wait_share_one_commit_and_are_all_answered() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    let before = folder.commits();
    let calls = (0..50).map(|id| batch(&db, vec![enqueue(&format!("id-{id}"))]));
    let answers = together(&db, calls.collect()).await;
    assert!(answers.iter().all(|answer| answer == &Ok(vec![1])));
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 50);
    assert_eq!(folder.commits() - before, 1);
}

#[tokio::test]
async fn one_that_fails_among_many_is_undone_alone() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    let before = folder.commits();
    let more = || sql("UPDATE a SET n = n + 1 WHERE id = 0");
    let calls = vec![
        batch(&db, vec![more(), enqueue("x")]),
        batch(&db, vec![more(), enqueue("x")]),
        batch(&db, vec![more(), enqueue("y")]),
        batch(&db, vec![more(), more().expect_rows(2)]),
        batch(&db, vec![more(), sql("INSERT INTO nowhere VALUES (1)")]),
        batch(&db, vec![more(), enqueue("z")]),
    ];
    let mut answers = together(&db, calls).await;
    assert_eq!(answers.pop(), Some(Ok(vec![1, 1])));
    for kind in [Kind::Schema, Kind::RowCount] {
        let error = assert_refused(answers.pop().unwrap(), kind);
        assert_eq!(error.statement(), Some(1));
    }
    assert_eq!(answers.pop(), Some(Ok(vec![1, 1])));
    let error = assert_refused(answers.pop().unwrap(), Kind::Conflict);
    assert_eq!(error.constraint(), Some("outbox.id"));
    assert_eq!(answers.pop(), Some(Ok(vec![1, 1])));
    assert_eq!(number(&db, "SELECT n FROM a").await, 3);
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 3);
    assert_eq!(folder.commits() - before, 1);
}

#[tokio::test]
async fn the_first_that_fails_leaves_the_others_alone() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    let more = || sql("UPDATE a SET n = n + 1 WHERE id = 0");
    let calls = vec![
        batch(&db, vec![more(), sql("INSERT INTO a VALUES (0, 0)")]),
        batch(&db, vec![more()]),
        batch(&db, vec![more()]),
    ];
    let answers = together(&db, calls).await;
    assert_refused(answers[0].clone(), Kind::Conflict);
    assert_eq!(answers[1..], [Ok(vec![1]), Ok(vec![1])]);
    assert_eq!(number(&db, "SELECT n FROM a").await, 2);
}

#[tokio::test]
async fn a_step_that_panics_undoes_itself_alone() {
    let folder = Folder::new();
    let db = counting(&folder).await;
    let panics = {
        let db = db.clone();
        async move {
            let step = ReadThenWrite::new(sql("SELECT n FROM a"), |_| panic!("on purpose"));
            db.read_then_write(&step).await.map(|_| Vec::new())
        }
    };
    let calls: Vec<Call<Result<Vec<u64>, DbError>>> = vec![
        Box::pin(batch(&db, vec![enqueue("x")])),
        Box::pin(panics),
        Box::pin(batch(&db, vec![enqueue("y")])),
    ];
    let answers = together(&db, calls).await;
    assert_eq!(answers[0], Ok(vec![1]));
    assert_refused(answers[1].clone(), Kind::Other);
    assert_eq!(answers[2], Ok(vec![1]));
    assert_eq!(number(&db, "SELECT COUNT(*) AS n FROM outbox").await, 2);
}

#[tokio::test]
async fn reads_among_writes_see_what_was_written_before_them() {
    let db = SqliteDatabase::open_in_memory().await.unwrap();
    run(&db, "CREATE TABLE a (n INTEGER)").await;
    let write = |db: &SqliteDatabase| {
        let db = db.clone();
        async move {
            let count = db.execute(&sql("INSERT INTO a VALUES (1)")).await;
            i64::try_from(count.unwrap()).unwrap()
        }
    };
    let read = |db: &SqliteDatabase| {
        let db = db.clone();
        async move { number(&db, "SELECT COUNT(*) AS n FROM a").await }
    };
    let calls: Vec<Call<i64>> = vec![
        Box::pin(write(&db)),
        Box::pin(read(&db)),
        Box::pin(write(&db)),
        Box::pin(read(&db)),
    ];
    let answers = together(&db, calls).await;
    assert_eq!(answers, [1, 1, 1, 2]);
}
