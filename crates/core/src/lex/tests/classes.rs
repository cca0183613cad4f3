use super::class;
use crate::Dialect::{self, MySql, Postgres, Sqlite};
use crate::lex::Class;

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
    // Elsewhere the mark belongs to a name, and so does any other character.
    class(Postgres, "\u{FEFF}COMMIT", Class::Ordinary);
    class(Sqlite, "\u{FF23}COMMIT", Class::Ordinary);
    let unknown = Class::NotInBatch("this kind of statement");
    class(MySql, "\u{FEFF}COMMIT", unknown);
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
        "SET @autocommit = 1, @a.autocommit = 2",
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
fn what_runs_other_statements_is_told_wherever_its_first_word_stands() {
    let runs_others = |dialect, sql: &str| crate::lex::lex(dialect, sql).unwrap().runs_others;
    for sql in [
        "CALL p()",
        "/* x */ call p()",
        "-- x\nCALL p()",
        "# x\nCALL p()",
        "/*! CALL p() */",
        "/*!50000 CALL */ p()",
        "/*M!100000 CREATE */ CALL p()",
        "EXECUTE IMMEDIATE 'CALL p()'",
        "EXECUTE s USING @a",
        "SET STATEMENT max_statement_time = 1 FOR CALL p()",
        "SET @a = 1, SESSION sql_mode = ''",
        "USE d",
        "WHATEVER IS NEW",
    ] {
        assert!(runs_others(MySql, sql), "{sql}");
    }
    for sql in [
        "SELECT 'CALL p()'",
        "(SELECT 1)",
        "INSERT INTO t VALUES ('x') -- CALL p()",
        "SET @a = 1",
        "CREATE TABLE t (n INT)",
        "/*!50000 DROP TABLE t */",
        "SHOW TABLES",
    ] {
        assert!(!runs_others(MySql, sql), "{sql}");
    }
    for sql in [
        "CALL p()",
        "do $$ begin end $$",
        "EXECUTE s",
        "-- x\nCALL p()",
    ] {
        assert!(runs_others(Postgres, sql), "{sql}");
    }
    assert!(!runs_others(Postgres, "VACUUM"));
    assert!(!runs_others(Sqlite, "PRAGMA user_version"));
}
