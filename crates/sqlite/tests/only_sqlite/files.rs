//! What may be opened, and what it is then.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

use super::support::{Folder, LATER, NOW, assert_refused, enqueue, number, run, sql};
use duebox_sqlite::{
    Database, JournalMode, Kind, Outbox, SqliteDatabase, SqliteOptions, Statement, rusqlite,
};

#[tokio::test]
async fn memory_is_one_database_for_all_clones_of_a_handle_and_for_no_other() {
    let one = SqliteDatabase::open(":memory:").await.unwrap();
    let other = SqliteDatabase::open_in_memory().await.unwrap();
    one.migrate().await.unwrap();
    other.migrate().await.unwrap();
    let outbox = Outbox::new("outbox");
    one.clone().execute(&enqueue("x")).await.unwrap();
    assert!(
        outbox
            .claim_due(&other, NOW, LATER, 9)
            .await
            .unwrap()
            .is_empty()
    );
    let claimed = outbox.claim_due(&one, NOW, LATER, 9).await.unwrap();
    assert_eq!(claimed.len(), 1);
    assert_eq!(number(&one, "SELECT claims AS n FROM outbox").await, 1);
}

#[tokio::test]
async fn names_that_are_no_files_are_refused_at_open() {
    let folder = Folder::new();
    for name in [
        "",
        "file::memory:",
        "file::memory:?cache=shared",
        "file:a.db?mode=memory",
        "FILE:a.db",
        "sqlite::memory:",
        "sqlite://a.db",
        "a\0b",
    ] {
        let answer = SqliteDatabase::open(name).await;
        assert_refused(answer.map(drop), Kind::InvalidArgument);
    }
    // Elsewhere than at the start these are letters of a name.
    let path = folder.path().join("file:a.db?mode=memory");
    let db = SqliteDatabase::open(&path).await.unwrap();
    run(&db, "CREATE TABLE a (n)").await;
    assert!(path.exists());
}

#[tokio::test]
async fn a_file_that_is_no_database_or_cannot_be_is_told() {
    let folder = Folder::new();
    fs::write(
        folder.file(),
        "no database, however long this text has to be for that",
    )
    .unwrap();
    assert_refused(folder.options().open().await, Kind::Corrupt);
    let nowhere = folder.path().join("nowhere").join("a.db");
    // No other try can change any of it, so it is not called retryable.
    let folder_itself = folder.path();
    for path in [&*nowhere, folder_itself] {
        let error = assert_refused(SqliteDatabase::open(path).await, Kind::InvalidArgument);
        assert!(error.to_string().contains("folder"), "{error}");
        assert!(!error.is_retryable());
    }
    let absent = folder.path().join("absent.db");
    let options = SqliteOptions::new(&absent).create_if_missing(false);
    let error = assert_refused(options.open().await, Kind::InvalidArgument);
    assert!(error.to_string().contains("does not exist"), "{error}");
    assert!(!absent.exists());
}

/// The superuser may write to any file, so this runs once more as another user.
#[test]
fn a_file_that_may_not_be_written_to_is_refused_for_good() {
    const FOLDER: &str = "DUEBOX_TEST_READ_ONLY_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER) {
        return as_another_user(&PathBuf::from(folder));
    }
    let name = format!("duebox-read-only-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    for (name, mode) in [("wal", "WAL"), ("delete", "DELETE")] {
        let inner = folder.join(name);
        fs::create_dir_all(&inner).unwrap();
        let conn = rusqlite::Connection::open(inner.join("a.db")).unwrap();
        conn.query_row(&format!("PRAGMA journal_mode = {mode}"), [], |_| Ok(()))
            .unwrap();
        conn.execute_batch("CREATE TABLE a (n)").unwrap();
        drop(conn);
        fs::copy(inner.join("a.db"), inner.join("writable.db")).unwrap();
        fs::set_permissions(inner.join("a.db"), Permissions::from_mode(0o444)).unwrap();
        fs::set_permissions(inner.join("writable.db"), Permissions::from_mode(0o666)).unwrap();
        fs::set_permissions(&inner, Permissions::from_mode(0o555)).unwrap();
    }
    // Beside it, since the other user may not come to where it is.
    let program = folder.join("test");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    for path in [&folder, &program] {
        fs::set_permissions(path, Permissions::from_mode(0o755)).unwrap();
    }
    let mut command = Command::new(&program);
    command
        .args(["a_file_that_may_not_be_written_to", "--nocapture"])
        .env(FOLDER, &folder)
        .current_dir(&folder);
    if fs::File::options()
        .write(true)
        .open(folder.join("wal/a.db"))
        .is_ok()
    {
        command.uid(65_534).gid(65_534);
    }
    let output = command.output().unwrap();
    for name in ["wal", "delete"] {
        fs::set_permissions(folder.join(name), Permissions::from_mode(0o755)).unwrap();
    }
    fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        output.status.success() && said.contains("1 passed"),
        "{said}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

fn as_another_user(folder: &std::path::Path) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        for mode in [JournalMode::Wal, JournalMode::Delete] {
            for name in ["wal/a.db", "delete/a.db"] {
                let options = SqliteOptions::new(folder.join(name)).journal_mode(mode);
                assert_refused(options.open().await, Kind::Unsupported);
            }
        }
        // A log needs its file beside the database.
        for name in ["wal/writable.db", "delete/writable.db"] {
            let answer = SqliteDatabase::open(folder.join(name)).await;
            assert_refused(answer, Kind::Unsupported);
        }
    });
}

#[tokio::test]
async fn a_database_that_turns_read_only_is_no_busy_one() {
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    db.execute(&enqueue("x")).await.unwrap();
    run(&db, "PRAGMA query_only = ON").await;
    let outbox = Outbox::new("outbox");
    assert_refused(db.execute(&enqueue("y")).await, Kind::Unsupported);
    assert_refused(db.batch_atomic(&[enqueue("y")]).await, Kind::Unsupported);
    let claim = outbox.claim_due(&db, NOW, LATER, 9).await;
    assert!(!assert_refused(claim, Kind::Unsupported).is_retryable());
    assert_refused(outbox.complete(&db, "x").await, Kind::Unsupported);
    run(&db, "PRAGMA query_only = OFF").await;
    assert_eq!(outbox.claim_due(&db, NOW, LATER, 9).await.unwrap().len(), 1);
}

#[tokio::test]
async fn the_connections_are_set_as_documented() {
    let folder = Folder::new();
    for (options, foreign_keys) in [
        (folder.options(), 1),
        (folder.options().foreign_keys(false), 0),
    ] {
        let db = options.open().await.unwrap();
        // PRAGMA is run by the writer, the functions by a reader.
        for statement in ["PRAGMA foreign_keys", "SELECT * FROM pragma_foreign_keys"] {
            let rows = db.query(&Statement::new(statement)).await.unwrap();
            assert_eq!(rows[0].get::<i64>("foreign_keys"), Ok(foreign_keys));
        }
        for statement in ["PRAGMA synchronous", "SELECT * FROM pragma_synchronous"] {
            let rows = db.query(&Statement::new(statement)).await.unwrap();
            assert_eq!(rows[0].get::<i64>("synchronous"), Ok(2));
        }
        let rows = db
            .query(&sql("SELECT * FROM pragma_query_only"))
            .await
            .unwrap();
        assert_eq!(rows[0].get::<i64>("query_only"), Ok(1), "a reader");
        let rows = db.query(&sql("PRAGMA journal_mode")).await.unwrap();
        assert_eq!(rows[0].get::<String>("journal_mode").unwrap(), "wal");
    }
    let options = folder.options().journal_mode(JournalMode::Delete);
    let db = options.open().await.unwrap();
    let rows = db.query(&sql("PRAGMA journal_mode")).await.unwrap();
    assert_eq!(rows[0].get::<String>("journal_mode").unwrap(), "delete");
}

#[tokio::test]
async fn what_was_erased_can_be_erased_from_the_file_too() {
    const MARK: &str = "ada@example.com";
    let folder = Folder::new();
    let db = folder.open().await;
    db.migrate().await.unwrap();
    let outbox = Outbox::new("outbox");
    let enqueue = outbox.enqueue_statement("x", "mail", MARK, Some("a-17"), NOW);
    db.execute(&enqueue).await.unwrap();
    let files = || [folder.file(), folder.wal()].map(|path| fs::read(path).unwrap());
    let holds = |file: &[u8]| {
        file.windows(MARK.len())
            .any(|bytes| bytes == MARK.as_bytes())
    };
    assert!(files().iter().any(|file| holds(file)));
    run(&db, "PRAGMA secure_delete = ON").await;
    assert_eq!(outbox.erase_subject(&db, "a-17", 10).await, Ok(1));
    run(&db, "PRAGMA wal_checkpoint(TRUNCATE)").await;
    assert!(!files().iter().any(|file| holds(file)));
}
