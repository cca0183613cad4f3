use super::error::LexError;
use super::rules::{Dollar, Rules};
use crate::Dialect;

/// A piece of the text that is neither blank nor comment.
pub(super) struct Token {
    pub(super) kind: Kind,
    pub(super) start: usize,
    pub(super) end: usize,
    /// Which executable comment it stands in, counted from 1; 0 is none.
    pub(super) comment: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A keyword or a bare name.
    Word,
    /// A name in quotes.
    Name,
    /// Text in quotes of any kind.
    Literal,
    /// `@a` on MySQL.
    UserVariable,
    /// `?`
    Placeholder,
    /// `??`
    QuestionMark,
    Semicolon,
    Comma,
    Open,
    Close,
    /// One byte of a number or an operator.
    Symbol,
}

/// Cuts a text into tokens. All that means anything is ASCII; any other byte
/// belongs to a name, in every dialect.
pub(super) struct Scanner<'a> {
    sql: &'a str,
    bytes: &'a [u8],
    rules: &'static Rules,
    at: usize,
    /// Where the `*/` of the executable comment stands that `at` is in.
    closes_at: Option<usize>,
    comments: usize,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(dialect: Dialect, sql: &'a str) -> Self {
        Self {
            sql,
            bytes: sql.as_bytes(),
            rules: Rules::of(dialect),
            at: 0,
            closes_at: None,
            comments: 0,
        }
    }

    pub(super) fn next(&mut self) -> Result<Option<Token>, LexError> {
        loop {
            if self.closes_at == Some(self.at) {
                self.at += 2;
                self.closes_at = None;
            }
            let start = self.at;
            let Some(first) = self.peek(0) else {
                return Ok(None);
            };
            let kind = self.advance(first)?;
            if self.closes_at.is_some_and(|end| self.at > end) {
                return Err(LexError::AmbiguousComment);
            }
            if let Some(kind) = kind {
                return Ok(Some(Token {
                    kind,
                    start,
                    end: self.at,
                    comment: if self.closes_at.is_some() {
                        self.comments
                    } else {
                        0
                    },
                }));
            }
        }
    }

    fn peek(&self, ahead: usize) -> Option<u8> {
        self.bytes.get(self.at + ahead).copied()
    }

    /// Moves over what begins with `first`; `None` for blanks and comments.
    fn advance(&mut self, first: u8) -> Result<Option<Kind>, LexError> {
        let rules = self.rules;
        let kind = match first {
            b'\t'..=b'\r' | b' ' => {
                self.at += 1;
                return Ok(None);
            }
            0xEF if rules.mark_is_blank && self.sql[self.at..].starts_with('\u{FEFF}') => {
                self.at += 3;
                return Ok(None);
            }
            b'-' if self.is_dash_comment() => {
                self.at = self.line_end(self.at);
                return Ok(None);
            }
            b'#' if rules.hash_comments => {
                self.at = self.line_end(self.at);
                return Ok(None);
            }
            b'/' if self.peek(1) == Some(b'*') => {
                self.comment()?;
                return Ok(None);
            }
            b'\'' => {
                self.quoted(first, rules.backslash, "string literal")?;
                Kind::Literal
            }
            b'"' if rules.double_quoted_text => {
                self.quoted(first, rules.backslash, "string literal")?;
                Kind::Literal
            }
            b'"' => {
                self.quoted(first, false, "quoted name")?;
                Kind::Name
            }
            b'`' if rules.backquotes => {
                self.quoted(first, false, "quoted name")?;
                Kind::Name
            }
            b'[' if rules.brackets => {
                self.at = self.behind("]", 1, "name in brackets")?;
                Kind::Name
            }
            b'?' => self.question_mark()?,
            b'$' => self.dollar()?,
            b'@' if rules.user_variables => self.variable()?,
            b':' | b'@' | b'#' if rules.named_parameters && self.peek(1).is_some_and(is_word) => {
                return Err(LexError::Parameter);
            }
            _ if is_word(first) && !first.is_ascii_digit() => self.word()?,
            _ => {
                self.at += 1;
                match first {
                    b';' => Kind::Semicolon,
                    b',' => Kind::Comma,
                    b'(' => Kind::Open,
                    b')' => Kind::Close,
                    _ => Kind::Symbol,
                }
            }
        };
        Ok(Some(kind))
    }

    fn is_dash_comment(&self) -> bool {
        self.peek(1) == Some(b'-')
            && (!self.rules.dashes_need_blank
                || self
                    .peek(2)
                    .is_none_or(|next| next == b' ' || next.is_ascii_control()))
    }

    /// The end of the line that `from` is in, before its line break.
    fn line_end(&self, from: usize) -> usize {
        let ends = |byte: &u8| *byte == b'\n' || (self.rules.return_ends_line && *byte == b'\r');
        let rest = &self.bytes[from..];
        from + rest.iter().position(ends).unwrap_or(rest.len())
    }

    /// The place behind the next `mark`, looked for `skip` bytes ahead.
    fn behind(&self, mark: &str, skip: usize, what: &'static str) -> Result<usize, LexError> {
        let from = self.at + skip;
        let found = self.sql[from..].find(mark);
        found
            .map(|offset| from + offset + mark.len())
            .ok_or(LexError::Unterminated { what })
    }

    fn comment(&mut self) -> Result<(), LexError> {
        if self.rules.executable_comments {
            match (self.peek(2), self.peek(3)) {
                (Some(b'!'), _) => return self.executable_comment(3),
                (Some(b'M'), Some(b'!')) => return self.executable_comment(4),
                _ => {}
            }
        }
        if !self.rules.nested_comments {
            self.at = self.behind("*/", 2, "comment")?;
            return Ok(());
        }
        self.at += 2;
        let mut depth = 1;
        while depth > 0 {
            match (self.peek(0), self.peek(1)) {
                (Some(b'*'), Some(b'/')) => {
                    depth -= 1;
                    self.at += 2;
                }
                (Some(b'/'), Some(b'*')) => {
                    depth += 1;
                    self.at += 2;
                }
                (Some(_), _) => self.at += 1,
                (None, _) => return Err(LexError::Unterminated { what: "comment" }),
            }
        }
        Ok(())
    }

    /// Steps into an executable comment. A server that skips it looks only for
    /// comment marks, one that executes it for literals too: both must agree
    /// on its end.
    fn executable_comment(&mut self, mark: usize) -> Result<(), LexError> {
        let end = self.behind("*/", mark, "comment")? - 2;
        self.at += mark;
        if self.sql[self.at..end].contains("/*") {
            return Err(LexError::AmbiguousComment);
        }
        while self.peek(0).is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        self.closes_at = Some(end);
        self.comments += 1;
        Ok(())
    }

    /// Moves over a quoted piece, in which a doubled quote is one quote.
    fn quoted(&mut self, quote: u8, backslash: bool, what: &'static str) -> Result<(), LexError> {
        self.at += 1;
        loop {
            match self.peek(0) {
                None => return Err(LexError::Unterminated { what }),
                Some(b'\\') if backslash => self.at += 2,
                Some(byte) if byte == quote && self.peek(1) == Some(quote) => self.at += 2,
                Some(byte) => {
                    self.at += 1;
                    if byte == quote {
                        return Ok(());
                    }
                }
            }
        }
    }

    fn word(&mut self) -> Result<Kind, LexError> {
        let start = self.at;
        while self.peek(0).is_some_and(is_word) {
            self.at += 1;
        }
        let escapes = self.rules.escape_strings
            && self.sql[start..self.at].eq_ignore_ascii_case("e")
            && self.peek(0) == Some(b'\'');
        if !escapes {
            return Ok(Kind::Word);
        }
        self.quoted(b'\'', true, "string literal")?;
        while let Some(quote) = self.continuation() {
            self.at = quote;
            self.quoted(b'\'', true, "string literal")?;
        }
        Ok(Kind::Literal)
    }

    /// The quote by which a literal goes on behind a line break, with the
    /// rules that it began with.
    fn continuation(&self) -> Option<usize> {
        let mut at = self.at;
        let mut broken = false;
        loop {
            match self.bytes.get(at)? {
                b'\n' | b'\r' => {
                    broken = true;
                    at += 1;
                }
                b'\t' | b'\x0B' | b'\x0C' | b' ' => at += 1,
                b'-' if self.bytes.get(at + 1) == Some(&b'-') => at = self.line_end(at),
                b'\'' if broken => return Some(at),
                _ => return None,
            }
        }
    }

    fn dollar(&mut self) -> Result<Kind, LexError> {
        let next = self.peek(1);
        match self.rules.dollar {
            Dollar::Name => return self.word(),
            Dollar::Parameter if next.is_some_and(is_word) => return Err(LexError::Parameter),
            Dollar::Quote if next.is_some_and(|byte| byte.is_ascii_digit()) => {
                return Err(LexError::Parameter);
            }
            Dollar::Quote => {
                let tag = self.bytes[self.at + 1..]
                    .iter()
                    .take_while(|byte| is_word(**byte) && **byte != b'$')
                    .count();
                if self.peek(tag + 1) == Some(b'$') {
                    let mark = &self.sql[self.at..self.at + tag + 2];
                    self.at = self.behind(mark, mark.len(), "dollar-quoted string")?;
                    return Ok(Kind::Literal);
                }
            }
            Dollar::Parameter => {}
        }
        self.at += 1;
        Ok(Kind::Symbol)
    }

    fn question_mark(&mut self) -> Result<Kind, LexError> {
        if self.closes_at.is_some() {
            return Err(LexError::PlaceholderInComment);
        }
        let doubled = self.peek(1) == Some(b'?');
        self.at += if doubled { 2 } else { 1 };
        let numbered = self.peek(0).is_some_and(|byte| byte.is_ascii_digit());
        match (doubled, numbered) {
            (false, true) => Err(LexError::Parameter),
            // `?1` would name a parameter that has a value.
            (true, true) if self.rules.named_parameters => Err(LexError::Parameter),
            (false, false) => Ok(Kind::Placeholder),
            (true, _) => Ok(Kind::QuestionMark),
        }
    }

    fn variable(&mut self) -> Result<Kind, LexError> {
        self.at += 1;
        match self.peek(0) {
            Some(b'@') => self.at += 1,
            Some(quote @ (b'\'' | b'"')) => {
                self.quoted(quote, self.rules.backslash, "quoted name")?;
                return Ok(Kind::UserVariable);
            }
            Some(b'`') => {
                self.quoted(b'`', false, "quoted name")?;
                return Ok(Kind::UserVariable);
            }
            Some(byte) if is_word(byte) || byte == b'.' => {
                while self
                    .peek(0)
                    .is_some_and(|byte| is_word(byte) || byte == b'.')
                {
                    self.at += 1;
                }
                return Ok(Kind::UserVariable);
            }
            _ => {}
        }
        Ok(Kind::Symbol)
    }
}

/// Whether `byte` goes on with a bare name.
pub(super) const fn is_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'$' || !byte.is_ascii()
}
