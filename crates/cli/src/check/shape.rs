//! Whether a table is as the shipped migrations, or `create_table_sql`, make it.

use duebox_core::{Database, Dialect};

use super::Checking;
use super::catalog::{Column, Table};
use super::cure;
use super::finding::Finding;
use crate::engine::Engine;
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

/// Whether there is a table of this name.
pub(super) async fn is_there(engine: &Engine, table: &str) -> Result<bool, CliError> {
    Ok(!Table::read(&*engine.db(), table).await?.columns.is_empty())
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
    let usable = columns(checking, dialect, table, shape, &found);
    // An index cannot be made on a column that is not there.
    if usable {
        indexes(checking, &*db, table, shape, &found);
    }
    Ok(usable)
}

fn columns(
    checking: &mut Checking<'_>,
    dialect: Dialect,
    table: &str,
    shape: Shape,
    found: &Table,
) -> bool {
    let mut wrong = Vec::new();
    let mut folded = Vec::new();
    let mut usable = true;
    for want in shape.wants() {
        let Some(column) = found.column(want.name) else {
            wrong.push(format!("{} is not there", want.name));
            usable = false;
            continue;
        };
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
            .because("the table was made or changed by something else than the shipped migrations")
            .advise(
                "stop what enqueues and drains, keep a backup, make the table anew by the \
                 following, and grant again what was granted on it",
            )
            .sql(cure::rebuild(dialect, table, shape, found));
        checking.add(finding);
    } else if !folded.is_empty() {
        let cure = match dialect {
            Dialect::Postgres => cure::collate_postgres(table, shape, &folded),
            Dialect::MySql => cure::collate_mysql(table, checking.is_mariadb()),
            _ => cure::rebuild(dialect, table, shape, found),
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
        )
        .advise("stop what enqueues and drains while this runs")
        .sql(cure);
        checking.add(finding);
    }
    usable
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
    let is_key = |index: &super::catalog::Index| index.primary && index.parts == [key];
    if !found.indexes.iter().any(is_key) {
        let finding = Finding::problem("missing-key", format!("{key} is not the primary key"))
            .of(table)
            .because("one id may be there twice, and what finds rows by it reads the whole table");
        checking.add(match db.dialect() {
            Dialect::Sqlite => finding.sql(cure::rebuild(Dialect::Sqlite, table, shape, found)),
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
                (
                    format!("the index on ({on}) is named {} and not {name}", index.name),
                    format!(
                        "ALTER TABLE {table} RENAME INDEX {} TO {name}",
                        cure::quoted(Dialect::MySql, &index.name)
                    ),
                )
            }
            Some(index) => (
                format!("the index on ({on}) is not whole"),
                cure::replace_index(db.dialect(), table, &index.name, columns),
            ),
            None => (
                format!("there is no index on ({on})"),
                cure::create_index(db.dialect(), table, columns),
            ),
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
