//! Large values, and `max_allowed_packet`.

use duebox_mysql::sqlx;
use duebox_mysql::{
    Database, Enqueue, Kind, MAX_PAYLOAD_BYTES, Outbox, Outcome, Statement, parse_time,
};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(sizes:
    payloads_of_every_size_come_back,
    lists_of_any_length_keep_few_statements_prepared
    ; alone:
    what_is_larger_than_a_packet_is_refused_and_named,
    a_stored_row_that_is_larger_than_a_packet_does_not_stop_the_queue
);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";

/// Sets the limit that new sessions have; sets it back when dropped.
pub(crate) struct Packet {
    server: Server,
    before: u64,
}

impl Packet {
    pub(crate) async fn set(server: Server, bytes: u64) -> Self {
        let mut admin = server.admin().await;
        let sql = "SELECT CAST(@@GLOBAL.max_allowed_packet AS UNSIGNED)";
        let before = sqlx::query_scalar(sql)
            .fetch_one(&mut admin)
            .await
            .expect("a number");
        run(
            &mut admin,
            format!("SET GLOBAL max_allowed_packet = {bytes}"),
        )
        .await;
        Self { server, before }
    }
}

impl Drop for Packet {
    fn drop(&mut self) {
        let (server, before) = (self.server, self.before);
        let reset = async move {
            let sql = format!("SET GLOBAL max_allowed_packet = {before}");
            run(&mut server.admin().await, sql).await;
        };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(reset));
    }
}

async fn payloads_of_every_size_come_back(server: Server) {
    let of = TestDatabase::new(server, "CHARACTER SET latin1").await;
    let db = of.connect(1).await;
    let portable = Outbox::new("portable");
    let outbox = Outbox::new("outbox");
    db.execute(&Statement::new(portable.create_table_sql()))
        .await
        .expect("make the table");
    db.migrate_outbox(&outbox).await.expect("migrate");
    for outbox in [portable, outbox] {
        let sizes = [
            0,
            250,
            251,
            65_535,
            65_536,
            70_000,
            1 << 24,
            MAX_PAYLOAD_BYTES,
        ];
        let mut payloads: Vec<String> = sizes
            .iter()
            .filter(|size| **size <= MAX_PAYLOAD_BYTES)
            .map(|size| "x".repeat(*size))
            .collect();
        payloads.push("😀".repeat(20_000));
        for payload in payloads {
            let row = outbox.enqueue_statement("a", "t", &payload, None, DAY);
            db.batch_atomic(&[row]).await.expect("enqueue");
            let mine = outbox.claim_due(&db, NOW, LATER, 1).await.expect("claim");
            assert!(mine[0].payload == payload, "{} bytes", payload.len());
            outbox.complete(&db, "a").await.expect("complete");
        }
        // A result, and where the server takes it a statement, of several packets
        // on the wire: each is cut at 16 MiB.
        let day = parse_time(DAY).expect("a time");
        let work = |row: usize| {
            let payload = char::from(b'a' + u8::try_from(row).expect("few")).to_string();
            Enqueue::new("t")
                .id(format!("r{row}"))
                .payload(payload.repeat(MAX_PAYLOAD_BYTES))
                .at(day)
        };
        let many = outbox.enqueue_many_statement((0..3).map(work));
        match db.execute(&many).await {
            Ok(count) => assert_eq!(count, 3),
            Err(error) => {
                assert_eq!(
                    (error.kind(), error.outcome()),
                    (Kind::InvalidArgument, Outcome::NotApplied),
                    "{error}"
                );
                assert!(error.to_string().contains("max_allowed_packet"), "{error}");
                for row in 0..3 {
                    db.execute(
                        &outbox.enqueue_statement(
                            &format!("r{row}"),
                            "t",
                            &char::from(b'a' + u8::try_from(row).expect("few"))
                                .to_string()
                                .repeat(MAX_PAYLOAD_BYTES),
                            None,
                            DAY,
                        ),
                    )
                    .await
                    .expect("enqueue");
                }
            }
        }
        let mine = outbox.claim_due(&db, NOW, LATER, 10).await.expect("claim");
        assert_eq!(mine.len(), 3);
        for (record, letter) in mine.iter().zip(["a", "b", "c"]) {
            assert!(record.payload == letter.repeat(MAX_PAYLOAD_BYTES));
        }
        let one = Statement::new(format!(
            "SELECT GROUP_CONCAT(id ORDER BY id SEPARATOR '') AS ids FROM {}",
            outbox.table()
        ));
        assert_eq!(
            db.query(&one).await.expect("query")[0]
                .get::<String>("ids")
                .expect("ids"),
            "r0r1r2"
        );
    }
    of.drop().await;
}

async fn lists_of_any_length_keep_few_statements_prepared(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(1).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    let day = parse_time(DAY).expect("a time");
    let prepares = |db: duebox_mysql::MySqlDatabase| async move {
        let sql = Statement::new("SHOW SESSION STATUS LIKE 'Com_stmt_prepare'");
        let row = db.query(&sql).await.expect("query").remove(0);
        row.get::<String>("Value")
            .expect("a text")
            .parse::<u64>()
            .expect("a number")
    };
    let mut next = 0;
    let mut drain = async |rows: usize| {
        let work = (next..next + rows).map(|row| Enqueue::new("t").id(format!("r{row}")).at(day));
        db.execute(&outbox.enqueue_many_statement(work))
            .await
            .expect("enqueue");
        next += rows;
        let mine = outbox
            .claim_due(&db, NOW, LATER, 5_000)
            .await
            .expect("claim");
        assert_eq!(mine.len(), rows);
        let leases: Vec<_> = mine.into_iter().map(|record| record.lease).collect();
        outbox
            .complete_claimed(&db, &leases)
            .await
            .expect("complete");
    };
    for rows in [3, 100, 900, 2_000] {
        drain(rows).await;
    }
    let before = prepares(db.clone()).await;
    let rounds = [190, 191, 192, 193, 1_023, 1_024, 1_025, 1_100, 700, 701];
    for rows in rounds {
        drain(rows).await;
    }
    // Each long insert is prepared anew; nearly all the rest is there.
    let anew = prepares(db.clone()).await - before;
    assert!(anew < 10 + 8, "{anew} statements were prepared");
    // More values than a statement can bind.
    let columns = "?, ".repeat(70_000);
    let statement = Statement::new(format!(
        "SELECT CONCAT({}) AS x",
        columns.trim_end_matches(", ")
    ));
    let statement = (0..70_000).fold(statement, |statement, _| statement.bind("x"));
    let error = db.query(&statement).await.expect_err("too many");
    assert_eq!(
        (error.kind(), error.outcome()),
        (Kind::InvalidArgument, Outcome::NotApplied)
    );
    of.drop().await;
}

async fn what_is_larger_than_a_packet_is_refused_and_named(server: Server) {
    let of = TestDatabase::new(server, "").await;
    // The handle knows the former limit, its later sessions have another.
    let db = of.connect(2).await;
    let outbox = Outbox::new("outbox");
    db.migrate_outbox(&outbox).await.expect("migrate");
    run(
        &mut of.raw().await,
        "CREATE TABLE state (id INT PRIMARY KEY, text LONGTEXT)",
    )
    .await;
    let limit = Packet::set(server, 1024 * 1024).await;
    for lowered_behind_its_back in [true, false] {
        let db = if lowered_behind_its_back {
            of.cut().await;
            tokio::time::sleep(std::time::Duration::from_millis(150)).await;
            db.clone()
        } else {
            of.connect(2).await
        };
        let large = "x".repeat(2 * 1024 * 1024);
        let row = outbox.enqueue_statement("a", "t", &large, None, DAY);
        let text = Statement::new("UPDATE state SET text = ?").bind(large.clone());
        let long = Statement::new(format!("UPDATE state SET text = '{large}'"));
        let state = Statement::new("INSERT INTO state (id) VALUES (1)");
        for error in [
            db.batch_atomic(&[state.clone(), row.clone()])
                .await
                .expect_err("too large"),
            db.execute(&row).await.expect_err("too large"),
            db.execute(&text).await.expect_err("too large"),
            db.execute(&long).await.expect_err("too large"),
            db.query(&Statement::new("SELECT LENGTH(?) AS n").bind(large))
                .await
                .expect_err("too large"),
        ] {
            assert_eq!(
                (error.kind(), error.outcome()),
                (Kind::InvalidArgument, Outcome::NotApplied),
                "{error}"
            );
            assert!(!error.is_retryable());
            assert!(error.to_string().contains("max_allowed_packet"), "{error}");
        }
        assert!(
            db.query(&Statement::new("SELECT id FROM state"))
                .await
                .expect("query")
                .is_empty()
        );
        // Just below it fits, and the pool works as before.
        let fits = outbox.enqueue_statement("b", "t", &"x".repeat(1_047_000), None, DAY);
        db.batch_atomic(&[fits]).await.expect("it fits");
        assert_eq!(outbox.delete(&db, &["b"]).await.expect("delete"), 1);
    }
    drop(limit);
    of.drop().await;
}

async fn a_stored_row_that_is_larger_than_a_packet_does_not_stop_the_queue(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let outbox = Outbox::new("outbox");
    let db = of.connect(1).await;
    db.migrate_outbox(&outbox).await.expect("migrate");
    for (id, length) in [("a", 4 * 1024 * 1024), ("b", 10), ("c", 3 * 1024 * 1024)] {
        let payload = id.repeat(length);
        db.execute(&outbox.enqueue_statement(id, "t", &payload, Some("s"), DAY))
            .await
            .expect("enqueue");
    }
    let limit = Packet::set(server, 1024 * 1024).await;
    let db = of.connect(1).await;
    let mine = outbox.claim_due(&db, NOW, LATER, 10).await.expect("claim");
    let lengths: Vec<usize> = mine.iter().map(|record| record.payload.len()).collect();
    assert_eq!(lengths, [4 * 1024 * 1024, 10, 3 * 1024 * 1024]);
    let leases: Vec<_> = mine.into_iter().map(|record| record.lease).collect();
    let held = outbox
        .release_claimed(&db, &leases, NOW)
        .await
        .expect("release");
    assert!(held.iter().all(|outcome| outcome.is_held()));
    assert_eq!(
        outbox
            .export_subject(&db, "s", None, 10)
            .await
            .expect("export")
            .len(),
        3
    );
    assert_eq!(outbox.erase_subject(&db, "s", 10).await.expect("erase"), 3);
    drop(limit);
    of.drop().await;
}
