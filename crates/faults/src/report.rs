//! The table at the end.

use std::fmt;
use std::sync::Arc;

use crate::place::Engine;
use crate::tally::{Fault, Tally};

/// What was done on one engine.
pub(crate) struct Line {
    pub(crate) engine: Engine,
    pub(crate) histories: u64,
    pub(crate) operations: u64,
    /// Of these, not done for certain.
    pub(crate) refused: u64,
    /// Of these, perhaps done.
    pub(crate) unknown: u64,
    pub(crate) tally: Arc<Tally>,
    pub(crate) violations: u64,
}

#[derive(Default)]
pub(crate) struct Table(pub(crate) Vec<Line>);

impl Table {
    pub(crate) fn is_clean(&self) -> bool {
        self.0.iter().all(|line| line.violations == 0)
    }

    fn cells(&self) -> Vec<Vec<String>> {
        let mut heads = vec!["engine", "histories", "operations", "refused", "unknown"];
        heads.extend(Fault::ALL.map(Fault::name));
        heads.push("violations");
        let mut cells = vec![heads.into_iter().map(str::to_owned).collect()];
        for line in &self.0 {
            let mut row = vec![
                line.engine.name().to_owned(),
                line.histories.to_string(),
                line.operations.to_string(),
                line.refused.to_string(),
                line.unknown.to_string(),
            ];
            row.extend(Fault::ALL.map(|fault| match line.tally.get(fault) {
                0 => "-".to_owned(),
                count => count.to_string(),
            }));
            row.push(line.violations.to_string());
            cells.push(row);
        }
        cells
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, row) in self.cells().into_iter().enumerate() {
            writeln!(f, "| {} |", row.join(" | "))?;
            if number == 0 {
                writeln!(f, "|{}", "---|".repeat(row.len()))?;
            }
        }
        Ok(())
    }
}
