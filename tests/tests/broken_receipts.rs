//! The tests about push receipts are tests only if they fail. Each store here
//! is that in memory with one defect, which a test must find by its name.

#[path = "broken_receipts/store.rs"]
mod store;

use std::sync::Arc;

use async_trait::async_trait;
use duebox_conformance::{Change, ReceiptHarness, ReceiptHook, ReceiptSandbox, receipt_tests};
use duebox_core::{PendingReceiptStore, PushTicketId};

use self::store::{Broken, Defect};

struct Harness(Option<Defect>);

#[async_trait]
impl ReceiptHarness for Harness {
    fn name(&self) -> String {
        "broken".to_owned()
    }

    fn hooks(&self) -> &'static [ReceiptHook] {
        use ReceiptHook::{Break, Cut, Damage, Lock, Refuse};
        &[Break, Cut, Damage, Lock, Refuse]
    }

    async fn open_receipts(&self) -> Box<dyn ReceiptSandbox> {
        Box::new(Sandbox(Broken::new(self.0)))
    }
}

struct Sandbox(Broken);

#[async_trait]
impl ReceiptSandbox for Sandbox {
    fn store(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::new(self.0.clone())
    }

    async fn another(&self) -> Arc<dyn PendingReceiptStore> {
        Arc::new(self.0.another())
    }

    async fn damage(&self, ticket: &PushTicketId, _: &str) {
        self.0.damage(ticket);
    }

    async fn break_down(&self) {
        self.0.break_down();
    }

    async fn refuse(&self, change: Change, ticket: &PushTicketId) {
        self.0.refuse(change, ticket);
    }

    async fn cut(&self) {
        self.0.cut();
    }

    async fn lock(&self, ticket: &PushTicketId) -> Box<dyn Send> {
        Box::new(self.0.lock(ticket))
    }
}

/// What the test says of a store with this defect, if of any.
fn run(name: &str, defect: Option<Defect>) -> Result<(), String> {
    let test = receipt_tests().into_iter().find(|test| test.name() == name);
    test.unwrap_or_else(|| panic!("there is no test {name}"))
        .run(&Harness(defect))
}

macro_rules! found_by {
    ($($defect:ident: $test:literal),+ $(,)?) => {
        mod found {$(
            #[test]
            #[allow(non_snake_case, reason = "named after the defect")]
            fn $defect() {
                assert_eq!(super::run($test, None), Ok(()), "without the defect");
                let found = super::run($test, Some(super::Defect::$defect));
                assert!(found.is_err(), "{} does not find it", $test);
            }
        )+}

        const FOUND: &[Defect] = &[$(Defect::$defect),+];
    };
}

found_by! {
    ForgetsToMove: "taking::a_taken_ticket_is_due_again_at_its_retry_and_not_before",
    MovesOneMore: "taking::exactly_the_tickets_returned_are_moved",
    NewestFirst: "taking::tickets_come_oldest_due_first",
    UnsortedAnswer: "taking::tickets_come_oldest_due_first",
    TiesByLanguage: "taking::tickets_of_one_instant_come_in_the_order_of_their_bytes",
    TiesAtRandom: "taking::a_limit_cuts_in_the_order_of_tickets_too",
    NotDueAtItsInstant: "taking::a_ticket_due_now_is_due",
    DueEarly: "taking::a_ticket_due_a_microsecond_later_is_not_due",
    SignedLimit: "taking::the_largest_limit_takes_all",
    NoLimit: "taking::a_limit_is_kept",
    RefusesPastRetry: "taking::a_retry_before_now_leaves_the_ticket_due",
    CountsChangedRowsOnly: "taking::a_retry_at_the_due_instant_gives_the_ticket_all_the_same",
    DeletesWhenTaken: "taking::what_was_taken_and_not_deleted_comes_back",
    StarvesFresh: "taking::tickets_that_never_settle_do_not_starve_fresh_ones",
    StampsSentAt: "taking::taking_changes_nothing_but_the_due_instant",
    TakesByHalf: "taking::a_call_that_fails_moves_nothing",
    CountsKnownTickets: "recording::only_new_tickets_are_counted",
    Overwrites: "recording::a_recorded_ticket_is_left_as_it_is",
    RenewsTaken: "recording::a_taken_ticket_that_is_recorded_again_stays_taken",
    LastOfEqualsWins: "recording::the_first_of_equal_tickets_counts",
    RefusesEquals: "recording::the_first_of_equal_tickets_counts",
    RemembersDeleted: "recording::a_deleted_ticket_is_new_again",
    RecordsByHalf: "recording::a_call_whose_last_ticket_is_refused_records_nothing",
    RecordsUpToABadInstant: "recording::a_call_with_an_impossible_instant_records_nothing",
    TokensByPosition: "recording::accepted_outcomes_are_recorded_with_their_own_tokens",
    NothingAfterAFailure: "recording::accepted_outcomes_before_a_failure_are_recorded",
    AcceptedAreDueAtOnce: "recording::accepted_outcomes_are_due_one_delay_after_their_send",
    FoldsCase: "round_trip::tickets_that_differ_by_case_are_two",
    CutsTokens: "round_trip::a_receipt_comes_back_as_it_was_recorded",
    TicketsAsNumbers: "round_trip::a_ticket_that_looks_like_a_number_or_a_pattern_is_itself",
    OwnersByHalf: "round_trip::owners_that_differ_in_one_bit_are_two",
    CountsWhatWasAsked: "deleting::only_what_was_there_is_counted",
    CountsRepetitions: "deleting::a_repeated_ticket_counts_once",
    DeletesTakenOnly: "deleting::it_does_not_matter_whether_a_ticket_was_taken_or_is_due",
    DeletesAll: "deleting::nothing_but_the_tickets_named_goes",
    DeletesByHalf: "deleting::a_call_whose_last_ticket_is_refused_deletes_nothing",
    PurgesThatInstant: "purging::a_ticket_sent_at_that_instant_stays",
    PurgesNewestFirst: "purging::a_purge_is_bounded_and_takes_the_oldest_first",
    PurgesWithoutBound: "purging::a_purge_is_bounded_and_takes_the_oldest_first",
    PurgesDueOnly: "purging::a_purge_does_not_ask_whether_a_ticket_is_due",
    SignedPurge: "purging::the_largest_limit_purges_all",
    NeverPurges: "purging::a_ticket_that_never_settles_is_gone_after_its_day",
    ErasesUntakenOnly: "erasing::tickets_that_were_taken_go_too",
    ErasesAll: "erasing::every_ticket_of_the_owner_goes_and_no_other",
    ErasesAThousand: "erasing::an_owner_of_many_tickets_is_erased_in_one_call",
    NilIsEverybody: "erasing::nil_and_max_are_owners_like_any",
    RoundsUp: "instants::what_is_stored_is_floored_and_never_rounded_up",
    ComparesNanoseconds: "instants::what_is_compared_is_floored_too",
    Milliseconds: "instants::every_microsecond_counts",
    EndsIn2038: "instants::an_instant_in_a_gap_of_the_clock_is_itself",
    ClampsInstants: "instants::an_instant_outside_the_years_is_refused_by_every_call",
    LeapIsNext: "instants::a_leap_second_is_the_last_microsecond_before_it",
    CountsIn16Bits: "sizes::a_call_of_any_size_is_exact",
    HidesUncommitted: "handles::another_handle_sees_what_one_did",
    TakesTwice: "at_once::takers_get_disjoint_batches_and_together_all",
    RecordsTwice: "at_once::tickets_recorded_by_many_are_new_once",
    Resurrects: "at_once::what_is_deleted_while_it_is_taken_stays_deleted",
    StopsInBetween: "cancelling::a_record_that_is_dropped_is_done_or_not_as_a_whole",
    TakesOutAndPutsBack: "cancelling::a_take_that_is_dropped_loses_no_ticket",
    WorksUnpolled: "cancelling::a_future_that_is_never_polled_does_nothing",
    EmptyWhenBroken: "failing::a_store_that_is_broken_says_so_in_every_call",
    RetriesForEver: "failing::a_store_that_is_broken_says_so_in_every_call",
    StuckOnDamage: "failing::a_row_that_cannot_be_read_stops_no_other",
    HidesDamage: "failing::a_row_that_cannot_be_read_is_a_typed_error",
    StaysCut: "failing::a_store_that_was_cut_off_works_again",
    WaitsForLocks: "locks::a_taker_passes_over_what_another_holds",
    PurgesLocked: "locks::a_purge_passes_over_what_another_holds",
    SkipsLockedErasures: "locks::an_erasure_waits_for_what_another_holds",
    LosesAnswers: "polling::what_settles_is_counted_and_deleted",
}

#[test]
fn every_defect_is_looked_for() {
    for defect in Defect::ALL {
        assert!(FOUND.contains(defect), "{defect:?}");
    }
}

#[test]
fn a_store_without_a_defect_passes_every_test() {
    let harness = Harness(None);
    for test in receipt_tests() {
        let served = test
            .needs()
            .is_none_or(|hook| harness.hooks().contains(&hook));
        // The long ones run in `receipts_in_memory`.
        if served && !test.name().starts_with("sizes::") && !test.name().starts_with("day::") {
            assert_eq!(test.run(&harness), Ok(()), "{}", test.name());
        }
    }
}
