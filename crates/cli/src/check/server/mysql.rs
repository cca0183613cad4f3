use duebox_core::{MAX_PAYLOAD_BYTES, Statement};

use super::{ask, seconds};
use crate::check::Checking;
use crate::check::catalog::parts;
use crate::check::finding::Finding;
use crate::error::CliError;

/// A payload of the largest size, with the other columns beside it.
const PACKET: u64 = MAX_PAYLOAD_BYTES as u64 + 64 * 1024;

pub(super) async fn check(checking: &mut Checking<'_>) -> Result<(), CliError> {
    // Each of the two knows a variable that the other does not.
    let (isolation, more) = if checking.is_mariadb() {
        ("@@GLOBAL.tx_isolation", "0")
    } else {
        ("@@GLOBAL.transaction_isolation", "@@GLOBAL.super_read_only")
    };
    let row = ask(
        checking,
        &format!(
            "SELECT
                CONVERT({isolation} USING utf8mb4) AS isolation,
                CAST({more} AS SIGNED) AS super_read_only,
                CAST(@@GLOBAL.read_only AS SIGNED) AS read_only,
                CAST(@@GLOBAL.innodb_read_only AS SIGNED) AS engine_read_only,
                CONVERT(@@GLOBAL.sql_mode USING utf8mb4) AS modes,
                CAST(@@GLOBAL.max_allowed_packet AS SIGNED) AS packet"
        ),
    )
    .await?;
    if row.get::<i64>("engine_read_only")? != 0 {
        checking.add(
            Finding::problem("read-only-server", "the server's storage takes no writes")
                .because("innodb_read_only is on")
                .advise("start the server without innodb_read_only, or connect to another"),
        );
    } else if row.get::<i64>("read_only")? != 0 {
        let also = if row.get::<i64>("super_read_only")? != 0 {
            "SET GLOBAL super_read_only = OFF;\n"
        } else {
            ""
        };
        checking.add(
            Finding::problem("read-only-server", "the server takes no writes of services")
                .because("read_only is on: it is a replica, or was left so by a failover")
                .advise(
                    "if it is a replica, give --database, and the services, the address of the \
                     primary; if it is the primary:",
                )
                .sql(format!("{also}SET GLOBAL read_only = OFF")),
        );
    }
    let isolation: String = row.get("isolation")?;
    if isolation != "READ-COMMITTED" {
        checking.add(
            Finding::note(
                "isolation",
                format!("transactions are {isolation} by default"),
            )
            .because(
                "an insert in a transaction of your own may then wait for claims, as they \
                     lock gaps between rows; what this library begins is READ COMMITTED",
            )
            .advise(
                "begin transactions that enqueue by SET TRANSACTION ISOLATION LEVEL READ COMMITTED",
            ),
        );
    }
    let modes: String = row.get("modes")?;
    if !modes.contains("STRICT_") {
        checking.add(
            Finding::problem("sql-mode", "sql_mode is not strict")
                .because(
                    "another client's INSERT that is too long is cut in silence; what this \
                     library connects is strict all the same",
                )
                .sql("SET GLOBAL sql_mode = CONCAT_WS(',', NULLIF(@@GLOBAL.sql_mode, ''), 'STRICT_TRANS_TABLES')")
                .advise("put the same into the server's configuration"),
        );
    }
    let packet = row.get::<u64>("packet")?;
    if packet < PACKET {
        checking.add(
            Finding::problem(
                "packet-size",
                format!("max_allowed_packet is {packet} bytes"),
            )
            .because(format!(
                "a payload may have {MAX_PAYLOAD_BYTES} bytes; larger ones than this are refused"
            ))
            .sql("SET GLOBAL max_allowed_packet = 67108864")
            .advise("put the same into the server's configuration"),
        );
    }
    transactions(checking).await
}

/// When a transaction began is told in the server's own time zone.
async fn transactions(checking: &mut Checking<'_>) -> Result<(), CliError> {
    let read = "\
    CAST(trx_mysql_thread_id AS SIGNED) AS id,
    CAST(TIMESTAMPDIFF(SECOND, trx_started, NOW()) AS SIGNED) AS age
FROM information_schema.innodb_trx
WHERE trx_mysql_thread_id <> CONNECTION_ID()
    AND TIMESTAMPDIFF(SECOND, trx_started, NOW()) >= ?
ORDER BY trx_started
LIMIT 10";
    let sql = if checking.is_mariadb() {
        format!("SET STATEMENT time_zone = 'SYSTEM' FOR SELECT {read}")
    } else {
        format!("SELECT /*+ SET_VAR(time_zone = 'SYSTEM') */ {read}")
    };
    let limit = i64::try_from(checking.args.max_transaction.as_secs()).unwrap_or(i64::MAX);
    let rows = checking
        .engine
        .db()
        .query(&Statement::new(sql).bind(limit))
        .await?;
    for row in rows {
        let (id, age): (i64, i64) = (row.get("id")?, row.get("age")?);
        let finding = Finding::problem(
            "pinned-snapshot",
            format!("session {id} is in a transaction of {}", seconds(age)),
        )
        .because(
            "rows that were delivered since then cannot be purged, so claims that start at the \
             head of the queue read past more and more of them",
        );
        checking.add(if id == 0 {
            finding.advise("it was prepared and never ended: see XA RECOVER, and end it there")
        } else {
            finding
                .advise("see whose it is, and end its transaction there; or end the session")
                .sql(format!("KILL {id}"))
        });
    }
    Ok(())
}

/// What is set for one table.
pub(super) async fn table(checking: &mut Checking<'_>, table: &str) -> Result<(), CliError> {
    let (schema, name) = parts(table);
    let read = "SELECT CONVERT(engine USING utf8mb4) AS engine
        FROM information_schema.tables
        WHERE table_schema = COALESCE(NULLIF(?, ''), DATABASE())
            AND table_name = ?";
    let read = Statement::new(read).bind(schema).bind(name);
    let rows = checking.engine.db().query(&read).await?;
    let engine: Option<String> = match rows.first() {
        Some(row) => row.get("engine")?,
        None => None,
    };
    if engine.as_deref().is_some_and(|engine| engine != "InnoDB") {
        checking.add(
            Finding::problem("wrong-engine", "the table's engine is not InnoDB")
                .of(table)
                .because("it may have no transactions: state and work do not commit together")
                .sql(format!("ALTER TABLE {table} ENGINE = InnoDB")),
        );
    }
    Ok(())
}
