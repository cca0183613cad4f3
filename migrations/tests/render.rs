//! The files for other tables than the default ones.

use duebox_core::Dialect;
use duebox_migrations::{all, outbox, split};

#[test]
fn the_default_table_is_the_file_itself() {
    for file in Dialect::ALL.into_iter().flat_map(all) {
        assert_eq!(file.render(file.table()), file.sql);
    }
}

#[test]
fn nothing_of_the_default_name_is_left() {
    for file in Dialect::ALL.into_iter().flat_map(outbox) {
        for table in ["mail", "app.mail"] {
            let sql = file.render(table);
            assert!(!sql.to_lowercase().contains("outbox"), "{sql}");
            assert_eq!(split(&sql).count(), file.statements().count());
        }
    }
}

/// Only names change: put back, they give the file.
#[test]
fn nothing_but_names_changes() {
    for file in Dialect::ALL.into_iter().flat_map(outbox) {
        let sql = file.render("zz.qqq");
        let back = sql.replace("zz.qqq", "qqq").replace("qqq", "outbox");
        assert_eq!(back, file.sql);
    }
}

/// The first line of each statement and of what it is `ON`.
fn heads(dialect: Dialect, table: &str) -> Vec<String> {
    let sql = outbox(dialect)[0].render(table);
    let names = |line: &&str| {
        let line = line.trim_start();
        ["CREATE ", "ON ", "KEY "]
            .iter()
            .any(|word| line.starts_with(word))
    };
    split(&sql)
        .flat_map(str::lines)
        .filter(names)
        .map(|line| line.trim().to_owned())
        .collect()
}

#[test]
fn postgres_names_the_schema_before_the_table() {
    assert_eq!(
        heads(Dialect::Postgres, "app.mail"),
        [
            "CREATE TABLE IF NOT EXISTS app.mail (",
            "CREATE INDEX IF NOT EXISTS mail_due",
            "ON app.mail (visible_at, id)",
            "CREATE INDEX IF NOT EXISTS mail_subject",
            "ON app.mail (subject, id)",
        ]
    );
}

#[test]
fn sqlite_names_the_schema_before_the_index() {
    assert_eq!(
        heads(Dialect::Sqlite, "app.mail"),
        [
            "CREATE TABLE IF NOT EXISTS app.mail (",
            "CREATE INDEX IF NOT EXISTS app.mail_due",
            "ON mail (visible_at, id)",
            "CREATE INDEX IF NOT EXISTS app.mail_subject",
            "ON mail (subject, id)",
        ]
    );
}

#[test]
fn mysql_names_the_schema_before_the_table() {
    assert_eq!(
        heads(Dialect::MySql, "app.mail"),
        [
            "CREATE TABLE IF NOT EXISTS app.mail (",
            "KEY mail_due (visible_at, id),",
            "KEY mail_subject (subject, id)",
        ]
    );
}

/// A name that holds the default one, or words of the files, is not renamed twice.
#[test]
fn a_name_like_another_is_safe() {
    for dialect in Dialect::ALL {
        let sql = outbox(dialect)[0].render("outbox_outbox");
        assert!(sql.contains("CREATE TABLE IF NOT EXISTS outbox_outbox ("));
        assert!(sql.contains(" outbox_outbox_due"));
        assert!(!sql.contains("outbox_outbox_outbox"));
    }
}

#[test]
fn an_impossible_name_is_refused() {
    let file = &outbox(Dialect::Postgres)[0];
    let long = "a".repeat(49);
    for table in [
        "", ".", "a.", ".a", "a.b.c", "A", "a b", "a;b", "a\"", "a`", "a'", "1a", "é", "a-b",
        "a/*", "a\n", &long,
    ] {
        let rendered = std::panic::catch_unwind(|| file.render(table));
        assert!(rendered.is_err(), "{table:?} was taken");
    }
    let longest = format!("app.{}", "a".repeat(48));
    assert!(file.render(&longest).contains(&longest));
}
