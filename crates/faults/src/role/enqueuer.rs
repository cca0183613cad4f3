//! Changes state of its own and enqueues what follows from it, in one batch.

use duebox_core::chrono::TimeDelta;
use duebox_core::{Database, Enqueue, Kind, Outcome, Statement};

use super::{SUBJECTS, Session, text};
use crate::history::{Answer, Call, NewRow};

pub(super) async fn run(session: &Session, random: &mut fastrand::Rng) {
    let mut number = 0;
    while session.running() {
        number += 1;
        let unit = format!("{}-{number}", session.name);
        let rows: Vec<NewRow> = (0..random.u64(1..=4))
            .map(|row| {
                let early = TimeDelta::milliseconds(random.i64(-60..40));
                NewRow {
                    id: format!("{unit}-{row}"),
                    subject: random
                        .bool()
                        .then(|| format!("subject {}", random.u64(0..SUBJECTS))),
                    at: text(session.now() + early),
                }
            })
            .collect();
        let batch = batch(session, random, &unit, &rows);
        let mut tries = 0;
        while session.running() && tries < 4 {
            tries += 1;
            let call = Call::Enqueue {
                unit: unit.clone(),
                rows: rows.clone(),
            };
            let run = session.open.db.batch_atomic(&batch);
            let done = session
                .call(call, run, |counts| Answer::Count(counts.iter().sum()))
                .await;
            match done {
                Ok(_) => break,
                // The unit's key says whether an earlier try was committed.
                Err(error) if error.kind() == Kind::Conflict => break,
                Err(error) if error.outcome() == Outcome::Unknown && random.bool() => break,
                Err(_) => session.pause(random.u64(5..60)).await,
            }
        }
        session.pause(random.u64(1..25)).await;
    }
}

fn batch(
    session: &Session,
    random: &mut fastrand::Rng,
    unit: &str,
    rows: &[NewRow],
) -> Vec<Statement> {
    let payload = "x".repeat(random.usize(0..300));
    let mut batch = vec![
        Statement::new("INSERT INTO state (unit) VALUES (?)")
            .bind(unit)
            .expect_rows(1),
    ];
    if random.bool() {
        batch.extend(rows.iter().map(|row| {
            let subject = row.subject.as_deref();
            session
                .outbox
                .enqueue_statement(&row.id, "work", &payload, subject, &row.at)
        }));
    } else {
        let work = rows.iter().map(|row| {
            let at = duebox_core::parse_time(&row.at).expect("a time that was made here");
            let work = Enqueue::new("work").id(&row.id).payload(&payload).at(at);
            match &row.subject {
                Some(subject) => work.subject(subject),
                None => work,
            }
        });
        batch.push(session.outbox.enqueue_many_statement(work));
    }
    // The row first, or the state first: it must not matter.
    if random.bool() {
        batch.rotate_left(1);
    }
    batch
}
