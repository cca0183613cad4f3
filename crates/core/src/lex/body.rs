use super::scan::{Kind, Token};
use crate::Dialect;

/// Tells the `;` that ends a statement from those inside its body.
pub(super) struct Body {
    dialect: Dialect,
    state: State,
}

enum State {
    /// Only words were read that may stand before the kind of a `CREATE`.
    Opening,
    /// Every `;` ends the statement.
    Plain,
    /// SQLite's trigger: its steps end in `;`, and `END` where a step could
    /// begin ends the trigger.
    Trigger { step: bool, ended: bool },
    /// PostgreSQL's rule: `DO ALSO (…; …)`.
    Rule { parens: usize },
    /// PostgreSQL's function or procedure, with `BEGIN ATOMIC …; … END`.
    Routine {
        parens: usize,
        begin: bool,
        blocks: usize,
    },
}

/// The words between which a trigger, rule or routine is created.
const OPENING: [&str; 8] = [
    "EXPLAIN",
    "QUERY",
    "PLAN",
    "CREATE",
    "OR",
    "REPLACE",
    "TEMP",
    "TEMPORARY",
];

impl Body {
    pub(super) const fn new(dialect: Dialect) -> Self {
        let state = match dialect {
            Dialect::Postgres | Dialect::Sqlite => State::Opening,
            Dialect::MySql => State::Plain,
        };
        Self { dialect, state }
    }

    /// Reads the next token; true if it is a `;` behind which nothing may stand.
    pub(super) fn is_ended_by(&mut self, token: &Token, text: &str) -> bool {
        let is = |word: &str| token.kind == Kind::Word && text.eq_ignore_ascii_case(word);
        let semicolon = token.kind == Kind::Semicolon;
        match &mut self.state {
            State::Opening => {
                if !OPENING.iter().any(|word| is(word)) {
                    self.state = match self.dialect {
                        Dialect::Sqlite if is("TRIGGER") => State::Trigger {
                            step: false,
                            ended: false,
                        },
                        Dialect::Postgres if is("RULE") => State::Rule { parens: 0 },
                        Dialect::Postgres if is("FUNCTION") || is("PROCEDURE") => State::Routine {
                            parens: 0,
                            begin: false,
                            blocks: 0,
                        },
                        _ => State::Plain,
                    };
                }
                semicolon
            }
            State::Plain => semicolon,
            State::Trigger { step, ended } => {
                if semicolon && *ended {
                    return true;
                }
                *ended = *step && is("END");
                *step = semicolon;
                false
            }
            State::Rule { parens } => {
                count_parens(parens, token.kind);
                semicolon && *parens == 0
            }
            State::Routine {
                parens,
                begin,
                blocks,
            } => {
                count_parens(parens, token.kind);
                if *blocks == 0 {
                    *blocks = usize::from(*begin && is("ATOMIC"));
                    *begin = *parens == 0 && is("BEGIN");
                } else if is("CASE") {
                    *blocks += 1;
                } else if is("END") {
                    *blocks -= 1;
                }
                semicolon && *blocks == 0
            }
        }
    }
}

fn count_parens(parens: &mut usize, kind: Kind) {
    match kind {
        Kind::Open => *parens += 1,
        Kind::Close => *parens = parens.saturating_sub(1),
        _ => {}
    }
}
