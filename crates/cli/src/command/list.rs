use std::process::ExitCode;

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{ListOptions, OutboxEntry, format_time};
use serde_json::json;

use crate::args::{Filter, ListArgs, Place, ShowArgs, State};
use crate::engine::{self, Engine};
use crate::error::CliError;
use crate::output;

/// Rows that are read at a time.
pub(crate) const PAGE: u64 = 500;

pub(crate) async fn list(
    engine: &Engine,
    place: &Place,
    args: &ListArgs,
) -> Result<ExitCode, CliError> {
    let (db, outbox) = (engine.db(), engine::outbox(place)?);
    let at = db.now().await?;
    let (now, filter) = (format_time(at)?, options(&args.filter, at)?);
    let mut left = args.limit;
    let mut after = args.after.clone();
    while left > 0 {
        let want = left.min(PAGE);
        let mut page = filter.clone().limit(want);
        if let Some(id) = &after {
            page = page.after(id.as_str());
        }
        let rows = outbox.list(&*db, &now, &page).await?;
        let got = rows.len() as u64;
        if args.json {
            for row in &rows {
                output::data(&object(row, &now, args.reveal).to_string())?;
            }
        } else if got > 0 || after == args.after {
            print(&rows, &now, args.reveal)?;
        }
        after = rows.last().map(|row| row.id.clone());
        left -= got;
        if got < want {
            break;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn print(rows: &[OutboxEntry], now: &str, reveal: bool) -> Result<(), CliError> {
    let rows = rows.iter().map(|row| {
        [
            row.id.clone(),
            row.topic.clone(),
            State::of(row.state(now)).to_owned(),
            row.attempts.to_string(),
            row.created_at.clone(),
            row.next_attempt_at.clone(),
            row.locked_by.clone().unwrap_or_default(),
            subject(row, reveal),
        ]
    });
    let header = [
        "ID",
        "TOPIC",
        "STATE",
        "ATTEMPTS",
        "CREATED",
        "NEXT ATTEMPT",
        "HELD BY",
        "SUBJECT",
    ];
    output::data(&output::table(header, rows))
}

pub(crate) async fn show(
    engine: &Engine,
    place: &Place,
    args: &ShowArgs,
) -> Result<ExitCode, CliError> {
    let (db, outbox) = (engine.db(), engine::outbox(place)?);
    let now = format_time(db.now().await?)?;
    let Some(row) = outbox.get(&*db, &args.id).await? else {
        return Err(CliError::Finding(format!(
            "{} has no row of this id: it was delivered or deleted, or is in another --table",
            outbox.table()
        )));
    };
    if args.json {
        output::data(&object(&row, &now, args.reveal).to_string())?;
        return Ok(ExitCode::SUCCESS);
    }
    let payload = match (&row.payload, args.reveal) {
        (Some(payload), true) => payload.clone(),
        _ => format!("{} bytes (--reveal shows them)", row.payload_bytes),
    };
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let rows = [
        ["id".to_owned(), row.id.clone()],
        ["topic".to_owned(), row.topic.clone()],
        ["state".to_owned(), State::of(row.state(&now)).to_owned()],
        ["attempts".to_owned(), row.attempts.to_string()],
        ["claims".to_owned(), row.claims.to_string()],
        ["lapses".to_owned(), row.lapses.to_string()],
        ["created at".to_owned(), row.created_at.clone()],
        ["next attempt at".to_owned(), row.next_attempt_at.clone()],
        ["locked until".to_owned(), text(&row.locked_until)],
        ["locked by".to_owned(), text(&row.locked_by)],
        ["last error".to_owned(), text(&row.last_error)],
        ["failed at".to_owned(), text(&row.failed_at)],
        ["subject".to_owned(), subject(&row, args.reveal)],
        ["payload".to_owned(), payload],
    ];
    output::data(&output::table(["FIELD", "VALUE"], rows))?;
    Ok(ExitCode::SUCCESS)
}

fn subject(row: &OutboxEntry, reveal: bool) -> String {
    match (&row.subject, reveal) {
        (None, _) => String::new(),
        (Some(subject), true) => subject.clone(),
        (Some(_), false) => "hidden".to_owned(),
    }
}

/// A row as JSON. What is hidden is left out.
pub(crate) fn object(row: &OutboxEntry, now: &str, reveal: bool) -> serde_json::Value {
    let mut object = json!({
        "id": row.id,
        "topic": row.topic,
        "state": State::of(row.state(now)),
        "payload_bytes": row.payload_bytes,
        "attempts": row.attempts,
        "claims": row.claims,
        "lapses": row.lapses,
        "created_at": row.created_at,
        "next_attempt_at": row.next_attempt_at,
        "locked_until": row.locked_until,
        "locked_by": row.locked_by,
        "last_error": row.last_error,
        "failed_at": row.failed_at,
    });
    if reveal {
        object["subject"] = json!(row.subject);
        if row.payload.is_some() {
            object["payload"] = json!(row.payload);
        }
    }
    object
}

/// What the filter means at this instant.
pub(crate) fn options(filter: &Filter, now: DateTime<Utc>) -> Result<ListOptions, CliError> {
    let mut options = ListOptions::new();
    if let Some(topic) = &filter.topic {
        options = options.topic(topic);
    }
    if let Some(state) = filter.state {
        options = options.state(state.state());
    }
    if let Some(age) = filter.older_than {
        options = options.created_before(format_time(before(now, age)?)?);
    }
    Ok(options)
}

/// The instant so long ago.
pub(crate) fn before(
    now: DateTime<Utc>,
    age: std::time::Duration,
) -> Result<DateTime<Utc>, CliError> {
    TimeDelta::from_std(age)
        .ok()
        .and_then(|age| now.checked_sub_signed(age))
        .filter(|time| *time >= DateTime::UNIX_EPOCH)
        .ok_or_else(|| CliError::usage("--older-than reaches back before 1970"))
}
