use std::fmt;

/// Why a text cannot be sent as a statement. It never quotes the text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LexError {
    /// A literal, name or comment runs to the end of the text.
    Unterminated {
        what: &'static str,
    },
    ManyStatements,
    Empty,
    Nul,
    /// A parameter in the engine's own manner, such as `$1`, `?1` or `:name`.
    Parameter,
    /// A placeholder in a comment that MySQL and MariaDB execute or not, each
    /// by its version: how many values there must be would depend on it.
    PlaceholderInComment,
    /// An executable comment that ends elsewhere where it is not executed.
    AmbiguousComment,
}

impl fmt::Display for LexError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Unterminated { what } => return write!(f, "a {what} is not closed"),
            Self::ManyStatements => "the text holds more than one statement",
            Self::Empty => "the text holds no statement",
            Self::Nul => "the text holds a NUL character",
            Self::Parameter => {
                "the text has a numbered or named parameter; the placeholder is `?` on every engine"
            }
            Self::PlaceholderInComment => {
                "a placeholder stands in an executable comment, which not every server executes"
            }
            Self::AmbiguousComment => {
                "an executable comment holds a comment mark and would end elsewhere on a server \
                 that does not execute it"
            }
        };
        f.write_str(text)
    }
}

impl std::error::Error for LexError {}
