//! What claims, the fenced calls and erasure lock, and in which order.

use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use duebox_mysql::chrono::{DateTime, Utc};
use duebox_mysql::sqlx::{self, AssertSqlSafe, MySqlConnection};
use duebox_mysql::{
    Database, DbError, Dialect, Enqueue, Lease, MySqlDatabase, Outbox, ReadThenWrite, Row,
    Statement, Value, parse_time,
};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(locks:
    a_claim_locks_the_rows_that_it_returns_and_no_other,
    a_claim_is_served_in_order_by_the_due_index_on_a_table_of_any_size,
    what_acts_by_id_locks_no_other_row,
    erasing_waits_for_the_rows_of_its_subject_alone,
    an_enqueue_waits_for_no_claim
    ; alone:
    erasing_and_completing_the_same_rows_meet_no_deadlock
);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";

/// Enqueues `rows` rows of three subjects.
async fn filled(of: &TestDatabase, rows: usize, portable: bool) -> (MySqlDatabase, Outbox) {
    let db = of.connect(8).await;
    let outbox = Outbox::new("outbox");
    if portable {
        let sql = Statement::new(outbox.create_table_sql());
        db.execute(&sql).await.expect("make the table");
    } else {
        db.migrate_outbox(&outbox).await.expect("migrate");
    }
    let day = parse_time(DAY).expect("a time");
    let work = (0..rows).map(|row| {
        Enqueue::new("t")
            .id(format!("r{row:06}"))
            .payload("p")
            .subject(format!("s{}", row % 3))
            .at(day)
    });
    db.execute(&outbox.enqueue_many_statement(work))
        .await
        .expect("enqueue");
    (db, outbox)
}

/// A statement as it was sent.
type Sent = (String, Vec<Value>);

/// Keeps the statements that pass through it.
struct Spy {
    db: MySqlDatabase,
    seen: Arc<Mutex<Vec<Sent>>>,
}

impl Spy {
    fn note(&self, statement: &Statement) {
        let rendered = statement.render(Dialect::MySql).expect("a statement");
        let seen = (rendered.sql().to_owned(), rendered.values().to_vec());
        self.seen.lock().expect("no panic").push(seen);
    }
}

#[async_trait]
impl Database for Spy {
    fn dialect(&self) -> Dialect {
        Dialect::MySql
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, DbError> {
        self.note(statement);
        self.db.execute(statement).await
    }

    async fn query(&self, statement: &Statement) -> Result<Vec<Row>, DbError> {
        self.note(statement);
        self.db.query(statement).await
    }

    async fn batch_atomic(&self, statements: &[Statement]) -> Result<Vec<u64>, DbError> {
        for statement in statements {
            self.note(statement);
        }
        self.db.batch_atomic(statements).await
    }

    async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        self.db.now().await
    }

    async fn read_then_write(&self, step: &ReadThenWrite) -> Result<Vec<Row>, DbError> {
        self.note(step.read());
        let rows = self.db.read_then_write(step).await?;
        for statement in step.then(&rows)? {
            self.note(&statement);
        }
        Ok(rows)
    }
}

/// The statements of one claim, whose lease will end at a time that no row has
/// had before: on MariaDB a unique index takes gap locks where a row returns to
/// a place that it had.
async fn claim_of(db: &MySqlDatabase, outbox: &Outbox, limit: u64) -> Vec<Sent> {
    let spy = Spy {
        db: db.clone(),
        seen: Arc::default(),
    };
    let claimed = outbox
        .claim_due(&spy, NOW, LATER, limit)
        .await
        .expect("claim");
    for record in &claimed {
        outbox.release(db, &[&record.id]).await.expect("release");
    }
    let mut seen = spy.seen.lock().expect("no panic").clone();
    for (_, values) in &mut seen {
        for value in values
            .iter_mut()
            .filter(|value| **value == Value::from(LATER))
        {
            *value = Value::from("2026-03-04T00:00:00.000000Z");
        }
    }
    seen
}

fn query<'q>(
    sql: &str,
    values: &[Value],
) -> sqlx::query::Query<'q, sqlx::MySql, sqlx::mysql::MySqlArguments> {
    let mut query = sqlx::query(AssertSqlSafe(sql.to_owned()));
    for value in values {
        query = match value {
            Value::Null => query.bind(None::<String>),
            Value::Text(text) => query.bind(text.clone()),
            Value::Integer(number) => query.bind(*number),
            other => panic!("{other:?} in a statement of the outbox"),
        };
    }
    query
}

async fn begin(connection: &mut MySqlConnection) {
    run(
        connection,
        "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    )
    .await;
    run(connection, "BEGIN").await;
}

async fn a_claim_locks_the_rows_that_it_returns_and_no_other(server: Server) {
    for (rows, portable) in [(12, true), (12, false), (300, true), (300, false)] {
        let of = TestDatabase::new(server, "").await;
        let (db, outbox) = filled(&of, rows, portable).await;
        let statements = claim_of(&db, &outbox, 5).await;
        let (read, values) = &statements[0];
        let mut holder = of.raw().await;
        begin(&mut holder).await;
        let held = query(read, values)
            .fetch_all(&mut holder)
            .await
            .expect("read");
        assert_eq!(held.len(), 5);
        // The write that follows locks nothing more either.
        let (write, values) = &statements[1];
        query(write, values)
            .execute(&mut holder)
            .await
            .expect("lease");

        let others = outbox
            .claim_due(&db, NOW, LATER, 1_000)
            .await
            .expect("claim");
        assert_eq!(
            others.len(),
            rows - 5,
            "of {rows} rows, portable {portable}"
        );
        assert!(others.iter().all(|record| record.id.as_str() > "r000004"));
        drop(holder);
        of.drop().await;
    }
}

async fn a_claim_is_served_in_order_by_the_due_index_on_a_table_of_any_size(server: Server) {
    for rows in [1, 4, 40, 2_000] {
        let of = TestDatabase::new(server, "").await;
        let (db, outbox) = filled(&of, rows, false).await;
        let statements = claim_of(&db, &outbox, 10).await;
        for (place, key) in [(0, "outbox_due"), (1, "PRIMARY")] {
            let plan = explain(&db, &statements[place]).await;
            assert_eq!(plan, [format!("range {key}")], "{}", statements[place].0);
        }
        of.drop().await;
    }
}

/// How each table is reached, and whether anything is sorted.
async fn explain(db: &MySqlDatabase, (sql, values): &Sent) -> Vec<String> {
    let mut statement = Statement::new(format!("EXPLAIN FORMAT=TRADITIONAL {sql}"));
    for value in values {
        statement = statement.bind(value.clone());
    }
    let rows = db.query(&statement).await.expect("a plan");
    rows.iter()
        .map(|row| {
            let text = |name: &str| {
                row.get::<Option<String>>(name)
                    .expect("a text")
                    .unwrap_or_default()
            };
            let sorts = if text("Extra").contains("filesort") {
                " sorts"
            } else {
                ""
            };
            format!("{} {}{sorts}", text("type"), text("key"))
        })
        .collect()
}

async fn what_acts_by_id_locks_no_other_row(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (db, outbox) = filled(&of, 8, true).await;
    let mine = outbox.claim_due(&db, NOW, LATER, 3).await.expect("claim");
    // Somebody is at work on all the others.
    let mut holder = of.raw().await;
    begin(&mut holder).await;
    run(
        &mut holder,
        "SELECT id FROM outbox WHERE id > 'r000002' FOR UPDATE",
    )
    .await;

    let leases: Vec<_> = mine.iter().map(|record| record.lease.clone()).collect();
    let outcomes = soon(outbox.extend_claimed(&db, &leases, LATER)).await;
    assert!(outcomes.iter().all(|outcome| outcome.is_held()));
    soon(outbox.complete_claimed(&db, &leases[..1])).await;
    soon(outbox.release_claimed(&db, &leases[1..2], NOW)).await;
    assert_eq!(soon(outbox.park(&db, &["r000001"], NOW, "x")).await, 1);
    assert_eq!(soon(outbox.unpark(&db, &["r000001"], NOW)).await, 1);
    // A list that is longer than the table makes a scan of it look cheap.
    let mut many: Vec<String> = (0..30).map(|number| format!("none{number}")).collect();
    many.push("r000001".into());
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    assert_eq!(soon(outbox.park(&db, &many, NOW, "x")).await, 1);
    assert_eq!(soon(outbox.delete(&db, &many)).await, 1);
    let mut leases = vec![mine[2].lease.clone()];
    leases.extend(many.iter().map(|id| Lease::new(*id, 1, DAY)));
    let outcomes = soon(outbox.complete_claimed(&db, &leases)).await;
    assert!(outcomes[0].is_held());
    assert!(outcomes[1..].iter().all(|outcome| !outcome.is_held()));
    soon(outbox.complete(&db, "r000000")).await;
    drop(holder);
    of.drop().await;
}

/// The answer of something that must not wait for a lock.
async fn soon<T>(work: impl Future<Output = Result<T, DbError>>) -> T {
    tokio::time::timeout(std::time::Duration::from_mins(2), work)
        .await
        .expect("it waits for a lock")
        .expect("it works")
}

async fn erasing_waits_for_the_rows_of_its_subject_alone(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (db, outbox) = filled(&of, 9, true).await;
    let mut holder = of.raw().await;
    begin(&mut holder).await;
    run(
        &mut holder,
        "SELECT id FROM outbox WHERE subject = 's1' FOR UPDATE",
    )
    .await;

    assert_eq!(soon(outbox.erase_subject(&db, "s0", 2)).await, 2);
    assert_eq!(soon(outbox.erase_subject(&db, "s0", u64::MAX)).await, 1);
    assert_eq!(soon(outbox.erase_subject(&db, "s0", 10)).await, 0);
    let all = outbox.erase_subject_statement("s2");
    assert_eq!(soon(db.execute(&all)).await, 3);

    let waiting = tokio::spawn({
        let (db, outbox) = (db.clone(), outbox.clone());
        async move { outbox.erase_subject(&db, "s1", 10).await }
    });
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    assert!(!waiting.is_finished());
    run(&mut holder, "COMMIT").await;
    assert_eq!(waiting.await.expect("no panic").expect("it works"), 3);
    of.drop().await;
}

async fn erasing_and_completing_the_same_rows_meet_no_deadlock(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (db, outbox) = filled(&of, 600, false).await;
    let mut admin = server.admin().await;
    let before = deadlocks(&mut admin).await;
    let completing = async {
        let mut completed = 0;
        loop {
            let mine = outbox.claim_due(&db, NOW, LATER, 20).await.expect("claim");
            if mine.is_empty() {
                return completed;
            }
            let leases: Vec<_> = mine.into_iter().map(|record| record.lease).collect();
            let outcomes = outbox
                .complete_claimed(&db, &leases)
                .await
                .expect("complete");
            completed += outcomes.iter().filter(|outcome| outcome.is_held()).count();
        }
    };
    let erasing = async {
        let mut erased = 0;
        for subject in ["s0", "s1", "s2"].iter().cycle().take(60) {
            erased += outbox.erase_subject(&db, subject, 7).await.expect("erase");
        }
        usize::try_from(erased).expect("few")
    };
    let (completed, erased) = tokio::join!(completing, erasing);
    assert_eq!(completed + erased, 600);
    assert!(erased > 0 && completed > 0, "{completed} {erased}");
    assert_eq!(deadlocks(&mut admin).await, before);
    of.drop().await;
}

/// How many deadlocks the server has broken, as far as it counts them.
async fn deadlocks(admin: &mut MySqlConnection) -> i64 {
    let sql = "SELECT CAST(count AS SIGNED) FROM information_schema.innodb_metrics \
               WHERE name = 'lock_deadlocks'";
    sqlx::query_scalar(sql)
        .fetch_one(admin)
        .await
        .expect("a count")
}

async fn an_enqueue_waits_for_no_claim(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let (db, outbox) = filled(&of, 10, true).await;
    let statements = claim_of(&db, &outbox, 5).await;
    let mut holder = of.raw().await;
    begin(&mut holder).await;
    query(&statements[0].0, &statements[0].1)
        .fetch_all(&mut holder)
        .await
        .expect("read");
    query(&statements[1].0, &statements[1].1)
        .execute(&mut holder)
        .await
        .expect("lease");
    // Before, between and behind the rows of the claim, and on an empty range.
    for (id, at) in [
        ("a", "2026-02-28T00:00:00Z"),
        ("r000001x", DAY),
        ("z", DAY),
        ("y", LATER),
    ] {
        let enqueue = outbox.enqueue_statement(id, "t", "p", Some("s0"), at);
        soon(db.batch_atomic(&[enqueue])).await;
    }
    drop(holder);
    of.drop().await;
}
