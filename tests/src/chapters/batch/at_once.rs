//! Many batches at once, and many that fail.

use std::collections::BTreeSet;
use std::sync::Arc;

use duebox_core::{Dialect, Kind, Outcome, Statement};

use crate::Context;
use crate::context::{account, assert_refused, at, numbered};

pub(super) async fn a_hundred_failed_batches_leave_a_usable_pool(cx: Arc<Context>) {
    cx.make_account().await;
    cx.batch(&[account("a")]).await.expect("insert");
    for round in 0..100 {
        let (bad, kind) = match round % 4 {
            0 => (account("a"), Kind::Conflict),
            1 => (Statement::new("DELETE FROM nowhere"), Kind::Schema),
            2 => (
                Statement::new("DELETE FROM account").expect_rows(9),
                Kind::RowCount,
            ),
            _ => (Statement::new("SELECT ?"), Kind::InvalidArgument),
        };
        let answer = cx.batch(&[account("b"), bad, account("c")]).await;
        assert_refused(answer, kind);
        assert_eq!(cx.count_in("account").await, 1, "after round {round}");
    }
    let tasks: Vec<_> = (0..20)
        .map(|number| {
            let cx = Arc::clone(&cx);
            tokio::spawn(async move { cx.batch(&[account(&numbered(number))]).await })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.expect("a task").expect("insert"), [1]);
    }
    assert_eq!(cx.count_in("account").await, 21);
}

pub(super) async fn two_hundred_batches_and_claims_at_once_all_end(cx: Arc<Context>) {
    const BATCHES: usize = 100;
    cx.make_account().await;
    let mut tasks = Vec::new();
    for number in 0..BATCHES {
        let id = numbered(number);
        let batch = [
            account(&id),
            cx.outbox.enqueue_statement(&id, "t", "p", None, &at(0)),
        ];
        let (writer, claimer) = (Arc::clone(&cx), Arc::clone(&cx));
        tasks.push(tokio::spawn(async move {
            writer.batch(&batch).await.expect("a batch");
            Vec::new()
        }));
        tasks.push(tokio::spawn(async move {
            let won = claimer.claim(&at(0), &at(60), 3).await;
            won.into_iter().map(|record| record.id).collect()
        }));
    }
    let mut won = Vec::new();
    for task in tasks {
        won.extend(task.await.expect("none waits for ever"));
    }
    let rest = cx.claim(&at(0), &at(60), u64::MAX).await;
    won.extend(rest.into_iter().map(|record| record.id));
    assert_eq!(won.len(), BATCHES, "every row was handed out once");
    let distinct: BTreeSet<String> = won.into_iter().collect();
    assert_eq!(distinct, (0..BATCHES).map(numbered).collect());
    assert_eq!(cx.count_in("account").await, 100);
}

pub(super) async fn a_failed_batch_among_many_is_alone_in_failing(cx: Arc<Context>) {
    cx.make_account().await;
    cx.batch(&[account("there")]).await.expect("insert");
    let bad = |number: usize| match number % 10 {
        1 => Some((account("there"), Kind::Conflict)),
        4 => Some((Statement::new("DELETE FROM nowhere"), Kind::Schema)),
        7 => {
            let none = Statement::new("DELETE FROM account WHERE id = 'nobody'");
            Some((none.expect_rows(1), Kind::RowCount))
        }
        _ => None,
    };
    let tasks: Vec<_> = (0..60)
        .map(|number| {
            let id = numbered(number);
            let mut batch = vec![
                account(&id),
                cx.outbox.enqueue_statement(&id, "t", "p", None, &at(0)),
            ];
            batch.extend(bad(number).map(|(statement, _)| statement));
            let cx = Arc::clone(&cx);
            tokio::spawn(async move { cx.batch(&batch).await })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        let answer = task.await.expect("a task");
        match bad(number) {
            Some((_, kind)) => assert_refused(answer, kind),
            None => assert_eq!(answer.expect("nothing is wrong with it"), [1, 1]),
        }
    }
    assert_eq!((cx.count_in("account").await, cx.count().await), (43, 42));
    for number in 0..60 {
        let stored = cx.row(&numbered(number)).await.is_some();
        assert_eq!(stored, bad(number).is_none(), "{number}");
    }
}

/// Its first row is stored before the second turns out too large; by itself and in
/// a batch, beside work of others that may share its transaction.
pub(super) async fn a_refused_statement_among_many_at_once_leaves_no_row(cx: Arc<Context>) {
    cx.execute("CREATE TABLE part (kind BIGINT NOT NULL, n BIGINT NOT NULL)")
        .await;
    cx.execute("CREATE TABLE total (n BIGINT)").await;
    cx.execute("INSERT INTO part (kind, n) VALUES (1, 1), (2, 9223372036854775807), (2, 1)")
        .await;
    let add = || Statement::new("INSERT INTO total (n) SELECT SUM(n) FROM part GROUP BY kind");
    for round in 0..10 {
        let enqueue = |task: usize| {
            let cx = Arc::clone(&cx);
            tokio::spawn(async move {
                for row in 0..4 {
                    cx.enqueue(&format!("r{round}-{task}-{row}"), &at(0)).await;
                }
            })
        };
        let others: Vec<_> = (0..6).map(enqueue).collect();
        let refused = [false, true, false, true].map(|batch| {
            let (cx, add) = (Arc::clone(&cx), add());
            tokio::spawn(async move {
                if batch {
                    cx.batch(&[add]).await.map(drop)
                } else {
                    cx.db.execute(&add).await.map(drop)
                }
            })
        });
        for answer in refused {
            let error = answer.await.expect("no panic");
            let error = error.expect_err("the sum is too large");
            assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
        }
        for other in others {
            other.await.expect("an enqueue");
        }
    }
    assert_eq!(cx.count_in("total").await, 0);
    assert_eq!(cx.count_in(cx.outbox.table()).await, 240);
}

pub(super) async fn of_many_writers_of_one_version_one_wins(cx: Arc<Context>) {
    cx.make_account().await;
    cx.batch(&[account("a")]).await.expect("insert");
    for version in 0..5 {
        let tasks: Vec<_> = (0..8)
            .map(|writer| {
                let name = format!("{version}-{writer}");
                let batch = [
                    Statement::new(
                        "UPDATE account SET name = ?, version = version + 1 WHERE id = ? AND version = ?",
                    )
                    .bind(&name)
                    .bind("a")
                    .bind(version)
                    .expect_rows(1),
                    cx.outbox.enqueue_statement(&name, "t", "p", None, &at(0)),
                ];
                let cx = Arc::clone(&cx);
                tokio::spawn(async move { (name, cx.batch(&batch).await) })
            })
            .collect();
        let mut winners = Vec::new();
        for task in tasks {
            match task.await.expect("a task") {
                (name, Ok(_)) => winners.push(name),
                (_, Err(error)) => {
                    assert_eq!(error.kind(), Kind::RowCount, "{error}");
                    assert_eq!(error.outcome(), Outcome::NotApplied, "{error}");
                }
            }
        }
        let rows = cx
            .query(Statement::new("SELECT name, version FROM account"))
            .await;
        let name: String = rows[0].get("name").expect("a name");
        assert_eq!(winners, [name], "one writer has won");
        assert_eq!(rows[0].get::<i64>("version").expect("one"), version + 1);
        assert_eq!(cx.count().await, version + 1);
    }
}

pub(super) async fn a_constraint_that_waits_for_the_commit_undoes_its_batch_alone(
    cx: Arc<Context>,
) {
    if cx.dialect() == Dialect::MySql {
        // It looks at every constraint at once.
        return;
    }
    cx.make_account().await;
    cx.execute("CREATE TABLE house (id VARCHAR(64) NOT NULL PRIMARY KEY)")
        .await;
    cx.execute(
        "CREATE TABLE tenant (id VARCHAR(64) NOT NULL PRIMARY KEY, house VARCHAR(64) NOT NULL
        REFERENCES house (id) DEFERRABLE INITIALLY DEFERRED)",
    )
    .await;
    let house = |id: &str| Statement::new("INSERT INTO house (id) VALUES (?)").bind(id);
    let tenant = |id: &str| {
        Statement::new("INSERT INTO tenant (id, house) VALUES (?, ?)")
            .bind(id)
            .bind(id)
    };
    if cx.db.execute(&tenant("homeless")).await.is_ok() {
        // SQLite with its foreign keys switched off.
        return;
    }
    let homeless = |number: usize| number % 3 == 1;
    let tasks: Vec<_> = (0..30)
        .map(|number| {
            let id = numbered(number);
            let mut batch = vec![
                account(&id),
                tenant(&id),
                cx.outbox.enqueue_statement(&id, "t", "p", None, &at(0)),
            ];
            if !homeless(number) {
                batch.push(house(&id));
            }
            let cx = Arc::clone(&cx);
            tokio::spawn(async move { cx.batch(&batch).await })
        })
        .collect();
    for (number, task) in tasks.into_iter().enumerate() {
        let answer = task.await.expect("a task");
        if homeless(number) {
            assert_refused(answer, Kind::Constraint);
        } else {
            assert_eq!(answer.expect("its house came in time"), [1; 4]);
        }
    }
    for table in ["account", "tenant", "house", "outbox"] {
        assert_eq!(cx.count_in(table).await, 20, "{table}");
    }
}
