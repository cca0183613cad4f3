//! Lines of bounded length from any reader.

use std::io::{self, BufRead, Read};

/// The longest line that is read into memory, in bytes without its end.
pub(crate) const MAX_LINE: usize = 8 * 1024;

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// One line of the input.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// Counted from 1, as editors do.
    pub(crate) number: u64,
    /// The bytes without the line's end, or `None` if there are more than [`MAX_LINE`].
    pub(crate) bytes: Option<Vec<u8>>,
}

/// Reads lines one by one and never holds more than one.
///
/// A line ends in LF or CRLF; the last one need not. A byte order mark before the first line is
/// dropped. A line that is too long is skipped up to its end, and the next one is read as usual.
#[derive(Debug)]
pub(crate) struct Lines<R> {
    input: R,
    number: u64,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(input: R) -> Self {
        Self { input, number: 0 }
    }

    fn read(&mut self) -> io::Result<Option<Line>> {
        let mut bytes = Vec::new();
        let most = MAX_LINE as u64 + 1;
        let read = self
            .input
            .by_ref()
            .take(most)
            .read_until(b'\n', &mut bytes)?;
        if read == 0 {
            return Ok(None);
        }
        self.number += 1;
        let number = self.number;
        if bytes.pop_if(|last| *last == b'\n').is_some() {
            bytes.pop_if(|last| *last == b'\r');
        } else if bytes.len() > MAX_LINE {
            self.input.skip_until(b'\n')?;
            return Ok(Some(Line {
                number,
                bytes: None,
            }));
        }
        if number == 1 && bytes.starts_with(BYTE_ORDER_MARK) {
            bytes.drain(..BYTE_ORDER_MARK.len());
        }
        Ok(Some(Line {
            number,
            bytes: Some(bytes),
        }))
    }
}

impl<R: BufRead> Iterator for Lines<R> {
    type Item = io::Result<Line>;

    fn next(&mut self) -> Option<Self::Item> {
        self.read().transpose()
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::{Lines, MAX_LINE};

    /// Reads through a buffer of three bytes, so that every line crosses its edge.
    fn lines(input: &[u8]) -> Vec<Option<Vec<u8>>> {
        Lines::new(BufReader::with_capacity(3, input))
            .zip(1..)
            .map(|(line, number)| {
                let line = line.expect("memory can be read");
                assert_eq!(line.number, number);
                line.bytes
            })
            .collect()
    }

    fn text(input: &str) -> Vec<String> {
        let read = lines(input.as_bytes()).into_iter();
        read.map(|line| String::from_utf8(line.expect("short")).expect("UTF-8"))
            .collect()
    }

    #[test]
    fn lines_end_in_lf_or_crlf_and_the_last_one_need_not() {
        assert_eq!(text(""), [""; 0]);
        assert_eq!(text("one\ntwo\r\n\nfour"), ["one", "two", "", "four"]);
        assert_eq!(text("one\n"), ["one"]);
        assert_eq!(text("a\rb\r\r\n"), ["a\rb\r"]);
    }

    #[test]
    fn a_byte_order_mark_is_dropped_before_the_first_line_only() {
        assert_eq!(text("\u{feff}one\n\u{feff}two\n"), ["one", "\u{feff}two"]);
    }

    #[test]
    fn the_longest_line_is_read_and_a_longer_one_skipped_to_its_end() {
        let fits = "x".repeat(MAX_LINE);
        assert_eq!(text(&format!("{fits}\nnext\n")), [fits.as_str(), "next"]);
        assert_eq!(text(&fits), [fits.as_str()]);

        let long = format!("{fits}x");
        let huge = fits.repeat(3);
        let read = lines(format!("{long}\nnext\n{huge}\nafter\n{huge}").as_bytes());
        assert_eq!(
            read,
            [
                None,
                Some(b"next".to_vec()),
                None,
                Some(b"after".to_vec()),
                None
            ]
        );
    }
}
