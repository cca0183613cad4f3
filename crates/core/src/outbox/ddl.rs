//! The one statement that makes an outbox table on every engine.

/// What [`create_table_sql`] fills in: `{table}` is the table, `{name}` the
/// part of it behind the schema.
///
/// Frozen: services ship this text as a migration of their own.
///
/// Three kinds of comment let one text say what the engines say differently:
///
/// - `/*!50000 … */` is SQL to MySQL and MariaDB, `/*!50700 … */` to MySQL
///   alone (MariaDB skips 50700 to 99999), `/*M!100200 … */` to MariaDB alone.
/// - `/* /* */ -- */ …` up to the end of its line is SQL to PostgreSQL alone.
///   PostgreSQL nests comments, so its comment ends at the second `*/`. The
///   others end it at the first, and to them the rest of the line is a comment.
///   The line break behind it must therefore stay.
///
/// No `;`, no quote that another engine could see, and no `?`, `:name` or `%`
/// that a driver or a migration tool could take for a placeholder.
///
/// Why each clause is as it is:
///
/// - `COLLATE "C"` compares by bytes on a PostgreSQL database of any collation,
///   and an upgrade of the system's collations cannot corrupt the indexes. Every
///   column that is ordered or indexed has it; the three that `visible_at`
///   compares must agree.
/// - `utf8mb4_0900_bin` and `utf8mb4_nopad_bin` do the same on MySQL and MariaDB,
///   whatever the default of the database, and count trailing spaces, which
///   `utf8mb4_bin` ignores. Drivers still see text. On a MySQL too old to know the
///   first the statement fails, rather than make a table that takes `a` for `A`.
/// - `ROW_FORMAT = DYNAMIC` allows keys of 3072 bytes; by default a server may
///   choose COMPACT, whose 767 are too few for `(subject, id)`.
/// - `TEXT (1073741823)` becomes LONGTEXT: it is the largest length that fits at
///   four bytes a character, and plain TEXT ends at 64 KiB.
/// - Times are VARCHAR because MariaDB refuses a stored column that is generated
///   from CHAR. The same servers refuse NOT NULL on it.
/// - `visible_at` needs no test for NULL: a comparison with NULL is not true, so a
///   row without a lease takes the other branch.
/// - `CONSTRAINT … UNIQUE` is the only clause that makes an index everywhere inside
///   one CREATE TABLE. Both keys end in `id`, so they never refuse a row that the
///   primary key takes. SQLite does not keep the names.
const CREATE_TABLE: &str = r#"CREATE TABLE IF NOT EXISTS {table} (
    id VARCHAR(64) /* /* */ -- */ COLLATE "C"
        NOT NULL PRIMARY KEY,
    topic VARCHAR(255) NOT NULL,
    payload TEXT /*!50000 (1073741823) */ NOT NULL,
    subject VARCHAR(255) /* /* */ -- */ COLLATE "C"
        NULL,
    created_at VARCHAR(27) NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    claims BIGINT NOT NULL DEFAULT 0,
    lapses BIGINT NOT NULL DEFAULT 0,
    next_attempt_at VARCHAR(27) /* /* */ -- */ COLLATE "C"
        NOT NULL,
    locked_until VARCHAR(27) /* /* */ -- */ COLLATE "C"
        NULL,
    locked_by VARCHAR(255) NULL,
    last_error TEXT NULL,
    failed_at VARCHAR(27) NULL,
    visible_at VARCHAR(27) /* /* */ -- */ COLLATE "C"
        GENERATED ALWAYS AS (
            CASE WHEN locked_until > next_attempt_at THEN locked_until ELSE next_attempt_at END
        ) STORED,
    CONSTRAINT {name}_due UNIQUE (visible_at, id),
    CONSTRAINT {name}_subject UNIQUE (subject, id)
)
/*!50700 ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */
/*M!100200 ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */"#;

/// The statement for `table`, which may be `schema.name`; `name` is the part
/// behind the schema, as index names take none.
pub(super) fn create_table_sql(table: &str, name: &str) -> String {
    CREATE_TABLE
        .replace("{table}", table)
        .replace("{name}", name)
}

#[cfg(test)]
mod tests {
    use super::create_table_sql;

    const OUTBOX: &str = r#"CREATE TABLE IF NOT EXISTS outbox (
    id VARCHAR(64) /* /* */ -- */ COLLATE "C"
        NOT NULL PRIMARY KEY,
    topic VARCHAR(255) NOT NULL,
    payload TEXT /*!50000 (1073741823) */ NOT NULL,
    subject VARCHAR(255) /* /* */ -- */ COLLATE "C"
        NULL,
    created_at VARCHAR(27) NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    claims BIGINT NOT NULL DEFAULT 0,
    lapses BIGINT NOT NULL DEFAULT 0,
    next_attempt_at VARCHAR(27) /* /* */ -- */ COLLATE "C"
        NOT NULL,
    locked_until VARCHAR(27) /* /* */ -- */ COLLATE "C"
        NULL,
    locked_by VARCHAR(255) NULL,
    last_error TEXT NULL,
    failed_at VARCHAR(27) NULL,
    visible_at VARCHAR(27) /* /* */ -- */ COLLATE "C"
        GENERATED ALWAYS AS (
            CASE WHEN locked_until > next_attempt_at THEN locked_until ELSE next_attempt_at END
        ) STORED,
    CONSTRAINT outbox_due UNIQUE (visible_at, id),
    CONSTRAINT outbox_subject UNIQUE (subject, id)
)
/*!50700 ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */
/*M!100200 ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */"#;

    const APP_MAIL_OUTBOX: &str = r#"CREATE TABLE IF NOT EXISTS app.mail_outbox (
    id VARCHAR(64) /* /* */ -- */ COLLATE "C"
        NOT NULL PRIMARY KEY,
    topic VARCHAR(255) NOT NULL,
    payload TEXT /*!50000 (1073741823) */ NOT NULL,
    subject VARCHAR(255) /* /* */ -- */ COLLATE "C"
        NULL,
    created_at VARCHAR(27) NOT NULL,
    attempts BIGINT NOT NULL DEFAULT 0,
    claims BIGINT NOT NULL DEFAULT 0,
    lapses BIGINT NOT NULL DEFAULT 0,
    next_attempt_at VARCHAR(27) /* /* */ -- */ COLLATE "C"
        NOT NULL,
    locked_until VARCHAR(27) /* /* */ -- */ COLLATE "C"
        NULL,
    locked_by VARCHAR(255) NULL,
    last_error TEXT NULL,
    failed_at VARCHAR(27) NULL,
    visible_at VARCHAR(27) /* /* */ -- */ COLLATE "C"
        GENERATED ALWAYS AS (
            CASE WHEN locked_until > next_attempt_at THEN locked_until ELSE next_attempt_at END
        ) STORED,
    CONSTRAINT mail_outbox_due UNIQUE (visible_at, id),
    CONSTRAINT mail_outbox_subject UNIQUE (subject, id)
)
/*!50700 ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_bin */
/*M!100200 ENGINE = InnoDB ROW_FORMAT = DYNAMIC DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_nopad_bin */"#;

    /// A change of the text fails here, on purpose: services have shipped it.
    #[test]
    fn the_text_is_frozen() {
        assert_eq!(create_table_sql("outbox", "outbox"), OUTBOX);
        assert_eq!(
            create_table_sql("app.mail_outbox", "mail_outbox"),
            APP_MAIL_OUTBOX
        );
    }

    #[test]
    fn it_is_one_statement_without_a_separator_or_a_placeholder() {
        let sql = create_table_sql("outbox", "outbox");
        assert!(!sql.contains([';', '?', ':', '$', '%', '{', '}', '\'', '`', '\\']));
        assert!(sql.starts_with("CREATE TABLE IF NOT EXISTS outbox ("));
    }

    /// Behind what PostgreSQL alone reads, SQLite and MySQL read on only after a
    /// line break.
    #[test]
    fn what_only_postgres_reads_ends_its_line() {
        let sql = create_table_sql("outbox", "outbox");
        let only_postgres = r#"/* /* */ -- */ COLLATE "C""#;
        assert_eq!(sql.matches("--").count(), 5);
        assert_eq!(sql.matches(&format!("{only_postgres}\n")).count(), 5);
    }
}
