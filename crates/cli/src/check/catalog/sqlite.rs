use duebox_core::{Database, DbError};

use super::{Column, Index, Table, flag, gather, parts, rows};

const COLUMNS: &str = "\
SELECT
    name,
    lower(type) AS kind,
    \"notnull\" = 0 AS nullable,
    dflt_value IS NOT NULL AS defaulted,
    hidden IN (2, 3) AS generated
FROM pragma_table_xinfo(?, ?)
ORDER BY cid";

// A column's collation is told by the indexes that have it.
const INDEXES: &str = "\
SELECT
    i.name AS name,
    i.origin = 'pk' AS is_primary,
    i.partial AS is_partial,
    COALESCE(p.name, '') AS part,
    p.coll <> 'BINARY' COLLATE NOCASE AS folded
FROM pragma_index_list(?, ?) AS i
JOIN pragma_index_xinfo(i.name, ?) AS p
WHERE p.key = 1
ORDER BY i.name, p.seqno";

pub(super) async fn read(db: &dyn Database, table: &str) -> Result<Table, DbError> {
    let (schema, name) = parts(table);
    let schema = if schema.is_empty() { "main" } else { schema };
    let found = rows(db, INDEXES, &[name, schema, schema]).await?;
    let mut folded = Vec::new();
    for row in &found {
        if flag(row, "folded")? {
            folded.push(row.get::<String>("part")?);
        }
    }
    let indexes = gather(&found, |row| {
        Ok(Index {
            name: row.get("name")?,
            parts: Vec::new(),
            primary: flag(row, "is_primary")?,
            valid: true,
            partial: flag(row, "is_partial")?,
        })
    })?;
    let columns = rows(db, COLUMNS, &[name, schema]).await?;
    let columns = columns.iter().map(|row| {
        let name: String = row.get("name")?;
        let exact = !folded.contains(&name);
        Ok(Column {
            kind: row.get("kind")?,
            chars: None,
            nullable: flag(row, "nullable")?,
            defaulted: flag(row, "defaulted")?,
            generated: flag(row, "generated")?,
            ordered: exact,
            exact,
            name,
        })
    });
    let columns = columns.collect::<Result<Vec<_>, DbError>>()?;
    Ok(Table { columns, indexes })
}
