//! Takes sign-ups from the input, many at a time.

use std::fs::File;
use std::io::{self, BufRead, BufReader};
use std::sync::Arc;
use std::thread;

use duebox_worker::Worker;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::Error;
use crate::accounts::{Accounts, SignedUp};
use crate::lines::{Line, Lines};
use crate::options::Input;
use crate::progress::{Counters, Screen};
use crate::sign_up::{Refusal, SignUp};

/// How many sign-ups are under way at a time. Each is a batch of its own; the database commits
/// those that come together by one sync of the disk.
const UNDER_WAY: usize = 256;

/// Reads lines in a thread of their own, since reading may block for as long as it likes.
fn lines(input: Input) -> Result<mpsc::Receiver<io::Result<Line>>, Error> {
    let input: Box<dyn BufRead + Send> = match input {
        Input::Stdin => Box::new(BufReader::new(io::stdin())),
        Input::File(path) => {
            let file = File::open(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            Box::new(BufReader::new(file))
        }
    };
    let (sender, receiver) = mpsc::channel(UNDER_WAY);
    thread::Builder::new()
        .name("input".to_owned())
        .spawn(move || {
            for line in Lines::new(input) {
                let failed = line.is_err();
                if sender.blocking_send(line).is_err() || failed {
                    break;
                }
            }
        })?;
    Ok(receiver)
}

/// Takes all sign-ups of the input. Of two with one address, the first to be committed counts.
pub(crate) async fn take(
    input: Input,
    accounts: &Accounts,
    counters: &Arc<Counters>,
    screen: &Screen,
    worker: &Worker,
) -> Result<(), Error> {
    let mut lines = lines(input)?;
    let mut under_way = JoinSet::new();
    while let Some(line) = lines.recv().await {
        let line = line.map_err(|error| format!("read the input: {error}"))?;
        counters.read.add(1);
        let sign_up = match &line.bytes {
            None => Err(Refusal::TooLong),
            Some(bytes) => SignUp::parse(bytes),
        };
        match sign_up {
            Err(why) => {
                counters.refused.add(1);
                screen.refused(line.number, why);
            }
            Ok(sign_up) => {
                if under_way.len() >= UNDER_WAY {
                    finish_one(&mut under_way).await?;
                }
                let (accounts, counters, nudger) =
                    (accounts.clone(), counters.clone(), worker.nudger());
                let now = worker.clock().now();
                under_way.spawn(async move {
                    match accounts.sign_up(&sign_up, now).await? {
                        SignedUp::AlreadyThere => counters.already_there.add(1),
                        SignedUp::New => {
                            counters.new.add(1);
                            nudger.nudge();
                        }
                    }
                    Ok(())
                });
            }
        }
    }
    while !under_way.is_empty() {
        finish_one(&mut under_way).await?;
    }
    Ok(())
}

async fn finish_one(under_way: &mut JoinSet<Result<(), Error>>) -> Result<(), Error> {
    match under_way.join_next().await {
        None => Ok(()),
        Some(finished) => finished?,
    }
}
