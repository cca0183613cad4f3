//! State and its rows.

use super::{Story, at, claim, enqueue, erase, held, lease, refused, unknown};
use crate::check::{Kind, excerpt};
use crate::history::{Answer, Call, How};

/// State, its row, and the first claim of that.
fn claimed() -> Story {
    Story::default()
        .unit("u")
        .then(enqueue("u", &[("u-0", 0)], Answer::Count(2)))
        .then(claim(0, &[("u-0", 1)]))
}

fn delivered() -> Story {
    claimed().runs("u-0", 1)
}

fn done() -> Story {
    delivered().then(held(How::Complete, "u-0", 1))
}

#[test]
fn a_row_that_is_delivered_once_is_sound() {
    done().is_sound();
}

#[test]
fn a_lapsed_lease_and_a_lost_answer_are_sound() {
    let lapsed = delivered()
        .then(claim(1, &[("u-0", 2)]))
        .runs("u-0", 2)
        .then(held(How::Complete, "u-0", 2));
    lapsed.is_sound();
    let mut lost = done();
    lost.history.ops[2].answer = unknown();
    lost.history.ops[2].end = u64::MAX;
    lost.is_sound();
    Story::default()
        .then(enqueue("u", &[("u-0", 0)], unknown()))
        .is_sound();
}

#[test]
fn a_row_that_is_gone_without_an_end_is_lost() {
    delivered().is(Kind::Lost);
}

#[test]
fn committed_state_that_is_not_there_is_lost() {
    let mut story = done();
    story.contents.units.clear();
    assert_eq!(story.kinds(), [Kind::Lost, Kind::RowWithoutState]);
}

#[test]
fn a_completion_of_what_was_never_delivered_is_lost() {
    claimed().then(held(How::Complete, "u-0", 1)).is(Kind::Lost);
}

#[test]
fn state_without_its_row_is_found() {
    for answer in [Answer::Count(2), unknown()] {
        Story::default()
            .unit("u")
            .then(enqueue("u", &[("u-0", 0)], answer))
            .is(Kind::StateWithoutRow);
    }
}

#[test]
fn a_row_without_its_state_is_found() {
    let mut story = done();
    story.history.ops[0].answer = unknown();
    story.contents.units.clear();
    story.is(Kind::RowWithoutState);
    let mut stray = Story::default();
    stray = stray.then(claim(0, &[("x", 1)]));
    stray.is(Kind::RowWithoutState);
}

#[test]
fn a_refused_unit_that_is_there_is_untrue() {
    let mut story = done();
    story.history.ops[0].answer = refused();
    story.is(Kind::Untrue);
    let conflict = Answer::Refused {
        kind: "conflict".to_owned(),
        text: "a row with this key is there already".to_owned(),
    };
    story = story.then(enqueue("u", &[("u-0", 0)], conflict));
    story.is(Kind::Untrue);
    story.history.ops[0].answer = unknown();
    story.is_sound();
}

#[test]
fn a_second_claim_within_the_lease_is_doubled() {
    let story = delivered()
        .then(claim(0, &[("u-0", 2)]))
        .runs("u-0", 2)
        .then(held(How::Complete, "u-0", 2));
    story.is(Kind::Doubled);
}

#[test]
fn a_second_claim_within_an_extended_lease_is_doubled() {
    let extend = |answer| {
        let (call, _) = held(How::Extend { until: at(9) }, "u-0", 1);
        delivered()
            .then((call, answer))
            .then(claim(5, &[("u-0", 2)]))
            .runs("u-0", 2)
            .then(held(How::Complete, "u-0", 2))
    };
    extend(Answer::Held(vec![true])).is(Kind::Doubled);
    extend(Answer::Held(vec![false])).is_sound();
    extend(unknown()).is_sound();
}

#[test]
fn a_claim_that_is_delivered_twice_is_doubled() {
    let mut story = done();
    story.history.runs.push(story.history.runs[0].clone());
    story.is(Kind::Doubled);
}

#[test]
fn one_claim_given_to_two_is_found() {
    let story = claimed()
        .then(claim(0, &[("u-0", 1)]))
        .runs("u-0", 1)
        .then(held(How::Complete, "u-0", 1));
    story.is(Kind::TwoHolders);
}

#[test]
fn a_late_holder_that_is_told_held_is_found() {
    let story = delivered()
        .then(claim(2, &[("u-0", 2)]))
        .runs("u-0", 2)
        .then(held(How::Extend { until: at(9) }, "u-0", 1))
        .then(held(How::Complete, "u-0", 2));
    story.is(Kind::TwoHolders);
}

#[test]
fn an_ended_lease_that_is_held_is_found() {
    let story = delivered()
        .then(held(How::Release { at: at(1) }, "u-0", 1))
        .then(held(How::Complete, "u-0", 1));
    story.is(Kind::TwoHolders);
    done()
        .then(held(How::Complete, "u-0", 1))
        .is(Kind::TwoHolders);
}

#[test]
fn a_claim_that_comes_newest_first_is_out_of_order() {
    let rows = [("u-0", 1), ("u-1", 2)];
    let told = |first, second| {
        Story::default()
            .unit("u")
            .then(enqueue("u", &rows, Answer::Count(3)))
            .then(claim(5, &[first, second]))
            .runs("u-0", 1)
            .runs("u-1", 1)
            .then(held(How::Complete, "u-0", 1))
            .then(held(How::Complete, "u-1", 1))
    };
    told(("u-0", 1), ("u-1", 1)).is_sound();
    told(("u-1", 1), ("u-0", 1)).is(Kind::Order);
}

#[test]
fn rows_that_came_back_are_in_order_by_when_they_did() {
    let told = |first: &str, second: &str, third: u64| {
        let claims = |id: &str| if id == "u-0" { third } else { 1 };
        Story::default()
            .unit("u")
            .then(enqueue("u", &[("u-0", 1)], Answer::Count(2)))
            .then(claim(2, &[("u-0", 1)]))
            .runs("u-0", 1)
            .then(held(How::Retry { at: at(9) }, "u-0", 1))
            .unit("v")
            .then(enqueue("v", &[("v-0", 5)], Answer::Count(2)))
            .then(claim(
                20,
                &[(first, claims(first)), (second, claims(second))],
            ))
            .runs("u-0", 2)
            .runs("v-0", 1)
            .then(held(How::Complete, "u-0", 2))
            .then(held(How::Complete, "v-0", 1))
    };
    told("v-0", "u-0", 2).is_sound();
    told("u-0", "v-0", 2).is(Kind::Order);
}

#[test]
fn a_claim_before_the_row_is_due_is_early() {
    let first = Story::default()
        .unit("u")
        .then(enqueue("u", &[("u-0", 3)], Answer::Count(2)))
        .then(claim(2, &[("u-0", 1)]))
        .runs("u-0", 1)
        .then(held(How::Complete, "u-0", 1));
    first.is(Kind::Early);
    let second = delivered()
        .then(held(How::Retry { at: at(9) }, "u-0", 1))
        .then(claim(8, &[("u-0", 2)]))
        .runs("u-0", 2)
        .then(held(How::Complete, "u-0", 2));
    second.is(Kind::Early);
}

#[test]
fn a_completed_row_that_comes_back_is_resurrected() {
    let story = done()
        .then(claim(2, &[("u-0", 2)]))
        .runs("u-0", 2)
        .then(held(How::Release { at: at(3) }, "u-0", 2));
    assert!(story.kinds().contains(&Kind::Resurrected));
}

#[test]
fn a_claim_whose_number_goes_back_is_resurrected() {
    let story = Story::default()
        .unit("u")
        .then(enqueue("u", &[("u-0", 0)], Answer::Count(2)))
        .then(claim(0, &[("u-0", 2)]))
        .then(claim(2, &[("u-0", 1)]))
        .runs("u-0", 2)
        .then(held(How::Complete, "u-0", 2));
    assert!(story.kinds().contains(&Kind::Resurrected));
}

#[test]
fn a_row_that_was_erased_and_is_claimed_is_found() {
    let told = |answer| {
        Story::default()
            .unit("u")
            .then(enqueue("u", &[("u-0", 0)], Answer::Count(2)))
            .then(erase(answer))
            .then(claim(2, &[("u-0", 1)]))
            .runs("u-0", 1)
            .then(held(How::Complete, "u-0", 1))
    };
    told(Answer::Count(0)).is(Kind::Erased);
    told(Answer::Count(10)).is_sound(); // there may be more
    told(unknown()).is_sound();
}

#[test]
fn an_erased_row_is_not_lost() {
    Story::default()
        .unit("u")
        .then(enqueue("u", &[("u-0", 0)], Answer::Count(2)))
        .then(erase(Answer::Count(1)))
        .is_sound();
}

#[test]
fn a_row_that_the_last_drain_left_is_stuck() {
    let mut story = delivered();
    story.contents.rows.push("u-0".to_owned());
    story.is(Kind::Stuck);
}

#[test]
fn an_effect_without_its_completion_is_found() {
    let effect = |answer| {
        let lease = lease("u-0", 1);
        delivered().then((Call::Effect { lease }, answer))
    };
    let mut whole = effect(Answer::Count(2));
    whole.is(Kind::Torn);
    whole.contents.effects.push(lease("u-0", 1));
    whole.is_sound();
    whole.contents.effects.push(lease("u-0", 1));
    whole.is(Kind::Doubled);

    let mut half = effect(unknown())
        .then(claim(2, &[("u-0", 2)]))
        .runs("u-0", 2)
        .then(held(How::Complete, "u-0", 2));
    half.is_sound();
    half.contents.effects.push(lease("u-0", 1));
    half.is(Kind::Torn);

    let mut untrue = effect(refused()).then(held(How::Complete, "u-0", 1));
    untrue.contents.effects.push(lease("u-0", 1));
    untrue.is(Kind::Untrue);
}

#[test]
fn an_excerpt_names_all_calls_of_the_row_and_no_other() {
    let story = done()
        .unit("v")
        .then(enqueue("v", &[("v-0", 0)], Answer::Count(2)));
    let shown = excerpt(&story.history, "u-0");
    assert_eq!(shown.lines().count(), 4, "{shown}");
    assert!(!shown.contains("v-0"), "{shown}");
}
