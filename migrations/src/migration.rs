//! One file, and what is done with it.

use duebox_core::Dialect;

use crate::split;

/// One shipped file: plain SQL that moves a schema one step forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Migration {
    /// Its place in the order, from 1. The same step has the same number in every
    /// dialect.
    pub number: u32,
    /// What it is about, in `snake_case`. The same in every dialect.
    pub name: &'static str,
    /// The whole file, comments included, for the default table.
    pub sql: &'static str,
    pub(crate) dialect: Dialect,
    pub(crate) table: &'static str,
    pub(crate) columns: &'static [&'static str],
    pub(crate) indexes: &'static [&'static [&'static str]],
}

impl Migration {
    /// The dialect whose SQL this is.
    #[must_use]
    pub const fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// The table that [`sql`](Self::sql) names: `outbox` or `pending_receipts`.
    #[must_use]
    pub const fn table(&self) -> &'static str {
        self.table
    }

    /// The name of the file, such as `0001_outbox.sql`.
    #[must_use]
    pub fn file_name(&self) -> String {
        format!("{:04}_{}.sql", self.number, self.name)
    }

    /// The columns that this step adds to its table.
    ///
    /// A table that has them all has had this step, whoever applied it, and in
    /// whichever form: the files here and `Outbox::create_table_sql` name their
    /// columns alike.
    #[must_use]
    pub const fn expected_columns(&self) -> &'static [&'static str] {
        self.columns
    }

    /// The columns of each index that this step adds beside the primary key.
    ///
    /// By columns and not by name: the indexes that `Outbox::create_table_sql`
    /// makes on SQLite have names of SQLite's own.
    #[must_use]
    pub const fn expected_indexes(&self) -> &'static [&'static [&'static str]] {
        self.indexes
    }

    /// The statements of [`sql`](Self::sql), one by one; see [`split`].
    pub fn statements(&self) -> impl Iterator<Item = &'static str> + use<> {
        split(self.sql)
    }

    /// The SQL for another table, which may be `schema.name`.
    ///
    /// Every name that belongs to the default table changes with it, those of its
    /// indexes and those in comments too. For the default table it is
    /// [`sql`](Self::sql) itself.
    ///
    /// # Panics
    ///
    /// If `table` is not made of `a` to `z`, `0` to `9` and `_`, at most 48 of them,
    /// with at most one `schema.` before it. `Outbox::try_new` refuses such a name,
    /// and more, with an error.
    #[must_use]
    pub fn render(&self, table: &str) -> String {
        let (schema, name) = match table.rsplit_once('.') {
            Some((schema, name)) => (Some(schema), name),
            None => (None, table),
        };
        assert!(
            schema.is_none_or(is_identifier) && is_identifier(name) && name.len() <= 48,
            "not the name of an outbox table"
        );
        let target = Target {
            table,
            schema,
            name,
        };

        let mut sql = String::with_capacity(self.sql.len() + 16 * table.len());
        let mut rest = self.sql;
        let mut previous = "";
        while let Some(first) = rest.chars().next() {
            let end = rest
                .find(|c| is_word(c) != is_word(first))
                .unwrap_or(rest.len());
            let (piece, tail) = rest.split_at(end);
            rest = tail;
            if is_word(first) {
                self.push_word(&mut sql, piece, previous, target);
                previous = piece;
            } else {
                sql.push_str(piece);
            }
        }
        sql
    }

    /// Writes one word of the file, renamed if it is a name of the default table.
    ///
    /// PostgreSQL keeps an index in the schema of its table and allows a schema only
    /// before the table. SQLite is the other way round: the index names the schema,
    /// and the table behind `ON` must not.
    fn push_word(&self, sql: &mut String, word: &str, previous: &str, target: Target<'_>) {
        let sqlite = self.dialect == Dialect::Sqlite;
        match word.strip_prefix(self.table) {
            Some("") if sqlite && previous == "ON" => sql.push_str(target.name),
            Some("") => sql.push_str(target.table),
            Some(suffix) if suffix.starts_with('_') => {
                if let (true, Some(schema)) = (sqlite, target.schema) {
                    sql.push_str(schema);
                    sql.push('.');
                }
                sql.push_str(target.name);
                sql.push_str(suffix);
            }
            _ => sql.push_str(word),
        }
    }
}

#[derive(Clone, Copy)]
struct Target<'a> {
    table: &'a str,
    schema: Option<&'a str>,
    name: &'a str,
}

fn is_word(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_'
}

fn is_identifier(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= 63
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name
            .bytes()
            .all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_'))
}
