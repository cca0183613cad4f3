//! Statements of a caller's own that databases refuse, each with a mark in it.

use duebox_core::{Kind, Statement};

use super::{MARK, marked};
use crate::Context;

/// Statements of the caller's own that the database refuses, and what it must
/// call the refusal, where each of them does.
pub(super) fn refused_by_the_database() -> Vec<(Statement, Option<Kind>)> {
    let insert = "INSERT INTO person (id, mail, age) VALUES (?, ?, ?)";
    let new = |id: &str, mail: Option<&str>| Statement::new(insert).bind(id).bind(mail);
    vec![
        (new(MARK, Some(MARK)).bind(30), Some(Kind::Conflict)),
        (new("b", Some(MARK)).bind(30), Some(Kind::Conflict)),
        (new(&marked("c"), None).bind(30), Some(Kind::Constraint)),
        (
            new(&marked("d"), Some(&marked("d"))).bind(3),
            Some(Kind::Constraint),
        ),
        // SQLite takes a text of any length into any column.
        (new("e", Some(&MARK.repeat(9))).bind(30), None),
        (new("f", Some(&marked("f"))).bind(MARK), None),
        (new("g", Some(&marked("g"))).bind(MARK.as_bytes()), None),
        (new("h", Some(&marked("h"))).bind(i64::MAX), None),
        (
            Statement::new("INSERT INTO pet (owner) VALUES (?)").bind(marked("nobody ")),
            None,
        ),
        (
            Statement::new("UPDATE person SET mail = ? WHERE mail = ?")
                .bind("x")
                .bind(MARK)
                .expect_rows(2),
            Some(Kind::RowCount),
        ),
        (
            Statement::new("INSERT INTO nowhere (id) VALUES (?)").bind(MARK),
            Some(Kind::Schema),
        ),
        (
            Statement::new("UPDATE person SET absent = ? WHERE mail = ?")
                .bind(MARK)
                .bind(MARK),
            Some(Kind::Schema),
        ),
        (Statement::new("UPDATE ? SET WHERE").bind(MARK), None),
        (
            Statement::per_dialect(
                "UPDATE person SET age = CAST(CAST(? AS text) AS integer)",
                "UPDATE person SET mail = json_extract(?, '$.a')",
                "UPDATE person SET mail = JSON_EXTRACT(?, '$.a')",
            )
            .bind(MARK),
            None,
        ),
    ]
}

/// The tables that those statements are about, with one person.
pub(super) async fn make_people(cx: &Context) {
    let person = "CREATE TABLE person (id VARCHAR(40) NOT NULL PRIMARY KEY, \
                  mail VARCHAR(20) NOT NULL, age INTEGER NOT NULL, \
                  CONSTRAINT person_mail UNIQUE (mail), CONSTRAINT adult CHECK (age > 17))";
    let pet = "CREATE TABLE pet (owner VARCHAR(40) NOT NULL, \
               CONSTRAINT pet_owner FOREIGN KEY (owner) REFERENCES person (id))";
    cx.execute(person).await;
    cx.execute(pet).await;
    let insert = Statement::new("INSERT INTO person (id, mail, age) VALUES (?, ?, 30)");
    let first = insert.bind(MARK).bind(MARK);
    cx.db.execute(&first).await.expect("the first person");
}
