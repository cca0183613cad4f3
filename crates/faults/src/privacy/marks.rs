//! What must not be seen.

use duebox_core::uuid::Uuid;

/// Stands in every text. Short enough for a time's column.
pub(crate) const MARK: &str = "S3cretMark";
/// Bound as a number.
pub(crate) const NUMBER: i64 = 7_042_704_270_427;
pub(crate) const OWNER: Uuid = Uuid::from_u128(0x5ec2_e75e_c2e7_5ec2_e75e_c2e7_5ec2_e75e);

/// The first mark that can be read from a text: plain, as bytes, in
/// hexadecimal.
pub(crate) fn seen_in(printed: &str) -> Option<&'static str> {
    let low = printed.to_lowercase();
    let marks = [
        ("s3cretmark", "a text"),
        ("83, 51, 99, 114, 101, 116", "the bytes of a text"),
        ("533363726574", "a text in hexadecimal"),
        ("7042704270427", "a number"),
        ("5ec2e75e", "an owner"),
        ("94, 194, 231, 94", "the bytes of an owner"),
    ];
    marks
        .into_iter()
        .find_map(|(mark, what)| low.contains(mark).then_some(what))
}

/// Whether a mark is among raw bytes.
pub(crate) fn among(bytes: &[u8]) -> bool {
    let holds = |mark: &[u8]| bytes.windows(mark.len()).any(|part| part == mark);
    holds(MARK.as_bytes()) || holds(&OWNER.as_bytes()[..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_seen_in_each_form() {
        assert!(seen_in(&format!("x{MARK}y")).is_some());
        assert!(seen_in(&format!("{:?}", MARK.as_bytes())).is_some());
        assert!(seen_in(&format!("{OWNER}")).is_some());
        assert!(seen_in(&format!("{:?}", OWNER.as_bytes())).is_some());
        assert!(seen_in(&NUMBER.to_string()).is_some());
        assert!(among(format!("..{MARK}").as_bytes()) && !among(b"nothing"));
        assert_eq!(seen_in("id a-17, topic mail"), None);
    }
}
