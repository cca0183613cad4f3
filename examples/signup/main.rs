//! A service that takes sign-ups and sends each new account its welcome mail.
//!
//! ```text
//! cargo run --release --example signup -- examples/data/signups.jsonl
//! ```
//!
//! For each sign-up one batch inserts the account and enqueues its mail, so that there is no
//! account without a mail and no mail without an account. Drainers claim the mails that are due,
//! deliver each into a Maildir, and complete it. The program may be killed at any moment and
//! started again with the same input: accounts that are there stay as they are, and a mail that was
//! claimed comes back when its lease ends. If the kill fell between a delivery and its completion,
//! that mail is written once more, with the same `Message-ID`.

mod accounts;
mod address;
mod drain;
mod greeting;
mod intake;
mod lines;
mod mail;
mod maildir;
mod options;
mod progress;
mod sign_up;
mod verify;

#[cfg(test)]
mod tests;

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use tokio::sync::Notify;
use tokio::task::JoinSet;

use self::accounts::Accounts;
use self::drain::Drainer;
use self::maildir::Maildir;
use self::options::{HELP, Input, Mode, Options};
use self::progress::{Counters, Screen};

pub(crate) type Error = Box<dyn std::error::Error + Send + Sync>;

#[tokio::main]
async fn main() -> ExitCode {
    let options = match Options::parse(std::env::args_os().skip(1)) {
        Ok(options) => options,
        Err(error) => {
            eprintln!("signup: {error}\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    let finished = match &options.mode {
        Mode::Help => {
            print!("{HELP}");
            Ok(true)
        }
        Mode::Run(input) => run(input.clone(), &options).await,
        Mode::Verify(file) => verify(file.as_deref(), &options).await,
    };
    match finished {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("signup: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn open(data: &Path) -> Result<(Accounts, Arc<Maildir>), Error> {
    let maildir = Maildir::open(data.join("Maildir"))
        .map_err(|error| format!("{}: {error}", data.join("Maildir").display()))?;
    let accounts = Accounts::open(&data.join("signup.db")).await?;
    Ok((accounts, Arc::new(maildir)))
}

/// Takes all sign-ups and delivers all mails; `false` if some mail could not be delivered.
async fn run(input: Input, options: &Options) -> Result<bool, Error> {
    let started = Instant::now();
    let screen = Screen::new(options.quiet);
    let (accounts, maildir) = open(&options.data).await?;
    let counters = Arc::new(Counters::default());
    let nudge = Arc::new(Notify::new());
    let last = Arc::new(AtomicBool::new(false));

    let mut drainers = JoinSet::new();
    for number in 1..=options.drainers {
        let drainer = Drainer {
            accounts: accounts.clone(),
            maildir: maildir.clone(),
            counters: counters.clone(),
            nudge: nudge.clone(),
            last: last.clone(),
            lease: options.lease,
            name: format!("signup {} drainer {number}", std::process::id()),
        };
        drainers.spawn(drainer.run());
    }
    let take = async {
        intake::take(input, &accounts, &counters, &screen, &nudge).await?;
        last.store(true, Ordering::Release);
        nudge.notify_waiters();
        Ok(())
    };
    let drain = async {
        while let Some(drainer) = drainers.join_next().await {
            drainer??;
        }
        Ok(())
    };
    let work = async { tokio::try_join!(take, drain) };
    let worked: Result<_, Error> = tokio::select! {
        worked = work => worked,
        never = screen.show(&counters, &accounts) => match never {},
    };
    screen.clear();
    worked?;

    let parked = accounts.stats().await?.parked;
    println!("lines read          {}", counters.read);
    println!("new accounts        {}", counters.new);
    println!("already there       {}", counters.already_there);
    println!("refused             {}", counters.refused);
    println!("mails delivered     {}", counters.delivered);
    println!("  of these, again   {}", counters.delivered_again);
    println!("failed deliveries   {}", counters.failed);
    println!("mails set aside     {parked}");
    println!("seconds             {:.1}", started.elapsed().as_secs_f64());
    println!("accounts and mails are in {}", options.data.display());
    Ok(parked == 0)
}

async fn verify(file: Option<&Path>, options: &Options) -> Result<bool, Error> {
    if !options.data.join("signup.db").exists() {
        return Err(format!("there is no signup.db in {}", options.data.display()).into());
    }
    let (accounts, maildir) = open(&options.data).await?;
    let findings = verify::verify(&accounts, &maildir, file).await?;
    print!("{findings}");
    Ok(findings.is_whole())
}
