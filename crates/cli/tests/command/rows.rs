//! What reads and changes rows, on every engine.

use std::io::{BufRead, BufReader};
use std::time::Duration;

use duebox_core::chrono::TimeDelta;
use duebox_core::uuid::Uuid;
use duebox_core::{Claim, DeviceToken, Enqueue, PendingReceipt, PushTicketId, format_time};

use crate::place::{Place, interrupt};

type Test = (&'static str, fn(&Place));

pub(crate) const TESTS: &[Test] = &[
    (
        "migrating_twice_is_fine_and_a_missing_table_says_migrate",
        migrate,
    ),
    (
        "status_counts_each_state_and_thresholds_exit_with_1",
        status,
    ),
    (
        "list_and_show_hide_payload_and_subject_until_revealed",
        list_and_show,
    ),
    (
        "an_outbox_that_was_dropped_hides_no_other_and_ends_with_3",
        dropped,
    ),
    (
        "without_migrations_it_is_said_that_one_outbox_is_looked_at",
        unmigrated,
    ),
    ("retry_makes_parked_rows_due", retry),
    ("park_release_and_delete_warn_of_leases", leases),
    ("delete_wants_yes_and_a_dry_run_changes_nothing", delete),
    ("filters_reach_rows_beyond_one_page", pages),
    ("subject_is_exported_and_erased_in_every_outbox", subject),
    ("receipts_are_counted_and_purged", receipts),
    ("check_reports_the_version", check),
    ("tickets_are_counted_exported_purged_and_erased", tickets),
    ("watching_shows_what_changes_until_it_is_interrupted", watch),
    ("an_interrupt_ends_between_two_batches", stopped),
    ("a_reader_that_leaves_ends_it_without_a_word", reader_leaves),
    ("an_id_given_twice_counts_once", twice),
    ("status_gives_up_a_split_that_takes_too_long", slow_survey),
];

/// Three rows: `due` and `held` for ada, and `later`, which waits. `held` is
/// leased by `worker-1`.
fn fill(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let outbox = place.outbox();
    place.with(async |db| {
        let now = db.now().await.expect("the time");
        let long_ago = now - TimeDelta::hours(1);
        let row = |id: &str, at| {
            let work = Enqueue::new("mail").id(id).payload("the-payload").at(at);
            outbox.enqueue(work.subject("ada"))
        };
        db.batch_atomic(&[row("held", long_ago)])
            .await
            .expect("enqueue");
        let text = |at| format_time(at).expect("a time");
        let claim = Claim::new(text(now), text(now + TimeDelta::hours(1))).locked_by("worker-1");
        assert_eq!(outbox.claim(db, &claim).await.expect("claim").len(), 1);
        db.batch_atomic(&[
            row("due", long_ago),
            row("later", now + TimeDelta::hours(1)),
        ])
        .await
        .expect("enqueue");
    });
}

fn counts(place: &Place) -> [u64; 4] {
    let answer = place.run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(answer.coded(0)).expect("JSON");
    ["waiting", "due", "leased", "parked"]
        .map(|name| status["outboxes"][0][name].as_u64().expect("a count"))
}

fn migrate(place: &Place) {
    place.run(&["migrate"]).coded(0);
    place.run(&["migrate"]).coded(0);
    assert_eq!(counts(place), [0; 4]);
    let url = ["--database", &place.url, "--table", "no_such_table"];
    let missing = crate::place::duebox(&[&["list"], &url[..]].concat(), "");
    missing.coded(3);
    assert!(missing.err.contains("duebox migrate"), "{missing:?}");
}

fn status(place: &Place) {
    fill(place);
    assert_eq!(counts(place), [1, 1, 1, 0]);
    place.run(&["park", "later"]).coded(0);
    assert_eq!(counts(place), [0, 1, 1, 1]);
    place
        .run(&["status", "--max-oldest", "2h", "--max-parked", "1"])
        .coded(0);
    place.run(&["status", "--max-oldest", "5m"]).coded(1);
    place.run(&["status", "--max-parked", "0"]).coded(1);
    let all = crate::place::duebox(&["status", "--database", &place.url], "");
    assert!(all.coded(0).contains("mail"), "{all:?}");
}

fn dropped(place: &Place) {
    fill(place);
    let url = ["--database", place.url.as_str()];
    let make = ["migrate", "--table", "gone"];
    crate::place::duebox(&[&make[..], &url].concat(), "").coded(0);
    place.with(async |db| {
        let drop = duebox_core::Statement::new("DROP TABLE gone");
        db.execute(&drop).await.expect("drop");
    });
    let all = crate::place::duebox(&[&["status"][..], &url].concat(), "");
    assert!(all.coded(3).contains("mail"), "{all:?}");
    assert!(all.err.contains("gone"), "{all:?}");
    // The one that is named is looked at alone.
    place.run(&["status"]).coded(0);
}

fn unmigrated(place: &Place) {
    place.with(async |db| {
        let outbox = duebox_core::Outbox::new("outbox");
        let make = duebox_core::Statement::new(outbox.create_table_sql());
        db.execute(&make).await.expect("make");
    });
    let url = ["--database", place.url.as_str()];
    for args in [&["status"][..], &["subject", "export", "ada"]] {
        let answer = crate::place::duebox(&[args, &url].concat(), "");
        answer.coded(0);
        assert!(answer.err.contains("--table"), "{answer:?}");
    }
}

fn list_and_show(place: &Place) {
    fill(place);
    for args in [
        &["list"][..],
        &["list", "--json"],
        &["show", "due"],
        &["show", "due", "--json"],
    ] {
        let answer = place.run(args);
        let out = answer.coded(0);
        assert!(out.contains("due"), "{answer:?}");
        assert!(
            !out.contains("ada") && !out.contains("the-payload"),
            "{answer:?}"
        );
        let revealed = place.run(&[args, &["--reveal"]].concat());
        assert!(revealed.coded(0).contains("ada"), "{revealed:?}");
        assert_eq!(revealed.out.contains("the-payload"), args[0] == "show");
    }
    let held = place.run(&["list", "--state", "leased", "--json"]);
    let row: serde_json::Value = serde_json::from_str(held.coded(0)).expect("one line");
    assert_eq!(
        (&row["id"], &row["locked_by"]),
        (&"held".into(), &"worker-1".into())
    );
    place.run(&["show", "nobody"]).coded(1);
}

fn retry(place: &Place) {
    fill(place);
    place.run(&["retry", "due"]).coded(1);
    place
        .run(&["park", "due", "later", "--reason", "why not"])
        .coded(0);
    assert!(place.run(&["show", "due"]).coded(0).contains("why not"));
    place.run(&["retry", "--parked", "--dry-run"]).coded(0);
    assert_eq!(counts(place), [0, 0, 1, 2]);
    place.run(&["retry", "due"]).coded(0);
    place
        .run(&["retry", "--parked", "--topic", "other"])
        .coded(0);
    assert_eq!(counts(place), [0, 1, 1, 1]);
    place.run(&["retry", "--parked"]).coded(0);
    assert_eq!(counts(place), [0, 2, 1, 0]);
}

fn leases(place: &Place) {
    for args in [
        &["release", "held"][..],
        &["park", "held"],
        &["delete", "held", "--yes"],
    ] {
        place.run(&["migrate"]).coded(0);
        place.run(&["delete", "--topic", "mail", "--yes"]).coded(0);
        fill(place);
        let warned = place.run(args);
        warned.coded(0);
        assert!(warned.err.contains("lose the lease"), "{warned:?}");
        assert_eq!(counts(place)[2], 0);
        if args[0] == "release" {
            place.run(&["release", "held"]).coded(1);
        }
    }
}

fn delete(place: &Place) {
    fill(place);
    place.run(&["delete", "due"]).coded(2);
    place.run(&["delete"]).coded(2);
    place.run(&["delete", "due", "--yes", "--dry-run"]).coded(0);
    assert_eq!(counts(place), [1, 1, 1, 0]);
    place
        .run(&["delete", "--older-than", "30m", "--state", "due", "--yes"])
        .coded(0);
    assert_eq!(counts(place), [1, 0, 1, 0]);
    place.run(&["delete", "due", "--yes"]).coded(1);
}

fn pages(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let outbox = place.outbox();
    place.with(async |db| {
        let now = db.now().await.expect("the time");
        let work = (0..1203).map(|n| Enqueue::new("bulk").id(format!("r{n:04}")).at(now));
        let statement = outbox.enqueue_many_statement(work);
        db.batch_atomic(&[statement]).await.expect("enqueue");
    });
    let listed = place.run(&["list", "--json", "--limit", "1100"]);
    assert_eq!(listed.coded(0).lines().count(), 1100);
    place.run(&["park", "--topic", "bulk"]).coded(0);
    assert_eq!(counts(place), [0, 0, 0, 1203]);
    place.run(&["retry", "--parked"]).coded(0);
    assert_eq!(counts(place), [0, 1203, 0, 0]);
    place.run(&["delete", "--topic", "bulk", "--yes"]).coded(0);
    assert_eq!(counts(place), [0; 4]);
}

fn subject(place: &Place) {
    fill(place);
    let own = ["--database", &place.url];
    crate::place::duebox(&[&["migrate"], &own[..]].concat(), "").coded(0);
    let export = [&["subject", "export", "-"], &own[..]].concat();
    let exported = crate::place::duebox(&export, "ada\n");
    assert_eq!(exported.coded(0).lines().count(), 3);
    assert!(
        exported
            .out
            .lines()
            .all(|line| line.contains("the-payload")),
        "{exported:?}"
    );
    let erase = [&["subject", "erase", "ada"], &own[..]].concat();
    crate::place::duebox(&erase, "").coded(2);
    crate::place::duebox(&[&erase[..], &["--yes"]].concat(), "").coded(0);
    assert_eq!(crate::place::duebox(&export, "ada\n").coded(0), "");
    assert_eq!(counts(place), [0; 4]);
}

fn receipts(place: &Place) {
    let own = ["--database", &place.url];
    crate::place::duebox(&[&["migrate"], &own[..]].concat(), "").coded(0);
    let status = crate::place::duebox(&[&["receipts", "status", "--json"], &own[..]].concat(), "");
    let status: serde_json::Value = serde_json::from_str(status.coded(0)).expect("JSON");
    assert_eq!(status["pending"], 0);
    let purge = crate::place::duebox(&[&["receipts", "purge", "--yes"], &own[..]].concat(), "");
    assert_eq!(purge.coded(0), "0 tickets deleted\n");
}

fn check(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let answer = place.run(&["check", "--json"]);
    let found: serde_json::Value = serde_json::from_str(answer.coded(0)).expect("JSON");
    assert!(
        found["version"]
            .as_str()
            .is_some_and(|version| !version.is_empty())
    );
}

/// Puts a view in place of the outbox, on which a split by topic never ends.
pub(crate) fn never_split(place: &Place) {
    let (never, keep) = match place.engine() {
        "mysql" => (
            "(SELECT CONCAT('t', SLEEP(600)))",
            "RENAME TABLE mail TO kept",
        ),
        // Not volatile, so that it is left out where nobody asks for it.
        "postgres" => (
            "never()",
            "CREATE FUNCTION never() RETURNS text STABLE LANGUAGE plpgsql AS
                 'BEGIN PERFORM pg_sleep(600); RETURN 1; END';
             ALTER TABLE mail RENAME TO kept",
        ),
        _ => (
            "(WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000000) SELECT MAX(i) FROM n)",
            "ALTER TABLE mail RENAME TO kept",
        ),
    };
    place.session().run(keep);
    place.session().run(&format!(
        "CREATE VIEW mail AS SELECT id, {never} AS topic, payload, subject, created_at, attempts, claims, lapses, next_attempt_at, locked_until, locked_by, last_error, failed_at, visible_at FROM kept"
    ));
}

/// The totals are there all the same.
fn slow_survey(place: &Place) {
    fill(place);
    never_split(place);
    let answer = place.run(&["status", "--json", "--timeout", "300ms"]);
    let status: serde_json::Value = serde_json::from_str(answer.coded(0)).expect("JSON");
    let outbox = &status["outboxes"][0];
    assert_eq!((&outbox["due"], &outbox["later"]), (&1.into(), &2.into()));
    assert_eq!(outbox["topics"], serde_json::Value::Null);
    assert!(answer.err.contains("--timeout"), "{answer:?}");
    let quick = place.run(&["status", "--totals", "--timeout", "300ms"]);
    assert!(
        quick.coded(0).contains("2 or leased") && quick.err.is_empty(),
        "{quick:?}"
    );
}

/// Two tickets of one owner, one a day and a half old, and one of another.
fn tickets(place: &Place) {
    let own = ["--database", place.url.as_str()];
    let run = |args: &[&str]| crate::place::duebox(&[args, &own].concat(), "");
    run(&["migrate"]).coded(0);
    let (ada, bob) = (Uuid::from_u128(7), Uuid::from_u128(8));
    let now = place.with(async |db| db.now().await.expect("the time"));
    place.with_receipts(async |store| {
        let receipt = |ticket: &str, owner_id, hours| PendingReceipt {
            ticket: PushTicketId::new(ticket).expect("a ticket"),
            owner_id,
            token: DeviceToken::new(format!("token-{ticket}")).expect("a token"),
            sent_at: now - TimeDelta::hours(hours),
        };
        let all = vec![
            receipt("t-old", ada, 36),
            receipt("t-new", ada, 1),
            receipt("t-bob", bob, 1),
        ];
        store.record(all, now).await.expect("record");
    });
    let pending = || {
        let answer = run(&["receipts", "status", "--json"]);
        let status: serde_json::Value = serde_json::from_str(answer.coded(0)).expect("JSON");
        status["pending"].as_u64().expect("a count")
    };
    assert_eq!(pending(), 3);
    let status = run(&["status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(status.coded(0)).expect("JSON");
    assert_eq!(status["receipts"]["pending"], 3);

    let export = run(&["subject", "export", "ada", "--owner", &ada.to_string()]);
    let lines: Vec<serde_json::Value> = export
        .coded(0)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    let of =
        |name: &str| -> Vec<&serde_json::Value> { lines.iter().map(|row| &row[name]).collect() };
    assert_eq!(of("ticket"), ["t-new", "t-old"]);
    assert_eq!(of("token"), ["token-t-new", "token-t-old"]);
    let sent = format_time(now - TimeDelta::hours(1)).expect("a time");
    assert_eq!(lines[0]["sent_at"], sent);
    // A subject that is the owner's UUID needs no more.
    let by_uuid = run(&["subject", "export", &ada.to_string()]);
    assert_eq!(by_uuid.coded(0), export.out);

    run(&["receipts", "purge"]).coded(2);
    assert_eq!(pending(), 3);
    let purged = run(&["receipts", "purge", "--yes"]);
    assert_eq!(purged.coded(0), "1 tickets deleted\n");
    let erase = ["subject", "erase", "ada", "--yes", "--owner"];
    run(&[&erase[..], &["no-uuid"]].concat()).coded(2);
    assert_eq!(pending(), 2);
    let erased = run(&[&erase[..], &[&ada.to_string()]].concat());
    assert!(erased.coded(0).contains("1 tickets erased"), "{erased:?}");
    assert_eq!(pending(), 1);
}

/// Rows of the topic `bulk`.
fn bulk(place: &Place, rows: usize) {
    place.run(&["migrate"]).coded(0);
    let outbox = place.outbox();
    place.with(async |db| {
        let now = db.now().await.expect("the time");
        let work = (0..rows).map(|n| Enqueue::new("bulk").id(format!("r{n:04}")).at(now));
        let statement = outbox.enqueue_many_statement(work);
        db.batch_atomic(&[statement]).await.expect("enqueue");
    });
}

fn watch(place: &Place) {
    fill(place);
    let mut child = place.spawn(&["status", "--json", "--watch", "--every", "10ms"]);
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut due = || {
        let mut line = String::new();
        out.read_line(&mut line).expect("a line");
        let status: serde_json::Value = serde_json::from_str(&line).expect("JSON");
        status["outboxes"][0]["due"].as_u64().expect("a count")
    };
    assert_eq!(due(), 1);
    place.run(&["park", "due"]).coded(0);
    while due() != 0 {}
    interrupt(&child);
    let ended = child.wait().expect("its end");
    assert_eq!(ended.code(), Some(130), "{ended:?}");
}

/// Ctrl-C while a batch waits for a lock: that batch is done as a whole, and
/// none after it.
fn stopped(place: &Place) {
    bulk(place, 2000);
    let mut other = place.session();
    // The third batch of 500 waits for a lock, or has a long way.
    other.script(match place.engine() {
        "sqlite" => {
            "CREATE TRIGGER slow BEFORE DELETE ON mail WHEN old.id = 'r1200' BEGIN
                 SELECT COUNT(*) FROM (
                     WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 5000000)
                     SELECT i FROM n
                 ); END"
        }
        _ => "BEGIN;\nUPDATE mail SET attempts = attempts WHERE id = 'r1200'",
    });
    let child = place.spawn(&["delete", "--topic", "bulk", "--yes"]);
    while left(place) != 1000 {
        std::thread::sleep(Duration::from_millis(5));
    }
    interrupt(&child);
    if place.engine() != "sqlite" {
        std::thread::sleep(Duration::from_millis(200));
        other.run("COMMIT");
    }
    let ended = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&ended.stderr);
    let remaining = left(place);
    assert_eq!(ended.status.code(), Some(130), "{said}");
    assert!(
        said.contains(&format!("{} rows were done", 2000 - remaining)),
        "{said}"
    );
    assert!(
        remaining > 0 && remaining.is_multiple_of(500),
        "{remaining}"
    );
}

fn left(place: &Place) -> usize {
    place.with(async |db| {
        let count = duebox_core::Statement::new("SELECT COUNT(*) AS found FROM mail");
        let rows = db.query(&count).await.expect("count");
        usize::try_from(rows[0].get::<i64>("found").expect("a count")).expect("a count")
    })
}

/// The reader leaves when more is to come than a pipe holds.
fn reader_leaves(place: &Place) {
    bulk(place, 2000);
    let mut child = place.spawn(&["list", "--json", "--limit", "2000"]);
    let mut out = BufReader::new(child.stdout.take().expect("its output"));
    let mut line = String::new();
    out.read_line(&mut line).expect("a line");
    assert!(line.contains("r0000"));
    drop(out);
    let ended = child.wait_with_output().expect("its end");
    assert_eq!(ended.status.code(), Some(0));
    assert_eq!(String::from_utf8_lossy(&ended.stderr), "");
}

fn twice(place: &Place) {
    fill(place);
    let parked = place.run(&["park", "due", "due", "later", "due"]);
    assert_eq!(parked.coded(0), "2 rows parked\n");
    let some = place.run(&["retry", "due", "due", "held"]);
    assert_eq!(some.coded(1), "1 rows made due again\n");
    assert!(some.err.contains("1 of the ids"), "{some:?}");
}
