use super::{all, fails, is, same, unclosed};
use crate::Dialect::{self, MySql, Postgres, Sqlite};
use crate::lex::{LexError, lex};

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
    is(Postgres, "SELECT 1 ` ?", "SELECT 1 ` $1", 1);
    same(MySql, "SELECT [?", 1);
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
