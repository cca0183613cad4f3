//! Calls of any size: no parameter counter wraps, no packet is too large.

use std::sync::Arc;
use std::time::Instant;

use super::chapter;
use super::context::{ReceiptContext, at, end_of_time, is_soak, limit, many, numbered, tickets};

chapter!(sizes:
    a_call_of_any_size_is_exact,
    a_hundred_thousand_tickets_go_in_one_call_each,
);

/// Around the places where 2 or 5 parameters a row pass 65 535, where a
/// counter of 16 bits wraps, and past the 32 766 of `SQLite`.
const SIZES: [usize; 6] = [13_107, 16_384, 21_846, 65_535, 65_536, 200_000];

async fn a_call_of_any_size_is_exact(cx: Arc<ReceiptContext>) {
    let sizes = if is_soak() {
        &SIZES[..]
    } else {
        &[13_108, 65_536]
    };
    for size in sizes.iter().copied() {
        let counted = size as u64;
        assert_eq!(cx.record(many(size), at(0)).await, counted, "record {size}");
        assert_eq!(cx.record(many(size), at(0)).await, 0, "record {size} again");
        let mut all: Vec<_> = (0..size).map(numbered).collect();
        all.push("never-recorded".to_owned());
        assert_eq!(cx.delete(&all).await, counted, "delete {size}");
        assert_eq!(cx.delete(&all).await, 0, "delete {size} again");
    }
    assert!(cx.take(end_of_time(), end_of_time()).await.is_empty());
}

async fn a_hundred_thousand_tickets_go_in_one_call_each(cx: Arc<ReceiptContext>) {
    let size = if is_soak() { 100_000 } else { 10_000 };
    let (counted, bound) = (size as u64, u32::try_from(size).expect("small"));
    let call = many(size);
    let begun = Instant::now();
    assert_eq!(cx.record(call, at(0)).await, counted);
    let recorded = begun.elapsed();
    let begun = Instant::now();
    let taken = cx.take_up_to(at(0), at(900), limit(bound)).await;
    let took = begun.elapsed();
    assert_eq!(taken.len(), size);
    assert!(
        taken
            .iter()
            .enumerate()
            .all(|(number, each)| each.ticket.as_str() == numbered(number))
    );
    assert!(cx.take_up_to(at(899), at(900), limit(1)).await.is_empty());
    let all = (0..size).map(numbered).collect::<Vec<_>>();
    let call = tickets(&all);
    let begun = Instant::now();
    assert_eq!(cx.store.delete(call).await, Ok(counted));
    let deleted = begun.elapsed();
    println!(
        "{size} tickets in one call each: recorded in {recorded:?}, taken in {took:?}, deleted in \
         {deleted:?}; most memory of this process so far {}",
        peak_memory()
    );
}

/// The most that this process has held, where the system tells.
fn peak_memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    status
        .lines()
        .find_map(|line| line.strip_prefix("VmHWM:"))
        .map_or_else(|| "unknown".to_owned(), |size| size.trim().to_owned())
}
