//! Data goes to standard output, messages go to standard error.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Table, presets};
use indicatif::{ProgressBar, ProgressStyle};

use crate::error::CliError;

/// Writes data. A reader that has left is [`CliError::Closed`].
pub(crate) fn data(text: &str) -> Result<(), CliError> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .map_err(|error| match error.kind() {
            io::ErrorKind::BrokenPipe => CliError::Closed,
            _ => CliError::Io("write to standard output", error),
        })
}

/// Says something. That nobody can read it stops nothing.
pub(crate) fn message(text: &str) {
    let _ = writeln!(io::stderr().lock(), "{text}");
}

/// Says how far it is, on a terminal alone, until it is dropped.
pub(crate) struct Progress(ProgressBar);

impl Progress {
    /// Of so many of these things.
    pub(crate) fn new(things: &'static str) -> Self {
        let bar = ProgressBar::no_length();
        if let Ok(style) = ProgressStyle::with_template(&format!("{{spinner}} {{pos}} {things}")) {
            bar.set_style(style);
        }
        Self(bar)
    }

    pub(crate) fn at(&self, done: u64) {
        self.0.set_position(done);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

/// The text as something that is wrong, in colour where standard output is a
/// terminal that wants any.
pub(crate) fn alarming(text: &str) -> String {
    painted(text, anstyle::AnsiColor::Red.on_default().bold())
}

/// The text as something to know.
pub(crate) fn notable(text: &str) -> String {
    painted(text, anstyle::AnsiColor::Yellow.on_default())
}

fn painted(text: &str, style: anstyle::Style) -> String {
    match anstream::AutoStream::choice(&io::stdout()) {
        anstream::ColorChoice::Never => text.to_owned(),
        _ => format!("{style}{text}{style:#}"),
    }
}

/// A table for people.
pub(crate) fn table<const N: usize>(
    header: [impl ToString; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| clean(&cell)));
    }
    table.trim_fmt()
}

/// The text without what could move a terminal's cursor, turn its direction or stand
/// unseen: rows hold what others wrote.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() || is_unseen(c) {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
}

/// Marks of direction and of no width.
const fn is_unseen(c: char) -> bool {
    matches!(
        c,
        '\u{61c}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}'
    )
}

/// Asks on the terminal, unless `yes` was said before.
pub(crate) fn confirm(question: &str, yes: bool) -> Result<(), CliError> {
    if yes {
        return Ok(());
    }
    if !io::stdin().is_terminal() {
        return Err(CliError::usage(format!(
            "{question} This cannot be undone; say --yes to do it without a terminal"
        )));
    }
    let mut err = io::stderr().lock();
    let _ = write!(err, "{question} This cannot be undone. [y/N] ");
    let _ = err.flush();
    let mut answer = String::new();
    io::stdin()
        .read_line(&mut answer)
        .map_err(|error| CliError::Io("read the answer", error))?;
    if matches!(answer.trim(), "y" | "Y" | "yes") {
        Ok(())
    } else {
        Err(CliError::Finding("nothing was changed".to_owned()))
    }
}
