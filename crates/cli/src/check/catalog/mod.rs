//! What the database's own catalog says of a table, the same for every engine.

mod mysql;
mod postgres;
mod sqlite;

use duebox_core::{Database, DbError, Dialect, Row, Statement};

/// A column as it is.
#[derive(Clone, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "a catalog answers each by yes or no"
)]
pub(super) struct Column {
    pub(super) name: String,
    /// In lower case.
    pub(super) kind: String,
    /// Characters that it takes; `None` if that is not limited.
    pub(super) chars: Option<u64>,
    pub(super) nullable: bool,
    pub(super) defaulted: bool,
    pub(super) generated: bool,
    /// Whether texts are ordered by their bytes, as far as is known.
    pub(super) ordered: bool,
    /// Whether texts are equal only if their bytes are.
    pub(super) exact: bool,
}

/// An index as it is.
#[derive(Clone, Debug, Default)]
pub(super) struct Index {
    pub(super) name: String,
    pub(super) parts: Vec<String>,
    pub(super) primary: bool,
    pub(super) valid: bool,
    /// Rows that it leaves out, as the catalog says it.
    pub(super) partial: bool,
}

/// A table as it is; it has no columns if it is not there.
#[derive(Clone, Debug)]
pub(super) struct Table {
    pub(super) columns: Vec<Column>,
    pub(super) indexes: Vec<Index>,
}

impl Table {
    pub(super) async fn read(db: &dyn Database, table: &str) -> Result<Self, DbError> {
        match db.dialect() {
            Dialect::Postgres => postgres::read(db, table).await,
            Dialect::MySql => mysql::read(db, table).await,
            _ => sqlite::read(db, table).await,
        }
    }

    pub(super) fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    pub(super) fn index_on(&self, parts: &[&str]) -> Option<&Index> {
        let on = |index: &&Index| index.parts == parts;
        // A valid one, if there is one.
        let mut all = self.indexes.iter().filter(on);
        all.clone().find(|index| index.valid).or_else(|| all.next())
    }
}

/// A name's schema, empty if it has none, and what is behind it.
pub(super) fn parts(table: &str) -> (&str, &str) {
    table.split_once('.').unwrap_or(("", table))
}

async fn rows(db: &dyn Database, sql: &str, bound: &[&str]) -> Result<Vec<Row>, DbError> {
    let statement = Statement::new(sql.to_owned());
    let statement = bound.iter().fold(statement, |all, text| all.bind(*text));
    db.query(&statement).await
}

fn flag(row: &Row, name: &str) -> Result<bool, DbError> {
    Ok(row.get::<i64>(name)? != 0)
}

/// Rows of an index each, in order, as indexes.
fn gather(
    rows: &[Row],
    read: impl Fn(&Row) -> Result<Index, DbError>,
) -> Result<Vec<Index>, DbError> {
    let mut all: Vec<Index> = Vec::new();
    for row in rows {
        let index = read(row)?;
        let part: String = row.get("part")?;
        match all.last_mut() {
            Some(last) if last.name == index.name => {
                last.parts.push(part);
                last.partial |= index.partial;
                last.valid &= index.valid;
            }
            _ => all.push(Index {
                parts: vec![part],
                ..index
            }),
        }
    }
    Ok(all)
}
