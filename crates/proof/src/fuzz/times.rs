//! A time is one instant, floored, and text order is time order.

use duebox_core::chrono::{DateTime, SubsecRound, Utc};
use duebox_core::{format_time, parse_time};

use super::Target;

pub(super) const TARGET: Target = Target {
    name: "times",
    look,
    words: &[
        "2026-01-31T09:30:00Z",
        "T",
        "Z",
        "+00:00",
        "-23:59",
        "+23:59",
        ".9999999",
        ".0",
        ":60",
        "0001",
        "9999",
        "02-29",
        "02-30",
        "24:00:00",
    ],
};

/// A text is one time, or two with a line between.
fn look(text: &str) -> Result<(), String> {
    let mut stored = Vec::new();
    for line in text.split('\n') {
        let Ok(time) = parse_time(line) else { continue };
        let written = format_time(time).map_err(|error| format!("not written: {error}"))?;
        if written.len() != 27 || !written.ends_with('Z') {
            return Err(format!("{written} is not of the stored form"));
        }
        let again = parse_time(&written).map_err(|error| format!("not read again: {error}"))?;
        if format_time(again).ok().as_ref() != Some(&written) {
            return Err(format!("{written} is read as another time"));
        }
        // Another reader, which leaves leap seconds as they are.
        if let Ok(other) = DateTime::parse_from_rfc3339(line) {
            let other = other.with_timezone(&Utc).trunc_subsecs(6);
            let leap = other.timestamp_subsec_micros() >= 1_000_000;
            if !leap && other != again {
                return Err(format!("{written} is {other} to another reader"));
            }
        }
        stored.push((again, written));
    }
    for [(one, one_text), (two, two_text)] in stored.array_windows() {
        if one.cmp(two) != one_text.cmp(two_text) {
            return Err(format!("{one_text} and {two_text} are ordered another way"));
        }
    }
    Ok(())
}
