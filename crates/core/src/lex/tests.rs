use std::borrow::Cow;

use super::{Class, LexError, lex};
use crate::Dialect::{self, MySql, Postgres, Sqlite};

#[track_caller]
fn is(dialect: Dialect, sql: &str, expected: &str, placeholders: usize) {
    let lexed = lex(dialect, sql).unwrap_or_else(|error| panic!("{dialect}: {sql}: {error}"));
    assert_eq!(lexed.sql, expected, "{dialect}: {sql}");
    assert_eq!(lexed.placeholders, placeholders, "{dialect}: {sql}");
}

/// The text comes back as it is, with so many placeholders.
#[track_caller]
fn same(dialect: Dialect, sql: &str, placeholders: usize) {
    is(dialect, sql, sql, placeholders);
}

#[track_caller]
fn all(sql: &str, placeholders: usize) {
    for dialect in Dialect::ALL {
        same(dialect, sql, placeholders);
    }
}

#[track_caller]
fn fails(dialect: Dialect, sql: &str, expected: LexError) {
    assert_eq!(lex(dialect, sql), Err(expected), "{dialect}: {sql}");
}

#[track_caller]
fn unclosed(dialect: Dialect, sql: &str, what: &'static str) {
    fails(dialect, sql, LexError::Unterminated { what });
}

#[track_caller]
fn class(dialect: Dialect, sql: &str, expected: Class) {
    let lexed = lex(dialect, sql).unwrap_or_else(|error| panic!("{dialect}: {sql}: {error}"));
    assert_eq!(lexed.class, expected, "{dialect}: {sql}");
}

#[test]
fn placeholders_are_numbered_on_postgres_alone() {
    let sql = "SELECT a FROM t WHERE b = ? AND c IN (?, ?)";
    is(
        Postgres,
        sql,
        "SELECT a FROM t WHERE b = $1 AND c IN ($2, $3)",
        3,
    );
    same(Sqlite, sql, 3);
    same(MySql, sql, 3);
    for dialect in [Sqlite, MySql] {
        assert!(matches!(lex(dialect, sql).unwrap().sql, Cow::Borrowed(_)));
    }
    let eleven = format!("SELECT {}", ["?"; 11].join(","));
    assert!(lex(Postgres, &eleven).unwrap().sql.ends_with(",$10,$11"));
}

#[test]
fn a_numbered_placeholder_does_not_join_its_neighbours() {
    is(
        Postgres,
        "SELECT a LIMIT?OFFSET?",
        "SELECT a LIMIT $1 OFFSET $2",
        2,
    );
    is(Postgres, "SELECT 1 $?$ 2", "SELECT 1 $ $1 $ 2", 1);
    is(Postgres, "SELECT (?)::int", "SELECT ($1)::int", 1);
    is(Postgres, "SELECT ä?ä", "SELECT ä $1 ä", 1);
}

#[test]
fn a_doubled_question_mark_is_one_question_mark() {
    is(Postgres, "SELECT a ?? ?", "SELECT a ? $1", 1);
    is(
        Postgres,
        "SELECT a ??| ? AND b ??& ?",
        "SELECT a ?| $1 AND b ?& $2",
        2,
    );
    is(Postgres, "SELECT a ???", "SELECT a ?$1", 1);
    is(Postgres, "SELECT a ????", "SELECT a ??", 0);
    is(Postgres, "SELECT a ??1", "SELECT a ?1", 0);
    is(Sqlite, "SELECT a ?? ?", "SELECT a ? ?", 1);
    is(MySql, "SELECT a ?? ?", "SELECT a ? ?", 1);
    all("SELECT '??', '? ''??'", 0);
}

#[test]
fn parameters_in_the_engines_own_manner_are_refused() {
    for dialect in Dialect::ALL {
        fails(dialect, "SELECT ?1", LexError::Parameter);
    }
    fails(Postgres, "SELECT $1", LexError::Parameter);
    fails(Postgres, "SELECT ?, $2", LexError::Parameter);
    for sql in [
        "SELECT :a",
        "SELECT @b",
        "SELECT $c",
        "SELECT #d",
        "SELECT $1",
        "SELECT ??1",
    ] {
        fails(Sqlite, sql, LexError::Parameter);
    }
    is(
        Postgres,
        "SELECT ?::int, a[1:?], @ b, b:=?",
        "SELECT $1::int, a[1:$2], @ b, b:=$3",
        3,
    );
    same(Postgres, "SELECT a[lo:hi], a$1, @b", 0);
    same(
        MySql,
        "SELECT @b, @a := ?, $1, @@session.x, @`?`, @'?', @\"?\"",
        1,
    );
    same(Sqlite, "SELECT a->>'$.b', a$b, 1 @ 2", 0);
}

#[test]
fn literals_are_left_alone() {
    all("SELECT '?', '''?', '', 'a'''", 0);
    all("SELECT N'?', X'3F', 'é?'", 0);
    for dialect in [Postgres, Sqlite] {
        // The second literal begins behind the first backslash's quote.
        same(dialect, r"SELECT '\', '?'", 0);
        unclosed(dialect, r"SELECT '\'', ?", "string literal");
    }
    same(MySql, r"SELECT '\'?', 'a\\', ?, _utf8mb4'\'?', N'\'?'", 1);
    same(MySql, r#"SELECT "\"?", "it's ?", "a""?", ?"#, 1);
    unclosed(MySql, r"SELECT '\', ?", "string literal");
    unclosed(MySql, r"SELECT '\", "string literal");
    unclosed(MySql, "SELECT \"", "string literal");
    all("SELECT 'a\n?\r\n' 'b'", 0);
}

#[test]
fn escape_strings_of_postgres_go_on_behind_a_line_break() {
    same(Postgres, r"SELECT E'\'?', e'\\', 'a'", 0);
    is(Postgres, r"SELECT E'a\\'?", r"SELECT E'a\\'$1", 1);
    // A name that ends in E opens no escape string.
    is(Postgres, r"SELECT nameE'\'?", r"SELECT nameE'\'$1", 1);
    is(Postgres, r"SELECT E '\'?", r"SELECT E '\'$1", 1);
    same(Postgres, "SELECT E'a'\n'b\\'?'", 0);
    same(
        Postgres,
        "SELECT E'a' -- it's\r\n\t -- ?\n'b\\'?'\n'\\'?'",
        0,
    );
    is(Postgres, "SELECT E'a' 'b\\'?", "SELECT E'a' 'b\\'$1", 1);
    is(Postgres, "SELECT 'a'\n'b\\'?", "SELECT 'a'\n'b\\'$1", 1);
    is(
        Postgres,
        "SELECT E'a'/*\n*/'b\\'?",
        "SELECT E'a'/*\n*/'b\\'$1",
        1,
    );
    is(
        Postgres,
        r"SELECT U&'\'?, B'1'?, X'\'?",
        r"SELECT U&'\'$1, B'1'$2, X'\'$3",
        3,
    );
    same(Sqlite, r"SELECT E'\', ?", 1);
}

#[test]
fn quoted_names_are_left_alone() {
    all(r#"SELECT "a?", "a""?" FROM t"#, 0);
    same(Sqlite, r#"SELECT "\", ?, `a``?`, [a?"'`], ?"#, 2);
    is(
        Postgres,
        r#"SELECT "\", U&"?", ?, a[?]"#,
        r#"SELECT "\", U&"?", $1, a[$2]"#,
        2,
    );
    same(MySql, r"SELECT `a\`, ?, `?``?`", 1);
    unclosed(Postgres, "SELECT \"a", "quoted name");
    unclosed(Sqlite, "SELECT [a", "name in brackets");
    unclosed(Sqlite, "SELECT `a``", "quoted name");
    unclosed(MySql, "SELECT `a", "quoted name");
    unclosed(MySql, "SELECT @`a", "quoted name");
}

#[test]
fn comments_are_left_alone() {
    all("SELECT 1 -- ? ' \" ` /* \n, 2 /* ? ' -- */", 0);
    all("SELECT 1 /*/ ? */ /**/ /***/", 0);
    all("SELECT 1 -- ?", 0);
    for dialect in Dialect::ALL {
        unclosed(dialect, "SELECT 1 /* ?", "comment");
        unclosed(dialect, "SELECT 1 /*/", "comment");
    }
    is(Postgres, "SELECT 1 -- ?\r, ?", "SELECT 1 -- ?\r, $1", 1);
    same(Sqlite, "SELECT 1 -- ?\r, ?", 0);
    same(MySql, "SELECT 1 -- ?\r, ?", 0);
}

#[test]
fn a_dash_comment_of_mysql_needs_a_blank() {
    same(MySql, "SELECT 5--?, --\t?\n 5--1, 5--\x01?\n?--", 2);
    same(MySql, "SELECT 1 # ? '\n, ?#", 1);
    is(Postgres, "SELECT 5--?\n# ?", "SELECT 5--?\n# $1", 1);
    same(Sqlite, "SELECT 5--?\n", 0);
}

#[test]
fn comments_nest_on_postgres_alone() {
    let sql = "SELECT 1 /* /* ? */ ?, */ - ?";
    is(Postgres, sql, "SELECT 1 /* /* ? */ ?, */ - $1", 1);
    same(Sqlite, sql, 2);
    same(MySql, sql, 2);
    let deep = format!("SELECT {}?{} ?", "/*".repeat(100_000), "*/".repeat(100_000));
    assert_eq!(lex(Postgres, &deep).unwrap().placeholders, 1);
    unclosed(Postgres, "SELECT 1 /* /* */", "comment");
}

#[test]
fn executable_comments_hold_code_on_mysql_alone() {
    let sql = "CREATE TABLE t (a TEXT /*!50000 (9) */ /*M!100200 COMMENT '?' */)";
    all(sql, 0);
    for sql in [
        "SELECT 1 /*! , ? */",
        "SELECT 1 /*!80017 , ? */",
        "SELECT 1 /*M!100200 , ? */",
    ] {
        fails(MySql, sql, LexError::PlaceholderInComment);
        same(Postgres, sql, 0);
        same(Sqlite, sql, 0);
    }
    fails(
        MySql,
        "SELECT 1 /*! , ?? */",
        LexError::PlaceholderInComment,
    );
    same(
        MySql,
        "SELECT ? /*!*/ /*M!*/ /*!99999*/ /*! '?' */, ? /*M ? */ /*m! ? */ /*+ ? */",
        2,
    );
    for sql in [
        "/*! '*/ ?' */",
        "/*! /* */ ? */",
        "/*! -- */ ?\n*/",
        "/*! # */",
        "/*! `*/`",
    ] {
        fails(
            MySql,
            &format!("SELECT 1 {sql}"),
            LexError::AmbiguousComment,
        );
    }
    unclosed(MySql, "SELECT 1 /*! 2", "comment");
    fails(MySql, "SELECT 1; /*! COMMIT */", LexError::ManyStatements);
}

#[test]
fn dollar_quotes_are_left_alone() {
    is(Postgres, "SELECT $$ ? ' $$, ?", "SELECT $$ ? ' $$, $1", 1);
    same(Postgres, "SELECT $a$ ? $$ $b$ $A$ $a$, $_ä1$ ? $_ä1$", 0);
    is(Postgres, "SELECT a$b$, ?, c$b$", "SELECT a$b$, $1, c$b$", 1);
    is(Postgres, "SELECT 1$$?$$?", "SELECT 1$$?$$ $1", 1);
    same(Postgres, "SELECT $a$ x$a$", 0);
    unclosed(Postgres, "SELECT $a$ ? $b$", "dollar-quoted string");
    unclosed(Postgres, "SELECT $$ ? $", "dollar-quoted string");
    is(Postgres, "SELECT $a ?", "SELECT $a $1", 1);
    same(MySql, "SELECT $$ ? $$", 1);
}

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
}

#[test]
fn transactions_are_told_on_every_engine() {
    for dialect in Dialect::ALL {
        for word in [
            "BEGIN",
            "START",
            "COMMIT",
            "END",
            "ROLLBACK",
            "ABORT",
            "SAVEPOINT",
            "RELEASE",
            "XA",
        ] {
            for sql in [
                word.to_owned(),
                format!(" /* a */ -- b\n{} x;", word.to_lowercase()),
            ] {
                class(dialect, &sql, Class::Transaction(word));
            }
        }
        class(dialect, "SELECT 'COMMIT' /* COMMIT */", Class::Ordinary);
        class(dialect, "EXPLAIN SELECT 1", Class::Ordinary);
        class(dialect, "((SELECT 1))", Class::Ordinary);
        class(
            dialect,
            "WITH a AS (SELECT 1) SELECT * FROM a",
            Class::Ordinary,
        );
    }
    for sql in [
        "SET TRANSACTION READ ONLY",
        "set session transaction read only",
        "SET LOCAL TRANSACTION x",
        "SET GLOBAL TRANSACTION x",
    ] {
        class(Postgres, sql, Class::Transaction("SET TRANSACTION"));
        class(MySql, sql, Class::Transaction("SET TRANSACTION"));
    }
    let characteristics = "SET SESSION CHARACTERISTICS AS TRANSACTION READ ONLY";
    class(
        Postgres,
        characteristics,
        Class::Transaction("SET SESSION CHARACTERISTICS"),
    );
    class(
        Postgres,
        "PREPARE TRANSACTION 'x'",
        Class::Transaction("PREPARE TRANSACTION"),
    );
    class(Sqlite, "\u{FEFF}COMMIT", Class::Transaction("COMMIT"));
    class(Postgres, "COMMIT$ x", Class::Ordinary);
}

#[test]
fn what_a_batch_cannot_undo_is_told() {
    for word in ["PRAGMA", "VACUUM", "ATTACH", "DETACH"] {
        class(
            Sqlite,
            &format!("{} x", word.to_lowercase()),
            Class::NotInBatch(word),
        );
    }
    class(Sqlite, "EXPLAIN PRAGMA a = 1", Class::NotInBatch("PRAGMA"));
    class(
        Sqlite,
        "EXPLAIN QUERY PLAN PRAGMA a = 1",
        Class::NotInBatch("PRAGMA"),
    );
    class(Sqlite, "EXPLAIN SELECT pragma FROM t", Class::Ordinary);
    class(Sqlite, "CREATE TABLE t (a)", Class::Ordinary);
    class(
        Postgres,
        "PREPARE a AS SELECT 1",
        Class::NotInBatch("PREPARE"),
    );
    class(Postgres, "DISCARD ALL", Class::NotInBatch("DISCARD"));
    class(Postgres, "DEALLOCATE ALL", Class::NotInBatch("DEALLOCATE"));
    for sql in [
        "VACUUM",
        "SET a = 1",
        "SET LOCAL a = transaction",
        "RESET a",
        "LISTEN a",
        "NOTIFY a",
        "LOCK TABLE t",
        "CALL p()",
        "CREATE TABLE t (a int)",
    ] {
        class(Postgres, sql, Class::Ordinary);
    }
}

#[test]
fn copying_through_the_connection_is_told() {
    for sql in [
        "COPY t FROM STDIN",
        "copy t (a, b) from stdin with (format csv)",
        "COPY (SELECT 1) TO STDOUT",
    ] {
        class(Postgres, sql, Class::Stream("COPY"));
    }
    for sql in [
        "COPY t FROM '/a'",
        "COPY (SELECT a FROM stdin) TO '/a'",
        "SELECT a FROM stdin",
    ] {
        class(Postgres, sql, Class::Ordinary);
    }
}

#[test]
fn mysql_keeps_only_what_does_not_commit() {
    for sql in [
        "INSERT INTO t VALUES (1)",
        "replace into t values (1)",
        "VALUES ROW(1)",
        "TABLE t",
        "DO 1",
        "SHOW TABLES",
        "DESC t",
        "(SELECT 1)",
        "SET @a = 1",
        "SET @a := (SELECT b, c FROM t), @`b`=@@autocommit",
    ] {
        class(MySql, sql, Class::Ordinary);
    }
    for (sql, word) in [
        ("CREATE TEMPORARY TABLE t (a int)", "CREATE"),
        ("CALL p()", "CALL"),
        ("truncate t", "TRUNCATE"),
        ("ANALYZE TABLE t", "ANALYZE"),
        ("EXECUTE IMMEDIATE 'COMMIT'", "EXECUTE"),
        ("FROBNICATE t", "this kind of statement"),
        ("`SELECT`", "this kind of statement"),
        ("SET sql_mode = ''", "SET"),
        ("SET @a = 1, sql_mode = ''", "SET"),
        ("SET @@sql_mode = ''", "SET"),
        ("SET PASSWORD = 'x'", "SET"),
    ] {
        class(MySql, sql, Class::NotInBatch(word));
    }
    for sql in [
        "SET autocommit = 0",
        "SET @a = 1, @@session.autocommit = 0",
        "SET SESSION `autocommit` = 0",
        "SET @a = f(1, 2), AUTOCOMMIT := 1",
    ] {
        class(MySql, sql, Class::Transaction("SET autocommit"));
    }
    class(MySql, "LOCK TABLES t READ", Class::Transaction("LOCK"));
    class(MySql, "UNLOCK TABLES", Class::Transaction("UNLOCK"));
}

#[test]
fn each_executable_comment_may_hold_the_first_word() {
    for sql in [
        "/*! COMMIT */",
        "/*!50000COMMIT*/",
        "/*M!100200 COMMIT */",
        "/*!99999 SELECT */ COMMIT",
        "/*! SELECT */ /*M! COMMIT */ SELECT 1",
        "/*!99999 COMMIT */ SELECT 1",
    ] {
        class(MySql, sql, Class::Transaction("COMMIT"));
    }
    for sql in [
        "/*! SET */ autocommit = 0",
        "SET /*! SESSION */ autocommit = 0",
        "SET @a = 1 /*!, autocommit = 0 */",
    ] {
        class(MySql, sql, Class::Transaction("SET autocommit"));
    }
    class(
        MySql,
        "/*!40101 SET NAMES utf8 */",
        Class::NotInBatch("SET"),
    );
    class(
        MySql,
        "INSERT /*! IGNORE */ INTO t VALUES (1)",
        Class::Ordinary,
    );
    class(Postgres, "/*! COMMIT */ SELECT 1", Class::Ordinary);
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
