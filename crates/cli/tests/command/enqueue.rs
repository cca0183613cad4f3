//! Rows from the command line, and by the `INSERT` of the README.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use duebox_core::{OutboxEntry, WakeSource as _};
use duebox_postgres::{PostgresOptions, PostgresWakeSource};
use serde_json::json;

use crate::place::{Place, block_on, interrupt};

type Test = (&'static str, fn(&Place));

pub(crate) const TESTS: &[Test] = &[
    ("one_row_is_enqueued_from_anywhere", one),
    ("what_cannot_be_enqueued_is_refused_unquoted", refused),
    ("an_id_that_is_there_conflicts_unless_once_is_said", once),
    ("many_rows_are_enqueued_by_lines_of_json", lines),
    ("a_bad_line_says_where_to_go_on", bad_line),
    (
        "an_interrupt_between_lines_says_where_to_go_on",
        interrupted,
    ),
    ("the_insert_of_the_readme_enqueues", insert),
    ("those_who_listen_are_told", nudge),
];

fn row(place: &Place, id: &str) -> OutboxEntry {
    let row = place.with(async |db| place.outbox().get(db, id).await.expect("read"));
    row.expect("a row")
}

fn one(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let id = place.run(&["enqueue", "mail", "hello"]);
    let found = row(place, id.coded(0).trim_end());
    assert_eq!((found.topic.as_str(), found.subject), ("mail", None));
    assert_eq!(found.payload.as_deref(), Some("hello"));
    assert_eq!(found.created_at, found.next_attempt_at);

    let piped = ["enqueue", "mail", "-", "--id", "r2", "--subject", "ada"];
    assert_eq!(place.run_with(&piped, "from\na pipe").coded(0), "r2\n");
    let found = row(place, "r2");
    assert_eq!(found.payload.as_deref(), Some("from\na pipe"));
    assert_eq!(found.subject.as_deref(), Some("ada"));

    let path = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("{}-payload", place.label()));
    std::fs::write(&path, "from a file").expect("write");
    let file = path.to_str().expect("text");
    let at = "2031-01-31T10:30:00+01:00";
    let args = ["enqueue", "mail", "--file", file, "--id", "r3", "--at", at];
    place.run(&args).coded(0);
    std::fs::remove_file(&path).expect("remove");
    let found = row(place, "r3");
    assert_eq!(found.payload.as_deref(), Some("from a file"));
    assert_eq!(found.next_attempt_at, "2031-01-31T09:30:00.000000Z");

    place.run(&["enqueue", "mail", "--id", "r4"]).coded(0);
    assert_eq!(row(place, "r4").payload.as_deref(), Some(""));
}

fn refused(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let long = "private".repeat(50);
    for args in [
        &["enqueue"][..],
        &["enqueue", "mail", "--id", "two words"],
        &["enqueue", "mail", "--subject", &long],
        &["enqueue", "mail", "--at", "private"],
        &["enqueue", "mail", "--once"],
        &["enqueue", "mail", "--json-lines"],
        &["enqueue", "mail", "text", "--file", "path"],
    ] {
        let answer = place.run(args);
        answer.coded(2);
        assert!(!answer.err.contains("private"), "{answer:?}");
    }
    let missing = place.run(&["enqueue", "mail", "--file", "/nowhere/payload"]);
    missing.coded(4);
    assert_eq!(place.run(&["list", "--json"]).coded(0), "");
}

fn once(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let first = ["enqueue", "mail", "first", "--id", "r1"];
    place.run(&first).coded(0);
    place.run(&first).coded(3);
    let again = place.run(&["enqueue", "mail", "second", "--id", "r1", "--once"]);
    assert_eq!(again.coded(0), "r1\n");
    assert!(again.err.contains("1 rows were there already"), "{again:?}");
    assert_eq!(row(place, "r1").payload.as_deref(), Some("first"));
}

fn lines(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let own = [
        r#"{"topic": "a", "payload": {"exact": 1.50, "big": 123456789012345678901}, "id": "l1"}"#,
        "",
        r#"{"topic": "b", "payload": "a \"text\"", "subject": "ada", "id": "l2"}"#,
        r#"{"topic": "c", "at": "2031-01-31T09:30:00Z", "subject": null, "id": "l3"}"#,
    ];
    let many = (0..1_200).map(|number| {
        json!({"topic": "many", "payload": number, "id": format!("m{number}")}).to_string()
    });
    let input: Vec<String> = own.map(str::to_owned).into_iter().chain(many).collect();
    let input = input.join("\n");
    let answer = place.run_with(&["enqueue", "--json-lines"], &input);
    let ids: Vec<&str> = answer.coded(0).lines().collect();
    assert_eq!(ids.len(), 1_203);
    assert_eq!((ids[0], ids[1_202]), ("l1", "m1199"));
    let payload = |id| row(place, id).payload.expect("a payload");
    assert_eq!(
        payload("l1"),
        r#"{"exact": 1.50, "big": 123456789012345678901}"#
    );
    assert_eq!(payload("l2"), r#"a "text""#);
    assert_eq!(payload("m1199"), "1199");
    assert_eq!(
        row(place, "l3").next_attempt_at,
        "2031-01-31T09:30:00.000000Z"
    );

    // The same again changes nothing.
    let again = place.run_with(&["enqueue", "--json-lines", "--once"], &input);
    assert_eq!(again.coded(0).lines().count(), 1_203);
    assert!(
        again.err.contains("1203 rows were there already"),
        "{again:?}"
    );
}

fn bad_line(place: &Place) {
    place.run(&["migrate"]).coded(0);
    for (line, what) in [
        (r#"{"topic": "t", "payload": "private"#, "no JSON object"),
        (r#"["private"]"#, "no JSON object"),
        (r#"{"payload": "private"}"#, "no topic"),
        (r#"{"topic": 7, "payload": "private"}"#, "topic is no text"),
        (r#"{"topic": "t", "private": 1}"#, "a key other than"),
        (r#"{"topic": "t", "at": "private"}"#, "RFC 3339"),
        (r#"{"topic": "t", "subject": "private\n"}"#, "subject"),
    ] {
        let input = format!("{{\"topic\": \"t\"}}\n{line}\n");
        let answer = place.run_with(&["enqueue", "--json-lines"], &input);
        answer.coded(2);
        assert!(answer.err.contains("line 2: "), "{answer:?}");
        assert!(answer.err.contains(what), "{what}: {answer:?}");
        assert!(!answer.err.contains("private"), "{answer:?}");
    }
    assert_eq!(place.run(&["list", "--json"]).coded(0), "");

    let good = |number| json!({"topic": "t", "id": format!("n{number}")}).to_string();
    let mut lines: Vec<String> = (1..=1_100).map(good).collect();
    lines[1_049].replace_range(.., "{}");
    let stopped = place.run_with(&["enqueue", "--json-lines"], &lines.join("\n"));
    assert_eq!(stopped.coded(2).lines().count(), 1_000);
    assert!(
        stopped.err.contains("1000 rows are enqueued"),
        "{stopped:?}"
    );
    assert!(
        stopped.err.contains("line 1050: it has no topic"),
        "{stopped:?}"
    );
    assert!(stopped.err.contains("--from-line 1001"), "{stopped:?}");
    lines[1_049] = good(1_050);
    let args = ["enqueue", "--json-lines", "--from-line", "1001"];
    let rest = place.run_with(&args, &lines.join("\n"));
    assert_eq!(rest.coded(0).lines().count(), 100);
    let all = place.run(&["list", "--json", "--limit", "10000"]);
    assert_eq!(all.coded(0).lines().count(), 1_100);
}

fn interrupted(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let mut child = Command::new(env!("CARGO_BIN_EXE_duebox"))
        .args(["--database", &place.url, "--table", &place.table])
        .args(["enqueue", "--json-lines"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("start the binary");
    let mut stdin = child.stdin.take().expect("its input");
    let lines = "{\"topic\": \"t\"}\n".repeat(501);
    stdin.write_all(lines.as_bytes()).expect("write");
    let out = BufReader::new(child.stdout.take().expect("its output"));
    let mut ids = out.lines();
    for _ in 0..500 {
        ids.next().expect("an id").expect("text");
    }
    // It waits for more, which does not come.
    interrupt(&child);
    let done = child.wait_with_output().expect("its end");
    let said = String::from_utf8(done.stderr).expect("text");
    assert_eq!(done.status.code(), Some(130), "{said}");
    assert!(said.contains("500 rows are enqueued"), "{said}");
    assert!(said.contains("--from-line 501"), "{said}");
    assert!(ids.next().is_none());
    let all = place.run(&["list", "--json", "--limit", "1000"]);
    assert_eq!(all.coded(0).lines().count(), 500);
}

fn insert(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let readme = include_str!("../../README.md");
    let heading = format!(
        "```sql\n-- {}",
        match place.engine() {
            "sqlite" => "SQLite",
            "postgres" => "PostgreSQL",
            _ => "MySQL",
        }
    );
    let (_, text) = readme.split_once(&heading).expect("its block");
    let (text, _) = text.split_once("```").expect("its end");
    let (_, text) = text.split_once('\n').expect("what follows the name");
    assert!(text.contains("INTO outbox "), "{text}");
    let text = text.replace("INTO outbox ", &format!("INTO {} ", place.table));
    let mut session = place.session();
    session.script(text.trim());
    session.script(text.trim());

    let listed = place.run(&["list", "--json"]);
    let ids: Vec<String> = listed
        .coded(0)
        .lines()
        .map(|line| {
            let row: serde_json::Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(row["state"], "due");
            row["id"].as_str().expect("an id").to_owned()
        })
        .collect();
    assert_eq!(ids.len(), 2);
    let found = row(place, &ids[0]);
    assert_eq!(found.topic, "mail.welcome");
    assert_eq!(
        found.payload.as_deref(),
        Some(r#"{"to":"ada@example.com"}"#)
    );
    assert_eq!(found.subject.as_deref(), Some("a-17"));
    // Of the form in which times are told apart as texts.
    let written = duebox_core::parse_time(&found.created_at).expect("a time");
    assert_eq!(duebox_core::format_time(written), Ok(found.created_at));
    // The database's own time, give or take what the test took.
    let now = place.with(async |db| db.now().await.expect("the time"));
    assert!(written <= now && now - written < duebox_core::chrono::TimeDelta::minutes(10));
    assert_eq!(place.run(&["check"]).code, Some(0));
}

fn nudge(place: &Place) {
    if place.engine() != "postgres" {
        // The others have nothing to tell by; a worker polls there.
        return;
    }
    place.run(&["migrate"]).coded(0);
    block_on(async {
        let options = PostgresOptions::new(&place.url).expect("a URL");
        let mut source = PostgresWakeSource::new(options, &place.outbox());
        source.wait().await.expect("it listens");
        place.run(&["enqueue", "mail"]).coded(0);
        let told = tokio::time::timeout(std::time::Duration::from_mins(1), source.wait());
        told.await.expect("in time").expect("it is told");
    });
}
