//! Random chunks and faults: what the fake issued is in an outcome, unless the wire lost
//! it, and nothing is sent twice but what was certainly not sent.

use std::collections::{BTreeMap, BTreeSet};

use duebox_core::{PushDeliveryStatus, PushSender, PushSent, PushTicketId};
use duebox_expo::{FakeExpo, FakeFault, Spoil};
use serde_json::Value;

use crate::stage::{Clock, builder, fake, sent, to, token};
use crate::tests;

tests!(property:
    whatever_fails_every_ticket_is_in_an_outcome_and_nothing_is_sent_twice,
);

/// Whether the ids of a request that meets it reach the client.
fn random_fault(random: &mut fastrand::Rng) -> FakeFault {
    let spoils = [
        Spoil::NoId,
        Spoil::ImpossibleId,
        Spoil::SameId,
        Spoil::Null,
        Spoil::UnheardError,
    ];
    match random.u8(0..12) {
        0 => FakeFault::too_many_requests(None),
        1 => FakeFault::too_many_requests(Some("3")),
        2 => FakeFault::answer(400, "{}"),
        3 => FakeFault::AcceptThen {
            status: 504,
            body: "<html>".into(),
        },
        4 => FakeFault::AcceptThen {
            status: 200,
            body: "no json".into(),
        },
        5 => FakeFault::Cut,
        6 => FakeFault::Close,
        7 => FakeFault::ErrorsBeside("SOMETHING".into()),
        8 => FakeFault::Endless,
        9 => FakeFault::answer(200, r#"{"errors":[{"code":"TOO_MANY_REQUESTS"}]}"#),
        _ => {
            let count = random.usize(1..4);
            let places = (0..count).map(|_| (random.usize(0..100), spoils[random.usize(0..5)]));
            FakeFault::Spoil(places.collect())
        }
    }
}

async fn whatever_fails_every_ticket_is_in_an_outcome_and_nothing_is_sent_twice() {
    let seeds = std::env::var("DUEBOX_TEST_EXPO_SEEDS").ok();
    let seeds: u64 = seeds.map_or(500, |text| text.parse().expect("a number of seeds"));
    let mut met = BTreeMap::new();
    for seed in 0..seeds {
        one(seed, &mut met).await;
    }
    println!("{seeds} seeds: {met:?}");
}

/// The tickets that came through: alone with their id in a whole answer that has one for
/// each message.
fn carried(fake: &FakeExpo) -> Vec<String> {
    let mut all = Vec::new();
    for request in fake.requests() {
        let answer: Value = serde_json::from_str(&request.answer).unwrap_or_default();
        let Some(tickets) = answer["data"].as_array().filter(|_| request.status == 200) else {
            continue;
        };
        assert_eq!(tickets.len(), request.items);
        let ids: Vec<&str> = tickets
            .iter()
            .filter_map(|one| one["id"].as_str())
            .collect();
        let alone =
            |id: &&&str| !id.contains(' ') && ids.iter().filter(|other| other == id).count() == 1;
        all.extend(ids.iter().filter(alone).map(|id| (*id).to_owned()));
    }
    all
}

async fn one(seed: u64, met: &mut BTreeMap<&'static str, usize>) {
    let mut random = fastrand::Rng::with_seed(seed);
    let fake = fake().await;
    for _ in 0..random.usize(0..8) {
        // Some requests in between go well.
        fake.then(if random.bool() {
            random_fault(&mut random)
        } else {
            FakeFault::Spoil(Vec::new())
        });
    }
    let count = random.usize(1..450);
    let names: Vec<String> = (0..count)
        .map(|at| match random.u8(0..20) {
            0 => format!("unregistered-{at}"),
            1 if seed.is_multiple_of(3) => format!("b-project-{at}"),
            _ => format!("phone-{at}"),
        })
        .collect();
    let expo = builder(&fake, &Clock::default())
        .max_retries(random.u32(0..3))
        .build()
        .expect("a client");
    let answer = expo.send(to(names.iter().map(String::as_str))).await;
    // An error is that of every message.
    let (outcomes, whole) = match answer {
        Ok(outcomes) => (outcomes, None),
        Err(error) => (Vec::new(), Some(error.sent())),
    };
    if whole.is_none() {
        assert_eq!(outcomes.len(), count, "seed {seed}");
    }
    let status = |at: usize| match whole {
        Some(told) => Some(told),
        None => sent(&outcomes[at].status),
    };
    // Which tokens were in a request that accepted, and in how many.
    let mut accepted: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (ticket, token) in fake.issued() {
        accepted.entry(token).or_default().push(ticket);
    }
    let mut known = BTreeSet::new();
    for (at, name) in names.iter().enumerate() {
        let to = token(name);
        let issued = accepted.remove(to.as_str()).unwrap_or_default();
        assert!(issued.len() <= 1, "seed {seed}: {name} was sent twice");
        if whole.is_none() {
            assert_eq!(outcomes[at].token, to, "seed {seed}: out of order");
            if let PushDeliveryStatus::Accepted(ticket) = &outcomes[at].status {
                assert_eq!(issued, [ticket.as_str()], "seed {seed}: another's ticket");
                assert!(
                    known.insert(ticket.clone()),
                    "seed {seed}: one ticket twice"
                );
                *met.entry("accepted").or_default() += 1;
                continue;
            }
        }
        match status(at) {
            // It can be sent again: then nothing of it may be there.
            Some(PushSent::NotSent) => {
                assert_eq!(issued.len(), 0, "seed {seed}: {name} was sent after all");
                *met.entry("not sent").or_default() += 1;
            }
            // The answer was lost, or the ticket spoilt, on its way.
            Some(PushSent::PerhapsSent) => *met.entry("perhaps sent").or_default() += 1,
            None => unreachable!("what was accepted is done with above"),
        }
    }
    assert!(accepted.is_empty(), "seed {seed}: what nobody sent");
    for ticket in carried(&fake) {
        let ticket = PushTicketId::new(ticket).expect("a ticket");
        assert!(
            known.contains(&ticket),
            "seed {seed}: a ticket that came through is lost"
        );
    }
}
