//! What is wrong with a statement (classes 42 and 54), or with a value of it (22).

use duebox_core::Kind;

use super::{Meaning, class, undone};

/// What is left of class 42 here is what the schema has no part in.
pub(super) fn meaning(code: &str) -> Option<Meaning> {
    let message = match code {
        // syntax_error
        "42601" => "the server cannot read the statement",
        // indeterminate_datatype, ambiguous_parameter
        "42P18" | "42P08" => {
            "the type of a value cannot be told from its place; write a cast, as in ?::bigint"
        }
        // what else is wrong with a statement, among it statement_too_complex,
        // too_many_columns and too_many_arguments
        _ if class(code) == "42" || class(code) == "54" => {
            "the server refuses the statement, or the size of it"
        }
        // character_not_in_repertoire, untranslatable_character
        "22021" | "22P05" => "a text holds a character that the database cannot keep, such as NUL",
        // string_data_right_truncation
        "22001" => "a text is too long for its column",
        // numeric_value_out_of_range, datetime_field_overflow
        "22003" | "22008" => "a value is out of range for its place",
        // invalid_text_representation, invalid_datetime_format, invalid_binary_representation
        "22P02" | "22007" | "22P03" => "a value cannot be read as the type that its place has",
        // data_exception, cardinality_violation
        _ if class(code) == "22" || class(code) == "21" => "the server refuses a value",
        _ => return None,
    };
    Some(undone(Kind::InvalidArgument, message))
}
