use super::scan::{Kind, Token};
use crate::Dialect;

/// What a statement does to the transaction that it runs in. The text in each
/// is the keyword, for a message.
///
/// `EXPLAIN` of anything is ordinary, and so is everything that the engine
/// itself refuses in a transaction, or undoes with it: on PostgreSQL `VACUUM`
/// and `CREATE DATABASE`, `LISTEN`, `SET`, `RESET`, `LOCK TABLE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Class {
    Ordinary,
    /// A rollback would not undo it, or it commits what came before it.
    NotInBatch(&'static str),
    /// It turns the connection to a stream, which no adapter serves.
    Stream(&'static str),
    /// It begins, ends, saves or shapes a transaction, or locks past its end.
    Transaction(&'static str),
}

/// Refused on every engine, also where the engine does not know the word.
const TRANSACTION: [&str; 9] = [
    "BEGIN",
    "START",
    "COMMIT",
    "END",
    "ROLLBACK",
    "ABORT",
    "SAVEPOINT",
    "RELEASE",
    "XA",
];

/// On MySQL and MariaDB most statements commit, and each release has new
/// ones; these do not. A procedure may commit, so `CALL` is not among them.
const MYSQL_ORDINARY: [&str; 13] = [
    "SELECT", "INSERT", "UPDATE", "DELETE", "REPLACE", "WITH", "VALUES", "TABLE", "DO", "EXPLAIN",
    "DESCRIBE", "DESC", "SHOW",
];

/// Those that a message can name; any other is "this kind of statement".
const MYSQL_NAMED: [&str; 21] = [
    "ALTER",
    "ANALYZE",
    "CALL",
    "CHECK",
    "CREATE",
    "DEALLOCATE",
    "DROP",
    "EXECUTE",
    "FLUSH",
    "GRANT",
    "HANDLER",
    "INSTALL",
    "KILL",
    "LOAD",
    "OPTIMIZE",
    "PREPARE",
    "RENAME",
    "REPAIR",
    "REVOKE",
    "TRUNCATE",
    "USE",
];

/// Of those that no batch may hold on MySQL and MariaDB, the ones that run no
/// other statement and leave no transaction open. Whatever is new is not here.
const MYSQL_ALONE: [&str; 11] = [
    "ALTER", "ANALYZE", "CHECK", "CREATE", "DROP", "GRANT", "LOAD", "OPTIMIZE", "RENAME", "REVOKE",
    "TRUNCATE",
];

const SQLITE_ALONE: [&str; 4] = ["PRAGMA", "VACUUM", "ATTACH", "DETACH"];

/// What a session keeps after a rollback.
const POSTGRES_ALONE: [&str; 2] = ["DISCARD", "DEALLOCATE"];

/// Reads a statement's tokens and says its class.
pub(super) struct Classifier {
    dialect: Dialect,
    class: Class,
    runs_others: bool,
    /// The first word is still to come.
    heading: bool,
    /// The executable comment of the last token before the first word.
    comment: usize,
    follow: Follow,
}

/// What to look for behind the first word.
enum Follow {
    Nothing,
    /// `EXPLAIN` on SQLite, which carries out some pragmas.
    Explain,
    /// `PREPARE` on PostgreSQL.
    Prepare,
    /// `COPY` on PostgreSQL.
    Copy {
        parens: usize,
        direction: bool,
    },
    Set(Set),
}

impl Classifier {
    pub(super) const fn new(dialect: Dialect) -> Self {
        Self {
            dialect,
            class: Class::Ordinary,
            runs_others: false,
            heading: true,
            comment: 0,
            follow: Follow::Nothing,
        }
    }

    pub(super) const fn class(&self) -> Class {
        self.class
    }

    /// Whether it may run other statements, which may commit in its middle or
    /// leave a transaction open.
    pub(super) const fn runs_others(&self) -> bool {
        self.runs_others
    }

    pub(super) fn feed(&mut self, token: &Token, text: &str) {
        self.follow(token, text);
        if !self.heading {
            return;
        }
        if token.comment == 0 {
            // Parentheses may stand before a query.
            if token.kind != Kind::Open {
                self.heading = false;
                self.head(token, text);
            }
        } else if token.comment != self.comment {
            // A server may skip what follows, or what came before, so each
            // executable comment may hold the statement's first word.
            self.comment = token.comment;
            self.head(token, text);
        }
    }

    fn raise(&mut self, class: Class) {
        if let (Dialect::MySql, Class::NotInBatch(word)) = (self.dialect, class) {
            self.runs_others |= !MYSQL_ALONE.contains(&word);
        }
        self.class = self.class.max(class);
    }

    fn head(&mut self, token: &Token, text: &str) {
        let text = if token.kind == Kind::Word { text } else { "" };
        let find = |words: &[&'static str]| {
            let found = words.iter().find(|word| text.eq_ignore_ascii_case(word));
            found.copied()
        };
        if let Some(word) = find(&TRANSACTION) {
            return self.raise(Class::Transaction(word));
        }
        match self.dialect {
            Dialect::Postgres => {
                self.runs_others |= find(&["CALL", "DO", "EXECUTE"]).is_some();
                if let Some(word) = find(&POSTGRES_ALONE) {
                    self.raise(Class::NotInBatch(word));
                } else if find(&["PREPARE"]).is_some() {
                    self.raise(Class::NotInBatch("PREPARE"));
                    self.follow = Follow::Prepare;
                } else if find(&["COPY"]).is_some() {
                    self.follow = Follow::Copy {
                        parens: 0,
                        direction: false,
                    };
                } else if find(&["SET"]).is_some() {
                    self.follow = Follow::Set(Set::new());
                }
            }
            Dialect::Sqlite => {
                if let Some(word) = find(&SQLITE_ALONE) {
                    self.raise(Class::NotInBatch(word));
                } else if find(&["EXPLAIN"]).is_some() {
                    self.follow = Follow::Explain;
                }
            }
            Dialect::MySql => {
                if let Some(word) = find(&["LOCK", "UNLOCK"]) {
                    self.raise(Class::Transaction(word));
                } else if find(&["SET"]).is_some() {
                    self.follow = Follow::Set(Set::new());
                } else if find(&MYSQL_ORDINARY).is_none() {
                    let word = find(&MYSQL_NAMED).unwrap_or("this kind of statement");
                    self.raise(Class::NotInBatch(word));
                }
            }
        }
    }

    fn follow(&mut self, token: &Token, text: &str) {
        let is = |word: &str| token.kind == Kind::Word && text.eq_ignore_ascii_case(word);
        match &mut self.follow {
            Follow::Nothing => {}
            Follow::Explain => {
                if is("PRAGMA") {
                    self.raise(Class::NotInBatch("PRAGMA"));
                }
                if !is("QUERY") && !is("PLAN") {
                    self.follow = Follow::Nothing;
                }
            }
            Follow::Prepare => {
                if is("TRANSACTION") {
                    self.raise(Class::Transaction("PREPARE TRANSACTION"));
                }
                self.follow = Follow::Nothing;
            }
            Follow::Copy { parens, direction } => {
                let stream = *direction && (is("STDIN") || is("STDOUT"));
                match token.kind {
                    Kind::Open => *parens += 1,
                    Kind::Close => *parens = parens.saturating_sub(1),
                    _ => {}
                }
                *direction = *parens == 0 && (is("FROM") || is("TO"));
                if stream {
                    self.raise(Class::Stream("COPY"));
                }
            }
            Follow::Set(set) => {
                if let Some(class) = set.feed(self.dialect, token, text) {
                    self.raise(class);
                }
            }
        }
    }
}

/// What `SET` sets: on MySQL only a user's own variables are ordinary, since
/// a setting outlives a rollback and `autocommit` commits.
struct Set {
    /// Nothing was read behind `SET` yet.
    first: bool,
    /// The last token was the first, and `SESSION`, `LOCAL` or `GLOBAL`.
    scoped: bool,
    part: Part,
    parens: usize,
}

/// Where in an assignment the next token stands.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Start,
    Target,
    Value,
}

impl Set {
    const fn new() -> Self {
        Self {
            first: true,
            scoped: false,
            part: Part::Start,
            parens: 0,
        }
    }

    fn feed(&mut self, dialect: Dialect, token: &Token, text: &str) -> Option<Class> {
        let is = |word: &str| token.kind == Kind::Word && text.eq_ignore_ascii_case(word);
        let first = std::mem::take(&mut self.first);
        if (first || self.scoped) && is("TRANSACTION") {
            return Some(Class::Transaction("SET TRANSACTION"));
        }
        if self.scoped && is("CHARACTERISTICS") {
            return Some(Class::Transaction("SET SESSION CHARACTERISTICS"));
        }
        self.scoped = first && (is("SESSION") || is("LOCAL") || is("GLOBAL"));
        if dialect != Dialect::MySql {
            return None;
        }

        let part = self.part;
        if part == Part::Start {
            self.part = Part::Target;
        }
        match token.kind {
            Kind::Word | Kind::Name
                if part != Part::Value
                    && text.trim_matches('`').eq_ignore_ascii_case("autocommit") =>
            {
                return Some(Class::Transaction("SET autocommit"));
            }
            Kind::Symbol if text == "=" => self.part = Part::Value,
            Kind::Open => self.parens += 1,
            Kind::Close => self.parens = self.parens.saturating_sub(1),
            Kind::Comma if self.parens == 0 => self.part = Part::Start,
            _ => {}
        }
        let setting = part == Part::Start && token.kind != Kind::UserVariable;
        setting.then_some(Class::NotInBatch("SET"))
    }
}
