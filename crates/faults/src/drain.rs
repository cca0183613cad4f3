//! After all faults: everything is drained, and what is left is read.

use std::sync::Arc;
use std::time::Duration;

use duebox_core::chrono::TimeDelta;
use duebox_core::{Database, DbError, ListOptions, PendingReceiptStore, RowState, Statement};

use crate::history::{Answer, Call, Contents, Held, How, Journal, monotonic};
use crate::place::{Open, Place};
use crate::role::{claimed, held, logged, outcomes, text};
use crate::stored::Stored;

/// Waits until nothing is due and no lease runs that ends soon, of the work
/// that the processes have to do; whether that came in time.
///
/// Rows that a wrong clock has put off for minutes do not count.
pub(crate) async fn settled(open: &Open, place: &Place, patience: Duration) -> bool {
    let began = monotonic();
    while Duration::from_nanos(monotonic() - began) < patience {
        if matches!(left(open, place).await, Ok(0)) {
            return true;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    false
}

async fn left(open: &Open, place: &Place) -> Result<i64, DbError> {
    let soon = open.db.now().await? + TimeDelta::seconds(3);
    let count = format!(
        "SELECT COUNT(*) AS n FROM {} WHERE visible_at <= ?",
        place.table
    );
    let rows = open
        .db
        .query(&Statement::new(count).bind(text(soon)))
        .await?;
    rows.first().map_or(Ok(0), |row| row.get("n"))
}

/// Drains what is left, with a clock a day ahead, and reads the rest. A call
/// that fails on a busy machine may have leased rows, so the clock is farther
/// ahead then.
pub(crate) async fn drain(
    open: &Open,
    place: &Place,
    journal: &Arc<Journal>,
) -> Result<Contents, DbError> {
    let mut ahead = TimeDelta::days(1);
    loop {
        match drain_by(open, place, journal, ahead).await {
            Err(_) if ahead < TimeDelta::days(20) => ahead += TimeDelta::days(2),
            done => return done,
        }
    }
}

async fn drain_by(
    open: &Open,
    place: &Place,
    journal: &Arc<Journal>,
    ahead: TimeDelta,
) -> Result<Contents, DbError> {
    let outbox = place.outbox();
    let db = &*open.db;
    loop {
        // All that is parked gets another chance.
        let now = db.now().await? + ahead;
        let (now, until) = (text(now), text(now + TimeDelta::days(1)));
        let parked = ListOptions::new().state(RowState::Parked);
        let parked = outbox.list(db, &now, &parked).await?;
        let ids: Vec<&str> = parked.iter().map(|row| row.id.as_str()).collect();
        if !ids.is_empty() {
            let call = Call::Unpark { at: now.clone() };
            let run = outbox.unpark(db, &ids, &now);
            logged(journal, call, run, |rows| Answer::Count(*rows)).await?;
        }
        let call = Call::Claim {
            now: now.clone(),
            until: until.clone(),
        };
        let run = outbox.claim_due(db, &now, &until, 200);
        let records = logged(journal, call, run, |records| claimed(records)).await?;
        if records.is_empty() && ids.is_empty() {
            break;
        }
        let mut leases = Vec::new();
        for record in records {
            journal.ran(held(&record.lease));
            leases.push(record.lease);
        }
        let call = Call::Fenced {
            how: How::Complete,
            leases: leases.iter().map(held).collect(),
        };
        let run = outbox.complete_claimed(db, &leases);
        logged(journal, call, run, |answer| outcomes(answer)).await?;
    }
    let contents = read(db, place).await?;
    tickets(open, journal).await;
    Ok(contents)
}

/// Takes every ticket once more: none is unreadable, none is there twice.
async fn tickets(open: &Open, journal: &Arc<Journal>) {
    let store = Stored {
        store: Arc::clone(&open.receipts),
        journal: Arc::clone(journal),
    };
    let Ok(now) = open.db.now().await else { return };
    let (day, later) = (now + TimeDelta::days(1), now + TimeDelta::days(2));
    // An error is in the journal, and what it hides is missing in no list.
    let _ = store.take_due(day, later, std::num::NonZeroU32::MAX).await;
}

async fn read(db: &dyn Database, place: &Place) -> Result<Contents, DbError> {
    let texts = async |sql: String, column: &str| {
        let rows = db.query(&Statement::new(sql)).await?;
        rows.iter()
            .map(|row| row.get(column))
            .collect::<Result<Vec<String>, DbError>>()
    };
    let effects = db
        .query(&Statement::new("SELECT id, claims FROM effect"))
        .await?
        .iter()
        .map(|row| {
            let claims: i64 = row.get("claims")?;
            let (id, claims) = (row.get("id")?, claims.unsigned_abs());
            Ok(Held { id, claims })
        })
        .collect::<Result<Vec<Held>, DbError>>()?;
    Ok(Contents {
        units: texts("SELECT unit FROM state".to_owned(), "unit").await?,
        rows: texts(format!("SELECT id FROM {}", place.table), "id").await?,
        effects,
        tickets: texts("SELECT ticket FROM pending_receipts".to_owned(), "ticket").await?,
    })
}
