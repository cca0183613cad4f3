//! Whether a table is as the shipped migrations, or `create_table_sql`, make it.

use duebox_core::{Database, DbError, Dialect};

use super::Checking;
use super::catalog::{Column, Table};
use super::cure;
use super::finding::Finding;
use crate::error::CliError;

/// What a table is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Outbox,
    Receipts,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Text,
    Count,
    Uuid,
    Instant,
}

/// A column as it must be.
struct Want {
    name: &'static str,
    kind: Kind,
    /// Characters that it must take.
    chars: u64,
    nullable: bool,
    /// Its texts are ordered by bytes.
    ordered: bool,
    /// Its texts are told apart by bytes.
    exact: bool,
}

const fn text(name: &'static str, chars: u64) -> Want {
    Want {
        name,
        kind: Kind::Text,
        chars,
        nullable: false,
        ordered: false,
        exact: false,
    }
}

const fn other(name: &'static str, kind: Kind) -> Want {
    Want {
        kind,
        ..text(name, 0)
    }
}

impl Want {
    const fn or_null(self) -> Self {
        Self {
            nullable: true,
            ..self
        }
    }

    const fn ordered(self) -> Self {
        Self {
            ordered: true,
            exact: true,
            ..self
        }
    }

    const fn exact(self) -> Self {
        Self {
            exact: true,
            ..self
        }
    }
}

/// The largest payload, in bytes, which may all be characters.
const PAYLOAD: u64 = duebox_core::MAX_PAYLOAD_BYTES as u64;

const OUTBOX: &[Want] = &[
    text("id", 64).ordered(),
    text("topic", 255).exact(),
    text("payload", PAYLOAD),
    text("subject", 255).or_null().ordered(),
    text("created_at", 27),
    other("attempts", Kind::Count),
    other("claims", Kind::Count),
    other("lapses", Kind::Count),
    text("next_attempt_at", 27).ordered(),
    text("locked_until", 27).or_null().ordered(),
    text("locked_by", 255).or_null(),
    text("last_error", 4096).or_null(),
    text("failed_at", 27).or_null(),
    text("visible_at", 27).or_null().ordered(),
];

const RECEIPTS: &[Want] = &[
    text("ticket", 128).ordered(),
    other("owner_id", Kind::Uuid),
    text("token", 512),
    other("sent_at", Kind::Instant),
    other("due_at", Kind::Instant),
];

impl Shape {
    const fn wants(self) -> &'static [Want] {
        match self {
            Self::Outbox => OUTBOX,
            Self::Receipts => RECEIPTS,
        }
    }

    /// Its key, and the columns of its other indexes.
    const fn indexes(self) -> (&'static str, &'static [&'static [&'static str]]) {
        match self {
            Self::Outbox => ("id", &[&["visible_at", "id"], &["subject", "id"]]),
            Self::Receipts => (
                "ticket",
                &[&["due_at", "ticket"], &["sent_at", "ticket"], &["owner_id"]],
            ),
        }
    }

    /// The columns that a row is written with.
    pub(super) fn written(self) -> impl Iterator<Item = &'static str> {
        let wants = self.wants().iter().map(|want| want.name);
        wants.filter(|name| *name != "visible_at")
    }

    /// Whether a column is a counter.
    pub(super) fn counts(self, column: &str) -> bool {
        let mut wants = self.wants().iter();
        wants.any(|want| want.name == column && want.kind == Kind::Count)
    }

    /// Of what width a text column is made.
    pub(super) fn chars(self, column: &str) -> u64 {
        let want = self.wants().iter().find(|want| want.name == column);
        want.map_or(0, |want| want.chars)
    }
}

/// Adds what is wrong with a table; returns whether it has the columns that
/// others are asked for.
pub(super) async fn check(
    checking: &mut Checking<'_>,
    table: &str,
    shape: Shape,
) -> Result<bool, CliError> {
    let db = checking.engine.db();
    let found = Table::read(&*db, table).await?;
    if found.columns.is_empty() {
        let command = match shape {
            Shape::Outbox => format!("duebox migrate --table {table}"),
            Shape::Receipts => "duebox migrate".to_owned(),
        };
        checking.add(
            Finding::problem("missing-table", "the table is not there")
                .of(table)
                .because("it was dropped, its migration never ran, or this role may not see it")
                .run(command),
        );
        return Ok(false);
    }
    let dialect = db.dialect();
    let free = free_name(&*db, table).await?;
    let usable = columns(checking, dialect, table, shape, &found, &free);
    // An index cannot be made on a column that is not there.
    if usable {
        indexes(checking, &*db, table, shape, &found);
    }
    Ok(usable)
}

/// A name for the old table, which no other has.
async fn free_name(db: &dyn Database, table: &str) -> Result<String, DbError> {
    let mut name = format!("{table}_old");
    for number in 2.. {
        if Table::read(db, &name).await?.columns.is_empty() {
            break;
        }
        name = format!("{table}_old{number}");
    }
    Ok(name)
}

fn columns(
    checking: &mut Checking<'_>,
    dialect: Dialect,
    table: &str,
    shape: Shape,
    found: &Table,
    free: &str,
) -> bool {
    let mut wrong = Vec::new();
    let mut folded = Vec::new();
    let (mut usable, mut converts) = (true, false);
    for want in shape.wants() {
        let Some(column) = found.column(want.name) else {
            wrong.push(format!("{} is not there", want.name));
            usable = false;
            continue;
        };
        converts |= !fits(dialect, want.kind, &column.kind);
        wrong.extend(differs(dialect, want, column));
        if (want.ordered && !column.ordered) || (want.exact && !column.exact) {
            folded.push(want.name);
        }
    }
    for column in &found.columns {
        let is_known = shape.wants().iter().any(|want| want.name == column.name);
        if !is_known && !column.nullable && !column.defaulted && !column.generated {
            wrong.push(format!("{} is not known and wants a value", column.name));
        }
    }
    if !wrong.is_empty() {
        let finding = Finding::problem("wrong-column", wrong.join("; "))
            .of(table)
            .because("the table was made or changed by something else than the shipped migrations");
        checking.add(if converts {
            finding.advise(format!(
                "rename the table, make it anew by `duebox migrate --table {table}`, and copy the \
                 rows with each value converted: times are texts of 27 characters in UTC"
            ))
        } else {
            rebuilt(finding, dialect, table, shape, found, free)
        });
    } else if !folded.is_empty() {
        let cure = match dialect {
            Dialect::Postgres => cure::collate_postgres(table, shape, &folded),
            Dialect::MySql => cure::collate_mysql(table, checking.is_mariadb()),
            _ => String::new(),
        };
        let finding = Finding::problem(
            "wrong-collation",
            format!(
                "{} compared by bytes: {}",
                are_not(&folded),
                folded.join(", ")
            ),
        )
        .of(table)
        .because(
            "ids that differ in case alone may be one row, lists and claims may skip rows or \
             come in another order, and an upgrade of the system's collations can corrupt the \
             indexes",
        );
        checking.add(if cure.is_empty() {
            rebuilt(finding, dialect, table, shape, found, free)
        } else {
            finding
                .advise(
                    "stop what enqueues and drains while this runs, and grant again afterwards \
                     what was granted on single columns",
                )
                .sql(cure)
        });
    }
    usable
}

/// Cured by a table made anew. The old one is kept, whatever goes wrong.
fn rebuilt(
    finding: Finding,
    dialect: Dialect,
    table: &str,
    shape: Shape,
    found: &Table,
    old: &str,
) -> Finding {
    let extra: Vec<&str> = found
        .columns
        .iter()
        .map(|column| column.name.as_str())
        .filter(|name| !shape.wants().iter().any(|want| want.name == *name))
        .collect();
    let extra = if extra.is_empty() {
        String::new()
    } else {
        format!(" (its own columns {} are not taken over)", extra.join(", "))
    };
    finding
        .advise(format!(
            "stop what enqueues and drains, and keep a backup; this makes the table anew and \
             copies the rows{extra}:"
        ))
        .sql(cure::rebuild(dialect, table, shape, found, old))
        .advise(format!(
            "compare the rows of {table} with those of {old}; give the new table the grants, \
             triggers, policies and publications of the old one; then drop {old}"
        ))
}

fn are_not(names: &[&str]) -> &'static str {
    if names.len() == 1 {
        "one column is not"
    } else {
        "some columns are not"
    }
}

fn differs(dialect: Dialect, want: &Want, column: &Column) -> Option<String> {
    let name = want.name;
    if !fits(dialect, want.kind, &column.kind) {
        return Some(format!("{name} is {}", column.kind));
    }
    if let Some(chars) = column.chars
        && want.kind == Kind::Text
        && chars < want.chars
    {
        return Some(format!("{name} takes only {chars} characters"));
    }
    let generated = name == "visible_at";
    if generated != column.generated {
        let is = if generated { "not " } else { "" };
        return Some(format!("{name} is {is}generated"));
    }
    if want.nullable != column.nullable && !generated {
        let is = if want.nullable { "refuses" } else { "takes" };
        return Some(format!("{name} {is} NULL"));
    }
    if want.kind == Kind::Count && !column.defaulted {
        return Some(format!("{name} has no default of 0"));
    }
    None
}

fn fits(dialect: Dialect, want: Kind, kind: &str) -> bool {
    match (dialect, want) {
        (Dialect::Postgres, Kind::Text) => matches!(kind, "character varying" | "text"),
        (Dialect::Postgres | Dialect::MySql, Kind::Count) => kind == "bigint",
        (Dialect::Postgres, Kind::Uuid) => kind == "uuid",
        (Dialect::Postgres, Kind::Instant) => kind == "timestamp with time zone",
        (Dialect::MySql, Kind::Text) => {
            matches!(kind, "varchar" | "text" | "mediumtext" | "longtext")
        }
        (Dialect::MySql, Kind::Uuid) => kind == "binary",
        (Dialect::MySql, Kind::Instant) => kind == "datetime",
        (_, Kind::Text) => ["char", "clob", "text"]
            .iter()
            .any(|part| kind.contains(part)),
        (_, Kind::Count | Kind::Instant) => kind.contains("int"),
        (_, Kind::Uuid) => kind == "blob",
    }
}

fn indexes(
    checking: &mut Checking<'_>,
    db: &dyn Database,
    table: &str,
    shape: Shape,
    found: &Table,
) {
    let (key, wanted) = shape.indexes();
    let is_key =
        |index: &super::catalog::Index| index.primary && index.parts == [key] && !index.partial;
    if !found.indexes.iter().any(is_key) {
        let finding = Finding::problem("missing-key", format!("{key} is not the primary key"))
            .of(table)
            .because("one id may be there twice, and what finds rows by it reads the whole table")
            .advise(format!(
                "see which ids are there twice (SELECT {key} FROM {table} GROUP BY {key} HAVING \
                 COUNT(*) > 1), and keep one row of each"
            ));
        let other = found.indexes.iter().any(|index| index.primary);
        checking.add(match db.dialect() {
            _ if other => finding.advise("make it the primary key in place of the one that is there"),
            Dialect::Sqlite => finding.advise(format!(
                "rename the table, make it anew by `duebox migrate --table {table}`, and copy the rows"
            )),
            _ => finding.sql(format!("ALTER TABLE {table} ADD PRIMARY KEY ({key})")),
        });
    }
    for columns in wanted {
        let name = cure::index_name(table, columns);
        let on = columns.join(", ");
        let (what, cure) = match found.index_on(columns) {
            // What leaves out rows serves only those that ask for the others too.
            Some(index) if index.valid && (!index.partial || columns[0] == "subject") => {
                // Claims on MySQL and MariaDB call it by its name.
                if db.dialect() != Dialect::MySql || index.name == name {
                    continue;
                }
                let old = cure::quoted(Dialect::MySql, &index.name);
                let taken = found.indexes.iter().any(|other| other.name == name);
                let cure = if taken {
                    cure::replace_index(Dialect::MySql, table, &name, columns)
                } else {
                    format!("ALTER TABLE {table} RENAME INDEX {old} TO {name}")
                };
                (
                    format!("the index on ({on}) is named {} and not {name}", index.name),
                    cure,
                )
            }
            Some(index) => (
                format!("the index on ({on}) is not whole"),
                cure::replace_index(db.dialect(), table, &index.name, columns),
            ),
            None => {
                // One of the name may be on other columns.
                let taken = found.indexes.iter().any(|index| index.name == name);
                let cure = if taken {
                    cure::replace_index(db.dialect(), table, &name, columns)
                } else {
                    cure::create_index(db.dialect(), table, columns)
                };
                (format!("there is no index on ({on})"), cure)
            }
        };
        let cause = match columns[0] {
            "visible_at" => "a claim reads the whole table, and on MySQL and MariaDB it fails",
            "subject" | "owner_id" => "an erasure or export reads the whole table",
            "due_at" => "a poll of receipts reads the whole table",
            _ => "a purge reads the whole table",
        };
        checking.add(
            Finding::problem("missing-index", what)
                .of(table)
                .because(format!("it was dropped or never made: {cause}"))
                .sql(cure),
        );
    }
}
