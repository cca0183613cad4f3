//! Instants: floored to the microsecond, of the years 1970 to 9999.

use std::sync::Arc;

use duebox_core::PushStoreError;
use duebox_core::chrono::{DateTime, TimeDelta, Utc};

use super::chapter;
use super::context::{
    ALL, ReceiptContext, assert_out_of_range, at, at_micros, end_of_time, names, receipt, sent,
};
use duebox_core::{PushDeliveryStatus, PushOutcome};

chapter!(instants:
    what_is_stored_is_floored_and_never_rounded_up,
    what_is_compared_is_floored_too,
    every_microsecond_counts,
    the_ends_of_the_years_are_kept,
    an_instant_outside_the_years_is_refused_by_every_call,
    an_instant_in_a_gap_of_the_clock_is_itself,
    a_leap_second_is_the_last_microsecond_before_it,
);

fn nanos(instant: DateTime<Utc>, nanoseconds: i64) -> DateTime<Utc> {
    instant + TimeDelta::nanoseconds(nanoseconds)
}

async fn what_is_stored_is_floored_and_never_rounded_up(cx: Arc<ReceiptContext>) {
    for (name, instant) in [
        ("a", nanos(at(0), 1)),
        ("b", nanos(at(0), 500)),
        ("c", nanos(at(0), 999)),
        ("d", nanos(at(0), 999_999_999)),
    ] {
        cx.record(vec![sent(name, instant)], nanos(at(10), 999))
            .await;
    }
    assert!(cx.take(at_micros(9_999_999), at(20)).await.is_empty());
    let taken = cx.take(at(10), nanos(at(20), 999)).await;
    assert_eq!(names(&taken), ["a", "b", "c", "d"], "due at 10, floored");
    let sents: Vec<_> = taken.iter().map(|each| each.sent_at).collect();
    assert_eq!(sents, [at(0), at(0), at(0), at_micros(999_999)]);
    assert_eq!(cx.take(at(20), at(30)).await.len(), 4, "a retry is floored");
}

async fn what_is_compared_is_floored_too(cx: Arc<ReceiptContext>) {
    cx.put("a", at_micros(5)).await;
    let just_before = nanos(at_micros(4), 999);
    assert!(cx.take(just_before, at(1)).await.is_empty());
    assert_eq!(cx.take(nanos(at_micros(5), 999), at(1)).await.len(), 1);
    // Sent at 0, thus not before 0 and some nanoseconds.
    assert_eq!(cx.purge(nanos(at(0), 999), ALL).await, 0);
    assert_eq!(cx.purge(nanos(at_micros(1), 999), ALL).await, 1);
}

async fn every_microsecond_counts(cx: Arc<ReceiptContext>) {
    for micros in 0..20 {
        let name = format!("{:02}", 19 - micros);
        cx.record(vec![sent(&name, at_micros(micros))], at_micros(micros))
            .await;
    }
    for micros in 0..20 {
        let taken = cx.take(at_micros(micros), at(1)).await;
        assert_eq!(names(&taken), [format!("{:02}", 19 - micros)]);
        assert_eq!(taken[0].sent_at, at_micros(micros));
    }
    for micros in 1..=20 {
        assert_eq!(cx.purge(at_micros(micros), ALL).await, 1);
    }
}

async fn the_ends_of_the_years_are_kept(cx: Arc<ReceiptContext>) {
    let (first, last) = (DateTime::UNIX_EPOCH, end_of_time());
    cx.record(vec![sent("first", first)], first).await;
    cx.record(vec![sent("last", nanos(last, 999))], last).await;
    let taken = cx.take(first, first).await;
    assert_eq!(names(&taken), ["first"]);
    assert_eq!(taken[0].sent_at, first);
    let just_before = last - TimeDelta::microseconds(1);
    assert_eq!(names(&cx.take(just_before, first).await), ["first"]);
    let taken = cx.take(last, last).await;
    assert_eq!(names(&taken), ["first", "last"]);
    assert_eq!(taken[1].sent_at, last);
    assert_eq!(cx.purge(first, ALL).await, 0);
    assert_eq!(cx.purge(last, ALL).await, 1);
    assert_eq!(names(&cx.all().await), ["last"]);
}

async fn an_instant_outside_the_years_is_refused_by_every_call(cx: Arc<ReceiptContext>) {
    cx.put("a", at(5)).await;
    for outside in [
        nanos(DateTime::UNIX_EPOCH, -1),
        DateTime::from_timestamp(-62_135_596_800, 0).expect("the year 1"),
        end_of_time() + TimeDelta::microseconds(1),
        DateTime::<Utc>::MIN_UTC,
        DateTime::<Utc>::MAX_UTC,
    ] {
        assert_out_of_range(cx.store.record(vec![receipt("b")], outside).await);
        assert_out_of_range(cx.store.record(vec![sent("b", outside)], at(0)).await);
        assert_out_of_range(cx.store.take_due(outside, at(9), ALL).await);
        assert_out_of_range(cx.store.take_due(at(9), outside, ALL).await);
        assert_out_of_range(cx.store.purge(outside, ALL).await);
        let accepted = PushOutcome {
            token: receipt("b").token,
            status: PushDeliveryStatus::Accepted(receipt("b").ticket),
        };
        let sent = cx
            .store
            .record_accepted(receipt("b").owner_id, &[accepted], outside);
        assert_out_of_range(sent.await);
    }
    // The due instant of a send in the last 15 minutes is past the end.
    let accepted = [PushOutcome {
        token: receipt("b").token,
        status: PushDeliveryStatus::Accepted(receipt("b").ticket),
    }];
    let owner_id = receipt("b").owner_id;
    let late = cx.store.record_accepted(owner_id, &accepted, end_of_time());
    assert_eq!(late.await, Err(PushStoreError::OutOfRange));
    assert!(cx.take(at(4), at(4)).await.is_empty(), "nothing was moved");
    assert_eq!(names(&cx.all().await), ["a"], "nothing was recorded");
}

async fn an_instant_in_a_gap_of_the_clock_is_itself(cx: Arc<ReceiptContext>) {
    // Within the hours that local clocks skip or repeat, and around 2038.
    for (name, seconds) in [
        ("a", 1_774_746_000), // 2026-03-29T01:00:00Z, Europe
        ("b", 1_774_747_800),
        ("c", 1_772_953_200), // 2026-03-08T07:00:00Z, America
        ("d", 1_792_890_000), // 2026-10-25T01:00:00Z, Europe
        ("e", 1_792_891_800),
        ("f", 2_147_483_648), // one second past 31 bits
        ("g", 4_294_967_296),
    ] {
        let instant = DateTime::from_timestamp(seconds, 123_456_000).expect("an instant");
        cx.record(vec![sent(name, instant)], instant).await;
        let just_before = instant - TimeDelta::microseconds(1);
        assert!(cx.take(just_before, just_before).await.is_empty(), "{name}");
        let taken = cx.take(instant, end_of_time()).await;
        assert_eq!(names(&taken), [name]);
        assert_eq!(taken[0].sent_at, instant, "{name}");
    }
}

async fn a_leap_second_is_the_last_microsecond_before_it(cx: Arc<ReceiptContext>) {
    let leap = DateTime::from_timestamp(1_483_228_799, 1_500_000_000).expect("a leap second");
    let last = DateTime::from_timestamp(1_483_228_799, 999_999_000).expect("an instant");
    cx.record(vec![sent("a", leap)], leap).await;
    let just_before = last - TimeDelta::microseconds(1);
    assert!(cx.take(just_before, just_before).await.is_empty());
    let taken = cx.take(last, leap).await;
    assert_eq!(taken[0].sent_at, last);
    assert_eq!(cx.take(last, last).await.len(), 1, "a retry is read alike");
    assert_eq!(cx.purge(leap, ALL).await, 0);
}
