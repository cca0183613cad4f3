//! Stores that break one promise each, which the suite must find.

mod database;
mod fault;
mod quiet;

use std::sync::Arc;

use async_trait::async_trait;
use duebox_core::{Database, DbError, Outbox, Statement};
use libtest_mimic::{Failed, Trial};

use self::database::Faulty;
use self::fault::Fault;
use crate::{Harness, Hook, Plan, Sandbox, Schema, Test, tests};

pub(crate) use self::quiet::{is_quiet, quietly, set_quiet};

/// A good store with one promise broken, and the tests that must notice.
#[derive(Clone, Debug)]
pub struct Broken {
    name: &'static str,
    fault: Fault,
    caught_by: &'static [&'static str],
    passes: &'static str,
}

/// All broken stores. A suite in which one of them passes tests nothing.
#[must_use]
#[rustfmt::skip]
#[allow(clippy::too_many_lines, reason = "it is a list")]
pub fn broken() -> Vec<Broken> {
    let broken = |name, fault, caught_by| Broken {
        name,
        fault,
        caught_by,
        passes: "operator::a_row_is_shown_whole_by_its_id",
    };
    vec![
        Broken {
            name: "forgets leases",
            fault: Fault::ForgetsLeases,
            caught_by: &[
                "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
                "lease::a_lease_ends_at_lease_until",
                "lease::exactly_the_rows_returned_are_leased",
                "claim::rows_newly_leased_are_the_rows_returned",
            ],
            passes: "operator::a_list_filters_by_topic_and_age",
        },
        broken("never gives a lapsed row back", Fault::KeepsLapsedRows, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "lease::a_lease_ends_at_lease_until",
            "lease::a_lapsed_lease_counts_a_lapse",
            "lost_answers::a_claim_that_nobody_was_told_of_comes_back_at_lease_until",
        ]),
        broken("takes the newest row first", Fault::NewestFirst, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "lease::rows_come_oldest_first_and_then_by_id",
            "claim::the_oldest_rows_are_taken_whatever_order_they_are_stored_in",
        ]),
        broken("completes by the id alone", Fault::CompletesById, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "lease::a_stale_holder_changes_nothing",
            "lease::fenced_calls_answer_each_lease_in_order",
            "lost_answers::a_release_sent_again_does_not_end_the_next_lease",
        ]),
        broken("leases more than it returns", Fault::LeasesMore, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "lease::exactly_the_rows_returned_are_leased",
            "claim::rows_newly_leased_are_the_rows_returned",
        ]),
        broken("ignores the limit", Fault::IgnoresLimit, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "claim::a_claim_takes_a_hundred_rows_unless_told",
            "claim::rows_newly_leased_are_the_rows_returned",
            "lease::rows_come_oldest_first_and_then_by_id",
        ]),
        broken("takes a large limit for a small one", Fault::WrapsLimit, &[
            "claim::the_largest_limits_take_all",
        ]),
        broken("takes a failing claim for an empty queue", Fault::HidesErrors, &[
            "claim::a_failing_claim_is_an_error_and_never_no_rows",
        ]),
        Broken {
            name: "looks only above its cursor",
            fault: Fault::NeverScans,
            caught_by: &[
                "cursor::a_late_commit_below_the_bound_is_claimed_in_time",
                "cursor::a_lapsed_lease_below_the_bound_is_claimed_in_time",
                "cursor::a_retry_below_the_bound_is_claimed_in_time",
            ],
            passes: "cursor::a_full_claim_bounds_the_next_by_its_last_row",
        },
        broken("folds the case of ids", Fault::FoldsIds, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "text::ids_are_told_apart_byte_by_byte",
            "operator::ids_are_told_apart_byte_by_byte",
        ]),
        broken("folds the case of subjects", Fault::FoldsSubjects, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "subject::only_the_exact_subject_is_exported",
            "subject::only_the_exact_subject_is_erased",
        ]),
        broken("takes a subject for a pattern", Fault::MatchesSubjects, &[
            "subject::only_the_exact_subject_is_exported",
            "subject::only_the_exact_subject_is_erased",
        ]),
        broken("erases without a bound", Fault::ErasesWithoutBound, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "subject::erasing_is_bounded_by_its_limit",
        ]),
        Broken {
            name: "erases around locked rows",
            fault: Fault::SkipsLockedRows,
            caught_by: &["subject::erasing_waits_for_a_locked_row"],
            passes: "subject::erasing_reaches_every_state",
        },
        broken("rounds times up", Fault::RoundsUp, &[
            "lease::a_lease_ends_at_lease_until",
            "operator::each_row_is_counted_once_where_it_stands",
            "time::what_is_below_a_microsecond_is_floored",
        ]),
        broken("counts rows twice", Fault::CountsTwice, &[
            "programs::programs_of_all_calls_are_answered_as_the_reference_answers",
            "batch::counts_are_of_rows_inserted_updated_and_deleted",
            "operator::ids_that_are_not_there_change_nothing",
        ]),
        broken("counts duplicates", Fault::CountsDuplicates, &[
            "enqueue::a_row_that_is_there_is_left_as_it_is_by_enqueueing_once",
            "enqueue::of_many_that_enqueue_once_at_once_one_does",
        ]),
        broken("commits half of a batch", Fault::CommitsHalves, &[
            "batch::a_batch_that_fails_in_the_middle_leaves_nothing",
            "cancel::a_dropped_batch_leaves_all_of_its_rows_or_none",
            "lost_answers::a_batch_repeated_with_its_id_is_a_conflict_and_applied_once",
            "lost_answers::an_effect_completed_in_its_batch_takes_place_once",
        ]),
        broken("expects no count of rows", Fault::DropsExpectations, &[
            "batch::another_number_of_rows_than_expected_undoes_the_batch",
            "batch::execute_with_expected_rows_is_a_batch_of_one",
            "lost_answers::an_effect_completed_in_its_batch_takes_place_once",
        ]),
        broken("says that what was lost was not applied", Fault::MisjudgesLostAnswers, &[
            "lost_answers::an_error_that_says_not_applied_left_nothing",
        ]),
        broken("has no index of what is due", Fault::LacksIndex, &[
            "plans::a_claim_reads_the_due_index_and_sorts_nothing",
            "plans::a_claim_through_a_cursor_reads_the_due_index_from_its_bound",
        ]),
        broken("quotes rows in its errors", Fault::QuotesRows, &[
            "privacy::errors_of_enqueueing_show_nothing_of_the_row",
            "privacy::errors_of_the_callers_own_statements_show_no_value",
            "privacy::errors_of_a_missing_table_show_no_value",
        ]),
    ]
}

impl Broken {
    /// What it does wrong.
    #[must_use]
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// The tests that must fail on it.
    #[must_use]
    pub fn caught_by(&self) -> &'static [&'static str] {
        self.caught_by
    }

    /// The databases of `harness`, all of them broken in this way.
    #[must_use]
    pub fn harness(&self, harness: Arc<dyn Harness>) -> Arc<dyn Harness> {
        Arc::new(BrokenHarness {
            inner: harness,
            fault: self.fault,
        })
    }
}

/// For each broken store and each test that must catch it, a trial that passes
/// if the test fails; and one that passes if another test still passes, so that
/// the store is known to be broken in that one way and not altogether.
pub(crate) fn trials(harness: &Arc<dyn Harness>) -> Vec<Trial> {
    let mut trials = Vec::new();
    for store in broken() {
        for name in store.caught_by {
            let trial = trial(harness, &store, name, true);
            trials.push(trial);
        }
        trials.push(trial(harness, &store, store.passes, false));
    }
    trials
}

fn trial(harness: &Arc<dyn Harness>, store: &Broken, test: &str, caught: bool) -> Trial {
    let verb = if caught {
        "is caught by"
    } else {
        "still passes"
    };
    let name = format!("{}::broken::{} {verb} {test}", harness.name(), store.name);
    let Some(test) = tests().into_iter().find(|other| other.name == test) else {
        return Trial::test(name, || Err(Failed::from("the suite has no such test")));
    };
    let broken = store.harness(Arc::clone(harness));
    if let Some(hook) = test.needs.filter(|hook| !broken.hooks().contains(hook)) {
        return Trial::test(name, || Ok(()))
            .with_kind(format!("not run: the harness has no hook {hook:?}"))
            .with_ignored_flag(true);
    }
    Trial::test(name, move || run(test, &*broken, caught))
}

fn run(test: Test, broken: &dyn Harness, caught: bool) -> Result<(), Failed> {
    match (quietly(|| test.run(broken, Schema::Portable)), caught) {
        (Err(_), true) | (Ok(()), false) => Ok(()),
        (Ok(()), true) => Err(Failed::from("the test passes on a broken store")),
        (Err(why), false) => Err(Failed::from(format!("the store is more broken: {why}"))),
    }
}

struct BrokenHarness {
    inner: Arc<dyn Harness>,
    fault: Fault,
}

#[async_trait]
impl Harness for BrokenHarness {
    fn name(&self) -> String {
        self.inner.name()
    }

    fn hooks(&self) -> &'static [Hook] {
        match self.fault {
            // It cuts itself off, so that any engine will do.
            Fault::MisjudgesLostAnswers => &[Hook::Cut],
            _ => self.inner.hooks(),
        }
    }

    async fn open(&self) -> Box<dyn Sandbox> {
        let inner = self.inner.open().await;
        Box::new(BrokenSandbox {
            database: Faulty::new(inner.database(), self.fault),
            fault: self.fault,
            inner,
        })
    }
}

struct BrokenSandbox {
    inner: Box<dyn Sandbox>,
    database: Faulty,
    fault: Fault,
}

#[async_trait]
impl Sandbox for BrokenSandbox {
    fn database(&self) -> Arc<dyn Database> {
        Arc::new(self.database.clone())
    }

    async fn another(&self) -> Arc<dyn Database> {
        Arc::new(Faulty::new(self.inner.another().await, self.fault))
    }

    async fn migrate_outbox(&self, outbox: &Outbox) -> Result<(), DbError> {
        self.inner.migrate_outbox(outbox).await
    }

    async fn explain(&self, statement: &Statement) -> Plan {
        self.inner.explain(statement).await
    }

    async fn cut(&self) {
        if self.fault == Fault::MisjudgesLostAnswers {
            self.database.lose_an_answer();
        } else {
            self.inner.cut().await;
        }
    }

    async fn lock(&self, table: &str, id: &str) -> Box<dyn Send> {
        self.inner.lock(table, id).await
    }

    async fn close(self: Box<Self>) {
        drop(self.database);
        self.inner.close().await;
    }
}
