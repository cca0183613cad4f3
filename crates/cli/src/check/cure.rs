//! The SQL that puts a table right.

use duebox_core::Dialect;

use super::catalog::{Table, parts};
use super::shape::Shape;

/// What an index on these columns is called.
pub(super) fn index_name(table: &str, columns: &[&str]) -> String {
    let (_, name) = parts(table);
    let of = match columns[0] {
        "visible_at" | "due_at" => "due",
        "sent_at" => "sent",
        "owner_id" => "owner",
        other => other,
    };
    format!("{name}_{of}")
}

/// One statement that makes an index without stopping those who write, where
/// the engine can.
pub(super) fn create_index(dialect: Dialect, table: &str, columns: &[&str]) -> String {
    let index = index_name(table, columns);
    let on = columns.join(", ");
    let partial = if columns[0] == "subject" {
        " WHERE subject IS NOT NULL"
    } else {
        ""
    };
    match dialect {
        Dialect::Postgres => {
            format!("CREATE INDEX CONCURRENTLY {index} ON {table} ({on}){partial}")
        }
        Dialect::MySql => format!("ALTER TABLE {table} ADD INDEX {index} ({on})"),
        _ => {
            let (schema, name) = parts(table);
            let index = within(schema, &index);
            format!("CREATE INDEX {index} ON {name} ({on}){partial}")
        }
    }
}

/// The same in place of one that is there.
pub(super) fn replace_index(dialect: Dialect, table: &str, old: &str, columns: &[&str]) -> String {
    let (schema, _) = parts(table);
    let old = &quoted(dialect, old);
    let drop = match dialect {
        Dialect::Postgres => format!("DROP INDEX CONCURRENTLY {}", within(schema, old)),
        Dialect::MySql => format!("ALTER TABLE {table} DROP INDEX {old}"),
        _ => format!("DROP INDEX {}", within(schema, old)),
    };
    format!("{drop};\n{}", create_index(dialect, table, columns))
}

/// A name that the catalog gave, as SQL takes it.
pub(super) fn quoted(dialect: Dialect, name: &str) -> String {
    let mut bytes = name.bytes();
    let plain = bytes
        .next()
        .is_some_and(|first| first.is_ascii_lowercase() || first == b'_')
        && bytes.all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    match dialect {
        _ if plain => name.to_owned(),
        Dialect::MySql => format!("`{}`", name.replace('`', "``")),
        _ => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

fn within(schema: &str, name: &str) -> String {
    if schema.is_empty() {
        name.to_owned()
    } else {
        format!("{schema}.{name}")
    }
}

/// Gives columns the collation that compares by bytes, in one transaction. What
/// is generated from them, and its index, is made anew.
pub(super) fn collate_postgres(table: &str, shape: Shape, columns: &[&str]) -> String {
    let changed: Vec<&str> = columns
        .iter()
        .copied()
        .filter(|column| *column != "visible_at")
        .collect();
    let times = ["next_attempt_at", "locked_until", "visible_at"];
    let derived = columns.iter().any(|column| times.contains(column));
    let mut steps = vec!["BEGIN".to_owned()];
    if derived {
        steps.push(format!("ALTER TABLE {table} DROP COLUMN visible_at"));
    }
    for column in changed {
        let chars = shape.chars(column);
        steps.push(format!(
            "ALTER TABLE {table} ALTER COLUMN {column} TYPE VARCHAR({chars}) COLLATE \"C\""
        ));
    }
    if derived {
        steps.push(format!(
            "ALTER TABLE {table} ADD COLUMN visible_at VARCHAR(27) COLLATE \"C\"\n    \
             GENERATED ALWAYS AS (\n        \
             CASE WHEN locked_until > next_attempt_at THEN locked_until ELSE next_attempt_at END\n    \
             ) STORED"
        ));
        let due = create_index(Dialect::Postgres, table, &["visible_at", "id"]);
        // There is a transaction around it.
        steps.push(due.replace(" CONCURRENTLY", ""));
    }
    steps.push("COMMIT".to_owned());
    steps.join(";\n")
}

/// Gives all columns the collation that compares by bytes.
pub(super) fn collate_mysql(table: &str, mariadb: bool) -> String {
    let collation = if mariadb {
        "utf8mb4_nopad_bin"
    } else {
        "utf8mb4_0900_bin"
    };
    format!("ALTER TABLE {table} CONVERT TO CHARACTER SET utf8mb4 COLLATE {collation}")
}

/// Makes the table as it is shipped and copies the rows, by the columns that are
/// there. The old table stays: what fails in between loses nothing.
pub(super) fn rebuild(
    dialect: Dialect,
    table: &str,
    shape: Shape,
    found: &Table,
    old_table: &str,
) -> String {
    let (schema, _) = parts(table);
    let (_, old) = parts(old_table);
    let has = |column: &&str| found.column(column).is_some();
    let columns: Vec<&str> = shape.written().filter(has).collect();
    // A counter may have been of another type, or empty.
    let values: Vec<String> = columns
        .iter()
        .map(|column| match (shape.counts(column), dialect) {
            (false, _) => (*column).to_owned(),
            (true, Dialect::Postgres) => format!("COALESCE({column}::bigint, 0)"),
            (true, Dialect::MySql) => format!("COALESCE(CAST({column} AS SIGNED), 0)"),
            (true, _) => format!("COALESCE(CAST({column} AS INTEGER), 0)"),
        })
        .collect();
    let (columns, values) = (columns.join(", "), values.join(", "));
    let files = match shape {
        Shape::Outbox => duebox_migrations::outbox(dialect),
        Shape::Receipts => duebox_migrations::receipts(dialect),
    };
    let made = files.iter().flat_map(|file| {
        let sql = file.render(table);
        let statements = duebox_migrations::split(&sql).map(str::to_owned);
        statements.collect::<Vec<_>>()
    });
    let mut steps = Vec::new();
    if dialect == Dialect::Sqlite {
        // Triggers of other tables that enqueue go on to name the new one.
        steps.push("PRAGMA legacy_alter_table = ON".to_owned());
    }
    if dialect != Dialect::MySql {
        steps.push("BEGIN".to_owned());
    }
    match dialect {
        Dialect::MySql => steps.push(format!("RENAME TABLE {table} TO {old_table}")),
        _ => steps.push(format!("ALTER TABLE {table} RENAME TO {old}")),
    }
    // The names of its indexes are free for the new ones.
    for index in &found.indexes {
        let automatic = index.name.starts_with("sqlite_autoindex");
        let name = quoted(dialect, &index.name);
        match dialect {
            _ if index.primary || automatic => {}
            Dialect::Postgres => {
                steps.push(format!(
                    "ALTER TABLE {old_table} DROP CONSTRAINT IF EXISTS {name}"
                ));
                steps.push(format!("DROP INDEX IF EXISTS {}", within(schema, &name)));
            }
            Dialect::MySql => {}
            _ => steps.push(format!("DROP INDEX {}", within(schema, &name))),
        }
    }
    steps.extend(made.map(|sql| sql.trim().trim_end_matches(';').to_owned()));
    steps.push(format!(
        "INSERT INTO {table} ({columns})\n    SELECT {values}\n    FROM {old_table}"
    ));
    if dialect != Dialect::MySql {
        steps.push("COMMIT".to_owned());
    }
    if dialect == Dialect::Sqlite {
        steps.push("PRAGMA legacy_alter_table = OFF".to_owned());
    }
    steps.join(";\n")
}
