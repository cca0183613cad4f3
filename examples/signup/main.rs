//! A service that takes sign-ups and sends each new account its welcome mail.
//!
//! ```text
//! cargo run --release --example signup -- examples/data/signups.jsonl
//! ```
//!
//! For each sign-up one batch inserts the account and enqueues its mail, so that there is no
//! account without a mail and no mail without an account. A worker delivers the mails that are
//! due into a Maildir. The program may be killed at any moment and
//! started again with the same input: accounts that are there stay as they are, and a mail that was
//! claimed comes back when its lease ends. If the kill fell between a delivery and its completion,
//! that mail is written once more, with the same `Message-ID`.

mod accounts;
mod address;
mod database;
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
use std::time::{Duration, Instant};

use self::accounts::Accounts;
use self::drain::Mailer;
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
        Mode::Drop => drop_all(&options).await,
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

async fn open(options: &Options) -> Result<(Accounts, Arc<Maildir>), Error> {
    let folder = options.data.join("Maildir");
    let maildir =
        Maildir::open(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let accounts = Accounts::open(&options.url(), options.name.as_deref()).await?;
    Ok((accounts, Arc::new(maildir)))
}

/// Takes all sign-ups and delivers all mails; `false` if some mail could not be delivered.
async fn run(input: Input, options: &Options) -> Result<bool, Error> {
    let started = Instant::now();
    let screen = Screen::new(options.quiet);
    let (accounts, maildir) = open(options).await?;
    let counters = Arc::new(Counters::default());
    let mailer = Mailer {
        maildir,
        counters: counters.clone(),
    };
    let worker = drain::worker(&accounts, mailer, options).start().await?;
    let work = async {
        intake::take(input, &accounts, &counters, &screen, &worker).await?;
        drain::finish(&worker, &accounts).await
    };
    let ended: Result<_, Error> = tokio::select! {
        ended = work => ended,
        never = screen.show(&counters, &accounts) => match never {},
    };
    screen.clear();
    ended?;
    worker.shutdown(Duration::from_secs(10)).await?;

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
    println!("mails are in        {}", options.data.display());
    Ok(parked == 0)
}

async fn verify(file: Option<&Path>, options: &Options) -> Result<bool, Error> {
    if options.database.is_none() && !options.data.join("signup.db").exists() {
        return Err(format!("there is no signup.db in {}", options.data.display()).into());
    }
    let (accounts, maildir) = open(options).await?;
    let findings = verify::verify(&accounts, &maildir, file).await?;
    print!("{findings}");
    Ok(findings.is_whole())
}

async fn drop_all(options: &Options) -> Result<bool, Error> {
    let (accounts, _) = open(options).await?;
    accounts.drop_all().await?;
    Ok(true)
}
