use crate::Dialect;

/// How a dialect's lexer differs from the others'.
#[expect(
    clippy::struct_excessive_bools,
    reason = "a table of independent answers, read by column"
)]
pub(super) struct Rules {
    /// In `'…'` a backslash takes the next character along.
    pub(super) backslash: bool,
    /// `"…"` is text, with the rules of `'…'`, and not a name.
    pub(super) double_quoted_text: bool,
    /// `` `…` `` is a name.
    pub(super) backquotes: bool,
    /// `[…]` is a name.
    pub(super) brackets: bool,
    /// `#` opens a comment to the end of the line.
    pub(super) hash_comments: bool,
    /// `--` opens a comment only before a blank or a control character, or
    /// at the end.
    pub(super) dashes_need_blank: bool,
    /// A carriage return ends a line, not only a line feed.
    pub(super) return_ends_line: bool,
    /// `/*` inside a comment opens another.
    pub(super) nested_comments: bool,
    /// `/*! … */` and `/*M! … */` hold code.
    pub(super) executable_comments: bool,
    /// `E'…'`, in which a backslash escapes.
    pub(super) escape_strings: bool,
    /// `:a`, `@a`, `#a` and `$a` are parameters.
    pub(super) named_parameters: bool,
    /// `@a` is a variable and `@@a` a setting.
    pub(super) user_variables: bool,
    /// A byte order mark is a blank.
    pub(super) mark_is_blank: bool,
    pub(super) dollar: Dollar,
}

/// What a `$` is that does not stand inside a name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Dollar {
    /// It opens `$tag$ … $tag$` or a numbered parameter.
    Quote,
    /// It opens a named parameter.
    Parameter,
    /// It begins a name.
    Name,
}

impl Rules {
    pub(super) const fn of(dialect: Dialect) -> &'static Self {
        match dialect {
            Dialect::Postgres => &POSTGRES,
            Dialect::Sqlite => &SQLITE,
            Dialect::MySql => &MYSQL,
        }
    }
}

/// <https://www.postgresql.org/docs/current/sql-syntax-lexical.html>
const POSTGRES: Rules = Rules {
    backslash: false,
    double_quoted_text: false,
    backquotes: false,
    brackets: false,
    hash_comments: false,
    dashes_need_blank: false,
    return_ends_line: true,
    nested_comments: true,
    executable_comments: false,
    escape_strings: true,
    named_parameters: false,
    user_variables: false,
    mark_is_blank: false,
    dollar: Dollar::Quote,
};

/// <https://www.sqlite.org/lang_keywords.html>, <https://www.sqlite.org/lang_comment.html>,
/// <https://www.sqlite.org/lang_expr.html#parameters>
const SQLITE: Rules = Rules {
    backslash: false,
    double_quoted_text: false,
    backquotes: true,
    brackets: true,
    hash_comments: false,
    dashes_need_blank: false,
    return_ends_line: false,
    nested_comments: false,
    executable_comments: false,
    escape_strings: false,
    named_parameters: true,
    user_variables: false,
    mark_is_blank: true,
    dollar: Dollar::Parameter,
};

/// <https://dev.mysql.com/doc/refman/8.4/en/language-structure.html>,
/// <https://mariadb.com/kb/en/comment-syntax/>
const MYSQL: Rules = Rules {
    backslash: true,
    double_quoted_text: true,
    backquotes: true,
    brackets: false,
    hash_comments: true,
    dashes_need_blank: true,
    return_ends_line: false,
    nested_comments: false,
    executable_comments: true,
    escape_strings: false,
    named_parameters: false,
    user_variables: true,
    mark_is_blank: false,
    dollar: Dollar::Name,
};
