//! What the rows of an outbox tell of those that write and drain it.

use std::time::Duration;

use duebox_core::chrono::{DateTime, TimeDelta, Utc};
use duebox_core::{
    Database, DbError, HolderStats, Outbox, OutboxSurvey, PARKED, Statement, format_time,
};

use super::Checking;
use super::finding::Finding;
use crate::command::status::within;
use crate::error::CliError;

/// Rows that a finding names; the others come up when the check is run again.
const NAMED: usize = 50;

pub(super) async fn check(checking: &mut Checking<'_>, outbox: &Outbox) -> Result<(), CliError> {
    let db = checking.engine.db();
    let now = db.now().await?;
    let stored = format_time(now)?;
    let rows = Rows {
        db: &*db,
        table: outbox.table(),
        now,
    };
    let args = checking.args;
    let look = async {
        // What is no time is an error to all that counts.
        if let Some(finding) = rows.malformed().await? {
            return Ok(vec![Some(finding)]);
        }
        let survey = outbox.survey(&*db, &stored).await?;
        Ok(vec![
            rows.stuck(args.max_lease).await?,
            rows.poison().await?,
            rows.ahead(args.max_clock, args.no_schedule).await?,
            overdue(outbox.table(), &Seen::of(&survey), args.max_oldest),
            parked(outbox.table(), survey.stats.parked, args.max_parked),
        ])
    };
    if let Some(found) = within(checking.place, look).await? {
        checking.findings.extend(found.into_iter().flatten());
        return Ok(());
    }
    checking.add(
        Finding::note("not-checked", "looking through the rows took too long")
            .of(outbox.table())
            .because("the table is large, or the server is busy")
            .run(format!(
                "duebox check --timeout 10m --table {}",
                outbox.table()
            )),
    );
    // The index tells this much by itself.
    let totals = outbox.totals(&*db, &stored).await?;
    let seen = Seen {
        due: totals.due,
        oldest_due: totals.oldest_due,
        holders: None,
    };
    let overdue = overdue(outbox.table(), &seen, args.max_oldest);
    checking.findings.extend(overdue);
    let parked = parked(outbox.table(), totals.parked, args.max_parked);
    checking.findings.extend(parked);
    Ok(())
}

/// What tells whether rows are taken.
struct Seen<'a> {
    due: u64,
    oldest_due: Option<TimeDelta>,
    /// `None` if they were not counted.
    holders: Option<&'a [HolderStats]>,
}

impl<'a> Seen<'a> {
    fn of(survey: &'a OutboxSurvey) -> Self {
        Self {
            due: survey.stats.due,
            oldest_due: survey.stats.oldest_due,
            holders: Some(&survey.holders),
        }
    }
}

/// A command line of this program about rows of this table. Ids may hold what a
/// shell reads as its own.
fn command(words: &[&str], table: &str, ids: &[String]) -> String {
    let mut line = vec!["duebox"];
    line.extend(words);
    line.extend(["--table", table, "--"]);
    // One that another client wrote with a blank in it is for SQL alone.
    let visible = |id: &&str| id.bytes().all(|byte| (0x21..=0x7E).contains(&byte));
    line.extend(ids.iter().map(String::as_str).filter(visible));
    // It fails for NUL alone, which no id has.
    shlex::try_join(line).unwrap_or_default()
}

struct Rows<'a> {
    db: &'a dyn Database,
    table: &'a str,
    now: DateTime<Utc>,
}

impl Rows<'_> {
    /// The ids of the rows with this condition, and who holds the first.
    async fn ids(
        &self,
        condition: &str,
        bound: Vec<String>,
    ) -> Result<(Vec<String>, Option<String>), DbError> {
        let read = format!(
            "SELECT id, locked_by FROM {} WHERE next_attempt_at < ? AND {condition} ORDER BY id LIMIT {}",
            self.table,
            NAMED + 1
        );
        let statement = bound
            .into_iter()
            .fold(Statement::new(read).bind(PARKED), Statement::bind);
        let rows = self.db.query(&statement).await?;
        let ids = rows
            .iter()
            .map(|row| row.get("id"))
            .collect::<Result<Vec<String>, _>>()?;
        let holder = match rows.first() {
            Some(row) => row.get("locked_by")?,
            None => None,
        };
        Ok((ids, holder))
    }

    fn later(&self, by: Duration) -> String {
        let by = TimeDelta::from_std(by).unwrap_or(TimeDelta::MAX);
        let then = self.now.checked_add_signed(by);
        // Nothing is later than what is parked.
        match then.map(format_time) {
            Some(Ok(then)) => then,
            _ => PARKED.to_owned(),
        }
    }

    /// Rows with a time that this library would not write: no claim can be trusted with
    /// them, and nothing that counts can read them.
    async fn malformed(&self) -> Result<Option<Finding>, DbError> {
        let form = "'____-__-__T__:__:__.______Z'";
        let read = format!(
            "SELECT id FROM {} WHERE created_at NOT LIKE {form} OR next_attempt_at NOT LIKE {form} \
             OR locked_until NOT LIKE {form} ORDER BY id LIMIT {}",
            self.table,
            NAMED + 1
        );
        let rows = self.db.query(&Statement::new(read)).await?;
        let ids = rows
            .iter()
            .map(|row| row.get("id"))
            .collect::<Result<Vec<String>, _>>()?;
        let Some((few, count)) = named(&ids) else {
            return Ok(None);
        };
        Ok(Some(
            Finding::problem(
                "malformed-time",
                format!("{count} with a time in another form"),
            )
            .of(self.table)
            .because(
                "another client wrote it: a time is text such as 2026-01-31T09:30:00.000000Z, \
                 with six digits of microseconds",
            )
            .run(command(
                &["park", "--reason", "its time was malformed"],
                self.table,
                few,
            ))
            .run(command(&["retry"], self.table, few))
            .advise(format!(
                "if created_at is the one: UPDATE {} SET created_at = next_attempt_at, for these ids; \
                 and mend the client",
                self.table
            )),
        ))
    }

    async fn stuck(&self, most: Duration) -> Result<Option<Finding>, DbError> {
        let until = self.later(most);
        let (ids, holder) = self
            .ids(
                "visible_at > ? AND locked_until > ?",
                vec![until.clone(), until],
            )
            .await?;
        let Some((few, count)) = named(&ids) else {
            return Ok(None);
        };
        let holder = holder.map_or_else(
            || "an unnamed holder".to_owned(),
            |name| format!("{name:?}"),
        );
        Ok(Some(
            Finding::problem(
                "stuck-lease",
                format!(
                    "{count} under a lease that ends more than {} from now; the first is held by {holder}",
                    humantime::format_duration(most)
                ),
            )
            .of(self.table)
            .because(
                "the lease was given until a wrong time; if its holder dies, nobody takes the \
                 row before then",
            )
            .run(command(&["release"], self.table, few)),
        ))
    }

    async fn poison(&self) -> Result<Option<Finding>, DbError> {
        let (ids, _) = self.ids("lapses >= 2", Vec::new()).await?;
        let Some((few, count)) = named(&ids) else {
            return Ok(None);
        };
        Ok(Some(
            Finding::problem(
                "poison-row",
                format!("{count} whose holders died or stalled twice or more in a row"),
            )
            .of(self.table)
            .because(
                "what the handler does for these rows kills its process, or outlasts its lease",
            )
            .run(command(&["show"], self.table, &few[..1]))
            .run(command(
                &["park", "--reason", "it stops its worker"],
                self.table,
                few,
            )),
        ))
    }

    /// Work is scheduled by a time to come, which is then its time of enqueueing:
    /// it cannot be told from the work of a clock that is ahead.
    async fn ahead(&self, most: Duration, no_schedule: bool) -> Result<Option<Finding>, DbError> {
        let (ids, _) = self.ids("created_at > ?", vec![self.later(most)]).await?;
        let Some((few, count)) = named(&ids) else {
            return Ok(None);
        };
        let what = format!("{count} enqueued at a time that has not come yet");
        let finding = if no_schedule {
            Finding::problem("clock-ahead", what)
        } else {
            Finding::note("clock-ahead", what)
        };
        Ok(Some(
            finding
                .of(self.table)
                .because(
                    "they were scheduled ahead; or the clock of a machine that enqueues is ahead, \
                     and its rows fall due late by as much",
                )
                .advise(
                    "if a clock is wrong, set it by the network's time, or take the time of rows \
                     from the database (`Database::now`, or the worker's Clock); and then:",
                )
                .run(command(
                    &["park", "--reason", "its clock was ahead"],
                    self.table,
                    few,
                ))
                .run(command(&["retry"], self.table, few)),
        ))
    }
}

/// The ids to name and how many there are, unless there are none.
fn named(ids: &[String]) -> Option<(&[String], String)> {
    let few = &ids[..ids.len().min(NAMED)];
    let count = match ids.len() {
        0 => return None,
        1 => "1 row".to_owned(),
        more if more > NAMED => format!("more than {NAMED} rows"),
        more => format!("{more} rows"),
    };
    Some((few, count))
}

fn overdue(table: &str, seen: &Seen<'_>, most: Duration) -> Option<Finding> {
    let oldest = seen.oldest_due?.to_std().ok()?;
    if oldest <= most {
        return None;
    }
    let age = humantime::format_duration(Duration::from_secs(oldest.as_secs()));
    let what = format!("{} rows are due, the oldest for {age}", seen.due);
    let start = "start a worker on this outbox, and see why the last one ended; it takes up \
                 what its predecessor held, and nothing is lost";
    let Some(holders) = seen.holders else {
        return Some(
            Finding::problem("dead-worker", what)
                .of(table)
                .because("no worker drains this outbox, or those that do cannot keep up")
                .advise(start),
        );
    };
    if holders.iter().any(|holder| holder.leased > 0) {
        return Some(
            Finding::problem("slow-drain", what)
                .of(table)
                .because(
                    "workers hold leases, but do not keep up with what comes, or with one topic",
                )
                .run(format!("duebox status --table {table}"))
                .advise("run more workers or raise their concurrency; see which topic is behind"),
        );
    }
    let lapsed: Vec<&str> = holders
        .iter()
        .map(|holder| holder.holder.as_deref().unwrap_or("an unnamed holder"))
        .collect();
    let cause = if lapsed.is_empty() {
        "nobody holds a lease: no worker drains this outbox".to_owned()
    } else {
        format!(
            "nobody holds a lease, and those of {} ran out: it died or stalled, and no worker \
             has come since",
            lapsed.join(", ")
        )
    };
    Some(
        Finding::problem("dead-worker", what)
            .of(table)
            .because(cause)
            .advise(start),
    )
}

fn parked(table: &str, parked: u64, most: u64) -> Option<Finding> {
    if parked <= most {
        return None;
    }
    Some(
        Finding::problem("parked-rows", format!("{parked} rows are parked"))
            .of(table)
            .because("they failed as often as they may, or for good, or somebody parked them")
            .run(format!("duebox list --state parked --table {table}"))
            .advise("mend what they failed of: `duebox show ID` has the last error")
            .run(format!("duebox retry --parked --table {table}")),
    )
}
