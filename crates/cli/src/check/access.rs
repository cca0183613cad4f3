//! Whether the role of the address may do what a service, a worker and an
//! operator do.

use duebox_core::{DbError, Dialect, Kind, Statement};

use super::Checking;
use super::finding::Finding;
use super::shape::Shape;
use crate::error::CliError;

/// Statements that change nothing, each of which needs one privilege.
fn probes(table: &str, shape: Shape) -> [(&'static str, String); 4] {
    let (columns, set) = match shape {
        Shape::Outbox => (
            "id, topic, payload, subject, created_at, next_attempt_at",
            "attempts = attempts",
        ),
        Shape::Receipts => (
            "ticket, owner_id, token, sent_at, due_at",
            "due_at = due_at",
        ),
    };
    [
        (
            "SELECT",
            format!("SELECT {columns} FROM {table} WHERE 1 = 0"),
        ),
        (
            "INSERT",
            format!("INSERT INTO {table} ({columns}) SELECT {columns} FROM {table} WHERE 1 = 0"),
        ),
        ("UPDATE", format!("UPDATE {table} SET {set} WHERE 1 = 0")),
        ("DELETE", format!("DELETE FROM {table} WHERE 1 = 0")),
    ]
}

pub(super) async fn check(
    checking: &mut Checking<'_>,
    table: &str,
    shape: Shape,
) -> Result<(), CliError> {
    let db = checking.engine.db();
    let mut lacking = Vec::new();
    for (privilege, sql) in probes(table, shape) {
        let statement = Statement::new(sql);
        let answer = if privilege == "SELECT" {
            db.query(&statement).await.map(drop)
        } else {
            db.execute(&statement).await.map(drop)
        };
        match answer {
            Ok(()) => {}
            Err(error) if is_refusal(&error) => lacking.push(privilege),
            // The server's part says why, and what cures it; on SQLite this does.
            Err(error) if error.kind() == Kind::Unsupported => {
                if checking.dialect() == Dialect::Sqlite {
                    checking.add(read_only_file().of(table));
                }
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        }
    }
    if !lacking.is_empty() {
        let finding = missing(checking, table, &lacking).await?;
        checking.add(finding);
    }
    Ok(())
}

fn is_refusal(error: &DbError) -> bool {
    // PostgreSQL: insufficient_privilege. MySQL and MariaDB: no privilege on the
    // table, or on its columns.
    matches!(error.code(), Some("42501" | "1142" | "1143"))
}

pub(super) fn read_only_file() -> Finding {
    Finding::problem("read-only-server", "the file cannot be written to")
        .because("this user may not write to the file or its folder, or the disk is read-only")
        .advise(
            "give the user of the service the file, its folder and the files beside it \
             (`chown`, `chmod u+w`), or mount the disk for writing",
        )
}

async fn missing(
    checking: &Checking<'_>,
    table: &str,
    lacking: &[&str],
) -> Result<Finding, CliError> {
    let role = match checking.dialect() {
        Dialect::Postgres => "SELECT quote_ident(current_user)::text AS role",
        _ => {
            "SELECT CONVERT(CONCAT(
                QUOTE(LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)) - 1)),
                '@',
                QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))
            ) USING utf8mb4) AS role"
        }
    };
    let rows = checking.engine.db().query(&Statement::new(role)).await?;
    let role: String = match rows.first() {
        Some(row) => row.get("role")?,
        None => String::new(),
    };
    let lacking = lacking.join(", ");
    let mut finding = Finding::problem(
        "missing-privilege",
        format!("the role of --database may not {lacking}"),
    )
    .of(table)
    .because("it was never granted, or was revoked: a service with this role gets errors");
    if checking.dialect() == Dialect::Postgres
        && let Some((schema, _)) = table.split_once('.')
    {
        finding = finding.sql(format!("GRANT USAGE ON SCHEMA {schema} TO {role}"));
    }
    Ok(finding.sql(format!("GRANT {lacking} ON {table} TO {role}")))
}
