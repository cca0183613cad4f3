use duebox_core::{Database, DbError};

use super::{Column, Index, Table, flag, gather, parts, rows};

const COLUMNS: &str = "\
SELECT
    LOWER(CONVERT(column_name USING utf8mb4)) AS name,
    LOWER(CONVERT(data_type USING utf8mb4)) AS kind,
    CAST(character_maximum_length AS SIGNED) AS chars,
    CAST(is_nullable = 'YES' AS SIGNED) AS nullable,
    CAST((column_default IS NOT NULL AND column_default <> 'NULL') OR extra LIKE '%auto_increment%' AS SIGNED) AS defaulted,
    CAST(COALESCE(generation_expression, '') <> '' AND extra LIKE '%STORED%' AS SIGNED) AS is_generated,
    CAST(COALESCE(collation_name IN ('utf8mb4_0900_bin', 'utf8mb4_nopad_bin'), 1) AS SIGNED) AS exact
FROM information_schema.columns
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE())
    AND table_name = ?
ORDER BY ordinal_position";

const INDEXES: &str = "\
SELECT
    CONVERT(index_name USING utf8mb4) AS name,
    CAST(index_name = 'PRIMARY' AS SIGNED) AS is_primary,
    CAST(sub_part IS NOT NULL AS SIGNED) AS is_partial,
    CAST({usable} AS SIGNED) AS is_valid,
    COALESCE(LOWER(CONVERT(column_name USING utf8mb4)), '') AS part
FROM information_schema.statistics
WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE())
    AND table_name = ?
ORDER BY index_name, seq_in_index";

pub(super) async fn read(db: &dyn Database, table: &str) -> Result<Table, DbError> {
    let (schema, name) = parts(table);
    let columns = rows(db, COLUMNS, &[schema, name]).await?;
    let columns = columns.iter().map(|row| {
        let exact = flag(row, "exact")?;
        Ok(Column {
            name: row.get("name")?,
            kind: row.get("kind")?,
            chars: row.get("chars")?,
            nullable: flag(row, "nullable")?,
            defaulted: flag(row, "defaulted")?,
            generated: flag(row, "is_generated")?,
            ordered: exact,
            exact,
        })
    });
    let columns = columns.collect::<Result<Vec<_>, DbError>>()?;
    // What the planner may not use is called otherwise by each of the two.
    let mariadb = "SELECT CAST(VERSION() LIKE '%MariaDB%' AS SIGNED) AS mariadb";
    let is_mariadb = match rows(db, mariadb, &[]).await?.first() {
        Some(row) => flag(row, "mariadb")?,
        None => false,
    };
    let usable = if is_mariadb {
        "ignored = 'NO'"
    } else {
        "is_visible = 'YES'"
    };
    let read = INDEXES.replace("{usable}", usable);
    let indexes = gather(&rows(db, &read, &[schema, name]).await?, |row| {
        Ok(Index {
            name: row.get("name")?,
            parts: Vec::new(),
            primary: flag(row, "is_primary")?,
            valid: flag(row, "is_valid")?,
            partial: flag(row, "is_partial")?,
        })
    })?;
    Ok(Table { columns, indexes })
}
