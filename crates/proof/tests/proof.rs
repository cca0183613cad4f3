//! The small forms of what `duebox-proof` does at length.

use std::fs;
use std::path::Path;
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

/// The sources below a folder, as one text.
fn sources(folder: &Path, into: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && !path.ends_with("target") {
            sources(&path, into);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            into.push_str(&fs::read_to_string(&path).expect("a source"));
        }
    }
}

/// The tests that a file of the worker's lists: `chapter!(name: first, second)`, and
/// those that are written out.
fn listed(source: &str) -> Vec<String> {
    let mut tests = Vec::new();
    for (at, _) in source.match_indices("\nchapter!(") {
        let list = &source[at + "\nchapter!(".len()..];
        let list = list.split(");").next().unwrap_or_default();
        let (chapter, names) = list.split_once(':').expect("a chapter and its tests");
        let names = names
            .split(',')
            .map(str::trim)
            .filter(|name| !name.is_empty());
        tests.extend(names.map(|name| format!("{chapter}::{name}")));
    }
    let quoted = source.split('"').skip(1).step_by(2);
    let is_name = |text: &&str| {
        text.split_once("::").is_some_and(|(chapter, name)| {
            let word = |text: &str| {
                text.bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
            };
            !chapter.is_empty() && name.len() > 8 && word(chapter) && word(name)
        })
    };
    tests.extend(quoted.filter(is_name).map(str::to_owned));
    tests
}

#[test]
fn the_guarantees_name_every_test_of_the_worker() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("GUARANTEES.md")).expect("the page");
    let mut found = 0;
    for entry in fs::read_dir(root.join("crates/worker/tests/any_engine")).expect("a folder") {
        let source = fs::read_to_string(entry.expect("an entry").path()).expect("a source");
        for test in listed(&source) {
            assert!(
                page.contains(&format!("`{test}`")),
                "{test} is not on the page"
            );
            found += 1;
        }
    }
    assert!(found > 40, "{found} tests of the worker");
}

#[test]
fn every_test_and_mutant_that_the_guarantees_name_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("GUARANTEES.md")).expect("the page");
    let mut code = String::new();
    sources(&root.join("tests"), &mut code);
    sources(&root.join("crates"), &mut code);
    let (mut tests, mut mutants) = (0, 0);
    for row in page.lines().filter(|line| line.starts_with("| ")) {
        for name in row.split('`').skip(1).step_by(2) {
            if let Some((_, test)) = name.rsplit_once("::") {
                assert!(
                    code.contains(&format!("fn {test}(")),
                    "there is no test {name}"
                );
                tests += 1;
            } else if row.contains("mutant") && name.contains('-') && !name.contains(' ') {
                let patch = root.join(format!("crates/proof/mutants/{name}.patch"));
                assert!(patch.exists(), "there is no mutant {name}");
                mutants += 1;
            }
        }
    }
    assert!(
        tests > 30 && mutants > 15,
        "{tests} tests, {mutants} mutants"
    );
}
