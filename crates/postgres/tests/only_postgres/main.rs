//! What the shared suite cannot ask, on a real server.

// The counts are small, and each test tells one story.
#![allow(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    clippy::cast_sign_loss,
    clippy::too_many_lines
)]

mod cancel;
mod claims;
mod encoding;
mod errors;
mod examples;
mod outcomes;
mod pgbouncer;
mod place;
mod proxy;
mod receipts;
mod recovery;
mod schema;
mod soak;
mod tls;
mod transactions;
mod values;

use std::future::Future;
use std::pin::Pin;
use std::process::ExitCode;

use libtest_mimic::{Arguments, Failed, Trial};

type Run = fn() -> Pin<Box<dyn Future<Output = ()> + Send>>;

/// Lists tests by module, each an async function without arguments.
macro_rules! tests {
    ($($module:ident: $($test:ident),+ $(,)?;)+) => {
        &[$($((concat!(stringify!($module), "::", stringify!($test)), || Box::pin($module::$test()))),+),+]
    };
}

const TESTS: &[(&str, Run)] = tests! {
    cancel: a_batch_on_tokio_postgres, a_batch_on_tokio_postgres_unprepared, a_batch_on_sqlx,
        a_batch_on_sqlx_unprepared, a_claim_on_tokio_postgres, a_claim_on_tokio_postgres_unprepared,
        a_claim_on_sqlx, a_claim_on_sqlx_unprepared;
    claims: leases_exactly_what_it_returns_under_every_join_plan, erases_no_more_than_its_limit_under_every_join_plan, keeps_its_plan, makes_its_plan_anew_before_long, reads_no_whole_table,
        takes_few_round_trips;
    encoding: a_database_that_cannot_keep_every_text_is_unsupported;
    errors: are_sorted_and_quote_no_value, a_read_only_server_is_unsupported_until_it_is_not,
        a_dead_server_is_no_full_pool, connecting_says_why_it_fails,
        a_statement_that_runs_too_long_is_ended_by_the_server;
    examples: all_of_them_run;
    outcomes: a_connection_that_ends_behind_the_commit_is_unknown, what_may_commit_in_its_middle_is_run_once,
        what_cannot_run_at_all_is_not_applied, a_transaction_that_somebody_left_open_takes_nothing,
        a_transaction_of_sqlx_that_was_dropped_takes_nothing;
    pgbouncer: everything_works_on_tokio_postgres, everything_works_on_sqlx,
        prepared_statements_are_refused_with_the_cure;
    receipts: the_settings_of_a_session_change_nothing,
        taking_moves_exactly_what_it_returns_under_every_join_plan, stricter_isolation_works,
        no_plan_is_kept, instants_that_no_store_writes_are_left_out,
        an_owner_is_erased_in_the_callers_transaction;
    recovery: a_cut_connection_is_replaced, a_statement_that_is_cut_off_is_unknown, a_lost_claim_comes_back,
        a_restarted_server_is_found_again;
    schema: prepared_statements_outlive_a_migration, prepared_statements_are_made_again, sixteen_migrate_at_once,
        a_schema_that_another_tool_applied_is_recognised, a_table_of_another_shape_is_named_with_its_column,
        a_role_without_the_privilege_is_told, a_role_is_told_what_it_lacks, the_databases_collation_does_not_matter,
        a_server_that_reads_backslashes_is_unsupported;
    soak: nothing_is_lost_while_connections_are_killed;
    tls: is_as_sslmode_says;
    transactions: what_fails_late_stores_nothing, the_first_failure_is_told_with_its_place,
        a_statement_may_need_what_one_before_it_makes, a_batch_of_one_cannot_commit_half_of_itself,
        no_connection_in_a_failed_transaction_is_handed_out,
        a_lost_answer_to_the_commit_is_unknown_and_not_tried_again, a_break_before_the_commit_is_known,
        a_small_pool_serves_many, a_full_pool_is_busy, no_deadlock_reaches_the_caller,
        stricter_isolation_works;
    values: a_text_binds_to_what_the_server_can_parse, other_values_bind_where_they_fit,
        a_type_that_is_not_read_is_named, a_transaction_of_the_callers_binds_alike,
        every_handle_takes_statements_and_a_failed_transaction_commits_nothing,
        a_statement_that_returns_rows_counts_none;
};

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let required = std::env::var("DUEBOX_TEST_REQUIRE").is_ok_and(|value| value == "all");
    let trials = TESTS.iter().map(|(name, test)| match unavailable(name) {
        Some(why) if required => Trial::test(*name, move || Err(Failed::from(why))),
        Some(why) => Trial::test(*name, || Ok(()))
            .with_kind(why)
            .with_ignored_flag(true),
        None => Trial::test(*name, move || {
            run(*test);
            Ok(())
        }),
    });
    libtest_mimic::run(&arguments, trials.collect()).exit_code()
}

/// Why a test cannot run here.
fn unavailable(test: &str) -> Option<String> {
    let more = match test.split("::").next() {
        Some("pgbouncer") => pgbouncer::unavailable,
        Some("examples") => examples::unavailable,
        _ => || None,
    };
    place::unavailable().or_else(more)
}

fn run(test: Run) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build();
    let runtime = runtime.expect("a runtime");
    runtime.block_on(test());
    runtime.shutdown_background();
}
