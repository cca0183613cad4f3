//! Push receipts: what is PostgreSQL's own.

use std::collections::HashSet;
use std::num::NonZeroU32;
use std::sync::Arc;

use duebox_postgres::chrono::{DateTime, TimeDelta, Utc};
use duebox_postgres::uuid::Uuid;
use duebox_postgres::{
    DeviceToken, PendingReceipt, PendingReceiptStore, PushStoreError, PushTicketId,
    SqlxPostgresDatabase,
};

use crate::place::{Place, every_store, server, sqlx_pool, tokio_at};

const ALL: NonZeroU32 = NonZeroU32::MAX;

/// An instant of 2026-03-01.
fn at(micros: i64) -> DateTime<Utc> {
    DateTime::from_timestamp_micros(1_772_323_200_000_000 + micros).expect("an instant")
}

fn ticket(name: &str) -> PushTicketId {
    PushTicketId::new(name).expect("a ticket")
}

fn receipt(name: &str, owner_id: Uuid) -> PendingReceipt {
    PendingReceipt {
        ticket: ticket(name),
        owner_id,
        token: DeviceToken::new(format!("token,of\"{name}\\")).expect("a token"),
        sent_at: at(7),
    }
}

fn many(prefix: &str, number: usize) -> Vec<PendingReceipt> {
    (0..number)
        .map(|each| {
            receipt(
                &format!("{prefix}{each:05}"),
                Uuid::from_u128(each as u128 % 7),
            )
        })
        .collect()
}

async fn place() -> Place {
    let place = Place::new().await;
    place.connect().await.migrate().await.expect("migrate");
    place
}

/// Takes all tickets there are, by so many at once, until none is due.
async fn take_all(
    stores: Vec<Arc<dyn PendingReceiptStore>>,
    limit: u32,
    what: &str,
) -> Vec<PendingReceipt> {
    let limit = NonZeroU32::new(limit).expect("a limit");
    let tasks = stores.into_iter().map(|store| {
        tokio::spawn(async move {
            let mut mine = Vec::new();
            loop {
                let batch = match store.take_due(at(0), at(900), limit).await {
                    Ok(batch) => batch,
                    Err(error) if error.is_retryable() => continue,
                    Err(error) => panic!("{error}"),
                };
                assert!(batch.len() <= limit.get() as usize);
                if batch.is_empty() {
                    return mine;
                }
                mine.extend(batch);
            }
        })
    });
    let mut all = Vec::new();
    for task in tasks.collect::<Vec<_>>() {
        all.extend(task.await.expect(what));
    }
    all
}

/// Everything that the port does, once.
async fn one_round(store: &dyn PendingReceiptStore, prefix: &str, what: &str) {
    let sent = many(prefix, 30);
    let doubled = sent.iter().chain(&sent).cloned().collect();
    assert_eq!(store.record(doubled, at(0)).await, Ok(30), "{what}");
    assert_eq!(store.record(sent.clone(), at(9)).await, Ok(0), "{what}");
    let taken = store.take_due(at(0), at(900), ALL).await.expect(what);
    let mine = taken
        .into_iter()
        .filter(|each| each.ticket.as_str().starts_with(prefix));
    let mine: Vec<_> = mine.collect();
    assert!(mine == sent, "{what}: in order, as they were recorded");
    let gone = store.delete(vec![ticket(&format!("{prefix}00004")), ticket("not-there")]);
    assert_eq!(gone.await, Ok(1), "{what}");
    assert_eq!(store.purge(at(7), ALL).await, Ok(0), "{what}");
}

/// What many may do at once, each with tickets of its own.
pub(crate) async fn alone(store: &dyn PendingReceiptStore, prefix: &str) {
    let owner_id = Uuid::from_u128(u128::MAX / 3);
    let mine = vec![
        receipt(&format!("{prefix}a"), owner_id),
        receipt(&format!("{prefix}b"), owner_id),
    ];
    let tickets = mine.iter().map(|each| each.ticket.clone()).collect();
    assert_eq!(store.record(mine.clone(), at(0)).await, Ok(2));
    assert_eq!(store.record(mine, at(0)).await, Ok(0));
    store.take_due(at(0), at(0), ALL).await.expect("take");
    assert_eq!(store.delete(tickets).await, Ok(2));
    assert_eq!(store.purge(at(0), ALL).await, Ok(0));
    assert_eq!(store.erase_owner(Uuid::nil()).await, Ok(0));
}

pub(crate) async fn the_settings_of_a_session_change_nothing() {
    let place = place().await;
    let settings = [
        "-c DateStyle=SQL,DMY -c TimeZone=Asia/Kathmandu -c IntervalStyle=sql_standard",
        "-c DateStyle=German -c TimeZone=Europe/Dublin -c bytea_output=escape -c array_nulls=off",
        "-c DateStyle=Postgres,MDY -c TimeZone=posix/America/New_York -c lc_messages=C",
        "-c plan_cache_mode=force_generic_plan -c transform_null_equals=on",
        "-c default_transaction_isolation=serializable -c synchronous_commit=off",
    ];
    for (nth, setting) in settings.iter().enumerate() {
        let setting = setting.replace('=', "%3D").replace(',', "%2C");
        let more = format!("%20{}", setting.replace(' ', "%20"));
        let url = place.url_at(&server().expect("a server"), &more);
        for (way, (name, store)) in every_store(&url, 1).await.into_iter().enumerate() {
            let what = format!("{name} with {setting}");
            one_round(&*store, &format!("p{nth}{way}-"), &what).await;
            assert_eq!(store.purge(at(8), ALL).await, Ok(29), "{what}");
            // The first and the last instant that is kept.
            let first = DateTime::UNIX_EPOCH;
            let last = DateTime::from_timestamp_micros(253_402_300_799_999_999).expect("the last");
            for instant in [first, last] {
                let mut edge = receipt("edge", Uuid::max());
                edge.sent_at = instant;
                assert_eq!(
                    store.record(vec![edge.clone()], instant).await,
                    Ok(1),
                    "{what}"
                );
                let early = instant - TimeDelta::microseconds(1);
                if instant > first {
                    let none = store.take_due(early, last, ALL).await.expect(&what);
                    assert!(none.is_empty(), "{what}");
                }
                let taken = store.take_due(instant, last, ALL).await.expect(&what);
                assert!(taken == [edge], "{what}");
                assert_eq!(store.erase_owner(Uuid::max()).await, Ok(1), "{what}");
            }
        }
    }
    place.close().await;
}

/// The planner may run the locking part of a statement more than once, if it is let:
/// then more rows are locked than asked for, and some moved that nobody gets.
pub(crate) async fn taking_moves_exactly_what_it_returns_under_every_join_plan() {
    let settings = [
        "",
        "-c%20enable_nestloop%3Doff",
        "-c%20enable_hashjoin%3Doff",
        "-c%20enable_hashjoin%3Doff%20-c%20enable_nestloop%3Doff",
        "-c%20enable_hashjoin%3Doff%20-c%20enable_material%3Doff%20-c%20enable_mergejoin%3Doff",
        "-c%20enable_indexscan%3Doff%20-c%20enable_bitmapscan%3Doff",
        "-c%20plan_cache_mode%3Dforce_generic_plan",
    ];
    for setting in settings {
        let place = place().await;
        let url = place.url_at(&server().expect("a server"), &format!("%20{setting}"));
        let stores = every_store(&url, 2).await;
        let stores: Vec<_> = stores.into_iter().map(|(_, store)| store).collect();
        let eight: Vec<_> = stores.iter().chain(&stores).map(Arc::clone).collect();
        assert_eq!(stores[0].record(many("t", 1_000), at(0)).await, Ok(1_000));
        let taken = take_all(eight, 7, setting).await;
        let distinct: HashSet<_> = taken.iter().map(|each| &each.ticket).collect();
        assert_eq!((taken.len(), distinct.len()), (1_000, 1_000), "{setting}");
        let moved = "SELECT count(*) FROM pending_receipts WHERE due_at > '2026-03-01T00:00:00Z'";
        assert_eq!(place.number(moved).await, 1_000, "{setting}");
        // The same holds of a purge.
        for (store, left) in stores.iter().zip([900, 800, 700, 600]) {
            let hundred = NonZeroU32::new(100).expect("not 0");
            assert_eq!(store.purge(at(8), hundred).await, Ok(100), "{setting}");
            let count = "SELECT count(*) FROM pending_receipts";
            assert_eq!(place.number(count).await, left, "{setting}");
        }
        place.close().await;
    }
}

pub(crate) async fn stricter_isolation_works() {
    for isolation in ["serializable", "repeatable%5C%20read"] {
        let place = place().await;
        let setting = format!("%20-c%20default_transaction_isolation%3D{isolation}");
        let url = place.url_at(&server().expect("a server"), &setting);
        let mut eight = Vec::new();
        for _ in 0..2 {
            let stores = every_store(&url, 1).await;
            eight.extend(stores.into_iter().map(|(_, store)| store));
        }
        assert_eq!(eight[0].record(many("t", 5_000), at(0)).await, Ok(5_000));
        let first = Arc::clone(&eight[0]);
        let taken = take_all(eight, 100, isolation).await;
        let distinct: HashSet<_> = taken.iter().map(|each| &each.ticket).collect();
        assert_eq!((taken.len(), distinct.len()), (5_000, 5_000), "{isolation}");
        assert_eq!(first.purge(at(8), ALL).await, Ok(5_000), "{isolation}");
        place.close().await;
    }
}

/// A plan of when there were no tickets would read the whole table for each of them.
pub(crate) async fn no_plan_is_kept() {
    let place = place().await;
    let kept = "SELECT count(*) FROM pg_prepared_statements
                WHERE statement LIKE '%pending_receipts%' AND statement NOT LIKE '%pg_prepared%'";
    let tokio = tokio_at(&place.url(), 1).await;
    let pool = sqlx_pool(&place.url(), 1);
    let sqlx = SqlxPostgresDatabase::from_pool(pool.clone());
    for round in 0..3 {
        one_round(&tokio.receipts(), &format!("t{round}"), "tokio-postgres").await;
        one_round(&sqlx.receipts(), &format!("s{round}"), "sqlx").await;
        place.run("DELETE FROM pending_receipts").await;
    }
    let client = tokio.pool().get().await.expect("a connection");
    let count: i64 = client.query_one(kept, &[]).await.expect("count").get(0);
    assert_eq!(count, 0, "tokio-postgres");
    let count = duebox_postgres::sqlx::query_scalar::<_, i64>(kept);
    assert_eq!(count.fetch_one(&pool).await.expect("count"), 0, "sqlx");
    place.close().await;
}

/// Whatever somebody else wrote is moved, left out, and stops no other.
pub(crate) async fn instants_that_no_store_writes_are_left_out() {
    let place = place().await;
    for (nth, (name, store)) in every_store(&place.url(), 1).await.into_iter().enumerate() {
        for (each, (sent_at, due_at)) in [
            ("infinity", "-infinity"),
            ("-infinity", "4000-01-01 BC"),
            ("20000-01-01", "1969-12-31"),
            ("1969-12-31 23:59:59.999999Z", "2000-01-01"),
            ("0044-03-15 BC", "2000-01-01"),
        ]
        .into_iter()
        .enumerate()
        {
            place
                .run(&format!(
                    "INSERT INTO pending_receipts (ticket, owner_id, token, sent_at, due_at)
                     VALUES ('odd-{nth}-{each}', gen_random_uuid(), 'x', '{sent_at}', '{due_at}')"
                ))
                .await;
        }
        let good = receipt(&format!("good-{nth}"), Uuid::nil());
        let mut old = receipt(&format!("old-{nth}"), Uuid::nil());
        old.sent_at = DateTime::UNIX_EPOCH;
        assert_eq!(
            store.record(vec![good.clone()], at(0)).await,
            Ok(1),
            "{name}"
        );
        assert_eq!(
            store.record(vec![old.clone()], at(-1)).await,
            Ok(1),
            "{name}"
        );
        place
            .run(&format!(
                "UPDATE pending_receipts SET due_at = '-infinity' WHERE ticket = 'old-{nth}'"
            ))
            .await;
        let taken = store.take_due(at(0), at(900), ALL).await.expect(name);
        assert!(taken == [old, good], "{name}");
        assert!(
            store
                .take_due(at(899), at(900), ALL)
                .await
                .expect(name)
                .is_empty()
        );
        assert_eq!(
            store.purge(at(901), ALL).await,
            Ok(5),
            "{name}: a purge removes all but two"
        );
        place.run("DELETE FROM pending_receipts").await;
    }
    place.close().await;
}

pub(crate) async fn an_owner_is_erased_in_the_callers_transaction() {
    let place = place().await;
    place
        .run("CREATE TABLE account (id uuid PRIMARY KEY)")
        .await;
    let store = place.connect().await.receipts();
    let owner = Uuid::from_u128(3);
    let count = "SELECT count(*) FROM pending_receipts";
    let new = store.record(many("t", 70), at(0)).await;
    assert_eq!(new, Ok(70));

    let mut client = place.client().await;
    let transaction = client.transaction().await.expect("begin");
    let erased = duebox_postgres::erase_owner(&transaction, owner).await;
    assert_eq!(erased.expect("erase"), 10);
    assert_eq!(place.number(count).await, 70, "not committed yet");
    transaction.rollback().await.expect("roll back");
    assert_eq!(place.number(count).await, 70, "rolled back");
    let transaction = client.transaction().await.expect("begin");
    let erased = duebox_postgres::erase_owner(&transaction, owner).await;
    assert_eq!(erased.expect("erase"), 10);
    transaction.commit().await.expect("commit");
    assert_eq!(place.number(count).await, 60);

    let pool = sqlx_pool(&place.url(), 1);
    for (commit, left) in [(false, 60), (true, 50)] {
        let mut transaction = pool.begin().await.expect("begin");
        let owner = Uuid::from_u128(4);
        let erased = duebox_postgres::erase_owner(&mut *transaction, owner).await;
        assert_eq!(erased.expect("erase"), 10);
        if commit {
            transaction.commit().await.expect("commit");
        } else {
            transaction.rollback().await.expect("roll back");
        }
        assert_eq!(place.number(count).await, left);
    }

    place.run("DROP TABLE pending_receipts").await;
    let error = duebox_postgres::erase_owner(&client, owner).await;
    let error = error.expect_err("there is no table");
    assert_eq!(error.kind(), duebox_postgres::Kind::Schema);
    assert!(
        error.to_string().contains("run the migrations first"),
        "{error}"
    );
    let failed = store.erase_owner(owner).await;
    assert_eq!(failed, Err(PushStoreError::Internal));
    place.close().await;
}
