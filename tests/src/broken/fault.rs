use duebox_core::{Columns, Dialect, Row, Statement, Value};

use crate::recording::is_claim;

/// What a store does wrong. Most are a change to the SQL on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    ForgetsLeases,
    KeepsLapsedRows,
    NewestFirst,
    CompletesById,
    LeasesMore,
    IgnoresLimit,
    WrapsLimit,
    HidesErrors,
    NeverScans,
    FoldsIds,
    FoldsSubjects,
    MatchesSubjects,
    ErasesWithoutBound,
    SkipsLockedRows,
    RoundsUp,
    CountsTwice,
    CountsDuplicates,
    CommitsHalves,
    DropsExpectations,
    MisjudgesLostAnswers,
    QuotesRows,
    LacksIndex,
}

/// Texts to replace, and by what.
type Changes = &'static [(&'static str, &'static str)];

impl Fault {
    /// What is sent instead of `statement`.
    pub(super) fn statement(self, dialect: Dialect, statement: &Statement) -> Statement {
        let Some((mut sql, mut values)) = source(dialect, statement) else {
            return statement.clone();
        };
        for (from, to) in self.changes() {
            sql = sql.replace(from, to);
        }
        self.change_values(statement, &mut values);
        let mut changed = Statement::new(sql);
        for value in values {
            changed = changed.bind(value);
        }
        match statement.expected_rows() {
            Some(rows) if self != Self::DropsExpectations => changed.expect_rows(rows),
            _ => changed,
        }
    }

    fn changes(self) -> Changes {
        match self {
            Self::ForgetsLeases => &[(
                "locked_until = ?,\n    locked_by = ?",
                "locked_until = CASE WHEN ? = '' THEN '' END,\n    locked_by = ?",
            )],
            Self::KeepsLapsedRows => &[(
                "AND next_attempt_at < '9999-12-31T23:59:59.999999Z'\n",
                "AND next_attempt_at < '9999-12-31T23:59:59.999999Z' AND locked_until IS NULL\n",
            )],
            Self::NewestFirst => &[(
                "ORDER BY visible_at, id\n",
                "ORDER BY visible_at DESC, id DESC\n",
            )],
            Self::CompletesById => &[
                ("AND o.claims = l.lease_claims\n", ""),
                ("AND o.created_at = l.lease_created_at\n", ""),
                (
                    "RETURNING o.id, o.claims, o.created_at",
                    "RETURNING o.id, l.lease_claims AS claims, l.lease_created_at AS created_at",
                ),
            ],
            Self::FoldsIds => &[
                ("WHERE id = ?", "WHERE LOWER(id) = LOWER(?)"),
                (
                    "id = ANY(?)",
                    "LOWER(id) = ANY(SELECT LOWER(one) FROM unnest(?::text[]) AS one)",
                ),
                (
                    "WHERE id IN (SELECT value FROM json_each(?))",
                    "WHERE LOWER(id) IN (SELECT LOWER(value) FROM json_each(?))",
                ),
                ("WHERE id IN (?", "WHERE LOWER(id) IN (LOWER(?)"),
            ],
            Self::FoldsSubjects => &[
                ("o.subject = ?", "LOWER(o.subject) = LOWER(?)"),
                ("subject = ?", "LOWER(subject) = LOWER(?)"),
            ],
            Self::MatchesSubjects => &[("subject = ?", "subject LIKE ?")],
            Self::SkipsLockedRows => &[
                ("FOR UPDATE\n)", "FOR UPDATE SKIP LOCKED\n)"),
                ("= ?\nFOR UPDATE", "= ?\nFOR UPDATE SKIP LOCKED"),
            ],
            Self::LacksIndex => &[("CONSTRAINT outbox_due UNIQUE (visible_at, id),\n", "")],
            _ => &[],
        }
    }

    fn change_values(self, statement: &Statement, values: &mut [Value]) {
        let sql = statement.sql().unwrap_or_default();
        match self {
            Self::IgnoresLimit if is_claim(statement) => {
                *limit(values).expect("a limit") = Value::from(i64::MAX);
            }
            Self::WrapsLimit if is_claim(statement) => {
                if let Some(Value::Integer(limit)) = limit(values) {
                    *limit &= 0xffff_ffff;
                }
            }
            Self::ErasesWithoutBound if sql.contains("subject = ?") => {
                if let Some(limit) = limit(values) {
                    *limit = Value::from(i64::MAX);
                }
            }
            Self::NeverScans if is_claim(statement) => {
                // In those tests only the row that appears late is due before this.
                let above = "2026-03-01T00:11:00.000000Z";
                if text(&values[0]) == Some("") && text(&values[1]) > Some(above) {
                    values[0] = Value::from(above);
                }
            }
            Self::RoundsUp => {
                for value in values {
                    if let Some(up) = text(value).and_then(rounded_up) {
                        *value = Value::from(up);
                    }
                }
            }
            _ => {}
        }
    }

    pub(super) fn count(self, sent: &Statement, count: u64) -> u64 {
        let sql = sent.sql().unwrap_or_default();
        let once = sql.contains("ON CONFLICT DO NOTHING") || sql.contains("INSERT IGNORE");
        match self {
            Self::CountsTwice => count * 2,
            Self::CountsDuplicates if once => 1,
            _ => count,
        }
    }

    /// The rows that a caller gets.
    pub(super) fn rows(self, sent: &Statement, mut rows: Vec<Row>) -> Vec<Row> {
        if self == Self::LeasesMore && is_claim(sent) && rows.len() > 1 {
            rows.pop();
        }
        rows
    }

    /// The rows that a step inside a transaction goes by: here, each with every
    /// lease that was ever on it, so that any lease passes for the last.
    pub(super) fn rows_read(self, rows: Vec<Row>) -> Vec<Row> {
        if self != Self::CompletesById {
            return rows;
        }
        rows.into_iter().flat_map(with_every_lease).collect()
    }
}

fn with_every_lease(row: Row) -> Vec<Row> {
    const LEASE: [&str; 3] = ["id", "claims", "created_at"];
    if !row.columns().eq(LEASE) {
        return vec![row];
    }
    let get = |name| row.value(name).expect("a column of a lease").clone();
    let last: i64 = row.get("claims").expect("a number");
    (1..=last)
        .map(|claims| {
            let values = vec![get("id"), claims.into(), get("created_at")];
            Row::new(Columns::new(LEASE), values)
        })
        .collect()
}

/// The text with `?` for its placeholders, and its values. `None` if the
/// statement carries an error.
fn source(dialect: Dialect, statement: &Statement) -> Option<(String, Vec<Value>)> {
    if dialect == Dialect::Postgres {
        // What is rendered has other placeholders; its own text has these.
        let (sql, values) = (statement.sql().ok()?, statement.values().ok()?);
        return Some((sql.to_owned(), values.to_vec()));
    }
    let rendered = statement.render(dialect).ok()?;
    Some((rendered.sql().to_owned(), rendered.values().to_vec()))
}

pub(super) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

/// The first number that is bound, which is a limit where there is one.
fn limit(values: &mut [Value]) -> Option<&mut Value> {
    values
        .iter_mut()
        .find(|value| matches!(value, Value::Integer(_)))
}

/// A time of the outbox, up to the next millisecond.
fn rounded_up(text: &str) -> Option<String> {
    let shaped = text.len() == 27 && text.ends_with('Z') && text.as_bytes()[10] == b'T';
    if !shaped || text.ends_with("000Z") || text == duebox_core::PARKED {
        return None;
    }
    let time = duebox_core::parse_time(text).ok()?;
    let over = i64::from(time.timestamp_subsec_micros() % 1_000);
    let up = duebox_core::chrono::TimeDelta::microseconds(1_000 - over);
    duebox_core::format_time(time.checked_add_signed(up)?).ok()
}
