//! Checks what a run has left, by the accounts and the mails themselves.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{self, File};
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};

use crate::Error;
use crate::accounts::{Account, Accounts};
use crate::lines::Lines;
use crate::mail::message_id;
use crate::maildir::Maildir;
use crate::sign_up::SignUp;

/// What was found.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Findings {
    pub(crate) accounts: u64,
    /// Messages in the Maildir.
    pub(crate) mails: u64,
    /// Different `Message-ID`s among them.
    pub(crate) distinct: u64,
    /// Accounts without a mail to their own address.
    missing: u64,
    /// `Message-ID`s of no account.
    strays: u64,
    /// Messages that are not whole, or not alike though their `Message-ID` is.
    broken: u64,
    /// Rows in the outbox.
    pub(crate) waiting: u64,
    /// Sign-ups of the file without an account.
    unknown: u64,
}

impl Findings {
    /// Whether every account has its one mail and nothing else is there.
    pub(crate) fn is_whole(&self) -> bool {
        self.accounts == self.distinct
            && self.missing + self.strays + self.broken + self.waiting + self.unknown == 0
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "accounts            {}", self.accounts)?;
        writeln!(f, "mails               {}", self.mails)?;
        writeln!(f, "distinct mails      {}", self.distinct)?;
        writeln!(f, "duplicates          {}", self.mails - self.distinct)?;
        writeln!(f, "accounts, no mail   {}", self.missing)?;
        writeln!(f, "mails, no account   {}", self.strays)?;
        writeln!(f, "broken mails        {}", self.broken)?;
        writeln!(f, "still in the outbox {}", self.waiting)?;
        writeln!(f, "sign-ups not taken  {}", self.unknown)
    }
}

/// The mails of a folder, by their `Message-ID`.
#[derive(Debug, Default)]
struct Mails {
    count: u64,
    broken: u64,
    /// The address that each is for, and its whole text.
    by_id: HashMap<String, (String, Vec<u8>)>,
}

impl Mails {
    fn read(paths: &[PathBuf]) -> io::Result<Self> {
        let mut mails = Self::default();
        for path in paths {
            mails.add(&fs::read(path)?);
        }
        Ok(mails)
    }

    fn add(&mut self, message: &[u8]) {
        self.count += 1;
        let Some((id, to)) = id_and_address(message) else {
            self.broken += 1;
            return;
        };
        let (_, first) = self
            .by_id
            .entry(id)
            .or_insert_with(|| (to, message.to_vec()));
        self.broken += u64::from(first != message);
    }
}

/// Reads the two headers by which a mail is known, of a message as [`crate::mail`] writes it.
fn id_and_address(message: &[u8]) -> Option<(String, String)> {
    let text = str::from_utf8(message).ok()?;
    let (header, body) = text.split_once("\r\n\r\n")?;
    if !body.ends_with("\r\n") {
        return None;
    }
    // A header line that begins with a space continues the one before.
    let header = header.replace("\r\n ", " ");
    let field = |name: &str| {
        let mut found = header
            .split("\r\n")
            .filter_map(|line| line.strip_prefix(name));
        found.next().filter(|_| found.next().is_none())
    };
    let in_brackets = |value: &str| Some(value.rsplit_once('<')?.1.strip_suffix('>')?.to_owned());
    Some((
        in_brackets(field("Message-ID: ")?)?,
        in_brackets(field("To: ")?)?,
    ))
}

/// Compares all accounts with all mails, and the sign-ups of `file` with the accounts.
pub(crate) async fn verify(
    accounts: &Accounts,
    maildir: &Maildir,
    file: Option<&Path>,
) -> Result<Findings, Error> {
    let mut mails = Mails::read(&maildir.messages()?)?;
    let stats = accounts.stats().await?;
    let mut findings = Findings {
        mails: mails.count,
        broken: mails.broken,
        distinct: mails.by_id.len() as u64,
        waiting: stats.waiting + stats.due + stats.leased + stats.parked,
        ..Findings::default()
    };
    let mut keys = HashSet::new();
    let mut after = String::new();
    loop {
        let page = accounts.page(&after).await?;
        let Some(last) = page.last() else { break };
        after.clone_from(&last.id);
        for account in page {
            findings.accounts += 1;
            findings.missing += u64::from(!take(&mut mails, &account));
            keys.insert(account.key);
        }
    }
    findings.strays = mails.by_id.len() as u64;
    if let Some(file) = file {
        findings.unknown = not_taken(file, &keys)?;
    }
    Ok(findings)
}

/// Takes the account's mail out of the folder's, and says whether it was there.
fn take(mails: &mut Mails, account: &Account) -> bool {
    let mail = mails.by_id.remove(&message_id(&account.welcome_id));
    mail.is_some_and(|(to, _)| to == account.email)
}

fn not_taken(file: &Path, keys: &HashSet<String>) -> io::Result<u64> {
    let mut count = 0;
    for line in Lines::new(BufReader::new(File::open(file)?)) {
        let bytes = line?.bytes.unwrap_or_default();
        let sign_up = SignUp::parse(&bytes);
        count += u64::from(sign_up.is_ok_and(|sign_up| !keys.contains(&sign_up.address.key())));
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::{Account, Findings, Mails, take};

    fn mail(id: &str, to: &str) -> Vec<u8> {
        format!(
            "To: =?utf-8?Q?A?=\r\n <{to}>\r\nMessage-ID: <{id}@signup.example.com>\r\n\r\nHello\r\n"
        )
        .into()
    }

    fn mails(messages: &[Vec<u8>]) -> Mails {
        let mut mails = Mails::default();
        for message in messages {
            mails.add(message);
        }
        mails
    }

    fn account(welcome_id: &str, email: &str) -> Account {
        Account {
            id: "1".into(),
            key: email.into(),
            email: email.into(),
            welcome_id: welcome_id.into(),
        }
    }

    #[test]
    fn the_same_mail_twice_is_one_and_the_accounts_own() {
        let mut mails = mails(&[mail("m", "a@example.com"), mail("m", "a@example.com")]);
        assert_eq!((mails.count, mails.by_id.len(), mails.broken), (2, 1, 0));
        assert!(take(&mut mails, &account("m", "a@example.com")));
        assert!(mails.by_id.is_empty());
    }

    #[test]
    fn a_missing_mail_and_one_to_another_address_are_found() {
        let mut mails = mails(&[mail("m", "b@example.com")]);
        assert!(!take(&mut mails, &account("n", "a@example.com")));
        assert!(!take(&mut mails, &account("m", "a@example.com")));
    }

    #[test]
    fn a_cut_mail_and_an_unlike_twin_are_broken() {
        let whole = mail("m", "a@example.com");
        for end in 0..whole.len() {
            assert_eq!(mails(&[whole[..end].to_vec()]).broken, 1, "cut at {end}");
        }
        assert_eq!(mails(&[whole, mail("m", "b@example.com")]).broken, 1);
    }

    #[test]
    fn any_one_gap_is_enough_to_fail() {
        assert!(
            Findings {
                accounts: 2,
                mails: 3,
                distinct: 2,
                ..Findings::default()
            }
            .is_whole()
        );
        let whole = || Findings {
            accounts: 2,
            mails: 2,
            distinct: 2,
            ..Findings::default()
        };
        for gap in [
            Findings {
                distinct: 1,
                ..whole()
            },
            Findings {
                missing: 1,
                ..whole()
            },
            Findings {
                strays: 1,
                ..whole()
            },
            Findings {
                broken: 1,
                ..whole()
            },
            Findings {
                waiting: 1,
                ..whole()
            },
            Findings {
                unknown: 1,
                ..whole()
            },
        ] {
            assert!(!gap.is_whole(), "{gap:?}");
        }
    }
}
