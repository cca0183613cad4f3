use std::time::Instant;

use duebox_sqlite::{Dialect, Statement};

use super::Measured;
use crate::args::Args;
use crate::engine::{Engine, Fallible, NOW, Place, Seed};
use crate::report::{Goal, Series};

/// What a count may cost, as a multiple of one `COUNT(*)` of the same index.
const MOST_OF_A_COUNT: f64 = 3.0;
/// What the split may cost, as a multiple of a `GROUP BY` by hand.
const MOST_OF_A_GROUP: f64 = 1.5;

/// Counts a large outbox as an operator does, against the same by hand.
///
/// Of `--waiting` rows six tenths are due, three are not yet, and one is under
/// lease; they are of ten topics.
pub(crate) async fn status(engine: &dyn Engine, args: &Args) -> Measured {
    let place = engine.place("status").await?;
    let tenth = args.waiting / 10;
    engine.seed(&place, Seed::leased(tenth)).await?;
    engine.seed(&place, Seed::delayed(3 * tenth)).await?;
    engine.seed(&place, Seed::waiting(6 * tenth)).await?;
    let Place { db, outbox, .. } = &place;
    let table = outbox.table();
    let topic = match db.dialect() {
        Dialect::MySql => "CONCAT('mail.', RIGHT(id, 1))",
        Dialect::Postgres => "'mail.' || right(id, 1)",
        _ => "'mail.' || substr(id, -1)",
    };
    let spread = format!("UPDATE {table} SET topic = {topic}");
    db.execute(&Statement::new(spread)).await?;
    engine.settle(&place).await?;

    let count = Statement::new(format!(
        "SELECT COUNT(*) AS found FROM {table} WHERE visible_at > ''"
    ));
    let group = Statement::new(format!(
        "SELECT topic, COUNT(CASE WHEN locked_until > ? THEN 1 END) AS leased, COUNT(*) AS found
         FROM {table}
         GROUP BY topic"
    ))
    .bind(NOW);
    let split = Statement::new(format!(
        "SELECT
            topic,
            CASE
                WHEN next_attempt_at = '9999-12-31T23:59:59.999999Z' THEN 'parked'
                WHEN locked_until > ? THEN 'leased'
                WHEN next_attempt_at > ? THEN 'waiting'
                ELSE 'due'
            END AS state,
            COUNT(*) AS found
        FROM {table}
        GROUP BY 1, 2"
    ))
    .bind(NOW)
    .bind(NOW);
    let mut took: [Vec<f64>; 5] = Default::default();
    for round in 0..=args.repeat {
        for what in 0..5 {
            let what = (what + round) % 5;
            let started = Instant::now();
            let rows = match what {
                0 => all(&db.query(&count).await?)?,
                1 => {
                    let totals = outbox.totals(&**db, NOW).await?;
                    totals.due + totals.later + totals.parked
                }
                2 => all(&db.query(&group).await?)?,
                3 => all(&db.query(&split).await?)?,
                _ => {
                    let stats = outbox.survey(&**db, NOW).await?.stats;
                    stats.due + stats.waiting + stats.leased + stats.parked
                }
            };
            let ms = started.elapsed().as_secs_f64() * 1e3;
            if rows != 10 * tenth {
                return Err(format!("{rows} rows were counted of {}", 10 * tenth).into());
            }
            // The first round fills caches.
            if round > 0 {
                took[what].push(ms);
            }
        }
    }
    let ratio = |of: usize, to: usize, name: &str, most: f64| {
        Series::ratio(name.to_owned(), &took[of], &took[to], Goal::AtMost(most))
    };
    let series = vec![
        Series::new("one indexed count".to_owned(), "ms", &took[0]),
        Series::new("totals".to_owned(), "ms", &took[1]),
        Series::new("GROUP BY topic by hand".to_owned(), "ms", &took[2]),
        Series::new(
            "GROUP BY topic and state by hand".to_owned(),
            "ms",
            &took[3],
        ),
        Series::new("survey".to_owned(), "ms", &took[4]),
        ratio(1, 0, "totals / one indexed count", MOST_OF_A_COUNT),
        ratio(4, 2, "survey / GROUP BY topic by hand", MOST_OF_A_GROUP),
        ratio(
            4,
            3,
            "survey / GROUP BY topic and state by hand",
            MOST_OF_A_GROUP,
        ),
    ];
    let settings = format!("{} rows of ten topics, in turn.", 10 * tenth);
    // It is large.
    engine.place(place.outbox.table()).await?;
    Ok((settings, series))
}

fn all(rows: &[duebox_sqlite::Row]) -> Fallible<u64> {
    let mut found = 0;
    for row in rows {
        found += row.get::<u64>("found")?;
    }
    Ok(found)
}
