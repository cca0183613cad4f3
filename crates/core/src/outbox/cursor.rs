use std::time::Duration;

/// How far a drainer has come, so that its claims need not pass again over
/// what was claimed and deleted already.
///
/// Where another session holds an old snapshot, deleted rows stay in the index
/// and every claim from the start of the queue reads all of them. A cursor
/// remembers the time at which the rows claimed last were due, and
/// [`Outbox::claim_through`](crate::Outbox::claim_through) looks from there on.
///
/// Rows can appear below that bound: a transaction that commits late, a lease
/// that lapses, a retry in the past. So a *full scan*, from the start of the
/// queue, is due after a bounded claim that came back short, and
/// [`SCAN_AFTER`](Self::SCAN_AFTER) after the last one under load. It runs once
/// full scans stay under a tenth of the elapsed time, and at the latest
/// [`SCAN_WITHIN`](Self::SCAN_WITHIN) after the last. Such a row thus waits
/// that long at most, while claims are made.
///
/// A cursor belongs to one drainer of one outbox. It keeps no promise of order
/// across calls; [`Outbox::claim_due`](crate::Outbox::claim_due) does. Losing
/// it costs a full scan.
#[derive(Clone, Debug, Default)]
pub struct ClaimCursor {
    bound: Option<String>,
    came_short: bool,
    last_scan: Option<Scan>,
}

#[derive(Clone, Copy, Debug)]
struct Scan {
    ended: Duration,
    took: Duration,
}

impl ClaimCursor {
    /// Under load a full scan is due this long after the last.
    pub const SCAN_AFTER: Duration = Duration::from_secs(1);
    /// A full scan that is due runs at the latest this long after the last,
    /// whatever it costs.
    pub const SCAN_WITHIN: Duration = Duration::from_secs(4);
    /// Full scans take at most one part in so many of the elapsed time.
    const SHARE: u32 = 10;

    /// A cursor at the start of the queue.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Where the next claim begins: a bound, or `None` for a full scan.
    /// `elapsed` is monotonic, since an origin that stays the same.
    pub(super) fn next(&self, elapsed: Duration) -> Option<&str> {
        let bound = self.bound.as_deref()?;
        let scan = self.last_scan?;
        let since = elapsed.saturating_sub(scan.ended);
        let due = self.came_short || since >= Self::SCAN_AFTER;
        let cheap = since >= scan.took * (Self::SHARE - 1);
        let late = since >= Self::SCAN_WITHIN;
        if due && (cheap || late) {
            None
        } else {
            Some(bound)
        }
    }

    /// Takes note of a claim that ran from `started` to `ended`; `last` is
    /// when the last of its rows was due.
    pub(super) fn claimed(
        &mut self,
        bounded: bool,
        started: Duration,
        ended: Duration,
        short: bool,
        last: Option<&str>,
    ) {
        if !bounded {
            let took = ended.saturating_sub(started);
            self.last_scan = Some(Scan { ended, took });
        }
        self.came_short = short;
        // A full scan that filled its limit below the bound takes the bound back
        // with it: there is a backlog, and it is worked off from its oldest row.
        if let Some(last) = last {
            self.bound = Some(last.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);
    const OLD: &str = "2026-01-01T00:00:00.000000Z";
    const NEW: &str = "2026-01-02T00:00:00.000000Z";

    /// A cursor whose full scan took `took` and ended at `took`.
    fn scanned(took: Duration) -> ClaimCursor {
        let mut cursor = ClaimCursor::new();
        assert_eq!(cursor.next(Duration::ZERO), None, "the first claim scans");
        cursor.claimed(false, Duration::ZERO, took, false, Some(NEW));
        cursor
    }

    #[test]
    fn under_load_claims_are_bounded_until_a_scan_is_due() {
        let cursor = scanned(MS);
        assert_eq!(cursor.next(MS * 2), Some(NEW));
        assert_eq!(cursor.next(ClaimCursor::SCAN_AFTER), Some(NEW));
        assert_eq!(cursor.next(ClaimCursor::SCAN_AFTER + MS), None);
    }

    #[test]
    fn a_short_claim_makes_a_scan_due_at_a_tenth_of_the_time() {
        let mut cursor = scanned(MS * 50);
        cursor.claimed(true, MS * 60, MS * 61, true, None);
        assert_eq!(cursor.next(MS * 499), Some(NEW));
        assert_eq!(cursor.next(MS * 500), None);
    }

    #[test]
    fn a_costly_scan_still_runs_in_time() {
        let cursor = scanned(Duration::from_secs(3));
        let due = Duration::from_secs(3) + ClaimCursor::SCAN_WITHIN;
        assert_eq!(cursor.next(due.saturating_sub(MS)), Some(NEW));
        assert_eq!(cursor.next(due), None);
    }

    #[test]
    fn a_backlog_below_the_bound_takes_the_bound_back() {
        let mut cursor = scanned(MS);
        cursor.claimed(false, MS * 1_001, MS * 1_002, false, Some(OLD));
        assert_eq!(cursor.next(MS * 1_003), Some(OLD));
        cursor.claimed(true, MS * 1_003, MS * 1_004, false, Some(NEW));
        assert_eq!(cursor.next(MS * 1_005), Some(NEW));
    }

    #[test]
    fn an_idle_drainer_scans_each_time() {
        let mut cursor = scanned(MS);
        cursor.claimed(false, MS * 20, MS * 21, true, None);
        assert_eq!(cursor.next(MS * 5_000), None);
    }
}
