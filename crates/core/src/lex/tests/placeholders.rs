use std::borrow::Cow;

use super::{all, fails, is, same};
use crate::Dialect::{self, MySql, Postgres, Sqlite};
use crate::lex::{LexError, lex};

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
fn a_placeholder_is_parted_from_a_word_behind_it_on_mysql() {
    is(MySql, "SELECT a=?AND b=?OR?", "SELECT a=? AND b=? OR?", 3);
    is(MySql, "SELECT ?ä, ?_a", "SELECT ? ä, ? _a", 2);
    same(MySql, "SELECT a=? AND (?)", 2);
    same(Sqlite, "SELECT a=?AND b", 1);
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
    same(Postgres, r"SELECT @E'\'?'", 0);
    same(MySql, "SELECT :a, b:c", 0);
    same(
        MySql,
        "SELECT @b, @a := ?, $1, @@session.x, @`?`, @'?', @\"?\"",
        1,
    );
    same(Sqlite, "SELECT a->>'$.b', a$b, 1 @ 2", 0);
}
