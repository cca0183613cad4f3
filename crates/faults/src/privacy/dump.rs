//! After erasure a full dump of the database holds nothing of the person.

use std::num::NonZeroU32;

use duebox_core::chrono::DateTime;
use duebox_core::{Claim, DbError, Outbox, Retry, Statement};

use super::calls::{self, Way, at, receipt, subject};
use super::ear::Ear;
use super::marks::{self, MARK, OWNER};
use super::stage::Stage;
use crate::place::{Engine, Open};
use crate::server::Fallible;

/// Stands with the rows of somebody else.
const OTHER: &str = "somebody else";

pub(super) async fn play(ear: &mut Ear, stage: &Stage) -> Fallible<()> {
    for mut way in stage.ways().await? {
        stage.renew().await?;
        let scene = format!("erasure, {}", way.name);
        let open = stage.open().await?;
        if let Some(sqlite) = &open.sqlite {
            let set = "PRAGMA secure_delete = ON";
            sqlite
                .with_connection(move |conn| conn.query_row(set, [], |_| Ok(())))
                .await??;
            way = super::stage::sqlite(sqlite.clone());
        }
        fill(&way).await?;
        let before = dump(stage, &open).await?;
        if marks::seen_in(&before).is_none() || !before.contains(OTHER) {
            return Err("the dump does not show what is there".into());
        }
        let outbox = Outbox::new("outbox");
        for subject in [subject(), MARK.to_owned()] {
            while outbox.erase_subject(&*way.db, &subject, 2).await? > 0 {}
        }
        way.store.erase_owner(OWNER).await?;
        let after = dump(stage, &open).await?;
        if !after.contains(OTHER) {
            return Err("the dump does not show what is left".into());
        }
        ear.calls += 1;
        ear.hear(&scene, &after);
        if let Some(sqlite) = &open.sqlite {
            // As the README says, for what is still in the file.
            sqlite
                .with_connection(|conn| {
                    conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
                })
                .await??;
            for suffix in ["", "-wal", "-shm"] {
                let bytes = std::fs::read(format!("{}{suffix}", stage.url)).unwrap_or_default();
                if marks::among(&bytes) {
                    ear.leaks.insert(format!("{scene}: in the file{suffix}"));
                }
            }
        }
    }
    Ok(())
}

/// Rows in every state, of the person and of somebody else.
async fn fill(way: &Way) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let outbox = Outbox::new("outbox");
    let db = &*way.db;
    for number in 0..12_u32 {
        let subject = if number % 2 == 0 {
            subject()
        } else {
            MARK.to_owned()
        };
        let id = format!("row-{number:02}");
        let work = outbox.enqueue_statement(&id, "t", MARK, Some(&subject), &at(number));
        db.execute(&work).await?;
    }
    let work = outbox.enqueue_statement("other", "t", OTHER, Some(OTHER), &at(30));
    db.execute(&work).await?;
    let claim = Claim::new(at(9), at(20)).limit(10).locked_by(MARK);
    let leases: Vec<_> = outbox
        .claim(db, &claim)
        .await?
        .into_iter()
        .map(|record| record.lease)
        .collect();
    let retry = |place: usize| Retry {
        lease: &leases[place],
        next_attempt_at: "2026-03-01T10:00:50Z",
        error: MARK,
    };
    outbox
        .retry_claimed(db, &at(10), &[retry(0), retry(1)])
        .await?;
    outbox
        .park_claimed(db, &leases[2..4], &at(10), MARK)
        .await?;
    outbox.release_claimed(db, &leases[4..5], &at(11)).await?;
    outbox.note_claimed(db, &leases[5..6], MARK).await?;
    outbox.complete_claimed(db, &leases[6..7]).await?;
    outbox
        .park(db, &["row-07", "row-11"], &at(10), MARK)
        .await?;
    // The lease of one has lapsed and it was taken again.
    outbox
        .claim(db, &Claim::new(at(21), at(59)).limit(1).locked_by(MARK))
        .await?;
    let due = DateTime::UNIX_EPOCH;
    let mut all: Vec<_> = (0..9).map(receipt).collect();
    let mut other = receipt(10);
    other.ticket = duebox_core::PushTicketId::new("other")?;
    other.token = duebox_core::DeviceToken::new("other")?;
    other.owner_id = duebox_core::uuid::Uuid::nil();
    all.push(other);
    way.store.record(all, due).await?;
    let later = duebox_core::parse_time(&calls::at(1))?;
    let three = NonZeroU32::new(3).unwrap_or(NonZeroU32::MIN);
    way.store.take_due(later, later, three).await?;
    way.store.delete(vec![receipt(0).ticket]).await?;
    Ok(())
}

/// Every column of every table, as text.
async fn dump(stage: &Stage, open: &Open) -> Result<String, DbError> {
    let db = &*open.db;
    let tables = match stage.engine {
        Engine::Sqlite => "SELECT name AS t FROM sqlite_schema WHERE type = 'table'",
        Engine::Postgres => {
            "SELECT table_name::text AS t FROM information_schema.tables WHERE table_schema = 'public'"
        }
        _ => {
            "SELECT CAST(table_name AS CHAR) AS t FROM information_schema.tables \
             WHERE table_schema = DATABASE()"
        }
    };
    let mut dump = String::new();
    for row in db.query(&Statement::new(tables)).await? {
        let table: String = row.get("t")?;
        for column in columns(stage.engine, open, &table).await? {
            let select = match stage.engine {
                Engine::Sqlite => format!(
                    "SELECT CAST(\"{column}\" AS TEXT) AS plain, hex(\"{column}\") AS hexed FROM \"{table}\""
                ),
                Engine::Postgres => {
                    format!("SELECT \"{column}\"::text AS plain, '' AS hexed FROM \"{table}\"")
                }
                _ => format!(
                    "SELECT CONVERT(`{column}` USING utf8mb4) AS plain, HEX(`{column}`) AS hexed FROM `{table}`"
                ),
            };
            for row in db.query(&Statement::new(select)).await? {
                for form in ["plain", "hexed"] {
                    // Bytes that are no text are seen in their other form.
                    let value = row.get::<Option<String>>(form).unwrap_or_default();
                    dump.push_str(&value.unwrap_or_default());
                    dump.push('\n');
                }
            }
        }
    }
    Ok(dump)
}

async fn columns(engine: Engine, open: &Open, table: &str) -> Result<Vec<String>, DbError> {
    let list = match engine {
        Engine::Sqlite => "SELECT name AS c FROM pragma_table_xinfo(?)",
        Engine::Postgres => {
            "SELECT column_name::text AS c FROM information_schema.columns \
             WHERE table_schema = 'public' AND table_name = ?"
        }
        _ => {
            "SELECT CAST(column_name AS CHAR) AS c FROM information_schema.columns \
             WHERE table_schema = DATABASE() AND table_name = ?"
        }
    };
    let rows = open.db.query(&Statement::new(list).bind(table)).await?;
    rows.iter().map(|row| row.get("c")).collect()
}
