//! Whether the role of the address may do what a service, a worker and an
//! operator do.

use duebox_core::{Dialect, Kind, Statement};

use super::Checking;
use super::finding::Finding;
use super::shape::Shape;
use crate::engine::{Engine, is_refusal};
use crate::error::CliError;

/// Statements that change nothing, each of which needs one privilege and no other.
fn probes(table: &str, shape: Shape) -> [(&'static str, String); 4] {
    let (columns, set) = match shape {
        Shape::Outbox => (
            "id, topic, payload, subject, created_at, next_attempt_at",
            "attempts = 0",
        ),
        Shape::Receipts => ("ticket, owner_id, token, sent_at, due_at", "token = ''"),
    };
    let nothing = columns
        .split(", ")
        .map(|_| "NULL")
        .collect::<Vec<_>>()
        .join(", ");
    // MySQL takes a WHERE only behind a table.
    [
        (
            "SELECT",
            format!("SELECT {columns} FROM {table} WHERE 1 = 0"),
        ),
        (
            "INSERT",
            format!(
                "INSERT INTO {table} ({columns}) SELECT {nothing} FROM (SELECT 1 AS one) AS o WHERE 1 = 0"
            ),
        ),
        ("UPDATE", format!("UPDATE {table} SET {set} WHERE 1 = 0")),
        ("DELETE", format!("DELETE FROM {table} WHERE 1 = 0")),
    ]
}

/// PostgreSQL tells by itself, and wants every value of a statement in its type.
async fn told(checking: &Checking<'_>, table: &str) -> Result<Vec<&'static str>, CliError> {
    let mut lacking = Vec::new();
    for privilege in ["SELECT", "INSERT", "UPDATE", "DELETE"] {
        let ask = Statement::new("SELECT has_table_privilege(?, ?)::int AS granted");
        let rows = checking
            .engine
            .db()
            .query(&ask.bind(table).bind(privilege))
            .await?;
        if rows
            .first()
            .map_or(Ok(0), |row| row.get::<i64>("granted"))?
            == 0
        {
            lacking.push(privilege);
        }
    }
    Ok(lacking)
}

pub(super) async fn check(
    checking: &mut Checking<'_>,
    table: &str,
    shape: Shape,
) -> Result<(), CliError> {
    let db = checking.engine.db();
    let mut lacking = Vec::new();
    let probes = probes(table, shape);
    let probes = match db.dialect() {
        Dialect::Postgres => {
            lacking = told(checking, table).await?;
            &[]
        }
        _ => &probes[..],
    };
    for (privilege, sql) in probes {
        let privilege = *privilege;
        let statement = Statement::new(sql.clone());
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

pub(super) fn read_only_file() -> Finding {
    Finding::problem("read-only-server", "the file cannot be written to")
        .because("this user may not write to the file or its folder, or the disk is read-only")
        .advise(
            "give the user of the service the file, its folder and the files beside it \
             (`chown`, `chmod u+w`), or mount the disk for writing",
        )
}

/// The role of the address, as `GRANT` names it.
pub(super) async fn role(engine: &Engine) -> Result<String, CliError> {
    let db = engine.db();
    let role = match db.dialect() {
        Dialect::Postgres => "SELECT quote_ident(current_user)::text AS role",
        _ => {
            "SELECT CONVERT(CONCAT(
                QUOTE(LEFT(CURRENT_USER(), CHAR_LENGTH(CURRENT_USER()) - CHAR_LENGTH(SUBSTRING_INDEX(CURRENT_USER(), '@', -1)) - 1)),
                '@',
                QUOTE(SUBSTRING_INDEX(CURRENT_USER(), '@', -1))
            ) USING utf8mb4) AS role"
        }
    };
    let rows = db.query(&Statement::new(role)).await?;
    Ok(match rows.first() {
        Some(row) => row.get("role")?,
        None => String::new(),
    })
}

/// Which outboxes there are may not be seen.
pub(super) fn unseen(role: &str) -> Finding {
    let table = duebox_migrations::BOOKKEEPING_TABLE;
    Finding::problem(
        "missing-privilege",
        "the role of --database may not see which outboxes or receipts there are",
    )
    .of(table)
    .because("`status`, `check` and `subject` cover all that is noted there, or what --table names")
    .sql(format!("GRANT SELECT ON {table} TO {role}"))
    .advise("if there is a table pending_receipts, grant SELECT on that too")
}

async fn missing(
    checking: &Checking<'_>,
    table: &str,
    lacking: &[&str],
) -> Result<Finding, CliError> {
    let role = role(checking.engine).await?;
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
