//! Data goes to standard output, messages go to standard error.

use std::io::{self, IsTerminal, Write};

use comfy_table::{Table, presets};

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

/// Says how far it is, on a terminal alone.
pub(crate) fn progress(done: u64) {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r{done} rows");
        let _ = err.flush();
    }
}

/// Ends the line of [`progress`].
pub(crate) fn progress_done() {
    let mut err = io::stderr().lock();
    if err.is_terminal() {
        let _ = write!(err, "\r\x1b[K");
    }
}

/// A table for people.
pub(crate) fn table<const N: usize>(
    header: [&str; N],
    rows: impl IntoIterator<Item = [String; N]>,
) -> String {
    let mut table = Table::new();
    table.load_preset(presets::NOTHING).set_header(header);
    for row in rows {
        table.add_row(row.map(|cell| clean(&cell)));
    }
    table.trim_fmt()
}

/// The text without what could move a terminal's cursor: rows hold what
/// others wrote.
pub(crate) fn clean(text: &str) -> String {
    text.chars()
        .map(|c| {
            if c.is_control() {
                char::REPLACEMENT_CHARACTER
            } else {
                c
            }
        })
        .collect()
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
