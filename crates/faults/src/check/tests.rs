//! The checker finds what is wrong: histories that are true, and the same ones
//! doctored, one for each kind of violation.

use super::{Kind, check, excerpt};
use crate::history::{Answer, Call, Contents, Held, History, How, NewRow, Op, Run};

/// A history that is told call by call, each after the one before.
#[derive(Default)]
struct Story {
    history: History,
    contents: Contents,
    clock: u64,
}

fn at(second: u32) -> String {
    format!("2026-03-01T10:00:{second:02}.000000Z")
}

fn lease(id: &str, claims: u64) -> Held {
    let id = id.to_owned();
    Held { id, claims }
}

fn unknown() -> Answer {
    let text = "no answer".to_owned();
    Answer::Unknown { text }
}

fn refused() -> Answer {
    Answer::Refused {
        kind: "busy".to_owned(),
        text: "a lock was not granted".to_owned(),
    }
}

fn held(how: How, id: &str, claims: u64) -> (Call, Answer) {
    let leases = vec![lease(id, claims)];
    (Call::Fenced { how, leases }, Answer::Held(vec![true]))
}

fn claim(second: u32, rows: &[(&str, u64)]) -> (Call, Answer) {
    let (now, until) = (at(second), at(second + 1));
    let rows = rows.iter().map(|(id, claims)| lease(id, *claims));
    (Call::Claim { now, until }, Answer::Claimed(rows.collect()))
}

fn enqueue(unit: &str, rows: &[(&str, u32)], answer: Answer) -> (Call, Answer) {
    let rows = rows
        .iter()
        .map(|(id, second)| NewRow {
            id: (*id).to_owned(),
            subject: Some("ada".to_owned()),
            at: at(*second),
        })
        .collect();
    let unit = unit.to_owned();
    (Call::Enqueue { unit, rows }, answer)
}

fn erase(answer: Answer) -> (Call, Answer) {
    let (subject, limit) = ("ada".to_owned(), 10);
    (Call::Erase { subject, limit }, answer)
}

fn record(tickets: &[(&str, i64)]) -> Vec<(Call, Answer)> {
    let one = |(ticket, due_at): &(&str, i64)| {
        let call = Call::Record {
            tickets: vec![(*ticket).to_owned()],
            owner: 7,
            sent_at: 0,
            due_at: *due_at,
        };
        (call, Answer::Count(1))
    };
    tickets.iter().map(one).collect()
}

fn take(now: i64, tickets: &[&str]) -> (Call, Answer) {
    let retry_at = now + 10;
    let tickets = tickets.iter().map(|ticket| (*ticket).to_owned()).collect();
    (Call::Take { now, retry_at }, Answer::Taken(tickets))
}

fn delete(ticket: &str) -> (Call, Answer) {
    let tickets = vec![ticket.to_owned()];
    (Call::Delete { tickets }, Answer::Count(1))
}

impl Story {
    fn then(mut self, (call, answer): (Call, Answer)) -> Self {
        self.clock += 10;
        self.history.ops.push(Op {
            process: "one".to_owned(),
            begin: self.clock,
            end: if answer.is_unknown() {
                u64::MAX
            } else {
                self.clock + 5
            },
            call,
            answer,
        });
        self
    }

    fn runs(mut self, id: &str, claims: u64) -> Self {
        self.clock += 10;
        self.history.runs.push(Run {
            process: "one".to_owned(),
            at: self.clock,
            row: lease(id, claims),
        });
        self
    }

    fn unit(mut self, unit: &str) -> Self {
        self.contents.units.push(unit.to_owned());
        self
    }

    fn kinds(&self) -> Vec<Kind> {
        let mut kinds: Vec<Kind> = check(&self.history, &self.contents)
            .into_iter()
            .map(|violation| violation.kind)
            .collect();
        kinds.sort();
        kinds.dedup();
        kinds
    }

    #[track_caller]
    fn is_sound(&self) {
        let found = check(&self.history, &self.contents);
        assert!(found.is_empty(), "{found:?}");
    }

    #[track_caller]
    fn is(&self, kind: Kind) {
        assert_eq!(self.kinds(), [kind]);
    }
}

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

fn recorded() -> Story {
    let mut story = Story::default();
    for call in record(&[("a", 1), ("b", 2)]) {
        story = story.then(call);
    }
    story.contents.tickets = vec!["a".to_owned(), "b".to_owned()];
    story
}

fn without(mut story: Story, ticket: &str) -> Story {
    story.contents.tickets.retain(|left| left != ticket);
    story
}

#[test]
fn tickets_that_are_taken_and_deleted_are_sound() {
    recorded().is_sound();
    without(recorded(), "a")
        .then(take(5, &["a", "b"]))
        .then(take(15, &["a"]))
        .then(delete("a"))
        .is_sound();
}

#[test]
fn a_ticket_that_is_gone_is_lost() {
    without(recorded(), "a").is(Kind::TicketLost);
}

#[test]
fn a_ticket_that_is_taken_before_it_is_due_again_is_doubled() {
    recorded()
        .then(take(5, &["a"]))
        .then(take(14, &["a"]))
        .is(Kind::TicketDoubled);
}

#[test]
fn tickets_that_are_counted_twice_are_doubled() {
    let mut story = without(recorded(), "a").then(delete("a"));
    story.history.ops[2].answer = Answer::Count(2);
    story.is(Kind::TicketDoubled);
}

#[test]
fn tickets_that_come_newest_first_are_out_of_order() {
    recorded().then(take(5, &["b", "a"])).is(Kind::Order);
}

#[test]
fn a_deleted_ticket_that_is_there_is_resurrected() {
    let story = recorded().then(delete("a"));
    assert!(story.kinds().contains(&Kind::Resurrected));
    let story = without(recorded(), "a")
        .then(delete("a"))
        .then(take(5, &["a"]));
    story.is(Kind::Resurrected);
}

#[test]
fn a_ticket_of_an_erased_owner_that_is_there_is_found() {
    let mut story = recorded().then((Call::EraseOwner { owner: 7 }, Answer::Count(2)));
    let kinds = story.kinds();
    assert!(kinds.contains(&Kind::Erased), "{kinds:?}");
    story.contents.tickets.clear();
    story.is_sound();
    story = story.then(take(5, &["a"]));
    story.is(Kind::Erased);
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
