//! A server that takes no writes for a while, as after a failover.

use std::time::Duration;

use duebox_mysql::sqlx::{AssertSqlSafe, Executor, MySqlConnection};
use duebox_mysql::{Database, Kind, MySqlOptions, Outbox, Outcome};

use crate::common::{Server, TestDatabase, run};
use crate::tests;

tests!(failover: ; alone: a_read_only_server_is_told_and_left_behind);

const DAY: &str = "2026-03-01T00:00:00.000000Z";
const NOW: &str = "2026-03-02T00:00:00.000000Z";
const LATER: &str = "2026-03-03T00:00:00.000000Z";

/// Makes the server read-only; sets it back when dropped.
struct ReadOnly(Server);

impl ReadOnly {
    async fn set(server: Server) -> Self {
        run(&mut server.admin().await, "SET GLOBAL read_only = ON").await;
        Self(server)
    }
}

impl Drop for ReadOnly {
    fn drop(&mut self) {
        let server = self.0;
        let reset =
            async move { run(&mut server.admin().await, "SET GLOBAL read_only = OFF").await };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(reset));
    }
}

/// Waits for this session to end.
async fn ends(of: &TestDatabase, admin: &mut MySqlConnection, session: u64) {
    for _ in 0..2_000 {
        if !of.sessions(admin).await.contains(&session) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("session {session} goes on");
}

async fn a_read_only_server_is_told_and_left_behind(server: Server) {
    let of = TestDatabase::new(server, "").await;
    let outbox = Outbox::new("outbox");
    of.connect(1)
        .await
        .migrate_outbox(&outbox)
        .await
        .expect("migrate");
    // One to whom it applies.
    let user = format!("u_{}", of.name);
    let mut admin = server.admin().await;
    run(&mut admin, format!("CREATE USER {user} IDENTIFIED BY 'x'")).await;
    run(
        &mut admin,
        format!(
            "GRANT SELECT, INSERT, UPDATE, DELETE ON {}.* TO {user}",
            of.name
        ),
    )
    .await;
    let url = of.url();
    let (_, rest) = url.split_once('@').expect("a user");
    let options = MySqlOptions::new(&format!("mysql://{user}:x@{rest}")).expect("an address");
    let db = options.max_connections(1).connect().await.expect("connect");
    db.execute(&outbox.enqueue_statement("a", "t", "p", Some("s"), DAY))
        .await
        .expect("enqueue");

    let read_only = ReadOnly::set(server).await;
    let row = outbox.enqueue_statement("b", "t", "p", None, DAY);
    for round in 0..3 {
        for error in [
            db.execute(&row).await.expect_err("read-only"),
            db.batch_atomic(std::slice::from_ref(&row))
                .await
                .expect_err("read-only"),
            outbox
                .claim_due(&db, NOW, LATER, 1)
                .await
                .expect_err("read-only"),
            outbox
                .erase_subject(&db, "s", 1)
                .await
                .expect_err("read-only"),
        ] {
            assert_eq!(
                (error.kind(), error.outcome()),
                (Kind::Unsupported, Outcome::NotApplied),
                "{error}"
            );
            assert!(error.to_string().contains("read-only"), "{error}");
        }
        assert_eq!(
            outbox.stats(&db, NOW).await.expect("reading goes on").due,
            1,
            "{round}"
        );
    }
    // The session that met it is not used again: the next may reach another server.
    let met = of.sessions(&mut admin).await;
    db.execute(&row).await.expect_err("read-only");
    assert_eq!(met.len(), 1, "{met:?}");
    ends(&of, &mut admin, met[0]).await;
    drop(read_only);

    assert_eq!(db.execute(&row).await.expect("it takes writes again"), 1);
    assert_eq!(
        outbox
            .claim_due(&db, NOW, LATER, 9)
            .await
            .expect("claim")
            .len(),
        2
    );
    // Those with the privilege are held back by super_read_only, where there is one.
    let mut raw = server.admin().await;
    if raw
        .execute(AssertSqlSafe("SET GLOBAL super_read_only = ON"))
        .await
        .is_ok()
    {
        let read_only = ReadOnly(server);
        let own = of.connect(1).await;
        let error = own
            .batch_atomic(&[outbox.enqueue_statement("c", "t", "p", None, DAY)])
            .await;
        run(&mut raw, "SET GLOBAL super_read_only = OFF").await;
        drop(read_only);
        let error = error.expect_err("super read-only");
        assert_eq!(
            (error.kind(), error.outcome()),
            (Kind::Unsupported, Outcome::NotApplied),
            "{error}"
        );
        own.execute(&outbox.enqueue_statement("c", "t", "p", None, DAY))
            .await
            .expect("it works again");
    }
    run(&mut admin, format!("DROP USER {user}")).await;
    of.drop().await;
}
