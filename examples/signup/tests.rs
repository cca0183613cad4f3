//! The whole program, on a folder of its own.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use duebox_sqlite::{Claim, Enqueue, ListOptions, RowState, format_time};
use duebox_worker::testing::drain_once;

use crate::drain::{self, Delivery, Mailer, deliver};
use crate::options::{Input, Mode, Options};
use crate::sign_up::SignUp;
use crate::verify::Findings;
use crate::{Error, open, run, verify};

/// A fresh folder that goes when the test ends.
pub(crate) struct Folder(pub(crate) PathBuf);

impl Folder {
    pub(crate) fn new(test: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("duebox-signup-{}-{test}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }

    fn options(&self) -> Options {
        Options {
            mode: Mode::Help,
            data: self.0.clone(),
            database: None,
            name: None,
            deliveries: 2,
            lease: Duration::from_secs(1),
            quiet: true,
        }
    }

    async fn run(&self, file: &Path) -> Result<bool, Error> {
        run(Input::File(file.to_owned()), &self.options()).await
    }

    async fn findings(&self, file: &Path) -> Findings {
        let (accounts, maildir) = open(&self.options()).await.expect("opens");
        verify::verify(&accounts, &maildir, Some(file))
            .await
            .expect("reads")
    }

    /// A file of one sign-up.
    fn one(&self) -> PathBuf {
        fs::create_dir_all(&self.0).expect("a folder");
        let path = self.0.join("one.jsonl");
        fs::write(&path, ANN).expect("writes");
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const ANN: &str = r#"{"email":"ann@example.com","name":"Ann"}"#;

fn ann() -> SignUp {
    SignUp::parse(ANN.as_bytes()).expect("valid")
}

fn shipped() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("data/signups.jsonl")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_sign_up_of_the_shipped_file_has_one_mail_however_often_it_runs() {
    let folder = Folder::new("shipped");
    for _ in 0..2 {
        assert!(folder.run(&shipped()).await.expect("runs"));
        let found = folder.findings(&shipped()).await;
        assert!(found.is_whole(), "{found}");
        assert_eq!((found.accounts, found.mails), (652, 652), "{found}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_that_run_side_by_side_share_the_accounts() {
    let folder = Folder::new("two");
    let file = shipped();
    let (one, two) = tokio::join!(folder.run(&file), folder.run(&file));
    assert!(one.expect("runs") && two.expect("runs"));
    let found = folder.findings(&file).await;
    assert!(found.is_whole(), "{found}");
}

/// What a kill between delivery and completion leaves behind.
#[tokio::test]
async fn a_mail_that_was_written_but_not_completed_is_written_again_with_the_same_message_id() {
    let folder = Folder::new("crash");
    let file = folder.one();
    let (accounts, maildir) = open(&folder.options()).await.expect("opens");
    let now = accounts.db.now().await.expect("a time");
    accounts.sign_up(&ann(), now).await.expect("signs up");
    let [now, then] =
        [now, now + Duration::from_secs(1)].map(|time| format_time(time).expect("a time"));
    let claimed = accounts
        .outbox
        .claim(&*accounts.db, &Claim::new(now, then))
        .await;
    let [record] = &claimed.expect("claims")[..] else {
        panic!("one row")
    };
    assert!(matches!(deliver(&maildir, record), Delivery::Done));

    assert!(folder.run(&file).await.expect("runs"));
    let found = folder.findings(&file).await;
    assert!(found.is_whole(), "{found}");
    assert_eq!(
        (found.accounts, found.mails, found.distinct),
        (1, 2, 1),
        "{found}"
    );
}

#[tokio::test]
async fn a_payload_that_is_no_mail_is_set_aside_and_the_others_go_out() {
    let folder = Folder::new("parked");
    let file = folder.one();
    let (accounts, _) = open(&folder.options()).await.expect("opens");
    let now = accounts.db.now().await.expect("a time");
    let work = Enqueue::new("mail.welcome").at(now).payload("{}");
    accounts
        .db
        .execute(&accounts.outbox.enqueue(work))
        .await
        .expect("enqueues");

    assert!(!folder.run(&file).await.expect("runs"));
    let found = folder.findings(&file).await;
    assert_eq!(
        (found.accounts, found.distinct, found.waiting),
        (1, 1, 1),
        "{found}"
    );
    assert!(!found.is_whole());
}

#[tokio::test]
async fn a_mail_that_cannot_be_written_waits_for_another_attempt() {
    let folder = Folder::new("retry");
    let (accounts, maildir) = open(&folder.options()).await.expect("opens");
    let now = accounts.db.now().await.expect("a time");
    accounts.sign_up(&ann(), now).await.expect("signs up");
    fs::remove_dir(folder.0.join("Maildir/new")).expect("is empty");
    let mailer = Mailer {
        maildir,
        counters: Arc::default(),
    };
    let worker = drain::worker(&accounts, mailer.clone(), &folder.options());
    drain_once(worker).await.expect("goes on");
    let counters = &mailer.counters;
    assert_eq!((counters.failed.get(), counters.delivered.get()), (1, 0));
    let now = format_time(accounts.db.now().await.expect("a time")).expect("a time");
    let listed = accounts
        .outbox
        .list(&*accounts.db, &now, &ListOptions::new())
        .await;
    let [entry] = &listed.expect("lists")[..] else {
        panic!("one row")
    };
    assert_eq!((entry.state(&now), entry.attempts), (RowState::Waiting, 1));
    assert_eq!(entry.last_error.as_deref(), Some("entity not found"));

    let file = folder.one();
    assert!(folder.run(&file).await.expect("runs"));
    assert!(folder.findings(&file).await.is_whole());
}
