//! Counting: by an index alone, by topic, and by who holds what.

use std::sync::Arc;

use duebox_core::chrono::TimeDelta;
use duebox_core::{Claim, Kind, OutboxStats, OutboxSurvey, PARKED};

use super::chapter;
use super::operator::at_the_edges;
use crate::Context;
use crate::context::{assert_refused, at, at_micros};
use crate::random::Random;

chapter!(survey:
    an_empty_outbox_has_no_topics_and_no_holders,
    totals_count_each_row_once_where_the_index_has_it,
    totals_can_be_taken_at_any_time,
    every_topic_is_counted_by_itself,
    every_holder_is_shown_with_its_leases_and_those_that_lapsed,
    a_survey_adds_up_to_the_stats_and_the_totals,
    a_time_that_is_none_is_refused,
);

async fn survey(cx: &Context, now: &str) -> OutboxSurvey {
    cx.outbox.survey(&*cx.db, now).await.expect("a survey")
}

fn counts(stats: &OutboxStats) -> (u64, u64, u64, u64) {
    (stats.waiting, stats.due, stats.leased, stats.parked)
}

async fn enqueue(cx: &Context, id: &str, topic: &str, time: &str) {
    let row = cx.outbox.enqueue_statement(id, topic, "", None, time);
    cx.db.batch_atomic(&[row]).await.expect("enqueue");
}

/// Claims what is due, in the name of `holder`.
async fn claim(cx: &Context, now: &str, until: &str, limit: u64, holder: Option<&str>) {
    let mut claim = Claim::new(now, until).limit(limit);
    if let Some(holder) = holder {
        claim = claim.locked_by(holder);
    }
    let claimed = cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    assert_eq!(claimed.len() as u64, limit);
}

async fn an_empty_outbox_has_no_topics_and_no_holders(cx: Arc<Context>) {
    let found = survey(&cx, &at(0)).await;
    assert_eq!(counts(&found.stats), (0, 0, 0, 0));
    assert_eq!((found.topics, found.holders), (vec![], vec![]));
    let totals = cx.outbox.totals(&*cx.db, &at(0)).await.expect("totals");
    assert_eq!((totals.due, totals.later, totals.parked), (0, 0, 0));
    assert_eq!(totals.oldest_due, None);
}

async fn totals_count_each_row_once_where_the_index_has_it(cx: Arc<Context>) {
    let now = 10_000_000;
    at_the_edges(&cx, now).await;
    // Due, later, parked, and since when the oldest is due.
    for (micros, expected, since) in [
        (now - 1, (1, 7, 2), 0),
        (now, (4, 4, 2), 1),
        (now + 1, (7, 1, 2), 2),
    ] {
        let totals = cx.outbox.totals(&*cx.db, &at_micros(micros)).await;
        let totals = totals.expect("totals");
        assert_eq!((totals.due, totals.later, totals.parked), expected);
        assert_eq!(totals.oldest_due, Some(TimeDelta::microseconds(since)));
    }
}

async fn totals_can_be_taken_at_any_time(cx: Arc<Context>) {
    enqueue(&cx, "first", "t", "0001-01-01T00:00:00Z").await;
    enqueue(&cx, "last", "t", "9999-12-31T23:59:59.999998Z").await;
    enqueue(&cx, "parked", "t", PARKED).await;
    for (now, expected) in [
        ("0001-01-01T00:00:00Z", (1, 1, 1)),
        ("9999-12-31T23:59:59.999998Z", (2, 0, 1)),
        (PARKED, (2, 0, 1)),
    ] {
        let totals = cx.outbox.totals(&*cx.db, now).await.expect("totals");
        assert_eq!((totals.due, totals.later, totals.parked), expected, "{now}");
    }
}

async fn every_topic_is_counted_by_itself(cx: Arc<Context>) {
    // Told apart and ordered byte by byte.
    let topics = ["Mail", "mail", "mail ", "mail.a", "ma\u{ef}l"];
    for (place, topic) in topics.iter().enumerate() {
        for row in 0..=place {
            let time = at(10 + row as u64);
            enqueue(&cx, &format!("{place}-{row}"), topic, &time).await;
        }
    }
    enqueue(&cx, "parked", "mail", PARKED).await;
    let found = survey(&cx, &at(12)).await;
    let named: Vec<&str> = found.topics.iter().map(|row| row.topic.as_str()).collect();
    assert_eq!(named, topics);
    for (place, row) in (1..).zip(&found.topics) {
        let due = 3.min(place);
        let parked = u64::from(row.topic == "mail");
        assert_eq!(counts(&row.stats), (place - due, due, 0, parked));
        assert_eq!(row.stats.oldest_due, Some(TimeDelta::seconds(2)));
    }
}

async fn every_holder_is_shown_with_its_leases_and_those_that_lapsed(cx: Arc<Context>) {
    cx.enqueue_numbered(10, &at(0)).await;
    claim(&cx, &at(1), &at(50), 3, Some("one")).await;
    claim(&cx, &at(1), &at(90), 2, Some("One")).await;
    claim(&cx, &at(1), &at(70), 1, Some("one")).await;
    claim(&cx, &at(1), &at(60), 1, None).await;
    let shown = |found: OutboxSurvey| -> Vec<(Option<String>, u64, u64, String)> {
        let holders = found.holders.into_iter();
        holders
            .map(|row| (row.holder, row.leased, row.lapsed, row.last_until))
            .collect()
    };
    let one = || Some("one".to_owned());
    let other = || Some("One".to_owned());
    assert_eq!(
        shown(survey(&cx, &at(50)).await),
        [
            (None, 1, 0, at(60)),
            (other(), 2, 0, at(90)),
            (one(), 1, 3, at(70)),
        ]
    );
    // What is ended, by whomever, is in nobody's name any more.
    let released = cx.outbox.release(&*cx.db, &["r000", "r001", "r005"]).await;
    assert_eq!(released.expect("release"), 3);
    let parked = cx.outbox.park(&*cx.db, &["r006"], &at(50), "why").await;
    assert_eq!(parked.expect("park"), 1);
    assert_eq!(
        shown(survey(&cx, &at(60)).await),
        [(other(), 2, 0, at(90)), (one(), 0, 1, at(50))]
    );
}

async fn a_survey_adds_up_to_the_stats_and_the_totals(cx: Arc<Context>) {
    let mut random = Random::new(7);
    for row in 0..60 {
        let topic = random.one_of(&["a", "b", "c"]);
        let time = match random.below(8) {
            0 => PARKED.to_owned(),
            _ => at(random.below(100)),
        };
        enqueue(&cx, &format!("r{row}"), topic, &time).await;
    }
    for (now, until) in [(20, 30), (40, 90), (50, 60)] {
        let claim = Claim::new(at(now), at(until)).limit(8).locked_by("w");
        cx.outbox.claim(&*cx.db, &claim).await.expect("claim");
    }
    for now in (0..110).step_by(10) {
        let now = at(now);
        let found = survey(&cx, &now).await;
        let stats = cx.outbox.stats(&*cx.db, &now).await.expect("stats");
        let totals = cx.outbox.totals(&*cx.db, &now).await.expect("totals");
        assert_eq!(found.stats, stats, "{now}");
        let sum = |of: fn(&OutboxStats) -> u64| -> u64 {
            found.topics.iter().map(|row| of(&row.stats)).sum()
        };
        assert_eq!(sum(|stats| stats.waiting), stats.waiting);
        assert_eq!(sum(|stats| stats.due), stats.due);
        assert_eq!(sum(|stats| stats.leased), stats.leased);
        assert_eq!(sum(|stats| stats.parked), stats.parked);
        let held: u64 = found.holders.iter().map(|row| row.leased).sum();
        assert_eq!(held, stats.leased);
        assert_eq!(totals.due, stats.due);
        assert_eq!(totals.later, stats.waiting + stats.leased);
        assert_eq!(totals.parked, stats.parked);
        assert_eq!(totals.oldest_due, stats.oldest_due);
    }
}

async fn a_time_that_is_none_is_refused(cx: Arc<Context>) {
    for now in ["", "noon", "2026-02-30T00:00:00Z"] {
        let totals = cx.outbox.totals(&*cx.db, now).await;
        assert_refused(totals, Kind::InvalidArgument);
        let found = cx.outbox.survey(&*cx.db, now).await;
        assert_refused(found, Kind::InvalidArgument);
    }
}
