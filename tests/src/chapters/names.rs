//! Names: what an outbox may be called, and that each is a table of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use duebox_core::{Dialect, Kind, LeaseOutcome, Outbox, Statement};

use super::chapter;
use crate::Context;
use crate::context::{assert_refused, at, ids};

mod making;

use making::{
    a_table_that_is_no_outbox_is_refused_by_a_migration, both_indexes_are_there,
    making_a_table_again_is_harmless, tables_are_made_by_many_at_once,
    the_statement_that_makes_a_table_is_one_statement,
};

chapter!(names:
    a_name_that_would_need_quotes_is_refused,
    reserved_words_are_refused_on_every_engine,
    words_that_are_not_reserved_are_names,
    a_name_has_48_characters_at_most,
    names_that_begin_alike_are_two_tables,
    two_outboxes_in_one_database_do_not_meet,
    a_name_with_its_schema_is_that_table,
    a_missing_schema_is_an_error,
    both_indexes_are_there,
    making_a_table_again_is_harmless,
    the_statement_that_makes_a_table_is_one_statement,
    tables_are_made_by_many_at_once,
    a_table_that_is_no_outbox_is_refused_by_a_migration,
);

/// Sends one row through the outbox, and leaves its table empty.
async fn works(cx: &Context, outbox: &Outbox) {
    let (db, table) = (&*cx.db, outbox.table());
    let enqueue = outbox.enqueue_statement("a", "t", table, Some("s"), &at(0));
    cx.batch(&[enqueue]).await.expect(table);
    let records = outbox.claim_due(db, &at(0), &at(10), 9).await.expect(table);
    assert_eq!(ids(&records), ["a"], "{table}");
    assert_eq!(records[0].payload, table);
    let lease = [records[0].lease.clone()];
    let held = [LeaseOutcome::Held];
    let outcome = outbox.extend_claimed(db, &lease, &at(20)).await;
    assert_eq!(outcome.expect(table), held, "{table}");
    let stats = outbox.stats(db, &at(0)).await.expect(table);
    assert_eq!(stats.leased, 1, "{table}");
    let exported = outbox.export_subject(db, "s", None, 9).await.expect(table);
    assert_eq!(exported.len(), 1, "{table}");
    let outcome = outbox.complete_claimed(db, &lease).await.expect(table);
    assert_eq!(outcome, held, "{table}");
    assert_eq!(outbox.delete(db, &["a"]).await.expect(table), 0);
    assert_eq!(outbox.erase_subject(db, "s", 9).await.expect(table), 0);
}

async fn a_name_that_would_need_quotes_is_refused(cx: Arc<Context>) {
    cx.execute("CREATE TABLE victim (id BIGINT)").await;
    cx.execute("INSERT INTO victim (id) VALUES (1)").await;
    for name in [
        "x; DROP TABLE victim; --",
        "victim; DROP TABLE victim",
        "outbox (id) VALUES (1); DROP TABLE victim; --",
        "a'b",
        "a\"b",
        "\"a\"",
        "a`b",
        "`a`",
        "[a]",
        "a\\b",
        "a/*b*/",
        "a--b",
        "a#b",
        "a\0b",
        "",
        " ",
        "a b",
        " a",
        "a\n",
        "a?",
        "a$1",
        "a:b",
        "a@b",
        "a-b",
        "a,b",
        "a(b)",
        "é",
        "1a",
        "MyOutbox",
        "OUTBOX",
        ".",
        ".a",
        "a.",
        "a..b",
        "a.b.c",
        "A.b",
        "a.B",
        "a b.c",
        "a.'b'",
    ] {
        assert_refused(Outbox::try_new(name), Kind::InvalidArgument);
    }
    assert_eq!(cx.count_in("victim").await, 1);
}

async fn reserved_words_are_refused_on_every_engine(_: Arc<Context>) {
    // Some are reserved by one engine alone.
    for word in [
        "select",
        "table",
        "order",
        "group",
        "user",
        "key",
        "index",
        "values",
        "where",
        "from",
        "rank",
        "groups",
        "window",
        "system",
        "lead",
        "of",
        "row",
        "rows",
        "analyze",
        "analyse",
        "placing",
        "variadic",
        "glob",
        "isnull",
        "notnull",
        "recursive",
        "returning",
        "limit",
        "to",
        "mod",
        "div",
        "interval",
        "lateral",
        "function",
        "current_user",
        "session_user",
        "portion",
        "value",
        "master_demote_to_slave",
        "sql_after_gtids",
    ] {
        assert_refused(Outbox::try_new(word), Kind::InvalidArgument);
        let with_schema = format!("app.{word}");
        assert_refused(Outbox::try_new(with_schema), Kind::InvalidArgument);
        let as_schema = format!("{word}.outbox");
        assert_refused(Outbox::try_new(as_schema), Kind::InvalidArgument);
    }
    // The names of what else is made beside an outbox.
    for name in [
        "sqlite_outbox",
        "duebox_migrations",
        "pending_receipts",
        "outbox_due",
        "outbox_subject",
        "outbox_pkey",
    ] {
        assert_refused(Outbox::try_new(name), Kind::InvalidArgument);
    }
}

async fn words_that_are_not_reserved_are_names(cx: Arc<Context>) {
    for word in [
        "events",
        "queue",
        "mail",
        "text",
        "date",
        "time",
        "timestamp",
        "position",
        "none",
        "name",
        "data",
        "status",
        "type",
        "count",
        "sum",
        "max",
        "substring",
        "session",
        "comment",
        "level",
        "role",
        "state",
        "version",
        "temp",
        "json",
        "boolean",
        "bit",
        "sequence",
        "domain",
        "public",
        "_",
        "_1",
        "x9",
    ] {
        let outbox = Outbox::try_new(word).expect(word);
        cx.make(&outbox).await;
        works(&cx, &outbox).await;
    }
}

async fn a_name_has_48_characters_at_most(cx: Arc<Context>) {
    for length in [49, 56, 63, 64, 65, 120] {
        let name = "x".repeat(length);
        assert_refused(Outbox::try_new(&*name), Kind::InvalidArgument);
        assert_refused(
            Outbox::try_new(format!("app.{name}")),
            Kind::InvalidArgument,
        );
        assert_refused(Outbox::try_new(format!("{name}.a")), Kind::InvalidArgument);
    }
    assert_refused(Outbox::try_new("€".repeat(40)), Kind::InvalidArgument);
    let longest = Outbox::new("x".repeat(48));
    cx.make(&longest).await;
    works(&cx, &longest).await;
}

async fn names_that_begin_alike_are_two_tables(cx: Arc<Context>) {
    let both = ["a", "b"].map(|end| Outbox::new("x".repeat(47) + end));
    for outbox in &both {
        cx.make(outbox).await;
    }
    let enqueue = both[0].enqueue_statement("a", "t", "p", None, &at(0));
    cx.batch(&[enqueue]).await.expect("enqueue");
    assert_eq!(cx.count_in(both[0].table()).await, 1);
    assert_eq!(cx.count_in(both[1].table()).await, 0);
    works(&cx, &both[1]).await;
    assert_eq!(cx.count_in(both[0].table()).await, 1);
}

async fn two_outboxes_in_one_database_do_not_meet(cx: Arc<Context>) {
    let (db, other) = (&*cx.db, Outbox::new("other_outbox"));
    cx.make(&other).await;
    cx.enqueue_for("a", "s", &at(0)).await;
    let enqueue = other.enqueue_statement("a", "t", "of the other", Some("s"), &at(0));
    cx.batch(&[enqueue]).await.expect("the id is free here");

    let ours = cx.claim_one(&at(0), &at(10)).await;
    let theirs = other.claim_due(db, &at(0), &at(10), 9).await;
    let theirs = theirs.expect("claim");
    assert_eq!(theirs[0].payload, "of the other");
    assert_eq!(other.stats(db, &at(0)).await.expect("stats").leased, 1);
    // Both leases have the same three parts.
    assert_eq!(ours.lease, theirs[0].lease);
    assert_eq!(cx.complete(&ours.lease).await, LeaseOutcome::Held);
    let theirs = other.get(db, "a").await.expect("get").expect("it is there");
    assert_eq!(theirs.locked_until, Some(at(10)));
    let erased = cx.outbox.erase_subject(db, "s", 9).await;
    assert_eq!(erased.expect("erase"), 0);
    assert_eq!(cx.outbox.delete(db, &["a"]).await.expect("delete"), 0);
    let parked = cx.outbox.park(db, &["a"], &at(0), "no").await;
    assert_eq!(parked.expect("park"), 0);
    assert_eq!(cx.count_in("other_outbox").await, 1);
    assert_eq!(other.delete(db, &["a"]).await.expect("delete"), 1);
}

/// The schema that names without one are in.
async fn schema(cx: &Context) -> String {
    let sql = Statement::per_dialect(
        "SELECT CAST(current_schema() AS TEXT) AS name",
        "SELECT 'main' AS name",
        "SELECT DATABASE() AS name",
    );
    cx.query(sql).await[0].get("name").expect("a schema")
}

async fn a_name_with_its_schema_is_that_table(cx: Arc<Context>) {
    let schema = schema(&cx).await;
    let qualified = Outbox::new(format!("{schema}.outbox2"));
    cx.make(&qualified).await;
    works(&cx, &qualified).await;
    // It is the same table as without the schema, and no `schema.outbox2` beside.
    let plain = Outbox::new("outbox2");
    let enqueue = qualified.enqueue_statement("b", "t", "p", None, &at(0));
    cx.batch(&[enqueue]).await.expect("enqueue");
    assert_eq!(cx.count_in("outbox2").await, 1);
    let claimed = plain.claim_due(&*cx.db, &at(0), &at(10), 9).await;
    assert_eq!(ids(&claimed.expect("claim")), ["b"]);
    assert_eq!(cx.count().await, 0);
    let columns: BTreeSet<Vec<String>> = making::indexes(&cx, "outbox2")
        .await
        .into_values()
        .collect();
    assert_eq!(columns.len(), 3, "its indexes are where it is: {columns:?}");
}

async fn a_missing_schema_is_an_error(cx: Arc<Context>) {
    let outbox = Outbox::new("no_such_schema.outbox");
    let make = Statement::new(outbox.create_table_sql());
    let error = cx.db.execute(&make).await.expect_err("no schema");
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    let answer = cx.sandbox.migrate_outbox(&outbox).await;
    let error = answer.expect_err("no schema");
    assert_eq!(error.kind(), Kind::Schema, "{error}");
    let enqueue = outbox.enqueue_statement("a", "t", "p", None, &at(0));
    assert_refused(cx.batch(&[enqueue]).await, Kind::Schema);
    let claim = outbox.claim_due(&*cx.db, &at(0), &at(10), 1).await;
    assert_eq!(claim.expect_err("no table").kind(), Kind::Schema);
    // The table of the same name in the schema that is there was not taken for it.
    assert_eq!(cx.count().await, 0);
    if cx.dialect() == Dialect::Sqlite {
        let wrong = Outbox::new("temp.outbox");
        let claim = wrong.claim_due(&*cx.db, &at(0), &at(10), 1).await;
        assert_eq!(claim.expect_err("no table").kind(), Kind::Schema);
    }
}
