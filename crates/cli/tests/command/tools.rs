//! Files printed for migration tools, applied by those tools, and recognised.

use std::path::Path;

use duebox_core::uuid::Uuid;
use duebox_core::{DeviceToken, Enqueue, PendingReceipt, PushTicketId};
use refinery_core::{Runner, load_sql_migrations};
use sqlx::migrate::Migrator;
use sqlx::{Connection as _, MySqlConnection, PgConnection, SqliteConnection};

use crate::place::{Place, block_on, duebox};

type Test = (&'static str, fn(&Place));

pub(crate) const TESTS: &[Test] = &[
    ("tools::files_for_sqlx_are_applied_by_its_migrator", by_sqlx),
    ("tools::files_for_refinery_are_applied_by_it", by_refinery),
];

/// Writes the files for a tool, has it apply them twice, and looks at what it
/// made.
fn applied(place: &Place, tool: &str, apply: impl Fn(&Path)) {
    let folder = std::env::temp_dir().join(format!(
        "duebox-{tool}-{}-{}",
        place.engine(),
        std::process::id()
    ));
    let unique = folder.join(place.label());
    let at = unique.display().to_string();
    let url = ["--database", place.url.as_str()];
    let write = ["migrate", "--tool", tool, "--dir", &at];
    duebox(&[&write[..], &["--from", "7"], &url].concat(), "").coded(0);
    // Another outbox comes later, in the same folder.
    let other = ["--from", "9", "--table", "mail"];
    duebox(&[&write[..], &other, &url].concat(), "").coded(0);
    apply(&unique);
    apply(&unique);
    std::fs::remove_dir_all(&folder).expect("clean up");

    // The tool's own books say nothing to this program: the tables do.
    for args in [
        &["check", "--json"][..],
        &["check", "--json", "--table", "mail"],
    ] {
        let answer = duebox(&[args, &url].concat(), "");
        let found: serde_json::Value = serde_json::from_str(answer.coded(0)).expect("JSON");
        assert_eq!(found["problems"], 0, "{found}");
        let tables = found["tables"].to_string();
        let receipts = tables.contains("pending_receipts");
        assert_eq!(receipts, !tables.contains("mail"), "{tables}");
    }
    // A person's tickets are found there.
    let ada = Uuid::from_u128(7);
    let now = place.with(async |db| db.now().await.expect("the time"));
    place.with_receipts(async |store| {
        let receipt = PendingReceipt {
            ticket: PushTicketId::new("t-1").expect("a ticket"),
            owner_id: ada,
            token: DeviceToken::new("token-1").expect("a token"),
            sent_at: now,
        };
        store.record(vec![receipt], now).await.expect("record");
    });
    let owner = ["--owner", &ada.to_string()];
    let export = duebox(
        &[&["subject", "export", "ada"], &owner[..], &url].concat(),
        "",
    );
    assert!(export.coded(0).contains("token-1"), "{export:?}");
    let erase = ["subject", "erase", "ada", "--yes"];
    let erased = duebox(&[&erase[..], &owner, &url].concat(), "");
    assert!(erased.coded(0).contains("1 tickets erased"), "{erased:?}");
    // A later `migrate` leaves them as they are.
    place.run(&["migrate"]).coded(0);
    duebox(&[&["migrate"], &url[..]].concat(), "").coded(0);
    let outbox = place.outbox();
    place.with(async |db| {
        let now = db.now().await.expect("the time");
        let row = outbox.enqueue(Enqueue::new("mail").payload("{}").at(now));
        db.batch_atomic(&[row]).await.expect("enqueue");
    });
    assert_eq!(place.run(&["list", "--json"]).coded(0).lines().count(), 1);
}

fn by_sqlx(place: &Place) {
    applied(place, "sqlx", |folder| {
        block_on(async {
            let migrator = Migrator::new(folder).await.expect("sqlx reads the files");
            let url = &place.url;
            let ran = match place.engine() {
                "sqlite" => {
                    // It makes no file unless it is told to.
                    let url = format!("{url}?mode=rwc");
                    let mut to = SqliteConnection::connect(&url).await.expect("connect");
                    migrator.run(&mut to).await
                }
                "mysql" => {
                    let mut to = MySqlConnection::connect(url).await.expect("connect");
                    migrator.run(&mut to).await
                }
                _ => {
                    let mut to = PgConnection::connect(url).await.expect("connect");
                    migrator.run(&mut to).await
                }
            };
            ran.expect("sqlx applies them");
        });
    });
}

fn by_refinery(place: &Place) {
    applied(place, "refinery", |folder| {
        let files = load_sql_migrations(folder).expect("refinery reads the files");
        assert!(!files.is_empty());
        let runner = Runner::new(&files);
        block_on(async {
            match place.engine() {
                "sqlite" => {
                    let path = place.url.trim_start_matches("sqlite:");
                    let mut to = rusqlite::Connection::open(path).expect("open");
                    runner.run(&mut to).map(drop)
                }
                "mysql" => {
                    let pool = mysql_async::Pool::new(place.url.as_str());
                    let mut to = pool.clone();
                    let ran = runner.run_async(&mut to).await.map(drop);
                    drop(to);
                    pool.disconnect().await.expect("disconnect");
                    ran
                }
                _ => {
                    let no_tls = tokio_postgres::NoTls;
                    let connected = tokio_postgres::connect(&place.url, no_tls).await;
                    let (mut to, connection) = connected.expect("connect");
                    tokio::spawn(connection);
                    runner.run_async(&mut to).await.map(drop)
                }
            }
            .expect("refinery applies them");
        });
    });
}
