//! Making tables: by the one statement, by the migrations, twice and at once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use duebox_core::{Dialect, Kind, Outbox, Statement};

use super::works;
use crate::context::{assert_refused, at};
use crate::{Context, Schema};

/// The columns of each index of a table, by the index's name.
pub(super) async fn indexes(cx: &Context, table: &str) -> BTreeMap<String, Vec<String>> {
    let sql = Statement::per_dialect(
        "SELECT CAST(i.relname AS TEXT) AS name, CAST(a.attname AS TEXT) AS part
        FROM pg_index x
        JOIN pg_class i ON i.oid = x.indexrelid
        JOIN pg_class t ON t.oid = x.indrelid AND t.relnamespace = i.relnamespace
        JOIN pg_namespace s ON s.oid = t.relnamespace AND s.nspname = current_schema()
        JOIN pg_attribute a ON a.attrelid = x.indexrelid
        WHERE t.relname = ?
        ORDER BY 1, a.attnum",
        "SELECT l.name AS name, i.name AS part
        FROM pragma_index_list(?) l, pragma_index_info(l.name) i
        ORDER BY 1, i.seqno",
        "SELECT index_name AS name, column_name AS part
        FROM information_schema.statistics
        WHERE table_schema = DATABASE() AND table_name = ?
        ORDER BY 1, seq_in_index",
    );
    let mut found: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for row in cx.query(sql.bind(table)).await {
        let name = row.get("name").expect("a name");
        let part = row.get("part").expect("a column");
        found.entry(name).or_default().push(part);
    }
    found
}

pub(super) async fn both_indexes_are_there(cx: Arc<Context>) {
    let longest = Outbox::new("x".repeat(48));
    cx.make(&longest).await;
    for outbox in [&cx.outbox, &longest] {
        let table = outbox.table();
        let found = indexes(&cx, table).await;
        let columns: BTreeSet<&[String]> = found.values().map(Vec::as_slice).collect();
        let expected = [["visible_at", "id"], ["subject", "id"]]
            .map(|index| index.map(str::to_owned).to_vec());
        for index in &expected {
            assert!(columns.contains(index.as_slice()), "{found:?}");
        }
        assert!(columns.contains(&["id".to_owned()][..]), "{found:?}");
        // SQLite does not keep the names of unique constraints.
        if (cx.dialect(), cx.schema) != (Dialect::Sqlite, Schema::Portable) {
            let [due, subject] = &expected;
            assert_eq!(found.get(&format!("{table}_due")), Some(due));
            assert_eq!(found.get(&format!("{table}_subject")), Some(subject));
        }
    }
}

pub(super) async fn making_a_table_again_is_harmless(cx: Arc<Context>) {
    cx.enqueue("a", &at(0)).await;
    let before = (cx.entry("a").await, indexes(&cx, "outbox").await);
    let make = Statement::new(cx.outbox.create_table_sql());
    for _ in 0..3 {
        cx.db.execute(&make).await.expect("it is there");
        // A table that another tool has made is taken as it is.
        let answer = cx.sandbox.migrate_outbox(&cx.outbox).await;
        answer.expect("it is there");
    }
    let after = (cx.entry("a").await, indexes(&cx, "outbox").await);
    assert_eq!(before.0, after.0);
    for (name, columns) in &before.1 {
        assert_eq!(after.1.get(name), Some(columns), "{name}");
    }
    assert_eq!(cx.claim(&at(0), &at(10), 9).await.len(), 1);
}

pub(super) async fn the_statement_that_makes_a_table_is_one_statement(cx: Arc<Context>) {
    let outbox = Outbox::new("other_outbox");
    let sql = outbox.create_table_sql();
    // Tools split what they read at each of these, or take it for a parameter.
    for mark in [';', '?', '\'', '`', '\\', '%', ':', '$', '@', '#'] {
        assert!(!sql.contains(mark), "{mark}");
    }
    // With what such tools put around it, and with the line breaks of Windows.
    for (number, text) in [
        format!("{sql};"),
        format!("\n\n  {sql}  ;\n"),
        format!("-- made by a tool\n{sql}\n;\n"),
        sql.replace('\n', "\r\n"),
    ]
    .into_iter()
    .enumerate()
    {
        let name = format!("outbox_{number}");
        let outbox = Outbox::new(&*name);
        let text = text.replace("other_outbox", &name);
        cx.db.execute(&Statement::new(text)).await.expect("made");
        works(&cx, &outbox).await;
        assert!(indexes(&cx, &name).await.len() >= 3);
    }
}

pub(super) async fn tables_are_made_by_many_at_once(cx: Arc<Context>) {
    let names = ["first_outbox", "second_outbox"];
    let tasks: Vec<_> = (0..16)
        .map(|number| {
            let cx = Arc::clone(&cx);
            let outbox = Outbox::new(names[number % 2]);
            tokio::spawn(async move { cx.sandbox.migrate_outbox(&outbox).await })
        })
        .collect();
    for task in tasks {
        task.await
            .expect("a task")
            .expect("one makes it, the others wait");
    }
    for name in names {
        works(&cx, &Outbox::new(name)).await;
        assert!(indexes(&cx, name).await.len() >= 3, "{name}");
    }
}

pub(super) async fn a_table_that_is_no_outbox_is_refused_by_a_migration(cx: Arc<Context>) {
    cx.execute("CREATE TABLE impostor (id VARCHAR(64) NOT NULL PRIMARY KEY, topic VARCHAR(9))")
        .await;
    cx.execute("INSERT INTO impostor (id) VALUES ('a')").await;
    let outbox = Outbox::new("impostor");
    for _ in 0..2 {
        let error = cx
            .sandbox
            .migrate_outbox(&outbox)
            .await
            .expect_err("it has other columns");
        assert_eq!(error.kind(), Kind::Schema, "{error}");
        assert!(error.to_string().contains("impostor"), "{error}");
    }
    let enqueue = outbox.enqueue_statement("b", "t", "p", None, &at(0));
    assert_refused(cx.batch(&[enqueue]).await, Kind::Schema);
    assert_eq!(cx.count_in("impostor").await, 1);
}
