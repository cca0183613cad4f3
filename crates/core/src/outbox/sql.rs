//! The texts of an outbox's statements, with its table filled in.

use std::fmt::Write;
use std::sync::Arc;

use super::name::TableName;
use crate::statement::Form;
use crate::{Dialect, Value};

/// Fills in `{table}`, with its schema, and `{name}`, without.
pub(super) fn fill(template: &str, table: &TableName) -> Arc<str> {
    template
        .replace("{table}", table.as_str())
        .replace("{name}", table.table())
        .into()
}

/// The texts that do not depend on arguments, made once an outbox.
pub(crate) struct Queries {
    pub(crate) enqueue: Arc<str>,
    pub(crate) enqueue_once: [Arc<str>; 3],
    pub(super) complete: Arc<str>,
    pub(super) retry_later: Arc<str>,
    pub(super) claim_postgres: Arc<str>,
    pub(super) claim_read_sqlite: Arc<str>,
    pub(super) claim_read_mysql: Arc<str>,
    pub(super) stats: Arc<str>,
    pub(super) totals: Arc<str>,
    pub(super) survey: Arc<str>,
}

const ENQUEUE: &str = "\
INSERT INTO {table} (id, topic, payload, subject, created_at, next_attempt_at)
VALUES (?, ?, ?, ?, ?, ?)";
// No conflict target: with `(id)`, a concurrent insert of the same row can be refused by
// another unique index first (those of `create_table_sql` are), which is then an error.
const ENQUEUE_ONCE: &str = "\
INSERT INTO {table} (id, topic, payload, subject, created_at, next_attempt_at)
VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING";
// Differs from Postgres: ON DUPLICATE KEY UPDATE would count a row that it left
// alone as one that it inserted, where the driver asks for rows found. The values
// were checked before, so in the table as it is made a duplicate key is the one
// error that IGNORE can pass over. It also passes over what was added since: a
// CHECK, a foreign key, a column without a default.
const ENQUEUE_ONCE_MYSQL: &str = "\
INSERT IGNORE INTO {table} (id, topic, payload, subject, created_at, next_attempt_at)
VALUES (?, ?, ?, ?, ?, ?)";
const COMPLETE: &str = "DELETE FROM {table} WHERE id = ?";
const RETRY_LATER: &str = "\
UPDATE {table}
SET
    attempts = CASE WHEN attempts = 9223372036854775807 THEN attempts ELSE attempts + 1 END,
    lapses = 0,
    next_attempt_at = ?,
    locked_until = NULL,
    locked_by = NULL
WHERE id = ?";

impl Queries {
    pub(super) fn new(table: &TableName) -> Self {
        let fill = |template| fill(template, table);
        Self {
            enqueue: fill(ENQUEUE),
            enqueue_once: [ENQUEUE_ONCE, ENQUEUE_ONCE, ENQUEUE_ONCE_MYSQL].map(fill),
            complete: fill(COMPLETE),
            retry_later: fill(RETRY_LATER),
            claim_postgres: fill(include_str!("sql/claim_postgres.sql")),
            claim_read_sqlite: fill(include_str!("sql/claim_read_sqlite.sql")),
            claim_read_mysql: fill(include_str!("sql/claim_read_mysql.sql")),
            stats: fill(include_str!("sql/stats.sql")),
            totals: fill(include_str!("sql/totals.sql")),
            survey: fill(include_str!("sql/survey.sql")),
        }
    }
}

/// A condition that the id is one of `ids`, and the values that it binds.
///
/// Where there are no arrays and no JSON that the planner serves from an index
/// (MySQL and MariaDB), it is a list of placeholders whose length is a power of
/// two, so that few different statements are prepared.
pub(super) fn id_in(dialect: Dialect, ids: &[&str]) -> Form {
    match dialect {
        Dialect::Postgres => Form {
            sql: "id = ANY(?)".into(),
            values: vec![Value::TextArray(
                ids.iter().map(|id| Some((*id).to_owned())).collect(),
            )],
        },
        Dialect::Sqlite => Form {
            sql: "id IN (SELECT value FROM json_each(?))".into(),
            values: vec![Value::Text(json_array(ids))],
        },
        Dialect::MySql => {
            let places = ids.len().next_power_of_two();
            let mut values: Vec<Value> = ids.iter().map(|id| Value::from(*id)).collect();
            if let Some(last) = ids.last() {
                values.resize(places, Value::from(*last));
            }
            Form {
                sql: format!("id IN ({})", placeholders(places)),
                values,
            }
        }
    }
}

/// `?, ?, …`
pub(super) fn placeholders(count: usize) -> String {
    let mut list = "?, ".repeat(count);
    list.truncate(list.len().saturating_sub(2));
    list
}

/// `FORCE INDEX (PRIMARY)` where the planner may prefer to read, and lock, a
/// whole small table.
pub(super) fn by_key(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MySql => " FORCE INDEX (PRIMARY)",
        Dialect::Postgres | Dialect::Sqlite => "",
    }
}

/// `FORCE INDEX` on the subject's, where the planner may prefer another.
pub(super) fn by_subject(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::MySql => " FORCE INDEX ({name}_subject)",
        Dialect::Postgres | Dialect::Sqlite => "",
    }
}

/// A lock on the rows read, where reading in a transaction does not give it.
pub(super) fn for_update(dialect: Dialect) -> &'static str {
    match dialect {
        Dialect::Sqlite => "",
        Dialect::Postgres | Dialect::MySql => " FOR UPDATE",
    }
}

/// Texts as a JSON array.
pub(super) fn json_array(texts: &[&str]) -> String {
    let mut json =
        String::with_capacity(texts.iter().map(|text| text.len() + 3).sum::<usize>() + 2);
    json.push('[');
    for (place, text) in texts.iter().enumerate() {
        if place > 0 {
            json.push(',');
        }
        push_json(&mut json, text);
    }
    json.push(']');
    json
}

/// A text as a JSON string (RFC 8259, section 7).
pub(super) fn push_json(json: &mut String, text: &str) {
    json.push('"');
    if text
        .bytes()
        .all(|byte| byte >= b' ' && byte != b'"' && byte != b'\\')
    {
        json.push_str(text);
        json.push('"');
        return;
    }
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\u{0}'..='\u{1f}' => {
                // Writing to a String cannot fail.
                let _ = write!(json, "\\u{:04x}", character as u32);
            }
            _ => json.push(character),
        }
    }
    json.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_ids_is_bound_and_padded_to_a_power_of_two() {
        let form = id_in(Dialect::MySql, &["a", "b", "c"]);
        assert_eq!(form.sql, "id IN (?, ?, ?, ?)");
        assert_eq!(form.values.len(), 4);
        assert!(form.values[3] == Value::from("c"));
        assert!(
            id_in(Dialect::Sqlite, &["a\"\\", "b"]).values[0] == Value::from(r#"["a\"\\","b"]"#)
        );
    }

    #[test]
    fn json_escapes_what_it_must() {
        assert_eq!(
            json_array(&["\u{1}\n", "é😀"]),
            "[\"\\u0001\\u000a\",\"é😀\"]"
        );
        assert_eq!(json_array(&[]), "[]");
    }
}
