//! The table of the README names every test, and no test that there is not.

use std::collections::BTreeSet;

use duebox_conformance::{Test, broken, receipt_tests, tests};

#[test]
fn the_table_of_promises_names_every_test_once() {
    let readme = include_str!("../README.md");
    let (_, table) = readme
        .split_once("## What is promised")
        .expect("there is a table");
    let named: Vec<String> = table
        .split('`')
        .filter(|text| text.contains("::") && !text.contains(' '))
        .map(str::to_owned)
        .collect();
    let distinct: BTreeSet<String> = named.iter().cloned().collect();
    assert_eq!(distinct.len(), named.len(), "each is named once");
    let receipts = receipt_tests();
    let receipts = receipts
        .iter()
        .map(|test| format!("receipts::{}", test.name()));
    let there: BTreeSet<String> = tests()
        .iter()
        .map(|test| test.name().to_owned())
        .chain(receipts)
        .collect();
    let missing: Vec<_> = there.difference(&distinct).collect();
    let unknown: Vec<_> = distinct.difference(&there).collect();
    assert!(missing.is_empty(), "the table does not name {missing:?}");
    assert!(unknown.is_empty(), "the table names {unknown:?}");
}

#[test]
fn every_broken_store_is_caught_by_tests_that_there_are() {
    let there: BTreeSet<&str> = tests().iter().map(Test::name).collect();
    for store in broken() {
        assert!(!store.caught_by().is_empty());
        for name in store.caught_by() {
            assert!(there.contains(name), "{}: {name}", store.name());
        }
    }
}
