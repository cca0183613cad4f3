//! Futures that are dropped half-way, and answers that are lost.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use duebox_mysql::sqlx::{self, AssertSqlSafe, MySqlConnection};
use duebox_mysql::{Database, Kind, MySqlDatabase, MySqlOptions, Outbox, Outcome, Statement};

use crate::common::{Server, TestDatabase, run};
use crate::proxy::{self, Link};
use crate::tests;

tests!(cancel:
    a_dropped_batch_is_done_or_not_and_leaves_no_transaction,
    a_dropped_claim_leases_rows_or_not_and_leaves_no_transaction,
    a_wait_for_a_lock_that_is_dropped_gives_its_connection_up,
    a_commit_whose_answer_is_lost_is_not_sent_again
);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";

/// A handle with one connection, through a slow link.
pub(crate) async fn slow(of: &TestDatabase, delay: Duration, link: &Arc<Link>) -> MySqlDatabase {
    let url = of.url();
    let (user, rest) = url.split_once('@').expect("a user");
    let (address, path) = rest.split_once('/').expect("a database");
    let port = proxy::start(address.to_owned(), delay, Arc::clone(link)).await;
    // The link listens for words that TLS would hide.
    let url = format!("{user}@127.0.0.1:{port}/{path}?ssl-mode=DISABLED");
    let options = MySqlOptions::new(&url)
        .expect("an address")
        .max_connections(1);
    options.connect().await.expect("connect")
}

/// Waits until no session of the database is in a transaction.
async fn no_transaction_stays(of: &TestDatabase, admin: &mut MySqlConnection) {
    let sql = "SELECT COUNT(*) FROM information_schema.innodb_trx AS t \
               JOIN information_schema.processlist AS p ON p.id = t.trx_mysql_thread_id \
               WHERE p.db = ?";
    for _ in 0..500 {
        let open: i64 = sqlx::query_scalar(sql)
            .bind(&of.name)
            .fetch_one(&mut *admin)
            .await
            .expect("a count");
        if open == 0 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("a transaction stays open");
}

pub(crate) async fn count(of: &TestDatabase, sql: &str) -> i64 {
    let mut connection = of.raw().await;
    sqlx::query_scalar(AssertSqlSafe(sql.to_owned()))
        .fetch_one(&mut connection)
        .await
        .expect("a count")
}

async fn a_dropped_batch_is_done_or_not_and_leaves_no_transaction(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let mut admin = server.admin().await;
    let link = Arc::default();
    let db = slow(&of, Duration::from_millis(1), &link).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    run(
        &mut of.raw().await,
        "CREATE TABLE state (id VARCHAR(64) PRIMARY KEY)",
    )
    .await;

    let (mut done, mut rounds) = (0, 0);
    // On a slow machine it takes longer until one has the time.
    while rounds < 80 || (done == 0 && rounds < 2_000) {
        let after = rounds;
        rounds += 1;
        let id = format!("r{after:03}");
        let batch = [
            Statement::new("INSERT INTO state (id) VALUES (?)").bind(&id),
            outbox.enqueue_statement(&id, "t", "p", None, DAY),
        ];
        let pause = Duration::from_millis(after);
        if tokio::time::timeout(pause, db.batch_atomic(&batch))
            .await
            .is_ok()
        {
            done += 1;
        }
        // The next user of the only connection works outside of any of it.
        let marker = Statement::new("INSERT INTO state (id) VALUES (?)").bind(format!("m{after}"));
        assert_eq!(db.execute(&marker).await.expect("the pool works"), 1);
    }
    assert!(
        (1..rounds).contains(&done),
        "{done} of {rounds} came to an end"
    );
    no_transaction_stays(&of, &mut admin).await;
    assert_eq!(
        count(&of, "SELECT COUNT(*) FROM state WHERE id LIKE 'm%'").await,
        i64::try_from(rounds).expect("few")
    );
    let halves = "SELECT COUNT(*) FROM outbox AS o LEFT JOIN state AS s \
                  ON s.id = CONVERT(o.id USING utf8mb4) WHERE s.id IS NULL";
    assert_eq!(count(&of, halves).await, 0);
    let rows = count(&of, "SELECT COUNT(*) FROM outbox").await;
    assert_eq!(
        rows,
        count(&of, "SELECT COUNT(*) FROM state WHERE id LIKE 'r%'").await
    );
    assert!(
        rows >= i64::try_from(done).expect("few"),
        "{rows} rows, {done} batches came to an end"
    );
    of.drop().await;
}

async fn a_dropped_claim_leases_rows_or_not_and_leaves_no_transaction(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let mut admin = server.admin().await;
    let link = Arc::default();
    let db = slow(&of, Duration::from_millis(1), &link).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    let rows: Vec<_> = (0..200)
        .map(|row| outbox.enqueue_statement(&format!("r{row:03}"), "t", "p", None, DAY))
        .collect();
    db.batch_atomic(&rows).await.expect("enqueue");

    let (mut won, mut rounds) = (0, 0);
    while rounds < 40 || (won == 0 && rounds < 99) {
        // Longer and longer; in the end, longer than any claim takes.
        let pause = Duration::from_micros(rounds * rounds * rounds * 50);
        rounds += 1;
        let claim = outbox.claim_due(&db, NOW, LATER, 2);
        if let Ok(answer) = tokio::time::timeout(pause, claim).await {
            won += answer.expect("claim").len();
        }
    }
    no_transaction_stays(&of, &mut admin).await;
    assert!(won > 0);
    // What nobody knows to hold comes back by itself; all else is due now.
    let leased = count(
        &of,
        "SELECT COUNT(*) FROM outbox WHERE locked_until IS NOT NULL",
    )
    .await;
    assert!(usize::try_from(leased).expect("few") >= won && leased % 2 == 0);
    let rest = outbox
        .claim_due(&db, NOW, LATER, 1_000)
        .await
        .expect("claim")
        .len();
    assert_eq!(rest + usize::try_from(leased).expect("few"), 200);
    of.drop().await;
}

async fn a_wait_for_a_lock_that_is_dropped_gives_its_connection_up(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    let row = outbox.enqueue_statement("a", "t", "p", Some("s"), DAY);
    db.batch_atomic(&[row]).await.expect("enqueue");
    let mut holder = of.raw().await;
    run(&mut holder, "BEGIN").await;
    run(
        &mut holder,
        "SELECT id FROM outbox WHERE id = 'a' FOR UPDATE",
    )
    .await;

    let erase = outbox.erase_subject(&db, "s", 10);
    assert!(
        tokio::time::timeout(Duration::from_millis(300), erase)
            .await
            .is_err()
    );
    // With one connection in the pool, another must take its place.
    let stats = tokio::time::timeout(Duration::from_mins(2), outbox.stats(&db, NOW)).await;
    assert_eq!(stats.expect("the pool is stuck").expect("stats").due, 1);
    run(&mut holder, "COMMIT").await;
    of.drop().await;
}

async fn a_commit_whose_answer_is_lost_is_not_sent_again(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let link: Arc<Link> = Arc::default();
    let db = slow(&of, Duration::ZERO, &link).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    run(&mut of.raw().await, "CREATE TABLE tally (n INT NOT NULL)").await;
    run(&mut of.raw().await, "INSERT INTO tally (n) VALUES (0)").await;

    let batch = [
        Statement::new("UPDATE tally SET n = n + 1"),
        outbox.enqueue_statement("a", "t", "p", None, DAY),
    ];
    link.cut_at_commit.store(true, Ordering::SeqCst);
    let error = db
        .batch_atomic(&batch)
        .await
        .expect_err("the answer is lost");
    link.cut_at_commit.store(false, Ordering::SeqCst);
    assert_eq!(error.kind(), Kind::Unavailable, "{error}");
    assert_eq!(error.outcome(), Outcome::Unknown);
    // The server had heard it. A repetition is a conflict and changes nothing.
    let mut tally = 0;
    for _ in 0..500 {
        tally = count(&of, "SELECT n FROM tally").await;
        if tally == 1 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let error = db.batch_atomic(&batch).await.expect_err("it is there");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::Conflict, Outcome::NotApplied)
    );
    assert_eq!((tally, count(&of, "SELECT n FROM tally").await), (1, 1));

    // A claim whose answer is lost comes back when its lease ends.
    link.cut_at_commit.store(true, Ordering::SeqCst);
    outbox
        .claim_due(&db, NOW, LATER, 10)
        .await
        .expect_err("the answer is lost");
    link.cut_at_commit.store(false, Ordering::SeqCst);
    let mut early = 1;
    for _ in 0..500 {
        early = count(
            &of,
            "SELECT COUNT(*) FROM outbox WHERE locked_until IS NULL",
        )
        .await;
        if early == 0 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    assert_eq!(early, 0);
    let until = "2026-03-04T00:00:00.000000Z";
    let again = outbox
        .claim_due(&db, LATER, until, 10)
        .await
        .expect("claim");
    assert_eq!((again.len(), again[0].claims, again[0].lapses), (1, 2, 1));
    of.drop().await;
}
