//! The caller's own transaction.

use duebox_mysql::sqlx::{self, Connection};
use duebox_mysql::{Database, Kind, Outbox, Outcome, Statement};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(transactions:
    statements_run_in_the_callers_transaction,
    a_handler_takes_effect_once,
    what_would_commit_is_refused,
    what_could_not_be_undone_is_refused_in_a_batch
);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";

async fn statements_run_in_the_callers_transaction(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(2).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    let row = outbox.enqueue_statement("a", "t", "p", None, DAY);

    let mut transaction = db.pool().begin().await.expect("begin");
    assert_eq!(
        duebox_mysql::execute(&mut transaction, &row)
            .await
            .expect("enqueue"),
        1
    );
    let seen = Statement::new("SELECT id FROM outbox");
    assert_eq!(
        duebox_mysql::query(&mut transaction, &seen)
            .await
            .expect("query")
            .len(),
        1
    );
    assert!(db.query(&seen).await.expect("query").is_empty());
    transaction.rollback().await.expect("roll back");
    assert!(db.query(&seen).await.expect("query").is_empty());

    let mut connection = of.raw().await;
    let mut transaction = connection.begin().await.expect("begin");
    duebox_mysql::execute(&mut transaction, &row)
        .await
        .expect("enqueue");
    let error = duebox_mysql::execute(&mut transaction, &row)
        .await
        .expect_err("it is there");
    assert_eq!(error.kind(), Kind::Conflict);
    transaction.commit().await.expect("commit");
    assert_eq!(db.query(&seen).await.expect("query").len(), 1);
    of.drop().await;
}

async fn a_handler_takes_effect_once(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(2).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    run(&mut of.raw().await, "CREATE TABLE effect (n INT)").await;
    db.batch_atomic(&[outbox.enqueue_statement("a", "t", "p", None, DAY)])
        .await
        .expect("enqueue");
    let old = outbox
        .claim_due(&db, NOW, LATER, 1)
        .await
        .expect("claim")
        .remove(0)
        .lease;
    let until = "2026-03-04T00:00:00Z";
    let new = outbox
        .claim_due(&db, LATER, until, 1)
        .await
        .expect("claim")
        .remove(0)
        .lease;

    for (lease, held) in [(&old, false), (&new, true), (&new, false)] {
        let mut transaction = db.pool().begin().await.expect("begin");
        sqlx::query("INSERT INTO effect VALUES (1)")
            .execute(&mut *transaction)
            .await
            .expect("insert");
        match duebox_mysql::execute(&mut transaction, &outbox.complete_statement(lease)).await {
            Ok(1) if held => transaction.commit().await.expect("commit"),
            Err(error) if !held && error.kind() == Kind::RowCount => {
                transaction.rollback().await.expect("roll back");
            }
            answer => panic!("{answer:?}"),
        }
    }
    let rows = db
        .query(&Statement::new("SELECT n FROM effect"))
        .await
        .expect("query");
    assert_eq!(rows.len(), 1);
    of.drop().await;
}

async fn what_would_commit_is_refused(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    run(&mut of.raw().await, "CREATE TABLE t (n INT)").await;
    let mut transaction = db.pool().begin().await.expect("begin");
    sqlx::query("INSERT INTO t VALUES (1)")
        .execute(&mut *transaction)
        .await
        .expect("insert");
    for sql in [
        "CREATE TABLE u (n INT)",
        "COMMIT",
        "TRUNCATE t",
        "SET autocommit = 1",
        "LOCK TABLES t READ",
    ] {
        let error = duebox_mysql::execute(&mut transaction, &Statement::new(sql))
            .await
            .expect_err(sql);
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unsupported, Outcome::NotApplied),
            "{sql}"
        );
    }
    transaction.rollback().await.expect("roll back");
    assert!(
        db.query(&Statement::new("SELECT n FROM t"))
            .await
            .expect("query")
            .is_empty()
    );
    of.drop().await;
}

async fn what_could_not_be_undone_is_refused_in_a_batch(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    run(&mut of.raw().await, "CREATE TABLE t (n INT)").await;
    let portable = Outbox::new("portable").create_table_sql();
    let refused = [
        &*portable,
        "CREATE TABLE u (n INT)",
        "ALTER TABLE t ADD m INT",
        "TRUNCATE TABLE t",
        "RENAME TABLE t TO u",
        "ANALYZE TABLE t",
        "GRANT SELECT ON t TO somebody",
        "CALL p()",
        "FLUSH TABLES",
        "/*!50000 DROP TABLE t */",
    ];
    for sql in refused {
        let batch = [
            Statement::new("INSERT INTO t VALUES (1)"),
            Statement::new(sql.to_owned()),
        ];
        let error = db.batch_atomic(&batch).await.expect_err(sql);
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unsupported, Outcome::NotApplied),
            "{sql}"
        );
        assert_eq!(error.statement(), Some(1));
    }
    assert!(
        db.query(&Statement::new("SELECT n FROM t"))
            .await
            .expect("query")
            .is_empty()
    );
    of.drop().await;
}
