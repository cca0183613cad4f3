use std::borrow::Cow;

use super::{fails, is, same};
use crate::Dialect::{self, MySql, Postgres, Sqlite};
use crate::lex::{LexError, lex};

#[test]
fn a_text_is_one_statement() {
    for dialect in Dialect::ALL {
        is(dialect, "SELECT 1 ; \n -- ;\n /* ; */ ;;", "SELECT 1 ", 0);
        assert!(matches!(
            lex(dialect, "SELECT 1;").unwrap().sql,
            Cow::Borrowed("SELECT 1")
        ));
        for sql in [
            "SELECT 1; SELECT 2",
            "; SELECT 1",
            "SELECT 1;;?",
            "SELECT (1; SELECT 2)",
        ] {
            fails(dialect, sql, LexError::ManyStatements);
        }
        for sql in ["", " \r\n\t", ";", " ;; ", "-- a", "/* a */;"] {
            fails(dialect, sql, LexError::Empty);
        }
        fails(dialect, "SELECT '\0'", LexError::Nul);
        fails(dialect, "SELECT 1\0", LexError::Nul);
        same(dialect, "SELECT ';', \";\" /* ; */ -- ;", 0);
    }
    is(Postgres, "SELECT ?; -- ?", "SELECT $1", 1);
    fails(MySql, "SELECT 1; # a\n SELECT 2", LexError::ManyStatements);
    fails(MySql, "/*!*/", LexError::Empty);
}

#[test]
fn a_trigger_of_sqlite_has_statements_inside() {
    let body =
        "AFTER INSERT ON t BEGIN UPDATE t SET a = CASE WHEN b THEN 1 END; DELETE FROM u; END";
    for create in [
        "CREATE TRIGGER",
        "create temp trigger",
        "CREATE /* a */ TEMPORARY TRIGGER IF NOT EXISTS",
        "EXPLAIN QUERY PLAN CREATE TRIGGER",
    ] {
        let sql = format!("{create} x {body}");
        same(Sqlite, &sql, 0);
        is(Sqlite, &format!("{sql} ; -- end\n;"), &format!("{sql} "), 0);
        fails(
            Sqlite,
            &format!("{sql}; DELETE FROM t"),
            LexError::ManyStatements,
        );
    }
    fails(
        Sqlite,
        "CREATE TABLE trigger_x (a); DELETE FROM t; END",
        LexError::ManyStatements,
    );
    fails(
        MySql,
        &format!("CREATE TRIGGER x {body}"),
        LexError::ManyStatements,
    );
    fails(
        Postgres,
        &format!("CREATE TRIGGER x {body}"),
        LexError::ManyStatements,
    );
}

#[test]
fn rules_and_routines_of_postgres_have_statements_inside() {
    let rule = "CREATE OR REPLACE RULE r AS ON INSERT TO t DO ALSO (DELETE FROM u; DELETE FROM v;)";
    let routine = "CREATE FUNCTION f(begin int) RETURNS int BEGIN ATOMIC \
                   SELECT CASE WHEN true THEN 1 END; SELECT 2; END";
    for sql in [
        rule,
        routine,
        "CREATE PROCEDURE p() LANGUAGE sql AS $$ SELECT 1; SELECT 2; $$",
    ] {
        same(Postgres, sql, 0);
        is(Postgres, &format!("{sql};"), sql, 0);
        fails(
            Postgres,
            &format!("{sql}; SELECT 1"),
            LexError::ManyStatements,
        );
    }
    fails(
        Postgres,
        "CREATE FUNCTION f() BEGIN; SELECT 1; END",
        LexError::ManyStatements,
    );
    fails(
        Postgres,
        "CREATE FUNCTION s.atomic() AS 'a'; SELECT 1",
        LexError::ManyStatements,
    );
}

#[test]
fn errors_do_not_quote_the_text() {
    for (dialect, sql) in [
        (Postgres, "SELECT 'secret"),
        (Postgres, "SELECT $secret$"),
        (Postgres, "secret; secret"),
        (Sqlite, ":secret"),
        (Sqlite, "'secret\0'"),
        (MySql, "/*! secret = ? */"),
        (MySql, "/*! 'secret*/'"),
    ] {
        let error = lex(dialect, sql).unwrap_err();
        for shown in [error.to_string(), format!("{error:?}")] {
            assert!(!shown.contains("secret"), "{shown}");
        }
        let shown = error.to_string();
        assert!(
            !shown.ends_with('.') && shown.starts_with(char::is_lowercase),
            "{shown}"
        );
    }
}
