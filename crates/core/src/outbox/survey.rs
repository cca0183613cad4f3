use std::collections::BTreeMap;

use chrono::TimeDelta;

use super::record::counter;
use super::{Outbox, OutboxStats};
use crate::{Database, DbError, Kind, PARKED, Row, Statement, parse_time, time};

/// How many rows stand where, as far as an index tells; see
/// [`Outbox::totals`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxTotals {
    /// Rows that a claim would take.
    pub due: u64,
    /// Rows that are not due yet: they wait, or are under lease.
    pub later: u64,
    /// Rows set aside.
    pub parked: u64,
    /// How long the oldest due row has been due; `None` if none is.
    pub oldest_due: Option<TimeDelta>,
}

/// Every row counted by its topic, and every lease by its holder; see
/// [`Outbox::survey`].
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutboxSurvey {
    /// The rows of all topics.
    pub stats: OutboxStats,
    /// Each topic that has rows, in byte order.
    pub topics: Vec<TopicStats>,
    /// Each holder of leases, in byte order, the one without a name first.
    pub holders: Vec<HolderStats>,
}

/// How many rows of one topic stand where.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct TopicStats {
    /// The topic.
    pub topic: String,
    /// Its rows.
    pub stats: OutboxStats,
}

/// The leases that are in one holder's name.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct HolderStats {
    /// Who holds them, as they named themselves at the claim.
    pub holder: Option<String>,
    /// Leases that have not ended.
    pub leased: u64,
    /// Leases that ran out without being ended: their holder died, or stalled.
    /// Nobody has claimed these rows since.
    pub lapsed: u64,
    /// When the last of these leases ends or ended, as 27 characters of RFC 3339.
    pub last_until: String,
}

/// # Counting
impl Outbox {
    /// Counts the rows that are due at `now`, that are not yet, and that are
    /// parked, and reads nothing but the index of due rows: this costs about
    /// what one indexed `COUNT(*)` of the table costs. It cannot tell a row
    /// that waits from one under lease; [`stats`](Self::stats) can, and
    /// [`survey`](Self::survey).
    ///
    /// # Errors
    ///
    /// [`Kind::InvalidArgument`] if `now` is not RFC 3339; otherwise what the
    /// database says.
    pub async fn totals(&self, db: &dyn Database, now: &str) -> Result<OutboxTotals, DbError> {
        let run = async {
            let now = time::stored("now", now)?;
            let due_until = due_until(&now);
            let statement = Statement::shared(self.queries().totals.clone())
                .bind(due_until)
                .bind(due_until);
            let rows = db.query(&statement).await?;
            let row = rows
                .first()
                .ok_or_else(|| DbError::new(Kind::Corrupt, "counting rows returned no row"))?;
            Ok(OutboxTotals {
                due: counter(row, "due")?,
                later: counter(row, "later")?,
                parked: counter(row, "parked")?,
                oldest_due: since(row.get("oldest_due_at")?, &now)?,
            })
        };
        run.await
            .map_err(|error: DbError| error.context("count rows"))
    }

    /// Counts every row where it stands at `now`, by topic, and every lease by
    /// its holder. It reads the whole table once, payloads aside, and holds one
    /// count for each topic and holder: give it a time limit of the database's
    /// on a table of millions.
    ///
    /// # Errors
    ///
    /// As [`totals`](Self::totals).
    pub async fn survey(&self, db: &dyn Database, now: &str) -> Result<OutboxSurvey, DbError> {
        let run = async {
            let now = time::stored("now", now)?;
            let statement = Statement::shared(self.queries().survey.clone())
                .bind(due_until(&now))
                .bind(now.as_str());
            let mut found = Found::default();
            for row in db.query(&statement).await? {
                found.add(row, &now)?;
            }
            Ok(found.survey())
        };
        run.await
            .map_err(|error: DbError| error.context("count rows by topic and holder"))
    }
}

/// Up to when a row is due at `now`: at the last instant parked rows are not due
/// all the same.
pub(super) fn due_until(now: &str) -> &str {
    if now == PARKED {
        "9999-12-31T23:59:59.999998Z"
    } else {
        now
    }
}

/// How long ago that was.
pub(super) fn since(then: Option<String>, now: &str) -> Result<Option<TimeDelta>, DbError> {
    let Some(then) = then else { return Ok(None) };
    let then = parse_time(&then)
        .map_err(|_| DbError::new(Kind::Corrupt, "the time from which a row is due is no time"))?;
    Ok(Some(parse_time(now)? - then))
}

#[derive(Default)]
struct Found {
    topics: BTreeMap<String, OutboxStats>,
    holders: BTreeMap<Option<String>, HolderStats>,
}

impl Found {
    /// Adds the rows of one topic that are in one holder's name, or in nobody's.
    fn add(&mut self, mut row: Row, now: &str) -> Result<(), DbError> {
        let [found, due, leased, parked, held] =
            ["found", "due", "leased", "parked", "held"].map(|name| counter(&row, name));
        let (found, due, leased, parked) = (found?, due?, leased?, parked?);
        let of_topic = self.topics.entry(row.take_text("topic")?).or_default();
        of_topic.due += due;
        of_topic.leased += leased;
        of_topic.parked += parked;
        of_topic.waiting += found.saturating_sub(due + leased + parked);
        if due > 0 {
            // The first of all to be visible is one that is.
            let since_due = since(row.take_optional("first_visible_at")?, now)?;
            of_topic.oldest_due = of_topic.oldest_due.max(since_due);
        }
        let lapsed = held?.saturating_sub(leased);
        if leased + lapsed == 0 {
            return Ok(());
        }
        let until: String = row.take_text("last_locked_until")?;
        let holder: Option<String> = row.take_optional("holder")?;
        let held = self
            .holders
            .entry(holder.clone())
            .or_insert_with(|| HolderStats {
                holder,
                leased: 0,
                lapsed: 0,
                last_until: String::new(),
            });
        held.leased += leased;
        held.lapsed += lapsed;
        held.last_until = std::mem::take(&mut held.last_until).max(until);
        Ok(())
    }

    fn survey(self) -> OutboxSurvey {
        let mut all = OutboxStats::default();
        for stats in self.topics.values() {
            all.waiting += stats.waiting;
            all.due += stats.due;
            all.leased += stats.leased;
            all.parked += stats.parked;
            all.oldest_due = all.oldest_due.max(stats.oldest_due);
        }
        OutboxSurvey {
            stats: all,
            topics: self
                .topics
                .into_iter()
                .map(|(topic, stats)| TopicStats { topic, stats })
                .collect(),
            holders: self.holders.into_values().collect(),
        }
    }
}
