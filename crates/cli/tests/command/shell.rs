//! What needs no server.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use crate::place::{Place, duebox};

pub(crate) const TESTS: &[(&str, fn())] = &[
    ("wrong_usage_exits_with_2_and_says_what_to_do", wrong_usage),
    (
        "completions_and_the_manual_name_every_subcommand",
        completions_and_man,
    ),
    (
        "files_are_named_as_each_tool_asks_and_never_overwritten",
        files,
    ),
    ("printed_sql_names_the_table_that_was_asked_for", printed),
    ("no_message_shows_the_url", no_url),
    ("a_reader_that_leaves_is_no_error", reader_leaves),
];

fn wrong_usage() {
    assert!(duebox(&["status"], "").err.contains("DUEBOX_DATABASE_URL"));
    duebox(&["status"], "").coded(2);
    duebox(&["nothing"], "").coded(2);
    let missing = duebox(&["status", "--database", "sqlite:/nowhere/app.db"], "");
    missing.coded(2);
    assert!(missing.err.contains("duebox migrate"), "{missing:?}");
}

fn completions_and_man() {
    for args in [&["completions", "bash"][..], &["man"]] {
        let answer = duebox(args, "");
        let text = answer.coded(0);
        for name in [
            "migrate", "check", "status", "release", "receipts", "subject",
        ] {
            assert!(text.contains(name), "{args:?} without {name}");
        }
    }
}

fn files() {
    let place = Place::new(None);
    let folder = place
        .url
        .trim_start_matches("sqlite:")
        .replace("app.db", "files");
    for (tool, first) in [
        ("sqlx", "0007_"),
        ("refinery", "V7__"),
        ("flyway", "V7__"),
        ("dbmate", "00000000000007_"),
    ] {
        let folder = format!("{folder}/{tool}");
        let args = [
            "migrate", "--engine", "postgres", "--tool", tool, "--from", "7", "--dir", &folder,
        ];
        let answer = duebox(&args, "");
        let names: Vec<&str> = answer.coded(0).lines().collect();
        assert!(
            names[0].starts_with(first)
                && names[0]
                    .rsplit_once('.')
                    .is_some_and(|(_, ext)| ext == "sql"),
            "{names:?}"
        );
        for name in &names {
            let text = std::fs::read_to_string(format!("{folder}/{name}")).expect("a file");
            assert_eq!(text.contains("-- migrate:up"), tool == "dbmate");
        }
        duebox(&args, "").coded(4);
    }
}

fn printed() {
    for engine in ["sqlite", "postgres", "mysql"] {
        let answer = duebox(
            &[
                "migrate", "--print", "--engine", engine, "--table", "app.mail",
            ],
            "",
        );
        assert!(answer.coded(0).contains("mail"), "{answer:?}");
        assert!(!answer.out.contains("pending_receipts"), "{answer:?}");
    }
}

fn no_url() {
    for url in [
        "postgres://user:s3cret@127.0.0.1:1/none",
        "mysql://user:s3cret@127.0.0.1:1/none",
        "oracle://user:s3cret@127.0.0.1:1/none",
    ] {
        let answer = duebox(&["status", "--database", url], "");
        assert!(matches!(answer.code, Some(2 | 3)), "{answer:?}");
        assert!(!answer.err.contains("s3cret") && !answer.out.contains("s3cret"));
    }
}

/// The pipe is closed before or while it writes.
fn reader_leaves() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_duebox"))
        .args(["man"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary");
    drop(child.stdout.take());
    let mut said = String::new();
    let mut err = BufReader::new(child.stderr.take().expect("its messages"));
    let _ = err.read_line(&mut said);
    assert_eq!(said, "");
    assert_eq!(child.wait().expect("its end").code(), Some(0));
}
