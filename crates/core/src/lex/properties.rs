//! Statements made of pieces whose answer is known.

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

use super::{LexError, lex};
use crate::Dialect;

/// What a piece must become.
#[derive(Clone, Debug)]
enum Piece {
    /// Sent byte for byte.
    Kept(String),
    Placeholder,
    QuestionMark,
}

fn kept(text: impl Into<String>) -> Piece {
    Piece::Kept(text.into())
}

/// Text that would mislead whoever looks into a literal, name or comment.
const BAIT: &str = r#"([?;'"`\[\]$\\#@:!*/a1é\n -]|\?\?|--|/\*|\*/|\$\$|E'|/\*!|\$1|:a){0,12}"#;

fn bait() -> impl Strategy<Value = String> {
    proptest::string::string_regex(BAIT).expect("a valid pattern")
}

/// A literal, quoted name or comment of the dialect around some bait.
fn opaque(dialect: Dialect) -> impl Strategy<Value = Piece> {
    let everywhere = ["''", "\"\"", "--", "/*"];
    let own: &[&str] = match dialect {
        Dialect::Postgres => &["E''", "$$", "$a$"],
        Dialect::Sqlite => &["``", "[]"],
        Dialect::MySql => &["``", "#"],
    };
    let forms = [&everywhere[..], own].concat();
    (select(forms), bait()).prop_map(move |(form, bait)| kept(wrap(dialect, form, &bait)))
}

fn wrap(dialect: Dialect, form: &str, bait: &str) -> String {
    let line = || bait.replace('\n', " ");
    match form {
        "E''" => format!("E'{}'", bait.replace('\\', r"\\").replace('\'', r"\'")),
        "$$" => format!("$${}.$$", bait.replace('$', "S")),
        "$a$" => format!("$a${}$a$", bait.replace("$a", "A")),
        "[]" => format!("[{}]", bait.replace(']', ")")),
        "--" => format!("-- {}\n", line()),
        "#" => format!("#{}\n", line()),
        "/*" if dialect == Dialect::Postgres => {
            let inner = bait
                .replace("*/", "")
                .replace("/*", "")
                .replace(['*', '/'], "x");
            format!("/*{inner}/*{inner}*/{inner}*/")
        }
        // The blank keeps a `!` from making it executable.
        "/*" => {
            format!("/* {} */", bait.replace("*/", "").replace("*/", "")).replace("*/ */", " */")
        }
        quotes => {
            let quote = &quotes[..1];
            let escapes = dialect == Dialect::MySql && quote != "`";
            let bait = if escapes {
                bait.replace('\\', r"\\")
            } else {
                bait.to_owned()
            };
            format!("{quote}{}{quote}", bait.replace(quote, &quote.repeat(2)))
        }
    }
}

fn piece(dialect: Dialect) -> impl Strategy<Value = Piece> {
    prop_oneof![
        Just(Piece::Placeholder),
        Just(Piece::QuestionMark),
        opaque(dialect),
        select(vec![
            "a", "b1", "=", "(", ")", "+", "-", "*", ",", "::", "é", "12", "\r\n", "a$b", "."
        ])
        .prop_map(kept),
    ]
}

fn statement() -> impl Strategy<Value = (Dialect, Vec<Piece>)> {
    select(Dialect::ALL.to_vec())
        .prop_flat_map(|dialect| (Just(dialect), vec(piece(dialect), 0..24)))
}

/// The text to lex, the text that must come out, and how many placeholders.
/// Blanks keep the pieces apart.
fn join(dialect: Dialect, pieces: &[Piece]) -> (String, String, usize) {
    let mut input = String::from("SELECT");
    let mut output = input.clone();
    let mut placeholders = 0;
    for piece in pieces {
        input.push(' ');
        output.push(' ');
        match piece {
            Piece::Kept(text) => {
                input.push_str(text);
                output.push_str(text);
            }
            Piece::QuestionMark => {
                input.push_str("??");
                output.push('?');
            }
            Piece::Placeholder => {
                placeholders += 1;
                input.push('?');
                match dialect {
                    Dialect::Postgres => output.extend(["$", &placeholders.to_string()]),
                    Dialect::Sqlite | Dialect::MySql => output.push('?'),
                }
            }
        }
    }
    (input, output, placeholders)
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn pieces_come_out_as_they_must((dialect, pieces) in statement()) {
        let (input, output, placeholders) = join(dialect, &pieces);
        let lexed = lex(dialect, &input).expect("a whole statement");
        prop_assert_eq!(&lexed.sql, &output);
        prop_assert_eq!(lexed.placeholders, placeholders);

        let ended = format!("{input};");
        prop_assert_eq!(lex(dialect, &ended).expect("a final semicolon"), lexed);
        let two = format!("{input};{input}");
        prop_assert_eq!(lex(dialect, &two), Err(LexError::ManyStatements));
    }

    #[test]
    fn what_was_rewritten_has_no_placeholder_left((dialect, pieces) in statement()) {
        let pieces: Vec<_> = pieces
            .into_iter()
            .filter(|piece| !matches!(piece, Piece::QuestionMark))
            .collect();
        let (input, _, placeholders) = join(dialect, &pieces);
        let sent = lex(dialect, &input).expect("a whole statement").sql.into_owned();
        match (dialect, lex(dialect, &sent)) {
            (Dialect::Postgres, Err(error)) => {
                prop_assert!(placeholders > 0);
                prop_assert_eq!(error, LexError::Parameter);
            }
            (_, again) => {
                let again = again.expect("the same statement");
                prop_assert_eq!(&again.sql, &sent);
                let left = if dialect == Dialect::Postgres { 0 } else { placeholders };
                prop_assert_eq!(again.placeholders, left);
            }
        }
    }

    #[test]
    fn any_text_is_lexed_or_refused(text in any::<String>(), bait in bait()) {
        for dialect in Dialect::ALL {
            let _ = lex(dialect, &text);
            let _ = lex(dialect, &bait);
            // What comes out is never longer than its numbers make it.
            if let Ok(lexed) = lex(dialect, &bait) {
                prop_assert!(lexed.sql.len() <= bait.len() + 4 * lexed.placeholders);
            }
        }
    }
}
