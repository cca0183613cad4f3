//! Set-ups broken on purpose. In each, `check` names the cause, and what it
//! prints as the cure is carried out as printed; then it finds nothing more.

use std::fs::Permissions;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use duebox_core::chrono::TimeDelta;
use duebox_core::{Claim, Enqueue, Outbox, format_time};
use serde_json::Value;

use crate::place::{Answer, Place, answer};
use crate::session::Role;

type Test = (&'static str, fn(&Place));

pub(crate) const TESTS: &[Test] = &[
    (
        "drill::a_dead_worker_is_named_and_the_next_takes_over",
        dead_worker,
    ),
    ("drill::a_stuck_lease_is_released", stuck_lease),
    (
        "drill::printed_commands_are_harmless_whatever_the_ids_hold",
        hostile_ids,
    ),
    ("drill::a_poison_row_is_parked", poison_row),
    ("drill::a_missing_index_is_made", missing_index),
    (
        "drill::a_wrong_collation_is_mended_with_its_rows",
        wrong_collation,
    ),
    (
        "drill::a_wrong_column_is_mended_with_its_rows",
        wrong_column,
    ),
    (
        "drill::a_machine_whose_clock_is_ahead_is_told",
        clock_difference,
    ),
    (
        "drill::rows_from_a_clock_that_is_ahead_are_made_due",
        clock_ahead,
    ),
    ("drill::a_full_parked_queue_is_retried", parked_queue),
    ("drill::a_missing_table_is_made", missing_table),
    (
        "drill::a_time_in_another_form_is_named_and_made_due",
        malformed_time,
    ),
    (
        "drill::a_rebuild_that_fails_loses_no_row_and_touches_no_other_table",
        failing_rebuild,
    ),
    ("drill::columns_of_ones_own_are_no_alarm", own_columns),
    (
        "drill::a_table_that_no_crash_may_meet_is_named",
        wrong_engine,
    ),
    (
        "drill::what_is_too_large_to_look_through_is_told_by_its_index",
        too_large,
    ),
];

/// Those that change, or look at, the whole server for a while.
pub(crate) const ALONE: &[Test] = &[
    ("drill::a_pinned_snapshot_is_let_go", pinned_snapshot),
    ("drill::a_revoked_privilege_is_granted", revoked_privilege),
    (
        "drill::a_read_only_server_is_named_and_takes_writes_again",
        read_only,
    ),
];

/// What `check` says.
struct Checked {
    code: Option<i32>,
    found: Value,
}

impl Checked {
    fn of(answer: &Answer) -> Self {
        let found = serde_json::from_str(&answer.out);
        Self {
            code: answer.code,
            found: found.unwrap_or_else(|_| panic!("{answer:?}")),
        }
    }

    fn finding(&self, code: &str) -> Option<&Value> {
        let findings = self.found["findings"].as_array().expect("findings");
        findings.iter().find(|finding| finding["code"] == code)
    }

    /// It ends with 1, and this is among what it found.
    #[track_caller]
    fn names(&self, code: &str, what: &str) -> &Value {
        assert_eq!(self.code, Some(1), "{}", self.found);
        let finding = self.finding(code);
        let finding = finding.unwrap_or_else(|| panic!("no {code} in {}", self.found));
        assert!(finding.to_string().contains(what), "{finding}");
        assert_ne!(finding["cause"], "", "{finding}");
        finding
    }

    #[track_caller]
    fn is_well(&self) {
        assert_eq!(self.code, Some(0), "{}", self.found);
        assert_eq!(self.found["problems"], 0);
    }
}

fn check(place: &Place, args: &[&str]) -> Checked {
    Checked::of(&place.run(&[&["check", "--json"], args].concat()))
}

/// Does what a finding prints: its SQL on the database, its commands by a shell.
/// Returns what only a person can do.
fn cure(place: &Place, finding: &Value) -> Vec<String> {
    let mut left = Vec::new();
    let cures = finding["cures"].as_array().expect("cures");
    assert!(!cures.is_empty(), "{finding}");
    for cure in cures {
        if let Some(sql) = cure["sql"].as_str() {
            place.session().script(sql);
        } else if let Some(command) = cure["run"].as_str() {
            shell(place, command);
        } else {
            left.push(cure["do"].as_str().expect("a cure").to_owned());
        }
    }
    left
}

fn shell(place: &Place, command: &str) {
    let binary = Path::new(env!("CARGO_BIN_EXE_duebox"));
    let folder = binary.parent().expect("a folder").display();
    let path = std::env::var("PATH").unwrap_or_default();
    let done = Command::new("sh")
        .args(["-c", command])
        .env("PATH", format!("{folder}:{path}"))
        .env("DUEBOX_DATABASE_URL", &place.url)
        .output()
        .expect("a shell");
    assert!(done.status.success(), "{command}: {done:?}");
}

/// Rows `r0`, `r1`, … of the topic `mail`, enqueued so long ago.
fn enqueue(place: &Place, rows: usize, ago: TimeDelta) {
    place.run(&["migrate"]).coded(0);
    let outbox = place.outbox();
    place.with(async |db| {
        let at = db.now().await.expect("the time") - ago;
        let work = (0..rows).map(|row| {
            let work = Enqueue::new("mail").id(format!("r{row}")).at(at);
            work.payload("the-payload").subject("ada")
        });
        let statement = outbox.enqueue_many_statement(work);
        db.batch_atomic(&[statement]).await.expect("enqueue");
    });
}

/// Claims so many rows, from one time to another, in minutes from now.
fn claim(place: &Place, from: i64, until: i64, limit: u64) {
    let outbox = place.outbox();
    place.with(async |db| {
        let now = db.now().await.expect("the time");
        let at = |minutes| format_time(now + TimeDelta::minutes(minutes)).expect("a time");
        let claim = Claim::new(at(from), at(until));
        let claim = claim.limit(limit).locked_by("worker-1");
        let claimed = outbox.claim(db, &claim).await.expect("claim");
        assert_eq!(claimed.len() as u64, limit);
    });
}

/// Takes and completes all that is due.
fn drain(place: &Place, outbox: &Outbox) -> usize {
    place.with(async |db| {
        let now = db.now().await.expect("the time");
        let until = format_time(now + TimeDelta::minutes(1)).expect("a time");
        let now = format_time(now).expect("a time");
        let claimed = outbox.claim_due(db, &now, &until, 1000).await;
        let leases: Vec<_> = claimed
            .expect("claim")
            .into_iter()
            .map(|record| record.lease)
            .collect();
        let ended = outbox
            .complete_claimed(db, &leases)
            .await
            .expect("complete");
        ended.len()
    })
}

fn rows(place: &Place) -> usize {
    let listed = place.run(&["list", "--json", "--limit", "10000"]);
    listed.coded(0).lines().count()
}

fn dead_worker(place: &Place) {
    enqueue(place, 3, TimeDelta::hours(1));
    claim(place, -20, -10, 2);
    let checked = check(place, &[]);
    let finding = checked.names("dead-worker", "worker-1");
    assert_eq!(
        cure(place, finding).len(),
        1,
        "a person starts a worker: {finding}"
    );
    let status = place.run(&["status"]);
    assert!(status.coded(0).contains("worker-1"), "{status:?}");
    assert_eq!(drain(place, &place.outbox()), 3, "nothing is lost");
    check(place, &[]).is_well();
}

fn stuck_lease(place: &Place) {
    enqueue(place, 3, TimeDelta::zero());
    claim(place, 0, 60 * 24 * 30, 2);
    claim(place, 0, 5, 1);
    let checked = check(place, &[]);
    let finding = checked.names("stuck-lease", "worker-1");
    assert!(!finding.to_string().contains("r2"), "it is held as usual");
    assert_eq!(cure(place, finding), [""; 0]);
    check(place, &[]).is_well();
    assert_eq!(drain(place, &place.outbox()), 2);
}

/// Ids may hold all that a shell knows, and begin as an option does.
fn hostile_ids(place: &Place) {
    let canary = std::env::temp_dir().join(format!("duebox-canary-{}", place.label()));
    let canary = canary.display();
    let hostile = [
        "-rf".to_owned(),
        "--yes".to_owned(),
        "a'b\"c".to_owned(),
        "$HOME".to_owned(),
        "*".to_owned(),
        format!("x;touch${{IFS}}{canary}")
            .chars()
            .take(64)
            .collect(),
        format!("`touch${{IFS}}{canary}`")
            .chars()
            .take(64)
            .collect(),
        "a&&exit".to_owned(),
    ];
    place.run(&["migrate"]).coded(0);
    let outbox = place.outbox();
    place.with(async |db| {
        let now = db.now().await.expect("the time");
        let work = hostile.iter().map(|id| Enqueue::new("mail").id(id).at(now));
        let statement = outbox.enqueue_many_statement(work);
        db.batch_atomic(&[statement]).await.expect("enqueue");
    });
    claim(place, 0, 60 * 24 * 30, hostile.len() as u64);
    let checked = check(place, &[]);
    let finding = checked.names("stuck-lease", "worker-1");
    assert_eq!(cure(place, finding), [""; 0]);
    check(place, &[]).is_well();
    assert_eq!(drain(place, &place.outbox()), hostile.len());
    let touched = std::fs::exists(format!("{canary}")).expect("look");
    assert!(!touched, "an id was run");
}

fn poison_row(place: &Place) {
    enqueue(place, 1, TimeDelta::minutes(60));
    for minutes in [-50, -40, -30] {
        claim(place, minutes, minutes + 5, 1);
    }
    let checked = check(place, &[]);
    assert_eq!(cure(place, checked.names("poison-row", "r0")), [""; 0]);
    check(place, &["--max-parked", "1"]).is_well();
    assert_eq!(rows(place), 1);
}

fn missing_index(place: &Place) {
    enqueue(place, 2, TimeDelta::zero());
    for index in ["mail_due", "mail_subject"] {
        place.session().script(&match place.engine() {
            "mysql" => format!("ALTER TABLE mail DROP INDEX {index}"),
            _ => format!("DROP INDEX {index}"),
        });
    }
    let checked = check(place, &[]);
    checked.names("missing-index", "visible_at");
    let findings = checked.found["findings"].as_array().expect("findings");
    for finding in findings.iter().filter(|one| one["code"] == "missing-index") {
        assert_eq!(cure(place, finding), [""; 0]);
    }
    check(place, &[]).is_well();
    assert_eq!(drain(place, &place.outbox()), 2);
}

/// Everything that was in the table is there, and a claim takes it.
fn mended(place: &Place, code: &str, what: &str) {
    let before = place.run(&["list", "--json", "--reveal"]);
    let finding = check(place, &[]);
    let left = cure(place, finding.names(code, what));
    // What is to be stopped meanwhile; and what to compare, where the old table stays.
    assert!(matches!(left.len(), 1 | 2), "{left:?}");
    if left.len() == 2 {
        assert!(left[1].contains("drop mail_old"), "{left:?}");
        place.session().run("DROP TABLE mail_old");
    }
    check(place, &[]).is_well();
    let after = place.run(&["list", "--json", "--reveal"]);
    assert_eq!(after.coded(0), before.coded(0));
    assert_eq!(drain(place, &place.outbox()), 3);
}

fn wrong_collation(place: &Place) {
    // The shipped table, and the portable one.
    for portable in [false, true] {
        if portable {
            let make = place.outbox().create_table_sql();
            place.session().script("DROP TABLE mail");
            place.session().run(&make);
        }
        enqueue(place, 3, TimeDelta::zero());
        match place.engine() {
            "mysql" => place.session().script(
                "ALTER TABLE mail CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci",
            ),
            "postgres" => place.session().script(
                "ALTER TABLE mail ALTER COLUMN id TYPE VARCHAR(64) COLLATE \"en-x-icu\";
                 ALTER TABLE mail DROP COLUMN visible_at;
                 ALTER TABLE mail ALTER COLUMN next_attempt_at TYPE VARCHAR(27) COLLATE \"en-x-icu\";
                 ALTER TABLE mail ALTER COLUMN locked_until TYPE VARCHAR(27) COLLATE \"en-x-icu\";
                 ALTER TABLE mail ADD COLUMN visible_at VARCHAR(27) COLLATE \"en-x-icu\" GENERATED ALWAYS AS (
                     CASE WHEN locked_until > next_attempt_at THEN locked_until ELSE next_attempt_at END
                 ) STORED;
                 CREATE INDEX mail_due ON mail (visible_at, id)",
            ),
            _ => remake(place, "id TEXT NOT NULL", "id TEXT COLLATE NOCASE NOT NULL"),
        }
        mended(place, "wrong-collation", "id");
    }
}

/// Makes the shipped table of SQLite anew with one piece of its text changed.
fn remake(place: &Place, from: &str, to: &str) {
    let file = &duebox_migrations::outbox(duebox_core::Dialect::Sqlite)[0];
    let changed = file.render("mail").replace(from, to);
    assert!(changed.contains(to));
    let columns = "id, topic, payload, subject, created_at, next_attempt_at";
    place.session().run(&format!(
        "CREATE TABLE kept AS SELECT {columns} FROM mail;
         DROP TABLE mail;
         {changed}
         INSERT INTO mail ({columns}) SELECT {columns} FROM kept;
         DROP TABLE kept;"
    ));
}

fn wrong_column(place: &Place) {
    enqueue(place, 3, TimeDelta::zero());
    match place.engine() {
        "mysql" => place
            .session()
            .script("ALTER TABLE mail MODIFY topic VARCHAR(40) NOT NULL"),
        "postgres" => place
            .session()
            .script("ALTER TABLE mail ALTER COLUMN topic TYPE VARCHAR(40)"),
        _ => remake(place, "created_at TEXT NOT NULL", "created_at TEXT NULL"),
    }
    let what = if place.engine() == "sqlite" {
        "created_at"
    } else {
        "topic"
    };
    mended(place, "wrong-column", what);
}

fn malformed_time(place: &Place) {
    enqueue(place, 2, TimeDelta::zero());
    let wrong = "UPDATE mail SET next_attempt_at = '2026-12-01 14:00:00' WHERE id = 'r1'";
    place.session().run(wrong);
    let checked = check(place, &[]);
    let finding = checked.names("malformed-time", "r1");
    assert!(!finding.to_string().contains("r0"), "{finding}");
    assert_eq!(cure(place, finding).len(), 1, "a person mends the client");
    check(place, &[]).is_well();
    assert_eq!(drain(place, &place.outbox()), 2);
}

/// A row that the new table refuses, and a table of the old one's name.
fn failing_rebuild(place: &Place) {
    enqueue(place, 3, TimeDelta::zero());
    match place.engine() {
        "mysql" => place
            .session()
            .run("ALTER TABLE mail MODIFY created_at VARCHAR(27) NULL"),
        "postgres" => place
            .session()
            .run("ALTER TABLE mail ALTER COLUMN created_at DROP NOT NULL"),
        _ => remake(place, "created_at TEXT NOT NULL", "created_at TEXT NULL"),
    }
    place
        .session()
        .run("UPDATE mail SET created_at = NULL WHERE id = 'r1'");
    place
        .session()
        .run("CREATE TABLE mail_old AS SELECT * FROM mail WHERE id = 'r2'");
    let checked = check(place, &[]);
    let finding = checked.names("wrong-column", "mail_old2");
    let sql = finding["cures"].as_array().expect("cures").iter();
    let sql = sql
        .filter_map(|cure| cure["sql"].as_str())
        .collect::<String>();
    assert!(!sql.contains("DROP TABLE"), "{sql}");
    // As an interactive client does: each statement, whatever became of the last.
    let mut session = place.session();
    let failed = sql.split(";\n").filter(|one| !session.tries(one)).count();
    assert!(failed > 0, "the row cannot be copied");
    drop(session);
    let left = |table: &str| {
        let count = format!("SELECT COUNT(*) AS found FROM {table}");
        let count = duebox_core::Statement::new(count);
        place.with(async |db| match db.query(&count).await {
            Ok(rows) => rows[0].get::<i64>("found").expect("a count"),
            Err(_) => 0,
        })
    };
    assert_eq!(left("mail").max(left("mail_old2")), 3, "no row is lost");
    assert_eq!(left("mail_old"), 1, "it is another's");
}

fn own_columns(place: &Place) {
    enqueue(place, 2, TimeDelta::zero());
    for column in match place.engine() {
        "mysql" => &[
            "seq BIGINT NOT NULL AUTO_INCREMENT UNIQUE",
            "tenant TEXT NULL",
        ][..],
        "postgres" => &[
            "seq BIGINT GENERATED ALWAYS AS IDENTITY",
            "tenant TEXT NULL",
        ][..],
        _ => &["tenant TEXT NULL", "shard INTEGER NOT NULL DEFAULT 0"][..],
    } {
        place
            .session()
            .run(&format!("ALTER TABLE mail ADD COLUMN {column}"));
    }
    check(place, &[]).is_well();
}

fn wrong_engine(place: &Place) {
    enqueue(place, 2, TimeDelta::zero());
    let change = match place.engine() {
        // The other index is too long for it.
        "mysql" => "ALTER TABLE mail DROP INDEX mail_subject, ENGINE = MyISAM",
        "postgres" => "ALTER TABLE mail SET UNLOGGED",
        // A file has one.
        _ => return check(place, &[]).is_well(),
    };
    place.session().run(change);
    let checked = check(place, &[]);
    assert_eq!(cure(place, checked.names("wrong-engine", "mail")), [""; 0]);
    if let Some(index) = checked.finding("missing-index") {
        assert_eq!(cure(place, index), [""; 0]);
    }
    check(place, &[]).is_well();
    assert_eq!(drain(place, &place.outbox()), 2);
}

/// The rows of a view that takes for ever, in front of a table that is quick to count.
fn too_large(place: &Place) {
    enqueue(place, 3, TimeDelta::minutes(20));
    place.run(&["park", "r0"]).coded(0);
    crate::rows::never_split(place);
    let answer = place.run(&["check", "--json", "--timeout", "300ms"]);
    let checked = Checked::of(&answer);
    checked.names("dead-worker", "2 rows are due");
    checked.names("parked-rows", "1 rows are parked");
    assert!(checked.finding("not-checked").is_some());
}

fn missing_table(place: &Place) {
    enqueue(place, 1, TimeDelta::zero());
    place.session().script("DROP TABLE mail");
    let checked = check(place, &[]);
    assert_eq!(cure(place, checked.names("missing-table", "mail")), [""; 0]);
    check(place, &[]).is_well();
}

/// What makes a process read a clock that is ten minutes ahead.
fn clock_ahead_library() -> PathBuf {
    let library = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("clock_ahead.so");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/command/clock_ahead.c");
    let own = library.with_extension(std::process::id().to_string());
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .args([&own, &source])
        .status()
        .expect("a C compiler");
    assert!(built.success());
    std::fs::rename(&own, &library).expect("keep it");
    library
}

fn clock_difference(place: &Place) {
    place.run(&["migrate"]).coded(0);
    let answer = place.run_by(&["check", "--json"], |command| {
        command.env("LD_PRELOAD", clock_ahead_library());
    });
    let checked = Checked::of(&answer);
    if place.engine() == "sqlite" {
        // There is no other clock than the process's own.
        checked.is_well();
        return;
    }
    let finding = checked.names("clock-difference", "behind this machine's");
    assert!(finding.to_string().contains("10m") || finding.to_string().contains("9m 5"));
    assert_eq!(cure(place, finding).len(), 1, "a person sets the clock");
    check(place, &[]).is_well();
}

fn clock_ahead(place: &Place) {
    enqueue(place, 2, -TimeDelta::minutes(10));
    // Without a word they may have been scheduled.
    let scheduled = check(place, &[]);
    scheduled.is_well();
    assert!(scheduled.finding("clock-ahead").is_some());
    let checked = check(place, &["--no-schedule"]);
    let finding = checked.names("clock-ahead", "r1");
    assert_eq!(drain(place, &place.outbox()), 0, "they fall due late");
    assert_eq!(cure(place, finding).len(), 1, "a person sets the clock");
    assert_eq!(drain(place, &place.outbox()), 2);
    check(place, &[]).is_well();
}

fn parked_queue(place: &Place) {
    enqueue(place, 700, TimeDelta::zero());
    place.run(&["park", "--topic", "mail"]).coded(0);
    place.run(&["status", "--max-parked", "600"]).coded(1);
    let checked = check(place, &[]);
    let finding = checked.names("parked-rows", "700");
    assert_eq!(cure(place, finding).len(), 1, "a person mends what failed");
    check(place, &[]).is_well();
    assert_eq!(drain(place, &place.outbox()), 700);
}

/// Waits until `check` names it; a transaction has to be old enough first.
fn await_finding(place: &Place, code: &str, what: &str, args: &[&str]) -> Value {
    for _ in 0..600 {
        let checked = check(place, args);
        let findings = checked.found["findings"].as_array().expect("findings");
        let meant = |one: &&Value| one["code"] == code && one.to_string().contains(what);
        if let Some(finding) = findings.iter().find(meant) {
            return finding.clone();
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("{code} never came");
}

fn pinned_snapshot(place: &Place) {
    enqueue(place, 5, TimeDelta::zero());
    let mut reader = place.session();
    let session = reader.begin_reading();
    // What a checkpoint would copy back.
    assert_eq!(drain(place, &place.outbox()), 5);
    let old = ["--max-transaction", "2s"];
    let finding = await_finding(place, "pinned-snapshot", &session, &old);
    let left = cure(place, &finding);
    assert_eq!(left.len(), 1, "a person sees whose it is");
    if place.engine() == "sqlite" {
        drop(reader);
        check(place, &old).is_well();
        return;
    }
    // It is rolled back first, which takes a moment.
    for _ in 0..600 {
        let found = check(place, &old).found["findings"].to_string();
        if !found.contains(&session) {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    panic!("the transaction is still there");
}

fn revoked_privilege(place: &Place) {
    enqueue(place, 1, TimeDelta::zero());
    if place.engine() == "sqlite" {
        // Of a file there is none but to write to it.
        return read_only_file(place, 0o444, 0o755);
    }
    let role = Role::new(place);
    let lesser = role.url();
    let as_lesser = |args: &[&str]| {
        let place = ["--database", &lesser, "--table", "mail"];
        crate::place::duebox(&[args, &place].concat(), "")
    };
    Checked::of(&as_lesser(&["check", "--json", "--ignore", "not-checked"])).is_well();
    place
        .session()
        .script(&format!("REVOKE INSERT, DELETE ON mail FROM {}", role.name));
    let checked = Checked::of(&as_lesser(&["check", "--json"]));
    let finding = checked.names("missing-privilege", "INSERT, DELETE");
    assert_eq!(cure(place, finding), [""; 0]);
    Checked::of(&as_lesser(&["check", "--json"])).is_well();

    // What there is beside it may not be seen: then nobody is to think that this is all.
    let all = |args: &[&str]| crate::place::duebox(&[args, &["--database", &lesser]].concat(), "");
    all(&["subject", "export", "ada"]).coded(3);
    all(&["status"]).coded(3);
    let checked = Checked::of(&all(&["check", "--json"]));
    let finding = checked.names("missing-privilege", "duebox_migrations");
    assert_eq!(cure(place, finding).len(), 1, "a person looks for tickets");
    let exported = all(&["subject", "export", "ada"]);
    assert_eq!(exported.coded(0).lines().count(), 1);
    Checked::of(&all(&["check", "--json"])).is_well();
}

fn read_only(place: &Place) {
    enqueue(place, 1, TimeDelta::zero());
    let set = match place.engine() {
        "sqlite" => return read_only_file(place, 0o444, 0o555),
        "mysql" => "SET GLOBAL read_only = ON".to_owned(),
        _ => {
            let name = place.name();
            format!("ALTER DATABASE {name} SET default_transaction_read_only = on")
        }
    };
    place.session().script(&set);
    let checked = check(place, &[]);
    cure(place, checked.names("read-only-server", "read"));
    check(place, &[]).is_well();
    assert_eq!(drain(place, &place.outbox()), 1);
}

/// A copy of the file with these rights, for a user who is not root.
fn read_only_file(place: &Place, file_mode: u32, folder_mode: u32) {
    let (_, path) = place.url.split_once(':').expect("a path");
    let name = format!("duebox-drill-{}-{folder_mode:o}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    std::fs::create_dir_all(&folder).expect("a folder");
    let set = |of: &Path, mode| {
        std::fs::set_permissions(of, Permissions::from_mode(mode)).expect("set the rights");
    };
    // Whom a lesser user can run.
    let binary = folder.join("duebox");
    std::fs::copy(env!("CARGO_BIN_EXE_duebox"), &binary).expect("copy the binary");
    let file = folder.join("app.db");
    std::fs::copy(path, &file).expect("copy the file");
    let nobody = 65534;
    let root = std::fs::metadata("/proc/self").is_ok_and(|own| own.uid() == 0);
    let url = format!("sqlite:{}", file.display());
    let run = || {
        let mut command = Command::new(&binary);
        command.args(["check", "--json", "--table", "mail", "--database", &url]);
        command.current_dir(&folder);
        if root {
            command.uid(nobody).gid(nobody);
        }
        Checked::of(&answer(&mut command, ""))
    };
    if root {
        for owned in [&folder, &file] {
            std::os::unix::fs::chown(owned, Some(nobody), Some(nobody)).expect("chown");
        }
    }
    set(&file, file_mode);
    set(&folder, folder_mode);
    let checked = run();
    let finding = checked.names("read-only-server", "chmod u+w");
    assert_eq!(cure(place, finding).len(), 1, "a person gives the rights");
    set(&folder, 0o755);
    for beside in std::fs::read_dir(&folder).expect("a folder") {
        let beside = beside.expect("a file").path();
        if beside != binary {
            set(&beside, 0o644);
        }
    }
    run().is_well();
    std::fs::remove_dir_all(&folder).expect("clean up");
}
