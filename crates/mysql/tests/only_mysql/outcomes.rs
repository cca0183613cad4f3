//! Statements that run others: whether they are run again, what is said of them,
//! and what they leave to those that come after.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duebox_mysql::sqlx::Executor;
use duebox_mysql::{Database, DbError, Kind, MySqlDatabase, Outcome, Statement};

use crate::cancel::{count, slow};
use crate::common::{Server, TestDatabase, run};
use crate::pools::pool;
use crate::proxy::Link;
use crate::tests;

tests!(outcomes:
    a_procedure_that_commits_is_called_once_however_it_is_written,
    a_function_that_writes_is_called_once_when_its_answer_is_lost,
    an_idle_connection_that_ended_is_replaced_before_a_query,
    a_transaction_that_a_statement_left_open_is_told_and_rolled_back
);

async fn with_procedures(server: Server) -> TestDatabase {
    let of = TestDatabase::new(server, "").await;
    let mut raw = of.raw().await;
    for sql in [
        "CREATE TABLE done (a VARCHAR(40))",
        "CREATE PROCEDURE commits() BEGIN INSERT INTO done VALUES ('x'); COMMIT; \
         SIGNAL SQLSTATE '40001' SET MYSQL_ERRNO = 1213; END",
        "CREATE PROCEDURE begins() BEGIN START TRANSACTION; INSERT INTO done VALUES ('open'); END",
        "CREATE PROCEDURE fails() BEGIN START TRANSACTION; INSERT INTO done VALUES ('open'); \
         SIGNAL SQLSTATE '45000' SET MYSQL_ERRNO = 1062; END",
        "CREATE PROCEDURE turns_off() SET autocommit = 0",
        "CREATE PROCEDURE writes() INSERT INTO done VALUES ('kept')",
        "CREATE FUNCTION bump(x VARCHAR(40)) RETURNS INT MODIFIES SQL DATA \
         BEGIN INSERT INTO done VALUES (x); RETURN 1; END",
    ] {
        run(&mut raw, sql).await;
    }
    of
}

/// The ways to write it that are one statement.
fn forms(server: Server, call: &'static str) -> Vec<String> {
    let mut forms = vec![
        call.to_owned(),
        format!("/* x */ {call}"),
        format!("-- x\n{call}"),
        format!("/*! {call} */"),
    ];
    if server.name == "mariadb" {
        forms.push(format!("EXECUTE IMMEDIATE '{call}'"));
        forms.push(format!("SET STATEMENT max_statement_time = 100 FOR {call}"));
    }
    forms
}

/// What is said of it by each call that can run it.
async fn both(db: &MySqlDatabase, statement: &Statement) -> Vec<Result<(), DbError>> {
    let mut answers = vec![db.execute(statement).await.map(drop)];
    // Rows are read of what can be prepared alone.
    let unprepared = statement.sql().expect("a text").starts_with("EXECUTE");
    if !unprepared {
        answers.push(db.query(statement).await.map(drop));
    }
    answers
}

async fn a_procedure_that_commits_is_called_once_however_it_is_written(server: Server) {
    let of = with_procedures(server).await;
    let own = of.connect(2).await;
    let borrowed = MySqlDatabase::from_pool(pool(&of, 2, "SELECT 1").await);
    for db in [own, borrowed] {
        for sql in forms(server, "CALL commits()") {
            let call = Statement::new(sql.clone());
            let answers = both(&db, &call).await;
            for answer in &answers {
                let error = answer.as_ref().expect_err(&sql);
                assert_eq!(error.outcome(), Outcome::Unknown, "{sql}: {error}");
                assert_eq!(error.code(), Some("1213"), "{sql}: {error}");
            }
            let calls = count(&of, "SELECT COUNT(*) FROM done").await;
            assert_eq!(usize::try_from(calls), Ok(answers.len()), "{sql}");
            run(&mut of.raw().await, "DELETE FROM done").await;
        }
    }
    of.drop().await;
}

async fn a_function_that_writes_is_called_once_when_its_answer_is_lost(server: Server) {
    let of = with_procedures(server).await;
    let link: Arc<Link> = Arc::default();
    let db = slow(&of, Duration::ZERO, &link).await;
    for sql in ["SELECT bump(?) AS b", "/* x */ SELECT bump(?) AS b"] {
        let bump = Statement::new(sql).bind("cut-here");
        // Once prepared anew, and once known to the connection.
        for round in 1..=2 {
            link.cut_at_mark.store(true, Ordering::SeqCst);
            let error = db.query(&bump).await.expect_err("the answer is lost");
            link.cut_at_mark.store(false, Ordering::SeqCst);
            assert_eq!(
                (error.kind(), error.outcome()),
                (Kind::Unavailable, Outcome::Unknown),
                "{error}"
            );
            let rows = "SELECT COUNT(*) FROM done";
            for _ in 0..500 {
                if count(&of, rows).await >= round {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            assert_eq!(count(&of, rows).await, round, "{sql}");
            let other = Statement::new(sql).bind("x");
            db.query(&other).await.expect("another connection");
            run(&mut of.raw().await, "DELETE FROM done WHERE a = 'x'").await;
        }
        run(&mut of.raw().await, "DELETE FROM done").await;
    }
    of.drop().await;
}

async fn an_idle_connection_that_ended_is_replaced_before_a_query(server: Server) {
    let of = with_procedures(server).await;
    let db = of.connect(1).await;
    let bump = Statement::new("SELECT bump(?) AS b").bind("x");
    db.query(&bump).await.expect("query");
    tokio::time::sleep(Duration::from_millis(50)).await;
    of.cut().await;
    tokio::time::sleep(Duration::from_millis(150)).await;
    db.query(&bump).await.expect("another connection");
    // Ended just now, and the text is not prepared yet: the server heard nothing.
    let fresh = Statement::new("SELECT bump(?) AS c").bind("x");
    of.cut().await;
    db.query(&fresh).await.expect("another connection");
    assert_eq!(count(&of, "SELECT COUNT(*) FROM done").await, 3);
    of.drop().await;
}

async fn a_transaction_that_a_statement_left_open_is_told_and_rolled_back(server: Server) {
    let of = with_procedures(server).await;
    let mut left = forms(server, "CALL begins()");
    if server.name == "mariadb" {
        left.push("EXECUTE IMMEDIATE 'START TRANSACTION'".to_owned());
    }
    let own = of.connect(1).await;
    let borrowed = MySqlDatabase::from_pool(pool(&of, 1, "SELECT 1").await);
    let mine = Statement::new("INSERT INTO done VALUES ('mine')");
    for db in [own, borrowed] {
        for sql in &left {
            let call = Statement::new(sql.clone());
            for answer in both(&db, &call).await {
                let error = answer.expect_err(sql);
                assert_eq!(
                    (error.kind(), error.outcome()),
                    (Kind::Unsupported, Outcome::Unknown),
                    "{sql}: {error}"
                );
                assert!(error.to_string().contains("transaction open"), "{error}");
            }
            assert_eq!(db.execute(&mine).await.expect("insert"), 1);
            assert_eq!(count(&of, "SELECT COUNT(*) FROM done").await, 1, "{sql}");
            run(&mut of.raw().await, "DELETE FROM done").await;
        }
        // One that failed, one that leaves no transaction but the next one open.
        let failed = db.execute(&Statement::new("CALL fails()")).await;
        assert_eq!(failed.expect_err("1062").outcome(), Outcome::Unknown);
        db.execute(&mine).await.expect("insert");
        db.execute(&Statement::new("CALL turns_off()"))
            .await
            .expect("call");
        db.execute(&mine).await.expect("insert");
        // And one that does all that it should.
        db.execute(&Statement::new("CALL writes()"))
            .await
            .expect("call");
        assert_eq!(count(&of, "SELECT COUNT(*) FROM done").await, 3);
        run(&mut of.raw().await, "DELETE FROM done").await;
        let row = db.pool().fetch_one("SELECT 1").await;
        row.expect("the pool goes on");
    }
    of.drop().await;
}
