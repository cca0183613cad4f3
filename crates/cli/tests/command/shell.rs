//! What needs no server.

use std::collections::BTreeSet;

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
    ("every_finding_stands_on_the_page_of_what_goes_wrong", page),
    ("alerts_and_dashboard_name_metrics_that_there_are", alerts),
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

/// The words of a text that begin so, each once.
fn words<'a>(text: &'a str, prefix: &str) -> BTreeSet<&'a str> {
    text.split(|c: char| !c.is_ascii_lowercase() && c != '_' && c != '-')
        .filter(|word| word.starts_with(prefix) && word.len() > prefix.len())
        .collect()
}

fn repository(path: &str) -> String {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    std::fs::read_to_string(format!("{root}/{path}")).expect("a file of the repository")
}

/// The text of all files of the check.
fn sources(folder: &std::path::Path) -> String {
    let mut all = String::new();
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("a file").path();
        all += &if path.is_dir() {
            sources(&path)
        } else {
            std::fs::read_to_string(&path).expect("a source")
        };
    }
    all
}

fn page() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/check");
    let sources = sources(folder.as_ref());
    let mut codes = BTreeSet::new();
    for makes in ["Finding::problem(", "Finding::note("] {
        for (at, _) in sources.match_indices(makes) {
            let rest = sources[at + makes.len()..].trim_start();
            let code = rest
                .strip_prefix('"')
                .and_then(|rest| rest.split('"').next());
            codes.insert(code.expect("a code is written where a finding is made"));
        }
    }
    assert!(codes.len() > 15, "{codes:?}");
    let page = repository("docs/when-things-go-wrong.md");
    for code in codes {
        assert!(page.contains(&format!("`{code}`")), "{code}");
    }
}

fn alerts() {
    let readme = repository("crates/worker/README.md");
    let known = words(&readme, "duebox_");
    for file in [
        "docs/prometheus/alerts.yml",
        "docs/prometheus/dashboard.json",
    ] {
        let text = repository(file);
        let named = words(&text, "duebox_");
        assert!(named.len() > 5, "{named:?}");
        for name in named {
            let metric = name.trim_end_matches("_bucket");
            assert!(known.contains(metric), "{file}: {name}");
        }
    }
    let dashboard: serde_json::Value =
        serde_json::from_str(&repository("docs/prometheus/dashboard.json")).expect("JSON");
    assert!(
        dashboard["panels"]
            .as_array()
            .is_some_and(|panels| panels.len() > 8)
    );
}
