use crate::DbError;

/// The name of an outbox table, checked so that it can stand in SQL as it is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(crate) struct TableName(String);

const MAX: usize = 48;

impl TableName {
    pub(crate) fn new(name: String) -> Result<Self, DbError> {
        let mut parts = name.split('.');
        let (first, second, rest) = (parts.next().unwrap_or(""), parts.next(), parts.next());
        if rest.is_some() {
            return Err(DbError::invalid(
                "a table name has more than one dot; write table or schema.table",
            ));
        }
        part("a schema name", second.map(|_| first))?;
        let table = second.unwrap_or(first);
        part("a table name", Some(table))?;
        // PostgreSQL keeps tables and indexes in one namespace, and would pass over
        // a table whose name is taken by an index of another outbox.
        if let Some(suffix) = INDEXES.iter().find(|suffix| table.ends_with(**suffix)) {
            return Err(DbError::invalid(format!(
                "the table name {table} ends in {suffix}, as names of indexes do; choose another"
            )));
        }
        if OURS.contains(&table) {
            return Err(DbError::invalid(format!(
                "the table name {table} is taken by another table of this library; choose another"
            )));
        }
        Ok(Self(name))
    }

    /// As it was given, with its schema.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Without its schema.
    pub(crate) fn table(&self) -> &str {
        self.0.rsplit('.').next().unwrap_or(&self.0)
    }
}

fn part(what: &str, name: Option<&str>) -> Result<(), DbError> {
    let Some(name) = name else { return Ok(()) };
    let allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
    if name.is_empty() || name.len() > MAX {
        return Err(DbError::invalid(format!(
            "{what} is {} bytes long, not 1 to {MAX}",
            name.len()
        )));
    }
    if !name.bytes().all(allowed) || name.as_bytes()[0].is_ascii_digit() {
        return Err(DbError::invalid(format!(
            "{what} is not lower-case letters, digits and _, beginning with no digit"
        )));
    }
    if RESERVED.binary_search(&name).is_ok() || name.starts_with("sqlite_") {
        return Err(DbError::invalid(format!(
            "{what} is \"{name}\", which a supported database reserves; choose another"
        )));
    }
    Ok(())
}

/// Tables that the migrations make beside outboxes.
const OURS: [&str; 2] = ["duebox_migrations", "pending_receipts"];

/// How the indexes of an outbox are named, behind its table's name.
const INDEXES: [&str; 3] = ["_due", "_subject", "_pkey"];

include!("reserved.rs");

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(name: &str) -> bool {
        TableName::new(name.to_owned()).is_err()
    }

    #[test]
    fn plain_names_and_names_with_a_schema_are_taken() {
        for good in [
            "outbox",
            "_x",
            "mail_outbox2",
            "app.outbox",
            &"x".repeat(48),
        ] {
            let name = TableName::new((*good).to_owned()).unwrap();
            assert_eq!(name.as_str(), good);
        }
        assert_eq!(TableName::new("app.mail".into()).unwrap().table(), "mail");
    }

    #[test]
    fn whatever_needs_quoting_is_refused() {
        for bad in [
            "",
            " ",
            "x; DROP TABLE v; --",
            "a'b",
            "a\"b",
            "a`b",
            "a\\b",
            "a/*b*/",
            "a\0b",
            "MyOutbox",
            "1x",
            "a-b",
            "a.b.c",
            ".a",
            "a.",
            "é",
            &"x".repeat(49),
            "select",
            "app.table",
            "sqlite_x",
            "duebox_migrations",
            "mail_due",
            "mail_pkey",
            "app.pending_receipts",
        ] {
            assert!(refused(bad), "{bad}");
        }
    }

    #[test]
    fn the_reserved_words_can_be_searched() {
        assert!(RESERVED.is_sorted());
    }
}
