//! Jobs handed to commands and to an HTTP server.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use duebox_core::chrono::TimeDelta;
use duebox_core::{OutboxEntry, PARKED, parse_time};

use crate::place::{Answer, Place, answer};
use crate::server::{Request, Server, nowhere};
use crate::verifier;

type Test = (&'static str, fn(&Place));

pub(crate) const TESTS: &[Test] = &[
    ("a_command_gets_the_job_and_its_exit_code_counts", exits),
    ("a_command_sees_the_job_and_not_the_database", environment),
    (
        "a_command_that_takes_too_long_is_killed_with_its_children",
        killed,
    ),
    ("topics_that_are_not_named_are_left_alone", topics),
    ("told_to_stop_it_ends_what_runs", graceful),
    ("a_delivery_that_is_killed_loses_nothing", crash),
    ("what_cannot_be_delivered_to_is_refused_first", refused),
    ("a_server_that_fails_in_any_way_is_understood", http),
    ("a_server_that_is_slow_or_away_is_tried_again", away),
];

/// Run once for each of the servers' kinds, where the package is to be had.
pub(crate) const VERIFIED: (&str, fn(&Place)) =
    ("signatures_are_verified_by_another_implementation", signed);

fn enqueue(place: &Place, topic: &str) {
    place.run(&["enqueue", topic, "{}", "--id", topic]).coded(0);
}

fn row(place: &Place, id: &str) -> Option<OutboxEntry> {
    place.with(async |db| place.outbox().get(db, id).await.expect("read"))
}

/// The row's last error, and whether it is parked.
#[track_caller]
fn failure(place: &Place, id: &str) -> (String, bool) {
    let row = row(place, id).expect("a row");
    assert!(row.attempts > 0, "{id} was not tried");
    assert_eq!(row.locked_until, None, "{id} is under lease");
    let error = row.last_error.expect("why");
    (error, row.next_attempt_at == PARKED)
}

fn command(place: &Place, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    command.args(["--database", &place.url, "--table", &place.table, "deliver"]);
    command.args(args);
    command
}

fn deliver(place: &Place, args: &[&str]) -> Answer {
    answer(&mut command(place, args), "")
}

fn start(place: &Place, args: &[&str]) -> Child {
    command(place, args)
        .stdin(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("start the binary")
}

/// A file of this test's own that is not there yet.
fn path(place: &Place, name: &str) -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{}-{name}", place.label()))
}

fn text(path: &Path) -> String {
    path.to_str().expect("text").to_owned()
}

/// Waits until the file is as wanted.
fn wait_for(path: &Path, mut wanted: impl FnMut(&str) -> bool) {
    for _ in 0..6_000 {
        if std::fs::read_to_string(path).is_ok_and(|text| wanted(&text)) {
            return;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    panic!("{} never came to be as wanted", path.display());
}

fn exits(place: &Place) {
    place.run(&["migrate"]).coded(0);
    for topic in ["done", "retry", "park", "other", "signal"] {
        enqueue(place, topic);
    }
    // More than a pipe holds, and nobody reads it.
    let large = "x".repeat(1 << 20);
    let args = ["enqueue", "unread", "-", "--id", "unread"];
    place.run_with(&args, &large).coded(0);
    let script = "echo said by $DUEBOX_TOPIC; case $DUEBOX_TOPIC in \
                  done) test \"$(cat)\" = '{}';; unread) ;; retry) exit 75;; \
                  park) exit 65;; other) exit 3;; signal) kill -9 $$;; esac";
    let answer = deliver(place, &["--until-empty", "--exec", "sh", "-c", script]);
    assert_eq!(answer.coded(0), "");
    assert!(answer.err.contains("said by done"), "{answer:?}");
    let failed = |line: &str| line.contains("id=\"other\"") && line.contains("exit code 3");
    assert!(answer.err.lines().any(failed), "{answer:?}");
    assert!(row(place, "done").is_none() && row(place, "unread").is_none());
    let (why, parked) = failure(place, "retry");
    assert!(why.contains("75") && !parked, "{why}");
    let (why, parked) = failure(place, "park");
    assert!(why.contains("65") && parked, "{why}");
    let (why, parked) = failure(place, "other");
    assert!(why.contains("exit code 3") && !parked, "{why}");
    let (why, parked) = failure(place, "signal");
    assert!(why.contains("signal 9") && !parked, "{why}");
    // The attempts that were said are enough.
    let more = [
        "--until-empty",
        "--max-attempts",
        "1",
        "--exec",
        "sh",
        "-c",
        "exit 4",
    ];
    enqueue(place, "once");
    let quiet = deliver(place, &[&["--quiet"][..], &more].concat());
    assert_eq!((quiet.coded(0), quiet.err.as_str()), ("", ""));
    let (why, parked) = failure(place, "once");
    assert!(why.contains("exit code 4") && parked, "{why}");
}

fn environment(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let args = [
        "enqueue",
        "mail",
        "{\"a\":1}",
        "--id",
        "r1",
        "--subject",
        "ada",
    ];
    place.run(&args).coded(0);
    place.run(&["enqueue", "other", "--id", "r2"]).coded(0);
    let created = ["r1", "r2"].map(|id| row(place, id).expect("a row").created_at);
    let out = path(place, "out");
    let script = "echo \"$DUEBOX_ID,$DUEBOX_TOPIC,$DUEBOX_ATTEMPT,${DUEBOX_SUBJECT-none},\
                  $DUEBOX_CREATED_AT,${DUEBOX_DATABASE_URL-none},$(cat)\" >> \"$0\"";
    let mut command = Command::new(env!("CARGO_BIN_EXE_duebox"));
    command.args(["deliver", "--until-empty", "--table", &place.table]);
    command.args(["--exec", "sh", "-c", script, &text(&out)]);
    command.env("DUEBOX_SUBJECT", "left over");
    command.env("DUEBOX_DATABASE_URL", &place.url);
    assert!(command.status().expect("run it").success());
    let said = std::fs::read_to_string(&out).expect("what it said");
    std::fs::remove_file(&out).expect("remove");
    let mut lines: Vec<&str> = said.lines().collect();
    lines.sort_unstable();
    let [first, second] = &created;
    assert_eq!(
        lines,
        [
            format!("r1,mail,1,ada,{first},none,{{\"a\":1}}"),
            format!("r2,other,1,none,{second},none,"),
        ]
    );
}

fn killed(place: &Place) {
    place.run(&["migrate"]).coded(0);
    enqueue(place, "slow");
    let out = path(place, "survived");
    // The answer is read until nobody holds our output any more, so this looks
    // after the child has ended, whether it was killed or came to its end.
    let script = "(sleep 20; echo > \"$0\") & wait";
    let limits = [
        "--until-empty",
        "--job-timeout",
        "300ms",
        "--max-attempts",
        "1",
    ];
    let exec = ["--exec", "sh", "-c", script, &text(&out)];
    deliver(place, &[&limits[..], &exec].concat()).coded(0);
    assert!(!out.exists(), "a child of the command survived");
    let (why, parked) = failure(place, "slow");
    assert!(why.contains("took longer than 300ms") && parked, "{why}");
}

fn topics(place: &Place) {
    place.run(&["migrate"]).coded(0);
    for topic in ["a", "b", "c"] {
        enqueue(place, topic);
    }
    let args = [
        "--until-empty",
        "--topic",
        "a",
        "--topic",
        "b",
        "--exec",
        "true",
    ];
    deliver(place, &args).coded(0);
    assert!(row(place, "a").is_none() && row(place, "b").is_none());
    assert_eq!(row(place, "c").expect("left").attempts, 0);
}

fn graceful(place: &Place) {
    place.run(&["migrate"]).coded(0);
    for (signal, code) in [("-TERM", 0), ("-INT", 130)] {
        let (begun, go) = (path(place, "begun"), path(place, "go"));
        enqueue(place, "slow");
        let script = "echo > \"$0\"; while ! test -e \"$1\"; do sleep 0.02; done";
        let exec = ["--exec", "sh", "-c", script, &text(&begun), &text(&go)];
        let mut child = start(place, &[&["--grace", "1m"][..], &exec].concat());
        wait_for(&begun, |_| true);
        let sent = Command::new("kill")
            .args([signal, &child.id().to_string()])
            .status();
        assert!(sent.expect("kill").success());
        std::fs::write(&go, "").expect("write");
        assert_eq!(child.wait().expect("its end").code(), Some(code));
        assert!(row(place, "slow").is_none(), "it was done");
        std::fs::remove_file(&begun).expect("remove");
        std::fs::remove_file(&go).expect("remove");
    }
    // Without the time to end it is given back, with nothing counted.
    let begun = path(place, "begun");
    enqueue(place, "slow");
    let exec = [
        "--exec",
        "sh",
        "-c",
        "echo > \"$0\"; sleep 600",
        &text(&begun),
    ];
    let mut child = start(place, &[&["--grace", "0s"][..], &exec].concat());
    wait_for(&begun, |_| true);
    let sent = Command::new("kill")
        .args(["-TERM", &child.id().to_string()])
        .status();
    assert!(sent.expect("kill").success());
    child.wait().expect("its end");
    std::fs::remove_file(&begun).expect("remove");
    assert_eq!(row(place, "slow").expect("a row").attempts, 0);
}

fn crash(place: &Place) {
    const ROWS: usize = 40;
    place.run(&["migrate"]).coded(0);
    let lines: Vec<String> = (0..ROWS)
        .map(|number| format!("{{\"topic\":\"t\",\"id\":\"c{number}\"}}"))
        .collect();
    let args = ["enqueue", "--json-lines"];
    place.run_with(&args, &lines.join("\n")).coded(0);
    let out = path(place, "done");
    let script = "echo $DUEBOX_ID >> \"$0\"; sleep 0.05";
    let lease = ["--lease", "1s", "--concurrency", "4"];
    let exec = ["--exec", "sh", "-c", script, &text(&out)];
    let mut child = start(place, &[&lease[..], &exec].concat());
    wait_for(&out, |text| text.lines().count() >= 6);
    child.kill().expect("kill");
    child.wait().expect("its end");
    // What it held comes back when its lease ends.
    let again = [&lease[..], &["--until-empty"], &exec].concat();
    let left = || place.run(&["list", "--json"]).coded(0).lines().count();
    let killed_with = left();
    assert!(killed_with > 0 && killed_with < ROWS + 1);
    for _ in 0..600 {
        deliver(place, &again).coded(0);
        if left() == 0 {
            break;
        }
    }
    assert_eq!(left(), 0);
    let done = std::fs::read_to_string(&out).expect("what was done");
    std::fs::remove_file(&out).expect("remove");
    let done: BTreeSet<&str> = done.lines().collect();
    let all: Vec<String> = (0..ROWS).map(|number| format!("c{number}")).collect();
    assert_eq!(done, all.iter().map(String::as_str).collect());
}

fn refused(place: &Place) {
    let missing = deliver(place, &["--until-empty", "--http", &nowhere()]);
    // Whether or not the SQLite file is there.
    assert!(matches!(missing.code, Some(2 | 3)), "{missing:?}");
    assert!(missing.err.contains("duebox migrate"), "{missing:?}");
    place.run(&["migrate"]).coded(0);
    enqueue(place, "t");
    let url = nowhere();
    for args in [
        &[][..],
        &["--http", "ftp://private/"],
        &["--http", "private"],
        &["--http", &url, "--secret-env", "DUEBOX_TEST_NOT_SET"],
        &["--http", &url, "--content-type", "a\nb"],
        &["--http", &url, "--job-timeout", "0s"],
        &["--http", &url, "--concurrency", "0"],
        &["--secret-env", "PATH", "--exec", "true"],
        &["--exec", "duebox-private-command"],
        &["--exec", "/nowhere/private"],
        &["--exec", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")],
    ] {
        let answer = deliver(place, &[&["--until-empty"], args].concat());
        answer.coded(2);
        assert!(!answer.err.contains("private"), "{answer:?}");
    }
    let path = ["--until-empty", "--http", &url, "--secret-file", "/nowhere"];
    deliver(place, &path).coded(4);
    assert_eq!(row(place, "t").expect("a row").attempts, 0);
}

fn http(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let server = Server::start();
    let failing = ["302", "400", "429", "500", "503", "cut", "cut_body"];
    let endless = ["endless", "endless_failure", "endless_head", "410"];
    for topic in failing.iter().chain(&endless) {
        enqueue(place, topic);
    }
    let ok = [
        "enqueue",
        "é ok",
        "{\"to\":\"ada\"}",
        "--id",
        "ok",
        "--subject",
        "ada",
    ];
    place.run(&ok).coded(0);
    let answer = deliver(place, &["--until-empty", "--http", &server.url]);
    assert_eq!(answer.coded(0), "");
    for private in ["private", "in-the-url"] {
        assert!(!answer.err.contains(private), "{answer:?}");
    }

    let seen = server.seen("%C3%A9%20ok");
    assert_eq!(seen.len(), 1);
    let request: &Request = &seen[0];
    assert_eq!(request.line, "POST /hook?key=in-the-url HTTP/1.1");
    assert_eq!(request.body, "{\"to\":\"ada\"}");
    for (name, value) in [
        ("content-type", "application/json"),
        ("idempotency-key", "ok"),
        ("webhook-id", "ok"),
        ("duebox-attempt", "1"),
    ] {
        assert_eq!(request.header(name), Some(value), "{name}");
    }
    assert_eq!(request.header("webhook-signature"), None);
    let timestamp = request.header("webhook-timestamp").expect("a time");
    assert!(timestamp.parse::<u64>().is_ok(), "{timestamp}");
    assert!(request.headers.values().all(|value| value != "ada"));

    assert!(row(place, "ok").is_none());
    // The status was there; how the answer goes on does not matter.
    assert!(row(place, "endless").is_none());
    for (topic, words) in [
        ("302", "redirects are not followed"),
        ("400", "answered 400"),
        ("500", "answered 500"),
        ("cut", "cut off before an answer"),
        ("cut_body", "answered 500"),
        ("endless_failure", "answered 500"),
        ("endless_head", "cut off before an answer"),
    ] {
        let (why, parked) = failure(place, topic);
        assert!(why.contains(words) && !parked, "{topic}: {why}");
        assert!(!why.contains("private"), "{why}");
    }
    assert_eq!(
        server.seen("302").len() as u64,
        row(place, "302").expect("a row").attempts
    );
    let (why, parked) = failure(place, "410");
    assert!(why.contains("410") && parked, "{why}");
    for (topic, seconds) in [("429", 120), ("503", 600)] {
        let row = row(place, topic).expect("a row");
        assert_eq!((row.attempts, server.seen(topic).len()), (1, 1));
        let failed = parse_time(&row.failed_at.expect("when")).expect("a time");
        let next = parse_time(&row.next_attempt_at).expect("a time");
        // The answer came before its failure was written.
        let wait = next - failed;
        assert!(wait <= TimeDelta::seconds(seconds), "{topic}: {wait}");
        assert!(wait > TimeDelta::seconds(seconds - 60), "{topic}: {wait}");
    }
}

fn away(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let server = Server::start();
    enqueue(place, "slow");
    let once = [
        "--until-empty",
        "--max-attempts",
        "1",
        "--job-timeout",
        "300ms",
    ];
    deliver(place, &[&once[..], &["--http", &server.url]].concat()).coded(0);
    let (why, _) = failure(place, "slow");
    assert_eq!(why, "the server did not answer in time");

    enqueue(place, "refused");
    let once = &once[..3];
    deliver(place, &[once, &["--http", &nowhere()]].concat()).coded(0);
    let (why, _) = failure(place, "refused");
    assert_eq!(why, "the server was not reached");

    // A proxy of the environment is asked only if that was said.
    let proxy = Server::start();
    for (option, seen) in [(None, (1, 0)), (Some("--proxy-from-env"), (1, 1))] {
        enqueue(place, "t");
        let mut command = command(place, &["--until-empty", "--http", &server.url]);
        command
            .args(option)
            .env_remove("NO_PROXY")
            .env_remove("no_proxy");
        command
            .env("HTTP_PROXY", &proxy.url)
            .env("http_proxy", &proxy.url);
        answer(&mut command, "").coded(0);
        assert_eq!((server.seen("t").len(), proxy.seen("t").len()), seen);
    }
}

fn signed(place: &Place) {
    const SECRETS: [&str; 2] = [
        "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw",
        "whsec_AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=",
    ];
    place.run(&["migrate"]).coded(0);
    let server = Server::start();
    for payload in ["", "{\"to\":\"ada\"}", "plain é text", "two\nlines\n"] {
        place.run_with(&["enqueue", "t", "-"], payload).coded(0);
    }
    let file = path(place, "secret");
    std::fs::write(&file, format!("{}\n", SECRETS[1])).expect("write");
    let args = [
        "--until-empty",
        "--http",
        &server.url,
        "--secret-env",
        "WEBHOOK_SECRET",
    ];
    let mut command = command(place, &args);
    command.args([
        "--secret-file",
        &text(&file),
        "--content-type",
        "text/plain",
    ]);
    answer(command.env("WEBHOOK_SECRET", SECRETS[0]), "").coded(0);
    std::fs::remove_file(&file).expect("remove");

    let seen = server.seen("t");
    assert_eq!(seen.len(), 4);
    assert!(
        seen.iter()
            .all(|request| request.header("content-type") == Some("text/plain"))
    );
    assert!(verifier::verifies(&seen, &SECRETS));
    // It would tell if something else had been signed.
    let mut changed = seen.clone();
    changed[0].body.push(' ');
    assert!(!verifier::verifies(&changed, &SECRETS[..1]));
    assert!(!verifier::verifies(
        &seen,
        &["whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSx"]
    ));
}
