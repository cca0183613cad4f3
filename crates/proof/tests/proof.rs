//! The small forms of what `duebox-proof` does at length.

use std::time::Duration;

use duebox_proof::fuzz::{TARGETS, Target};
use duebox_proof::model::{Protocol, SMALL};

#[test]
fn the_lease_protocol_holds_in_every_state() {
    for protocol in SMALL {
        let checked = protocol.check();
        assert!(checked.broken.is_empty(), "{:?}", checked.broken);
        assert!(checked.states > 4_000, "{} states", checked.states);
    }
}

#[test]
fn completing_by_the_id_alone_is_shown_to_fail() {
    let by_id = Protocol {
        fenced: false,
        ..SMALL[0]
    };
    let broken = by_id.check().broken;
    let names: Vec<&str> = broken.iter().map(|(name, _)| *name).collect();
    assert!(
        names.contains(&"a stale caller changes nothing"),
        "{names:?}"
    );
}

#[test]
fn every_text_of_the_corpus_is_read_rightly() {
    for target in TARGETS {
        let corpus = target.corpus().expect("a corpus");
        assert!(corpus.len() >= 5, "{target:?}");
        for text in corpus {
            target.look(&text).unwrap_or_else(|why| {
                panic!("{target:?}: {why}: {text:?}");
            });
        }
    }
}

#[test]
fn some_thousand_texts_at_random_are_read_rightly() {
    for target in TARGETS {
        let ran = target.run(fastrand::u64(..), 4_000, Duration::MAX);
        if let Err(found) = ran.expect("a corpus") {
            panic!("{target:?}: {}: {:?}", found.why, found.text);
        }
    }
}

#[test]
fn a_target_can_fail() {
    let names = Target::named("names").expect("a target");
    assert!(names.look("outbox").is_ok());
    assert!(Target::named("nothing").is_none());
}
