//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use lexopt::{Arg, Parser, ValueExt};

pub(crate) const HELP: &str = "\
Takes sign-ups and sends each new account its welcome mail.

usage: signup [options] FILE     take the sign-ups of a file, one JSON object a line
       signup [options] -        take them from the standard input
       signup --verify [options] [FILE]
                                 check that every account has its mail, and that
                                 every sign-up of the file has its account
       signup --drop [options]   drop the tables

options:
  --data DIR       where the Maildir is kept [signup-data]
  --database URL   sqlite:FILE, postgres://… or mysql://… [sqlite:DIR/signup.db]
  --name NAME      what the names of the tables begin with, if there are several
                   sets of them in one database
  --deliveries N   how many mails are delivered side by side, 1 to 64 [2]
  --lease SECONDS  how long a mail waits if its process dies, 1 to 3600 [10]
  --quiet          print no progress and no refused lines
  --help           print this
";

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Help,
    Run(Input),
    Verify(Option<PathBuf>),
    Drop,
}

/// Where the sign-ups come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Input {
    Stdin,
    File(PathBuf),
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    pub(crate) mode: Mode,
    pub(crate) data: PathBuf,
    /// The URL, if it was given.
    pub(crate) database: Option<String>,
    pub(crate) name: Option<String>,
    pub(crate) deliveries: usize,
    pub(crate) lease: Duration,
    pub(crate) quiet: bool,
}

impl Options {
    pub(crate) fn parse(
        arguments: impl IntoIterator<Item = OsString>,
    ) -> Result<Self, lexopt::Error> {
        let mut parser = Parser::from_args(arguments);
        let mut options = Self {
            mode: Mode::Help,
            data: PathBuf::from("signup-data"),
            database: None,
            name: None,
            deliveries: 2,
            lease: Duration::from_secs(10),
            quiet: false,
        };
        let (mut verify, mut drop, mut input) = (false, false, None);
        while let Some(argument) = parser.next()? {
            match argument {
                Arg::Short('h') | Arg::Long("help") => return Ok(options),
                Arg::Long("verify") => verify = true,
                Arg::Long("quiet") => options.quiet = true,
                Arg::Long("data") => options.data = parser.value()?.into(),
                Arg::Long("drop") => drop = true,
                Arg::Long("database") => options.database = Some(parser.value()?.string()?),
                Arg::Long("name") => options.name = Some(parser.value()?.string()?),
                Arg::Long("deliveries") => {
                    let count = parser.value()?.parse_with(|text| number(text, 64))?;
                    options.deliveries = count.try_into().unwrap_or(usize::MAX);
                }
                Arg::Long("lease") => {
                    let seconds = parser.value()?.parse_with(|text| number(text, 3600))?;
                    options.lease = Duration::from_secs(seconds.into());
                }
                Arg::Value(path) if input.is_none() => input = Some(path),
                other => return Err(other.unexpected()),
            }
        }
        if drop {
            if verify || input.is_some() {
                return Err("--drop takes no file and no --verify".into());
            }
            options.mode = Mode::Drop;
            return Ok(options);
        }
        options.mode = match (verify, input) {
            (true, Some(path)) if path == "-" => {
                return Err("--verify reads a file, not the standard input".into());
            }
            (true, path) => Mode::Verify(path.map(PathBuf::from)),
            (false, Some(path)) if path == "-" => Mode::Run(Input::Stdin),
            (false, Some(path)) => Mode::Run(Input::File(path.into())),
            (false, None) => return Err("which file? say - for the standard input".into()),
        };
        Ok(options)
    }
}

impl Options {
    /// The URL of the database; a file in the folder unless another was given.
    pub(crate) fn url(&self) -> String {
        self.database
            .clone()
            .unwrap_or_else(|| format!("sqlite:{}", self.data.join("signup.db").display()))
    }
}

fn number(text: &str, most: u32) -> Result<u32, String> {
    let number = text.parse().ok();
    number
        .filter(|number| (1..=most).contains(number))
        .ok_or_else(|| format!("not a number from 1 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::{Input, Mode, Options};

    fn parse(line: &str) -> Result<Options, String> {
        let arguments = line.split_whitespace().map(Into::into);
        Options::parse(arguments).map_err(|error| error.to_string())
    }

    #[test]
    fn a_file_is_enough() {
        let options = parse("people.jsonl").expect("parses");
        assert_eq!(options.mode, Mode::Run(Input::File("people.jsonl".into())));
        assert_eq!(options.data.to_str(), Some("signup-data"));
        assert_eq!((options.deliveries, options.quiet), (2, false));
        assert_eq!(options.lease.as_secs(), 10);
    }

    #[test]
    fn options_stand_before_or_behind_the_file() {
        let options = parse("--deliveries=4 - --data=x --quiet --lease 3600").expect("parses");
        assert_eq!(options.mode, Mode::Run(Input::Stdin));
        assert_eq!(options.data.to_str(), Some("x"));
        assert_eq!((options.deliveries, options.quiet), (4, true));
        assert_eq!(options.lease.as_secs(), 3600);
    }

    #[test]
    fn verify_takes_a_file_or_none() {
        assert_eq!(parse("--verify").expect("parses").mode, Mode::Verify(None));
        let options = parse("--verify a.jsonl").expect("parses");
        assert_eq!(options.mode, Mode::Verify(Some("a.jsonl".into())));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for line in [
            "",
            "a b",
            "--verify -",
            "--deliveries=0 a",
            "--deliveries=65 a",
            "--drop a",
            "--drop --verify",
            "--lease 0 a",
            "--lease 1s a",
            "--fast a",
            "--data",
        ] {
            parse(line).expect_err(line);
        }
    }
}
