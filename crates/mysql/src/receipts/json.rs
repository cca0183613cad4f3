//! Lists of rows as JSON, which one statement takes in any length.

use std::fmt::Write;

/// The most rows of one statement: enough that the round trips no longer count.
const MOST_ROWS: usize = 1_000;
/// The most bytes of one statement.
const MOST_BYTES: usize = 256 * 1024;

/// Arrays of as many rows as one statement takes.
///
/// An array is smaller than a quarter of the server's packets, unless a single
/// row is not.
pub(super) struct Arrays<'r> {
    rows: &'r [String],
    most_bytes: usize,
}

impl<'r> Arrays<'r> {
    /// Of rows that are JSON.
    pub(super) fn of(rows: &'r [String], max_allowed_packet: u64) -> Self {
        let quarter = usize::try_from(max_allowed_packet / 4).unwrap_or(usize::MAX);
        Self {
            rows,
            most_bytes: quarter.min(MOST_BYTES),
        }
    }
}

impl Iterator for Arrays<'_> {
    type Item = String;

    fn next(&mut self) -> Option<Self::Item> {
        let mut bytes = 1;
        let fits = |row: &&String| {
            // Its comma, or the bracket that closes.
            bytes += row.len() + 1;
            bytes <= self.most_bytes
        };
        let count = self.rows.iter().take(MOST_ROWS).take_while(fits).count();
        let count = count.max(1).min(self.rows.len());
        let (these, rest) = self.rows.split_at(count);
        self.rows = rest;
        (count > 0).then(|| format!("[{}]", these.join(",")))
    }
}

/// A text as JSON.
pub(super) fn text(text: &str) -> String {
    let mut json = String::with_capacity(text.len() + 2);
    json.push('"');
    for each in text.chars() {
        match each {
            '"' | '\\' => {
                json.push('\\');
                json.push(each);
            }
            // Writing to a String cannot fail.
            '\0'..='\x1F' => drop(write!(json, "\\u{:04x}", u32::from(each))),
            _ => json.push(each),
        }
    }
    json.push('"');
    json
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_escaped() {
        assert_eq!(text(r#"a"b\c"#), r#""a\"b\\c""#);
        assert_eq!(text("\u{1}é\n"), "\"\\u0001é\\u000a\"");
    }

    #[test]
    fn arrays_hold_every_row_once_and_stay_small() {
        let rows: Vec<_> = (0..2_500).map(|row| text(&row.to_string())).collect();
        let counts = |packet| Arrays::of(&rows, packet).map(|array| array.matches(',').count() + 1);
        assert_eq!(counts(1 << 24).collect::<Vec<_>>(), [1_000, 1_000, 500]);
        assert!(counts(1).eq((0..2_500).map(|_| 1)));
        let mut all = Vec::new();
        for array in Arrays::of(&rows, 1_024) {
            assert!(array.len() <= 256, "{} bytes", array.len());
            let inner = array
                .strip_prefix('[')
                .and_then(|rest| rest.strip_suffix(']'));
            all.extend(inner.expect("an array").split(',').map(str::to_owned));
        }
        assert_eq!(all, rows);
    }
}
