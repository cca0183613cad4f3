//! One pass over a statement's text: where its placeholders are, whether it
//! is one statement, and what it does to a transaction.
//!
//! The lexer reads as the server does with these settings, which adapters
//! keep on their connections: `standard_conforming_strings` on (PostgreSQL),
//! neither `NO_BACKSLASH_ESCAPES` nor `ANSI_QUOTES` in `sql_mode` (MySQL and
//! MariaDB). Where MySQL and MariaDB would read one text differently, it is
//! refused. It takes time linear in the text and does not recurse.
//!
//! A `;` may end the text; the text is cut there. Inside a statement it is
//! accepted where the engine prepares such a statement: in the body of a
//! trigger on SQLite, and in a rule or a `BEGIN ATOMIC` body on PostgreSQL.
//! MySQL does not prepare routines and triggers, so there it is refused.

use std::borrow::Cow;
use std::fmt::Write as _;

use crate::Dialect;

mod body;
mod class;
mod error;
#[cfg(test)]
mod properties;
mod rules;
mod scan;
#[cfg(test)]
mod tests;

pub(crate) use class::Class;
pub(crate) use error::LexError;

use body::Body;
use class::Classifier;
use scan::{Kind, Scanner, Token, is_word};

/// What one pass over a statement's text found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lexed<'a> {
    /// The text to send: placeholders are `$1, $2, …` on PostgreSQL and `?`
    /// elsewhere, `??` outside literals became `?`, a final `;` is gone.
    pub(crate) sql: Cow<'a, str>,
    pub(crate) placeholders: usize,
    /// What the statement does to a transaction.
    pub(crate) class: Class,
    /// It may run other statements.
    pub(crate) runs_others: bool,
}

/// Finds the placeholders of `sql` and writes them as `dialect` reads them.
///
/// `??` becomes `?` everywhere, although only PostgreSQL has operators with
/// a question mark: elsewhere the server takes it for one more parameter
/// than there are values, and refuses the statement.
pub(crate) fn lex(dialect: Dialect, sql: &str) -> Result<Lexed<'_>, LexError> {
    lex_with_casts(dialect, sql, &|_| None)
}

/// Like [`lex`], with a cast of each placeholder, counted from 0, that `cast`
/// has a type for; on PostgreSQL alone.
pub(crate) fn lex_with_casts<'a, 'c>(
    dialect: Dialect,
    sql: &'a str,
    cast: &dyn Fn(usize) -> Option<&'c str>,
) -> Result<Lexed<'a>, LexError> {
    if sql.contains('\0') {
        return Err(LexError::Nul);
    }
    let mut scanner = Scanner::new(dialect, sql);
    let mut body = Body::new(dialect);
    let mut classifier = Classifier::new(dialect);
    let mut rewritten = Rewritten::new(sql);
    let mut placeholders = 0;
    let mut empty = true;
    let mut end = None;
    while let Some(token) = scanner.next()? {
        let text = &sql[token.start..token.end];
        if body.is_ended_by(&token, text) {
            end.get_or_insert(token.start);
            continue;
        }
        if end.is_some() {
            return Err(LexError::ManyStatements);
        }
        empty = false;
        classifier.feed(&token, text);
        match token.kind {
            Kind::Placeholder => {
                placeholders += 1;
                match dialect {
                    Dialect::Postgres => {
                        rewritten.number(&token, placeholders, cast(placeholders - 1));
                    }
                    Dialect::MySql => rewritten.part(&token),
                    Dialect::Sqlite => {}
                }
            }
            Kind::QuestionMark => rewritten.replace(&token).push('?'),
            _ => {}
        }
    }
    if empty {
        return Err(LexError::Empty);
    }
    Ok(Lexed {
        sql: rewritten.finish(end.unwrap_or(sql.len())),
        placeholders,
        class: classifier.class(),
        runs_others: classifier.runs_others(),
    })
}

/// A text that is copied only once something in it changes.
struct Rewritten<'a> {
    sql: &'a str,
    out: Option<String>,
    /// How much of `sql` is in `out`.
    copied: usize,
}

impl<'a> Rewritten<'a> {
    fn new(sql: &'a str) -> Self {
        Self {
            sql,
            out: None,
            copied: 0,
        }
    }

    /// Leaves `token` out; what stands for it is to be pushed.
    fn replace(&mut self, token: &Token) -> &mut String {
        let out = self
            .out
            .get_or_insert_with(|| String::with_capacity(self.sql.len() + 16));
        out.push_str(&self.sql[self.copied..token.start]);
        self.copied = token.end;
        out
    }

    /// Writes `$number` for `token`, apart from its neighbours: `LIMIT?` must
    /// not become the name `LIMIT$1`. With a type, as a text cast to it.
    fn number(&mut self, token: &Token, number: usize, cast: Option<&str>) {
        let bytes = self.sql.as_bytes();
        let joins =
            |at: Option<usize>| at.is_some_and(|at| bytes.get(at).copied().is_some_and(is_word));
        let before = if joins(token.start.checked_sub(1)) {
            " "
        } else {
            ""
        };
        let behind = if joins(Some(token.end)) { " " } else { "" };
        let out = self.replace(token);
        // Writing to a String cannot fail.
        let _ = match cast {
            None => write!(out, "{before}${number}{behind}"),
            // In parentheses, since what follows may belong to a type's name.
            Some(ty) => write!(out, "{before}(${number}::text::{ty}){behind}"),
        };
    }

    /// Parts a `?` from a word behind it, as in `a=?AND b`: the server takes
    /// it for a placeholder only where no name could go on.
    fn part(&mut self, token: &Token) {
        if self
            .sql
            .as_bytes()
            .get(token.end)
            .copied()
            .is_some_and(is_word)
        {
            self.replace(token).push_str("? ");
        }
    }

    fn finish(self, end: usize) -> Cow<'a, str> {
        match self.out {
            None => Cow::Borrowed(&self.sql[..end]),
            Some(mut out) => {
                out.push_str(&self.sql[self.copied..end]);
                Cow::Owned(out)
            }
        }
    }
}
