use std::future::Future;
use std::process::ExitCode;
use std::time::Duration;

use duebox_core::chrono::TimeDelta;
use duebox_core::{
    DbError, Kind, Outbox, OutboxStats, OutboxSurvey, OutboxTotals, TopicStats, format_time,
};
use serde_json::{Value, json};

use crate::args::{Place, StatusArgs};
use crate::command::receipts;
use crate::engine::{self, Engine, Known};
use crate::error::CliError;
use crate::output;

pub(crate) async fn run(
    engine: &Engine,
    place: &Place,
    args: &StatusArgs,
) -> Result<ExitCode, CliError> {
    loop {
        let passed = once(engine, place, args).await?;
        if !args.watch {
            return Ok(ExitCode::from(u8::from(passed)));
        }
        tokio::time::sleep(args.every).await;
    }
}

/// What was counted of one outbox.
struct Counted {
    outbox: Outbox,
    due: u64,
    /// Waiting or leased.
    later: u64,
    parked: u64,
    oldest_due: Option<TimeDelta>,
    /// `None` if it was not asked for, or took too long.
    survey: Option<OutboxSurvey>,
}

impl Counted {
    /// All of it by one look, so that it adds up.
    fn new(outbox: Outbox, totals: &OutboxTotals, survey: Option<OutboxSurvey>) -> Self {
        let (due, later, parked, oldest_due) = match &survey {
            Some(OutboxSurvey { stats, .. }) => (
                stats.due,
                stats.waiting + stats.leased,
                stats.parked,
                stats.oldest_due,
            ),
            None => (totals.due, totals.later, totals.parked, totals.oldest_due),
        };
        Self {
            outbox,
            due,
            later,
            parked,
            oldest_due,
            survey,
        }
    }
}

/// Whether a threshold was passed.
async fn once(engine: &Engine, place: &Place, args: &StatusArgs) -> Result<bool, CliError> {
    let db = engine.db();
    let now = format_time(db.now().await?)?;
    let (mut counted, mut broken) = (Vec::new(), None);
    for outbox in all(engine, place).await? {
        let totals = match outbox.totals(&*db, &now).await {
            Ok(totals) => totals,
            // The others are shown all the same, and then this is the end.
            Err(error) if error.kind() == Kind::Schema => {
                let table = outbox.table();
                output::message(&format!("{table}: it is not as the migrations left it"));
                broken = Some(error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        let survey = if args.totals {
            None
        } else {
            within(place, outbox.survey(&*db, &now)).await?
        };
        if survey.is_none() && !args.totals {
            output::message(&format!(
                "{}: counting by topic and holder took longer than {} and was given up; \
                 see --timeout and --totals",
                outbox.table(),
                humantime::format_duration(place.timeout)
            ));
        }
        counted.push(Counted::new(outbox, &totals, survey));
    }
    // One outbox was asked for, or all that there is.
    let pending = match place.table {
        None if engine.known().await?.receipts => Some(receipts::pending(&*db).await?),
        _ => None,
    };
    if args.json {
        let mut document = json!({
            "at": now,
            "outboxes": counted.iter().map(object).collect::<Vec<_>>(),
        });
        if let Some(pending) = pending {
            document["receipts"] = json!({ "table": receipts::TABLE, "pending": pending });
        }
        output::data(&document.to_string())?;
    } else {
        print(&counted, pending)?;
    }
    let passed = thresholds(&counted, args);
    match broken {
        Some(error) => Err(error.into()),
        None => Ok(passed),
    }
}

/// What came in the time that a statement may take, on every engine: SQLite has
/// no server that would end it.
pub(crate) async fn within<T>(
    place: &Place,
    work: impl Future<Output = Result<T, DbError>>,
) -> Result<Option<T>, CliError> {
    let Some(limit) = place.limit() else {
        return Ok(Some(work.await?));
    };
    // A server is given a moment longer, so that it is the one to end it.
    match tokio::time::timeout(limit + Duration::from_secs(1), work).await {
        Ok(Ok(found)) => Ok(Some(found)),
        Ok(Err(error)) if error.kind() != Kind::Busy => Err(error.into()),
        Ok(Err(_)) | Err(_) => Ok(None),
    }
}

fn thresholds(counted: &[Counted], args: &StatusArgs) -> bool {
    let mut passed = false;
    for of in counted {
        let too_old = |max| oldest(of.oldest_due).is_some_and(|age| age > max);
        let table = of.outbox.table();
        if args.max_oldest.is_some_and(too_old) {
            output::message(&format!("{table}: a row has been due for too long"));
            passed = true;
        }
        if args.max_parked.is_some_and(|max| of.parked > max) {
            output::message(&format!("{table}: too many rows are parked"));
            passed = true;
        }
    }
    passed
}

/// The outbox that was named; or every one that the bookkeeping knows, or the one
/// of the default name.
pub(crate) async fn all(engine: &Engine, place: &Place) -> Result<Vec<Outbox>, CliError> {
    if place.table.is_some() {
        return Ok(vec![engine::outbox(place)?]);
    }
    chosen(place, engine.known().await?)
}

/// The same, of what is known.
pub(crate) fn chosen(place: &Place, known: Known) -> Result<Vec<Outbox>, CliError> {
    if place.table.is_some() {
        return Ok(vec![engine::outbox(place)?]);
    }
    if known.unnamed > 0 {
        output::message(&format!(
            "{} names that the migrations noted are none of an outbox, and are left out",
            known.unnamed
        ));
    }
    if !known.outboxes.is_empty() {
        return Ok(known.outboxes);
    }
    let outbox = engine::outbox(place)?;
    output::message(&format!(
        "no outbox was made by the migrations here, so only {} is looked at; name others by --table",
        outbox.table()
    ));
    Ok(vec![outbox])
}

fn oldest(age: Option<TimeDelta>) -> Option<Duration> {
    age.and_then(|age| age.to_std().ok())
}

fn age(of: Option<TimeDelta>) -> String {
    oldest(of).map_or_else(
        || "-".to_owned(),
        |age| humantime::format_duration(Duration::from_secs(age.as_secs())).to_string(),
    )
}

fn print(counted: &[Counted], pending: Option<u64>) -> Result<(), CliError> {
    let header = ["OUTBOX", "DUE", "WAITING", "LEASED", "PARKED", "OLDEST DUE"];
    let rows = counted.iter().map(|of| {
        let (waiting, leased) = match &of.survey {
            Some(survey) => (
                survey.stats.waiting.to_string(),
                survey.stats.leased.to_string(),
            ),
            // The index does not tell them apart.
            None => (format!("{} or leased", of.later), String::new()),
        };
        [
            of.outbox.table().to_owned(),
            of.due.to_string(),
            waiting,
            leased,
            of.parked.to_string(),
            age(of.oldest_due),
        ]
    });
    output::data(&output::table(header, rows))?;
    for of in counted {
        let Some(survey) = &of.survey else { continue };
        print_survey(of.outbox.table(), survey, counted.len() > 1)?;
    }
    if let Some(pending) = pending {
        let row = [receipts::TABLE.to_owned(), pending.to_string()];
        output::data(&format!(
            "\n{}",
            output::table(["RECEIPTS", "PENDING"], [row])
        ))?;
    }
    Ok(())
}

fn print_survey(table: &str, survey: &OutboxSurvey, several: bool) -> Result<(), CliError> {
    let of = if several {
        format!(" OF {table}")
    } else {
        String::new()
    };
    if !survey.topics.is_empty() {
        let header = [
            format!("TOPIC{of}"),
            "DUE".into(),
            "WAITING".into(),
            "LEASED".into(),
            "PARKED".into(),
            "OLDEST DUE".into(),
        ];
        let rows = survey.topics.iter().map(|TopicStats { topic, stats, .. }| {
            [
                topic.clone(),
                stats.due.to_string(),
                stats.waiting.to_string(),
                stats.leased.to_string(),
                stats.parked.to_string(),
                age(stats.oldest_due),
            ]
        });
        output::data(&format!("\n{}", output::table(header, rows)))?;
    }
    if !survey.holders.is_empty() {
        let header = [
            format!("HOLDER{of}"),
            "LEASED".into(),
            "LAPSED".into(),
            "LAST UNTIL".into(),
        ];
        let rows = survey.holders.iter().map(|row| {
            [
                row.holder.clone().unwrap_or_else(|| "(unnamed)".into()),
                row.leased.to_string(),
                row.lapsed.to_string(),
                row.last_until.clone(),
            ]
        });
        output::data(&format!("\n{}", output::table(header, rows)))?;
    }
    Ok(())
}

fn seconds(age: Option<TimeDelta>) -> Option<u64> {
    oldest(age).map(|age| age.as_secs())
}

fn object(of: &Counted) -> Value {
    let stats = of.survey.as_ref().map(|survey| &survey.stats);
    json!({
        "table": of.outbox.table(),
        "due": of.due,
        "later": of.later,
        "waiting": stats.map(|stats| stats.waiting),
        "leased": stats.map(|stats| stats.leased),
        "parked": of.parked,
        "oldest_due_seconds": seconds(of.oldest_due),
        "topics": of.survey.as_ref().map(topics),
        "holders": of.survey.as_ref().map(holders),
    })
}

fn topics(survey: &OutboxSurvey) -> Vec<Value> {
    let topic = |TopicStats { topic, stats, .. }: &TopicStats| {
        let OutboxStats {
            waiting,
            due,
            leased,
            parked,
            ..
        } = stats;
        json!({
            "topic": topic,
            "due": due,
            "waiting": waiting,
            "leased": leased,
            "parked": parked,
            "oldest_due_seconds": seconds(stats.oldest_due),
        })
    };
    survey.topics.iter().map(topic).collect()
}

fn holders(survey: &OutboxSurvey) -> Vec<Value> {
    let holder = |row: &duebox_core::HolderStats| {
        json!({
            "holder": row.holder,
            "leased": row.leased,
            "lapsed": row.lapsed,
            "last_until": row.last_until,
        })
    };
    survey.holders.iter().map(holder).collect()
}
