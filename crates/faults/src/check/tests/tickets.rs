//! Push tickets.

use super::Story;
use crate::check::Kind;
use crate::history::{Answer, Call};

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
