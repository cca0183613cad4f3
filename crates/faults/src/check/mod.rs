//! Says of a history whether it kept what is promised.
//!
//! Nothing here reads a clock or trusts the order of the journals. A call took
//! effect at some moment between its begin and its end; one without an answer,
//! or with an unknown one, at any later moment or never. Times that callers
//! gave, right or wrong, are taken as they are: the promises are about these.

mod claims;
mod index;
mod order;
mod tickets;
mod units;

#[cfg(test)]
mod tests;

use std::fmt;

use self::index::Index;
use crate::history::{Call, Contents, History};

/// What went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// A committed row went without its delivery, or a claim of it did.
    Lost,
    /// Committed state whose row never was.
    StateWithoutRow,
    /// A row whose state is not there.
    RowWithoutState,
    /// An effect without the completion that is in its batch, or the reverse.
    Torn,
    /// A row was handed out while another's lease on it ran.
    Doubled,
    /// Two were told that they hold one row, or a late one that it still does.
    TwoHolders,
    /// The rows of a claim did not come oldest first.
    Order,
    /// A row was handed out before it was due.
    Early,
    /// A row came back after it was gone.
    Resurrected,
    /// What was erased came back.
    Erased,
    /// A ticket went that nobody deleted.
    TicketLost,
    /// A ticket was taken twice before it was due again, or counted twice.
    TicketDoubled,
    /// An error said that nothing was applied, and it was.
    Untrue,
    /// A row or a process that did not come to its end.
    Stuck,
}

impl Kind {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Lost => "lost",
            Self::StateWithoutRow => "state without its row",
            Self::RowWithoutState => "row without its state",
            Self::Torn => "half of a batch",
            Self::Doubled => "doubled outside a lapsed lease",
            Self::TwoHolders => "two holders",
            Self::Order => "order",
            Self::Early => "handed out early",
            Self::Resurrected => "resurrected",
            Self::Erased => "erased but present",
            Self::TicketLost => "ticket lost",
            Self::TicketDoubled => "ticket doubled",
            Self::Untrue => "not applied, and was",
            Self::Stuck => "stuck",
        }
    }
}

/// A broken promise.
#[derive(Clone, Debug)]
pub(crate) struct Violation {
    pub(crate) kind: Kind,
    /// The row, unit, subject or ticket.
    pub(crate) what: String,
    pub(crate) why: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}: {}", self.kind.name(), self.what, self.why)
    }
}

/// Collects violations.
#[derive(Debug, Default)]
pub(crate) struct Findings(Vec<Violation>);

impl Findings {
    pub(crate) fn add(&mut self, kind: Kind, what: &str, why: impl Into<String>) {
        self.0.push(Violation {
            kind,
            what: what.to_owned(),
            why: why.into(),
        });
    }

    pub(crate) fn into_violations(self) -> Vec<Violation> {
        self.0
    }
}

/// What of a history, and of the database after it, breaks a promise.
pub(crate) fn check(history: &History, contents: &Contents) -> Vec<Violation> {
    let index = Index::new(history);
    let mut found = Findings::default();
    units::check(&index, contents, &mut found);
    claims::check(&index, &mut found);
    order::check(&index, &mut found);
    tickets::check(history, contents, &mut found);
    found.0
}

/// The lines that say all that is known of `what`, in the order of time.
pub(crate) fn excerpt(history: &History, what: &str) -> String {
    let mut lines: Vec<(u64, String)> = Vec::new();
    let start = history.ops.first().map_or(0, |op| op.begin);
    let millis = |at: u64| at.saturating_sub(start) / 1000;
    for op in &history.ops {
        let shown = format!("{:?} -> {:?}", op.call, op.answer);
        let named = format!("{what:?}");
        let of_it = shown.contains(&named)
            || matches!(&op.call, Call::Enqueue { unit, .. } if what.starts_with(&format!("{unit}-")));
        if of_it {
            let end = match op.end {
                u64::MAX => "never".to_owned(),
                end => millis(end).to_string(),
            };
            let text = short(&shown, &named);
            lines.push((
                op.begin,
                format!(
                    "{:>9}..{end:>9} us {}: {text}",
                    millis(op.begin),
                    op.process
                ),
            ));
        }
    }
    for run in &history.runs {
        if run.row.id == what {
            lines.push((
                run.at,
                format!(
                    "{:>9} us {}: runs claim {}",
                    millis(run.at),
                    run.process,
                    run.row.claims
                ),
            ));
        }
    }
    lines.sort();
    let lines: Vec<String> = lines.into_iter().map(|(_, line)| line).collect();
    lines.join("\n")
}

/// Long lists are cut around what they are shown for.
fn short(text: &str, named: &str) -> String {
    if text.len() <= 600 {
        return text.to_owned();
    }
    let at = text.find(named).unwrap_or(0);
    let cut = |from: usize, to: usize| text.get(from..to.min(text.len())).unwrap_or_default();
    format!("{} … {}", cut(0, 160), cut(at.saturating_sub(60), at + 240))
}
