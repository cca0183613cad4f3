//! Push receipts: other sessions, other settings, other schemas.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use duebox_mysql::chrono::{DateTime, Utc};
use duebox_mysql::sqlx::{self, Connection};
use duebox_mysql::uuid::Uuid;
use duebox_mysql::{
    DeviceToken, MySqlDatabase, MySqlReceipts, PendingReceipt, PendingReceiptStore, PushStoreError,
    PushTicketId,
};

use crate::common::{Server, TestDatabase, run};
use crate::pools::pool;
use crate::sizes::Packet;
use crate::tests;

tests!(receipts:
    an_owner_is_erased_in_the_callers_transaction,
    a_ticket_that_another_session_is_just_recording_is_waited_for,
    nothing_but_a_recorded_ticket_is_passed_over,
    recording_again_fires_no_trigger,
    the_settings_of_the_sessions_change_nothing,
    a_row_is_read_natively_by_others
    ; alone:
    small_packets_take_calls_of_any_size
);

const ALL: NonZeroU32 = NonZeroU32::MAX;

fn at(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_772_323_200_000_000 + micros).expect("an instant")
}

fn owned(ticket: &str, owner: u128) -> PendingReceipt {
    PendingReceipt {
        ticket: PushTicketId::new(ticket).expect("a ticket"),
        owner_id: Uuid::from_u128(owner),
        token: DeviceToken::new(format!("token-of-{ticket}")).expect("a token"),
        sent_at: at(0),
    }
}

fn many(number: u32) -> Vec<PendingReceipt> {
    (0..number)
        .map(|each| owned(&format!("t{each:06}"), 1))
        .collect()
}

async fn migrated(server: Server) -> (TestDatabase, MySqlDatabase, MySqlReceipts) {
    let of = TestDatabase::new(server, "").await;
    let db = of.connect(4).await;
    db.migrate().await.expect("migrate");
    let store = db.receipts();
    (of, db, store)
}

async fn all(store: &MySqlReceipts) -> Vec<PendingReceipt> {
    store.take_due(at(0), at(0), ALL).await.expect("take")
}

async fn an_owner_is_erased_in_the_callers_transaction(server: Server) {
    let (of, db, store) = migrated(server).await;
    run(
        &mut of.raw().await,
        "CREATE TABLE account (id BINARY(16) PRIMARY KEY)",
    )
    .await;
    run(
        &mut of.raw().await,
        "INSERT INTO account VALUES (UNHEX(REPEAT('0', 32)))",
    )
    .await;
    let call = vec![owned("a", 1), owned("b", 1), owned("c", 2)];
    assert_eq!(store.record(call, at(0)).await, Ok(3));
    for commits in [false, true] {
        let mut transaction = db.pool().begin().await.expect("begin");
        sqlx::query("DELETE FROM account")
            .execute(&mut *transaction)
            .await
            .expect("delete the account");
        let erased = duebox_mysql::erase_owner(&mut transaction, Uuid::from_u128(1)).await;
        assert_eq!(erased.expect("erase"), 2);
        if commits {
            transaction.commit().await.expect("commit");
        } else {
            transaction.rollback().await.expect("roll back");
        }
        let accounts: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM account")
            .fetch_one(db.pool())
            .await
            .expect("count");
        let tickets = all(&store).await.len();
        assert_eq!((accounts, tickets), if commits { (0, 1) } else { (1, 3) });
    }
    run(&mut of.raw().await, "DROP TABLE pending_receipts").await;
    let mut connection = of.raw().await;
    let error = duebox_mysql::erase_owner(&mut connection, Uuid::from_u128(1)).await;
    let error = error.expect_err("there is no table").to_string();
    assert!(error.contains("run the migrations first"), "{error}");
    of.drop().await;
}

async fn a_ticket_that_another_session_is_just_recording_is_waited_for(server: Server) {
    let (of, _, store) = migrated(server).await;
    for (round, commits) in [true, false].into_iter().enumerate() {
        let name = |name: &str| format!("{round}-{name}");
        let mut other = of.raw().await;
        let mut transaction = other.begin().await.expect("begin");
        sqlx::query("INSERT INTO pending_receipts VALUES (?, UNHEX(REPEAT('7', 32)), 'theirs', '2026-03-01', '2026-03-01')")
            .bind(name("b"))
            .execute(&mut *transaction)
            .await
            .expect("insert");
        let call: Vec<_> = ["a", "b", "c"].map(|each| owned(&name(each), 1)).into();
        let recording = tokio::spawn({
            let store = store.clone();
            async move { store.record(call, at(0)).await }
        });
        tokio::time::sleep(Duration::from_millis(200)).await;
        assert!(!recording.is_finished(), "it waits for the other");
        if commits {
            transaction.commit().await.expect("commit");
        } else {
            transaction.rollback().await.expect("roll back");
        }
        let new = recording.await.expect("no panic");
        assert_eq!(new, Ok(if commits { 2 } else { 3 }));
        let taken = all(&store).await;
        let there = taken
            .iter()
            .filter(|each| each.ticket.as_str().starts_with(&name("")));
        assert_eq!(there.count(), 3);
        let theirs = taken.iter().filter(|each| each.token.as_str() == "theirs");
        assert_eq!(theirs.count(), 1, "the first stays as it is");
    }
    of.drop().await;
}

/// What `INSERT IGNORE` would pass over or cut.
async fn nothing_but_a_recorded_ticket_is_passed_over(server: Server) {
    let refusals = [
        "ALTER TABLE pending_receipts ADD CONSTRAINT c CHECK (token <> 'token-of-x')",
        "ALTER TABLE pending_receipts MODIFY token VARCHAR(9) NOT NULL",
        "ALTER TABLE pending_receipts ADD COLUMN note VARCHAR(9) NOT NULL",
        "ALTER TABLE pending_receipts ADD UNIQUE KEY one_an_owner (owner_id)",
        "ALTER TABLE pending_receipts ADD COLUMN p BINARY(16) AS (owner_id) STORED, ADD FOREIGN KEY (p) REFERENCES parent (id)",
    ];
    for refusal in refusals {
        let (of, _, store) = migrated(server).await;
        assert_eq!(store.record(vec![owned("a", 1)], at(0)).await, Ok(1));
        let mut admin = of.raw().await;
        if refusal.contains("VARCHAR(9) NOT NULL") && refusal.contains("MODIFY") {
            run(&mut admin, "UPDATE pending_receipts SET token = 'short'").await;
        }
        if refusal.contains("parent") {
            run(
                &mut admin,
                "CREATE TABLE parent (id BINARY(16) PRIMARY KEY)",
            )
            .await;
            run(
                &mut admin,
                "INSERT INTO parent SELECT owner_id FROM pending_receipts",
            )
            .await;
        }
        run(&mut admin, refusal).await;
        let owner = if refusal.contains("UNIQUE") { 1 } else { 2 };
        let call = vec![owned("a", 1), owned("x", owner)];
        let error = store.record(call, at(0)).await.expect_err(refusal);
        assert_eq!(error, PushStoreError::Internal, "{refusal}");
        assert_eq!(all(&store).await.len(), 1, "{refusal}");
        of.drop().await;
    }
}

async fn recording_again_fires_no_trigger(server: Server) {
    let (of, _, store) = migrated(server).await;
    assert_eq!(store.record(many(3), at(0)).await, Ok(3));
    let mut admin = of.raw().await;
    run(
        &mut admin,
        "CREATE TABLE child (ticket VARCHAR(128) COLLATE utf8mb4_bin PRIMARY KEY) DEFAULT CHARACTER SET utf8mb4",
    )
    .await;
    run(
        &mut admin,
        "INSERT INTO child SELECT ticket FROM pending_receipts",
    )
    .await;
    for (event, row) in [("UPDATE", "NEW"), ("DELETE", "OLD")] {
        let sql = format!(
            "CREATE TRIGGER on_{event} AFTER {event} ON pending_receipts FOR EACH ROW \
             DELETE FROM child WHERE ticket = CONVERT({row}.ticket USING utf8mb4) COLLATE utf8mb4_bin"
        );
        run(&mut admin, sql).await;
    }
    let mut call = many(4);
    for each in &mut call {
        each.owner_id = Uuid::from_u128(2);
        each.sent_at = at(9);
    }
    assert_eq!(store.record(call, at(9)).await, Ok(1));
    let children: i64 = sqlx::query_scalar("SELECT COUNT(*) FROM child")
        .fetch_one(&mut admin)
        .await
        .expect("count");
    assert_eq!(children, 3, "nothing was updated or deleted");
    assert!(all(&store).await == many(3));
    of.drop().await;
}

async fn the_settings_of_the_sessions_change_nothing(server: Server) {
    let settings = [
        "SET SESSION sql_mode = '', time_zone = '+13:00'",
        "SET SESSION sql_mode = 'TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH,PIPES_AS_CONCAT', time_zone = '-11:30'",
        "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE, READ ONLY",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
        "SET SESSION completion_type = 'CHAIN', group_concat_max_len = 4",
    ];
    for setting in settings {
        let (of, _, ours) = migrated(server).await;
        let theirs = MySqlDatabase::from_pool(pool(&of, 8, setting).await).receipts();
        let mut strange = owned(r#"a"\'{}[],"#, 1);
        strange.token = DeviceToken::new(r#""\u0041\'/*--?"#).expect("a token");
        // In the hour that many a zone leaves out in spring.
        strange.sent_at =
            DateTime::from_timestamp_micros(1_774_751_400_000_001).expect("an instant");
        let mut call = many(2_000);
        call.push(strange.clone());
        assert_eq!(
            theirs.record(call.clone(), at(0)).await,
            Ok(2_001),
            "{setting}"
        );
        assert_eq!(ours.record(call.clone(), at(5)).await, Ok(0));
        let mut takers = Vec::new();
        for store in [&ours, &theirs].into_iter().cycle().take(6) {
            let store = store.clone();
            takers.push(tokio::spawn(async move {
                let mut mine = Vec::new();
                loop {
                    let hundred = NonZeroU32::new(100).expect("not 0");
                    let batch = store.take_due(at(0), at(9), hundred).await.expect("take");
                    if batch.is_empty() {
                        return mine;
                    }
                    mine.extend(batch);
                }
            }));
        }
        let mut taken = Vec::new();
        for taker in takers {
            taken.extend(taker.await.expect("a taker"));
        }
        taken.sort_by(|a, b| a.ticket.cmp(&b.ticket));
        call.sort_by(|a, b| a.ticket.cmp(&b.ticket));
        assert!(taken == call, "{setting}: each was taken once, as it was");
        assert_eq!(
            theirs
                .purge(at(1), NonZeroU32::new(10).expect("not 0"))
                .await,
            Ok(10)
        );
        assert_eq!(theirs.delete(vec![strange.ticket]).await, Ok(1));
        assert_eq!(
            theirs.erase_owner(Uuid::from_u128(1)).await,
            Ok(1_990),
            "{setting}"
        );
        of.drop().await;
    }
}

async fn a_row_is_read_natively_by_others(server: Server) {
    let (of, _, store) = migrated(server).await;
    let owner = Uuid::from_u128(0x0011_2233_4455_6677_8899_aabb_ccdd_ee00);
    let mut receipt = owned("a", owner.as_u128());
    receipt.sent_at = at(1);
    assert_eq!(store.record(vec![receipt], at(86_399_999_999)).await, Ok(1));
    let mut admin = of.raw().await;
    run(&mut admin, "SET time_zone = '-08:00'").await;
    let row: (String, String, String) = sqlx::query_as(
        "SELECT HEX(owner_id), CAST(sent_at AS CHAR), CAST(due_at AS CHAR) FROM pending_receipts",
    )
    .fetch_one(&mut admin)
    .await
    .expect("a row");
    assert_eq!(row.0, "00112233445566778899AABBCCDDEE00");
    assert_eq!(row.1, "2026-03-01 00:00:00.000001");
    assert_eq!(row.2, "2026-03-01 23:59:59.999999");
    of.drop().await;
}

async fn small_packets_take_calls_of_any_size(server: Server) {
    let (of, _, _) = migrated(server).await;
    let limit = Packet::set(server, 4_096).await;
    let store: Arc<dyn PendingReceiptStore> = Arc::new(of.connect(2).await.receipts());
    // As JSON, each character of the longest is two.
    let mut call = many(500);
    call.push(PendingReceipt {
        ticket: PushTicketId::new("\"".repeat(128)).expect("a ticket"),
        token: DeviceToken::new("\\".repeat(512)).expect("a token"),
        ..owned("long", 1)
    });
    assert_eq!(store.record(call.clone(), at(0)).await, Ok(501));
    let taken = store.take_due(at(0), at(0), ALL).await.expect("take");
    assert_eq!(taken.len(), 501);
    assert!(taken[0] == call[500], "the longest sorts first");
    let tickets: Vec<_> = call.into_iter().skip(250).map(|each| each.ticket).collect();
    assert_eq!(store.delete(tickets).await, Ok(251));
    assert_eq!(store.purge(at(1), ALL).await, Ok(250));
    drop(limit);

    // Smaller than the text of a statement.
    let limit = Packet::set(server, 1_024).await;
    let store = of.connect(2).await.receipts();
    let error = store.record(many(1), at(0)).await.expect_err("too small");
    assert_eq!(error, PushStoreError::Internal);
    assert_eq!(
        store.purge(at(1), ALL).await,
        Ok(0),
        "the connection still works"
    );
    drop(limit);
    of.drop().await;
}
