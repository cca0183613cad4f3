//! Forgets people, as often as it takes.

use duebox_core::uuid::Uuid;

use super::{OWNERS, SUBJECTS, Session};
use crate::history::{Answer, Call};
use crate::stored::Stored;

const LIMIT: u64 = 10;

pub(super) async fn run(session: &Session, random: &mut fastrand::Rng) {
    let store = Stored {
        store: session.store(),
        journal: std::sync::Arc::clone(&session.journal),
    };
    while session.running() {
        session.pause(random.u64(100..400)).await;
        let subject = format!("subject {}", random.u64(0..SUBJECTS));
        // Until it finds no more; after an error the next one does.
        loop {
            let call = Call::Erase {
                subject: subject.clone(),
                limit: LIMIT,
            };
            let run = session
                .outbox
                .erase_subject(&*session.open.db, &subject, LIMIT);
            match session.call(call, run, |rows| Answer::Count(*rows)).await {
                Ok(LIMIT..) => {}
                _ => break,
            }
        }
        let owner = Uuid::from_u128(u128::from(random.u64(0..OWNERS)));
        let _ = store.erase(owner).await;
    }
}
