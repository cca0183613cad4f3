use chrono::{DateTime, TimeDelta, Utc};
use proptest::prelude::*;

use crate::{PushStoreError, check_instant, instant_from_micros};

const LAST: i64 = 253_402_300_799_999_999;

fn nanos(seconds: i64, nanos: u32) -> DateTime<Utc> {
    DateTime::from_timestamp(seconds, nanos).unwrap()
}

#[test]
fn an_instant_is_floored_and_never_rounded_up() {
    assert_eq!(check_instant(nanos(7, 999)), Ok(7_000_000));
    assert_eq!(check_instant(nanos(7, 999_999_999)), Ok(7_999_999));
    // 2016-12-31T23:59:60.7Z
    assert_eq!(
        check_instant(nanos(1_483_228_799, 1_700_000_000)),
        Ok(1_483_228_799_999_999)
    );
}

#[test]
fn the_first_and_the_last_instant_are_in_range_and_their_neighbours_are_not() {
    assert_eq!(check_instant(nanos(0, 0)), Ok(0));
    assert_eq!(check_instant(nanos(253_402_300_799, 999_999_999)), Ok(LAST));
    for outside in [
        nanos(-1, 999_999_999),
        nanos(253_402_300_800, 0),
        DateTime::<Utc>::MIN_UTC,
        DateTime::<Utc>::MAX_UTC,
    ] {
        assert_eq!(check_instant(outside), Err(PushStoreError::OutOfRange));
    }
}

#[test]
fn stored_microseconds_outside_the_range_are_corrupt() {
    assert_eq!(instant_from_micros(0), Ok(DateTime::UNIX_EPOCH));
    assert_eq!(
        instant_from_micros(LAST).unwrap() + TimeDelta::microseconds(1),
        nanos(253_402_300_800, 0)
    );
    for outside in [-1, LAST + 1, i64::MIN, i64::MAX] {
        assert_eq!(instant_from_micros(outside), Err(PushStoreError::Corrupt));
    }
}

proptest! {
    #[test]
    fn what_is_stored_is_the_instant_less_its_nanoseconds(
        seconds in 0..=253_402_300_799_i64,
        fraction in 0..1_000_000_000_u32,
    ) {
        let instant = nanos(seconds, fraction);
        let stored = instant_from_micros(check_instant(instant).unwrap()).unwrap();
        let lost = instant - stored;
        prop_assert!(lost >= TimeDelta::zero() && lost < TimeDelta::microseconds(1));
        prop_assert_eq!(check_instant(stored), check_instant(instant));
    }
}
