//! The claim, which is one statement here.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use duebox_postgres::{Claim, Database, Outbox, Statement};

use crate::place::{Place, at, every_way, tokio_at};
use crate::proxy::Proxy;

/// A setting of this test: the planner takes the table for one of a single row, and
/// joins the other way round.
const ONE_ROW: &str = "-c%20enable_material%3Doff";

/// The planner may run the locking part of a claim more than once, if it is let:
/// then more rows are locked than asked for, and some leased that nobody gets.
pub(crate) async fn leases_exactly_what_it_returns_under_every_join_plan() {
    let settings = [
        "",
        ONE_ROW,
        "-c%20enable_nestloop%3Doff",
        "-c%20enable_hashjoin%3Doff",
        "-c%20enable_hashjoin%3Doff%20-c%20enable_hashagg%3Doff%20-c%20enable_material%3Doff",
        "-c%20enable_nestloop%3Doff%20-c%20enable_hashjoin%3Doff",
        "-c%20enable_indexscan%3Doff%20-c%20enable_bitmapscan%3Doff",
        "-c%20plan_cache_mode%3Dforce_generic_plan",
        "-c%20plan_cache_mode%3Dforce_custom_plan",
    ];
    for setting in settings {
        // Not analyzed, so that the planner guesses.
        let place = Place::new().await;
        place.make_outbox().await;
        place
            .run("ALTER TABLE outbox SET (autovacuum_enabled = off)")
            .await;
        place.fill(10_000).await;
        if setting == ONE_ROW {
            let sql = "UPDATE pg_class SET reltuples = 1, relpages = 100000 WHERE oid = 'outbox'::regclass";
            place.run(sql).await;
        }
        let rounds = if setting == ONE_ROW { 10 } else { 40 };
        let url = place.url_at(
            &crate::place::server().expect("a server"),
            &format!("%20{setting}"),
        );
        let db = Arc::new(tokio_at(&url, 8).await);
        let tasks = (0..8).map(|task| {
            let db = Arc::clone(&db);
            tokio::spawn(async move {
                let outbox = Outbox::new("outbox");
                let mut claims = Vec::new();
                for number in 0..rounds {
                    let limit = if number % 2 == 0 { 1 } else { 5 };
                    let name = format!("{task}-{number}");
                    let claim = Claim::new(at(10), at(20)).limit(limit).locked_by(&name);
                    let records = outbox.claim(&*db, &claim).await.expect("claim");
                    claims.push((name, limit, records));
                }
                claims
            })
        });
        let mut seen = HashSet::new();
        for task in tasks.collect::<Vec<_>>() {
            for (name, limit, records) in task.await.expect("a task") {
                let leased = place
                    .number(&format!(
                        "SELECT count(*) FROM outbox WHERE locked_by = '{name}'"
                    ))
                    .await;
                assert_eq!(leased as usize, records.len(), "{setting}");
                assert_eq!(
                    records.len() as u64,
                    limit,
                    "{setting}: there is enough for all"
                );
                for record in records {
                    assert!(seen.insert(record.id), "{setting}: handed out twice");
                }
            }
        }
        place.close().await;
    }
}

/// A plan that is made anew at each claim takes longer than the claim.
pub(crate) async fn keeps_its_plan() {
    let place = Place::new().await;
    place.make_outbox().await;
    place.fill(20_000).await;
    place.run("ANALYZE outbox").await;
    let db = tokio_at(&place.url(), 1).await;
    let outbox = Outbox::new("outbox");
    for _ in 0..20 {
        let records = outbox
            .claim_due(&db, &at(10), &at(20), 100)
            .await
            .expect("claim");
        assert_eq!(records.len(), 100);
    }
    let leases: Vec<_> = outbox
        .claim_due(&db, &at(10), &at(20), 600)
        .await
        .expect("claim");
    for lease in &leases {
        let leases = std::slice::from_ref(&lease.lease);
        outbox
            .complete_claimed(&db, leases)
            .await
            .expect("complete");
    }
    let plans = "SELECT generic_plans, custom_plans, statement FROM pg_prepared_statements
                 WHERE statement LIKE '%LIMIT%' OR statement LIKE '%DELETE%'";
    let plans = db.query(&Statement::new(plans)).await.expect("plans");
    assert_eq!(plans.len(), 3, "the claim, the completion, and this query");
    for plan in plans.iter().filter(|plan| {
        !plan
            .get::<String>("statement")
            .unwrap()
            .contains("pg_prepared")
    }) {
        let (kept, made): (i64, i64) = (
            plan.get("generic_plans").unwrap(),
            plan.get("custom_plans").unwrap(),
        );
        assert!(made <= 5 && kept >= 15, "{made} made anew, {kept} kept");
    }
    place.close().await;
}

/// One that was made while the table was empty reads, and sorts, all of it; and the
/// server keeps it until it has counted the table again.
pub(crate) async fn makes_its_plan_anew_before_long() {
    let place = Place::new().await;
    place.make_outbox().await;
    place
        .run("ALTER TABLE outbox SET (autovacuum_enabled = off)")
        .await;
    place.run("VACUUM ANALYZE outbox").await;
    let outbox = Outbox::new("outbox");
    let ways = every_way(&place.url(), 1).await;
    let prepared: Vec<_> = ways.iter().step_by(2).collect();
    for (name, db) in &prepared {
        for _ in 0..10 {
            let none = outbox
                .claim_due(&**db, &at(1), &at(2), 10)
                .await
                .expect(name);
            assert!(none.is_empty());
        }
    }
    place.fill(50_000).await;
    let filled = "SELECT EXTRACT(EPOCH FROM clock_timestamp())::float8 AS filled";
    let rows = prepared[0].1.query(&Statement::new(filled)).await;
    let filled: f64 = rows.expect("a time")[0].get("filled").unwrap();
    tokio::time::sleep(Duration::from_millis(5_200)).await;
    for (name, db) in &prepared {
        outbox
            .claim_due(&**db, &at(1), &at(2), 10)
            .await
            .expect(name);
        let newest = "SELECT EXTRACT(EPOCH FROM max(prepare_time))::float8 AS prepared
                      FROM pg_prepared_statements WHERE statement LIKE '%SKIP LOCKED%'";
        let rows = db.query(&Statement::new(newest)).await.expect("a time");
        let prepared: f64 = rows[0].get("prepared").unwrap();
        assert!(prepared > filled, "{name}: the plan is of the empty table");
    }
    place.close().await;
}

/// Whatever the server knows of its values, and also if it knows nothing.
pub(crate) async fn reads_no_whole_table() {
    let place = Place::new().await;
    place.make_outbox().await;
    place.fill(100_000).await;
    let outbox = Outbox::new("outbox");
    for analyzed in [false, true] {
        if analyzed {
            place.run("ANALYZE outbox").await;
        }
        for mode in ["force_generic_plan", "force_custom_plan", "auto"] {
            let url = place.url_at(
                &crate::place::server().expect("a server"),
                &format!("%20-c%20plan_cache_mode%3D{mode}"),
            );
            let db = tokio_at(&url, 1).await;
            for limit in [1, 100, 5_000] {
                let reads = "SELECT COALESCE(sum(seq_tup_read), 0)::bigint FROM pg_stat_xact_user_tables WHERE relid = 'outbox'::regclass";
                let mut rows = 0;
                let client = place.client().await;
                client
                    .batch_execute(&format!("SET plan_cache_mode = {mode}; BEGIN"))
                    .await
                    .unwrap();
                rows += outbox_claim(&client, &outbox, limit).await;
                let read: i64 = client.query_one(reads, &[]).await.unwrap().get(0);
                client.batch_execute("ROLLBACK").await.unwrap();
                assert_eq!(rows, limit);
                assert_eq!(read, 0, "{mode}, analyzed: {analyzed}, limit {limit}");
            }
            drop(db);
        }
    }
    place.close().await;
}

/// A claim in a transaction of the test's own.
async fn outbox_claim(
    client: &duebox_postgres::tokio_postgres::Client,
    outbox: &Outbox,
    limit: u64,
) -> u64 {
    let db = OnClient(client);
    outbox
        .claim_due(&db, &at(10), &at(20), limit)
        .await
        .expect("claim")
        .len() as u64
}

/// A client as a database, for a test that looks at its transaction.
struct OnClient<'a>(&'a duebox_postgres::tokio_postgres::Client);

#[async_trait::async_trait]
impl Database for OnClient<'_> {
    fn dialect(&self) -> duebox_postgres::Dialect {
        duebox_postgres::Dialect::Postgres
    }

    async fn execute(&self, statement: &Statement) -> Result<u64, duebox_postgres::DbError> {
        duebox_postgres::execute(self.0, statement).await
    }

    async fn query(
        &self,
        statement: &Statement,
    ) -> Result<Vec<duebox_postgres::Row>, duebox_postgres::DbError> {
        duebox_postgres::query(self.0, statement).await
    }

    /// The transaction around it is the test's own.
    async fn batch_atomic(
        &self,
        statements: &[Statement],
    ) -> Result<Vec<u64>, duebox_postgres::DbError> {
        let mut counts = Vec::new();
        for statement in statements {
            counts.push(self.execute(statement).await?);
        }
        Ok(counts)
    }

    async fn now(
        &self,
    ) -> Result<
        duebox_postgres::chrono::DateTime<duebox_postgres::chrono::Utc>,
        duebox_postgres::DbError,
    > {
        let now = Statement::new("SELECT clock_timestamp() AS now");
        let rows = self.query(&now).await?;
        duebox_postgres::parse_time(&rows[0].get::<String>("now")?)
    }
}

/// A claim, a completion and an enqueue are one message each way; a batch is two,
/// whatever its length, and three if its counts have to be looked at.
pub(crate) async fn takes_few_round_trips() {
    let place = Place::new().await;
    place.make_outbox().await;
    place.fill(100).await;
    let proxy = Proxy::new(Duration::from_millis(50)).await;
    let prepared = tokio_at(&proxy.url(&place.url()), 1).await;
    let outbox = Outbox::new("outbox");
    for (name, db) in [
        ("prepared", prepared.clone()),
        ("unprepared", prepared.with_prepared_statements(false)),
    ] {
        let mut number = 0;
        let mut enqueues = |count: u32, expecting: bool| -> Vec<Statement> {
            (0..count)
                .map(|_| {
                    number += 1;
                    let id = format!("{name}-{number}");
                    let statement = outbox.enqueue_statement(&id, "t", "", None, &at(0));
                    if expecting {
                        statement.expect_rows(1)
                    } else {
                        statement
                    }
                })
                .collect()
        };
        let mut trips = Vec::new();
        // The first time prepares.
        for _ in 0..2 {
            trips.clear();
            proxy.trips();
            let records = outbox
                .claim_due(&db, &at(10), &at(20), 2)
                .await
                .expect("claim");
            trips.push(("claim", 1, proxy.trips()));
            let leases: Vec<_> = records.into_iter().map(|record| record.lease).collect();
            outbox
                .complete_claimed(&db, &leases)
                .await
                .expect("complete");
            trips.push(("complete", 1, proxy.trips()));
            for (what, count, expecting, expected) in [
                ("one", 1, false, 1),
                ("many", 50, false, 2),
                ("many looked at", 50, true, 3),
            ] {
                let statements = enqueues(count, expecting);
                db.batch_atomic(&statements).await.expect("enqueue");
                trips.push((what, expected, proxy.trips()));
            }
        }
        for (what, expected, trips) in trips {
            assert_eq!(trips, expected, "{name} {what}");
        }
    }
    place.close().await;
}

/// A sub-select that the planner runs again for each row of the other side finds other
/// rows each time, as those that are deleted are passed over.
pub(crate) async fn erases_no_more_than_its_limit_under_every_join_plan() {
    for setting in [
        "",
        "-c%20enable_material%3Doff",
        "-c%20enable_hashjoin%3Doff%20-c%20enable_mergejoin%3Doff%20-c%20enable_material%3Doff",
        "-c%20enable_nestloop%3Doff",
        "-c%20plan_cache_mode%3Dforce_generic_plan",
    ] {
        let place = Place::new().await;
        place.make_outbox().await;
        let url = place.url_at(
            &crate::place::server().expect("a server"),
            &format!("%20{setting}"),
        );
        let db = tokio_at(&url, 1).await;
        let outbox = Outbox::new("outbox");
        // Counted when it had one row, so that it is taken for that.
        for (number, id) in ["a", "b", "c", "d"].into_iter().enumerate() {
            let row = outbox.enqueue_statement(id, "t", "", Some("ada"), &at(0));
            db.execute(&row).await.expect("enqueue");
            if number == 0 {
                place.run("ANALYZE outbox").await;
            }
        }
        for (erased, left) in [(2, 2), (1, 1)] {
            let limit = erased;
            let gone = outbox.erase_subject(&db, "ada", limit).await;
            assert_eq!(gone.expect("erase"), erased, "{setting}");
            assert_eq!(place.number("SELECT count(*) FROM outbox").await, left);
        }
        place.close().await;
    }
}
