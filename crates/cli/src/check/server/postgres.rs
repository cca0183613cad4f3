use duebox_core::Statement;

use super::{ask, seconds};
use crate::check::Checking;
use crate::check::finding::Finding;
use crate::error::CliError;

const SETTINGS: &str = "\
SELECT
    quote_ident(current_database())::text AS database,
    quote_ident(current_user)::text AS role,
    pg_is_in_recovery()::int AS standby,
    current_setting('transaction_read_only') AS read_only,
    (SELECT source FROM pg_settings WHERE name = 'default_transaction_read_only') AS read_only_source,
    current_setting('default_transaction_isolation') AS isolation,
    current_setting('autovacuum') AS autovacuum";

pub(super) async fn check(checking: &mut Checking<'_>) -> Result<(), CliError> {
    let row = ask(checking, SETTINGS).await?;
    let database: String = row.get("database")?;
    if row.get::<i64>("standby")? != 0 {
        checking.add(
            Finding::problem("read-only-server", "the server takes no writes")
                .because("it is a standby, which follows another server")
                .advise("give --database, and the services, the address of the primary"),
        );
    } else if row.get::<String>("read_only")? == "on" {
        let (role, source): (String, String) = (row.get("role")?, row.get("read_only_source")?);
        checking.add(read_only(&database, &role, &source));
    }
    let isolation: String = row.get("isolation")?;
    if isolation != "read committed" {
        checking.add(
            Finding::note(
                "isolation",
                format!("transactions are {isolation} by default"),
            )
            .because(
                "a transaction of your own may then fail with a serialization failure and \
                     has to be run again; what this library begins is not affected",
            )
            .sql(format!(
                "ALTER DATABASE {database} SET default_transaction_isolation = 'read committed'"
            )),
        );
    }
    if row.get::<String>("autovacuum")? == "off" {
        checking.add(
            Finding::problem("autovacuum-off", "autovacuum is off")
                .because("each row leaves two dead ones behind, which claims then read past")
                .sql("ALTER SYSTEM SET autovacuum = on;\nSELECT pg_reload_conf()")
                .advise("if it is still off, it is set so on the server's command line"),
        );
    }
    sessions(checking).await?;
    prepared(checking).await?;
    slots(checking).await
}

fn read_only(database: &str, role: &str, source: &str) -> Finding {
    let finding = Finding::problem("read-only-server", "transactions are read-only by default");
    let set = "default_transaction_read_only";
    // The setting holds for the session that is to change it, too.
    let first = format!("SET {set} = off;\n");
    match source {
        "database" => finding
            .because("it is set so for the database")
            .sql(format!("{first}ALTER DATABASE {database} RESET {set}")),
        "user" => finding
            .because("it is set so for the role")
            .sql(format!("{first}ALTER ROLE {role} RESET {set}")),
        "database user" => finding
            .because("it is set so for the role in this database")
            .sql(format!(
                "{first}ALTER ROLE {role} IN DATABASE {database} RESET {set}"
            )),
        "command line" => finding
            .because("it is set so on the server's command line")
            .advise(format!("start the server without {set}")),
        "client" => finding
            .because("the connection asks for it")
            .advise(format!(
                "take {set} out of the address, or out of PGOPTIONS"
            )),
        _ => finding.because("the server is set so").sql(format!(
            "ALTER SYSTEM SET {set} = off;\nSELECT pg_reload_conf()"
        )),
    }
}

/// Dead rows that a snapshot may still see cannot be removed.
const CAUSE: &str = "\
rows that were delivered since then cannot be removed, so claims that start at the head of the \
queue read past more and more of them";

// Of others' sessions a role without rights sees that they are there, and no more.
const SESSIONS: &str = "\
SELECT
    pid::bigint AS pid,
    COALESCE(application_name, '') AS program,
    COALESCE(state, '') AS state,
    floor(extract(epoch FROM clock_timestamp() - xact_start))::bigint AS age
FROM pg_stat_activity
WHERE datname = current_database()
    AND pid <> pg_backend_pid()
    AND backend_type = 'client backend'
    AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND xact_start < clock_timestamp() - make_interval(secs => ?)
ORDER BY xact_start
LIMIT 10";

const SEES_ALL: &str = "\
SELECT (
    pg_has_role(current_user, 'pg_read_all_stats', 'MEMBER')
    OR (SELECT rolsuper FROM pg_roles WHERE rolname = current_user)
)::int AS sees_all";

async fn sessions(checking: &mut Checking<'_>) -> Result<(), CliError> {
    if ask(checking, SEES_ALL).await?.get::<i64>("sees_all")? == 0 {
        checking.add(
            Finding::note(
                "not-checked",
                "transactions of other roles were not looked at",
            )
            .because("this role may not see them, and each can keep old rows")
            .advise("run the check once more as a member of pg_read_all_stats, or a superuser"),
        );
    }
    let limit = checking.args.max_transaction.as_secs_f64();
    let rows = checking
        .engine
        .db()
        .query(&Statement::new(SESSIONS).bind(limit))
        .await?;
    for row in rows {
        let (pid, age): (i64, i64) = (row.get("pid")?, row.get("age")?);
        let (program, state): (String, String) = (row.get("program")?, row.get("state")?);
        checking.add(
            Finding::problem(
                "pinned-snapshot",
                format!(
                    "session {pid} of {program:?} is {state} in a transaction of {}",
                    seconds(age)
                ),
            )
            .because(CAUSE)
            .advise("see whose it is, and end its transaction there; or end the session")
            .sql(format!("SELECT pg_terminate_backend({pid})")),
        );
    }
    Ok(())
}

const PREPARED: &str = "\
SELECT
    quote_literal(gid)::text AS gid,
    floor(extract(epoch FROM clock_timestamp() - prepared))::bigint AS age
FROM pg_prepared_xacts
WHERE database = current_database()
    AND prepared < clock_timestamp() - make_interval(secs => ?)
ORDER BY prepared
LIMIT 10";

async fn prepared(checking: &mut Checking<'_>) -> Result<(), CliError> {
    let limit = checking.args.max_transaction.as_secs_f64();
    let rows = checking
        .engine
        .db()
        .query(&Statement::new(PREPARED).bind(limit))
        .await?;
    for row in rows {
        let gid: String = row.get("gid")?;
        let age = seconds(row.get("age")?);
        checking.add(
            Finding::problem(
                "pinned-snapshot",
                format!("transaction {gid} was prepared {age} ago and never ended"),
            )
            .because(CAUSE)
            .advise("ask its coordinator whether it committed; if it did not:")
            .sql(format!("ROLLBACK PREPARED {gid}")),
        );
    }
    Ok(())
}

const SLOTS: &str = "\
SELECT quote_literal(slot_name)::text AS slot
FROM pg_replication_slots
WHERE xmin IS NOT NULL
    AND NOT active
ORDER BY slot_name
LIMIT 10";

async fn slots(checking: &mut Checking<'_>) -> Result<(), CliError> {
    let rows = checking.engine.db().query(&Statement::new(SLOTS)).await?;
    for row in rows {
        let slot: String = row.get("slot")?;
        checking.add(
            Finding::problem(
                "pinned-snapshot",
                format!("replication slot {slot} keeps old rows for a standby that is away"),
            )
            .because(CAUSE)
            .advise("bring the standby back; if it is gone for good:")
            .sql(format!("SELECT pg_drop_replication_slot({slot})")),
        );
    }
    Ok(())
}

const TABLE: &str = "\
SELECT
    (c.relpersistence <> 'p')::int AS unlogged,
    (
        c.relrowsecurity
        AND (c.relforcerowsecurity OR NOT pg_has_role(current_user, c.relowner, 'USAGE'))
        AND NOT (SELECT rolsuper OR rolbypassrls FROM pg_roles WHERE rolname = current_user)
    )::int AS row_security,
    ('autovacuum_enabled=false' = ANY(COALESCE(c.reloptions, '{}')))::int AS unvacuumed
FROM pg_catalog.pg_class AS c
WHERE c.oid = to_regclass(?)";

/// What is set for one table.
pub(super) async fn table(checking: &mut Checking<'_>, table: &str) -> Result<(), CliError> {
    let read = Statement::new(TABLE).bind(table);
    let rows = checking.engine.db().query(&read).await?;
    let Some(row) = rows.first() else {
        return Ok(());
    };
    if row.get::<i64>("unlogged")? != 0 {
        checking.add(
            Finding::problem("wrong-engine", "the table is not logged")
                .of(table)
                .because("a crash of the server empties it, and a standby does not have it")
                .sql(format!("ALTER TABLE {table} SET LOGGED")),
        );
    }
    if row.get::<i64>("row_security")? != 0 {
        checking.add(
            Finding::note("row-security", "policies decide which rows this role sees")
                .of(table)
                .because("rows that it does not see are neither counted here nor claimed by it")
                .advise("see that the policies let workers and services see all rows"),
        );
    }
    if row.get::<i64>("unvacuumed")? != 0 {
        checking.add(
            Finding::problem("autovacuum-off", "autovacuum is off for the table")
                .of(table)
                .because("each row leaves two dead ones behind, which claims then read past")
                .sql(format!("ALTER TABLE {table} RESET (autovacuum_enabled)")),
        );
    }
    Ok(())
}
