use std::collections::HashMap;

use duebox_core::{
    PushDeliveryStatus, PushError, PushErrorKind, PushFuture, PushMessage, PushOutcome,
    PushRejection, PushSender, PushSent, PushTicketId,
};
use serde_json::Value;

use crate::config::{ExpoPush, Inner};
use crate::http::Failure;
use crate::wire;

/// How many recipients one request may have, by Expo's documentation.
const CHUNK: usize = 100;

type Status = Option<PushDeliveryStatus>;

impl PushSender for ExpoPush {
    fn send(
        &self,
        messages: Vec<PushMessage>,
    ) -> PushFuture<'_, Result<Vec<PushOutcome>, PushError>> {
        Box::pin(async move {
            let mut statuses: Vec<Status> = messages
                .iter()
                .map(|message| wire::message(message).is_none().then(no_object))
                .collect();
            let to_send: Vec<usize> = (0..messages.len())
                .filter(|at| statuses[*at].is_none())
                .collect();
            // What is left to send, the next part last.
            let mut parts: Vec<Vec<usize>> = to_send.chunks(CHUNK).rev().map(Vec::from).collect();
            let mut errors = Vec::new();
            while let Some(part) = parts.pop() {
                match self.0.send_part(&messages, &part).await {
                    Ok(answers) => {
                        for (at, status) in part.iter().zip(answers) {
                            statuses[*at] = Some(status);
                        }
                    }
                    Err(Failure::Projects(details, error)) => {
                        let mut split = by_project(&messages, &part, &details);
                        if split.len() > 1 {
                            split.reverse();
                            parts.append(&mut split);
                        } else {
                            fail(&mut statuses, &part, &error);
                            errors.push(error);
                        }
                    }
                    Err(Failure::Error(error)) => {
                        fail(&mut statuses, &part, &error);
                        if ends_the_call(&error) {
                            for rest in parts.drain(..) {
                                fail(&mut statuses, &rest, &error);
                            }
                        }
                        errors.push(error);
                    }
                }
            }
            spoil_doubled(&mut statuses);
            answer(messages, statuses, errors)
        })
    }
}

impl Inner {
    async fn send_part(
        &self,
        messages: &[PushMessage],
        part: &[usize],
    ) -> Result<Vec<PushDeliveryStatus>, Failure> {
        let wire: Vec<_> = part
            .iter()
            .filter_map(|at| wire::message(&messages[*at]))
            .collect();
        let json = serde_json::to_vec(&wire).map_err(|_| {
            Failure::Error(
                PushError::new(
                    PushErrorKind::Refused,
                    "the messages cannot be written as JSON",
                )
                .not_sent(),
            )
        })?;
        let mut done = 0;
        let value = loop {
            self.pace.take(part.len(), &*self.clock).await;
            match self.post(&self.send_url, json.clone()).await {
                Ok(value) => break value,
                Err(Failure::Error(error))
                    if error.is_retryable() && self.wait_to_retry(&error, done).await =>
                {
                    done += 1;
                }
                Err(failure) => return Err(failure),
            }
        };
        match value.get("data").and_then(Value::as_array) {
            Some(tickets) if tickets.len() == part.len() => Ok(statuses(tickets)),
            // Whose ticket is whose is known by position alone.
            _ => Err(Failure::Error(
                PushError::new(
                    PushErrorKind::Unreadable,
                    "the push service did not answer with a ticket for each message",
                )
                .with_status(200),
            )),
        }
    }
}

/// Two messages with one id, in whichever of their requests, spoil each other: whose
/// it is cannot be known, and its receipt must not end a wrong device.
fn spoil_doubled(statuses: &mut [Status]) {
    let mut counts: HashMap<PushTicketId, u32> = HashMap::new();
    for status in statuses.iter().flatten() {
        if let PushDeliveryStatus::Accepted(id) = status {
            *counts.entry(id.clone()).or_default() += 1;
        }
    }
    for status in statuses.iter_mut().flatten() {
        if let PushDeliveryStatus::Accepted(id) = status
            && counts.get(id) != Some(&1)
        {
            *status = unreadable();
        }
    }
}

fn unreadable() -> PushDeliveryStatus {
    failed(PushError::new(
        PushErrorKind::Unreadable,
        "the push service's ticket for the message cannot be read",
    ))
}

/// The tickets of one request.
fn statuses(tickets: &[Value]) -> Vec<PushDeliveryStatus> {
    let id = |ticket: &Value| {
        let ok = ticket.get("status").and_then(Value::as_str) == Some("ok");
        let id = ticket.get("id").and_then(Value::as_str).filter(|_| ok)?;
        PushTicketId::new(id).ok()
    };
    tickets
        .iter()
        .map(|ticket| {
            if ticket.get("status").and_then(Value::as_str) == Some("error") {
                return PushDeliveryStatus::Rejected(wire::rejection(ticket));
            }
            id(ticket).map_or_else(unreadable, PushDeliveryStatus::Accepted)
        })
        .collect()
}

/// The messages by the project that the details list their token under; those
/// that they do not list stay together.
fn by_project(messages: &[PushMessage], part: &[usize], details: &Value) -> Vec<Vec<usize>> {
    let mut project_of = HashMap::new();
    for (project, tokens) in details.as_object().into_iter().flatten() {
        for token in tokens.as_array().into_iter().flatten() {
            if let Some(token) = token.as_str() {
                project_of.insert(token, project.as_str());
            }
        }
    }
    let mut split: Vec<(Option<&str>, Vec<usize>)> = Vec::new();
    for at in part {
        let project = project_of.get(messages[*at].token.as_str()).copied();
        match split.iter_mut().find(|(of, _)| *of == project) {
            Some((_, group)) => group.push(*at),
            None => split.push((project, vec![*at])),
        }
    }
    split.into_iter().map(|(_, group)| group).collect()
}

/// Whether the next request would only meet the same.
fn ends_the_call(error: &PushError) -> bool {
    error.sent() == PushSent::NotSent && error.kind() != PushErrorKind::Refused
}

fn no_object() -> PushDeliveryStatus {
    failed(
        PushError::new(
            PushErrorKind::Refused,
            "the message's data is no JSON object",
        )
        .not_sent(),
    )
}

fn failed(error: PushError) -> PushDeliveryStatus {
    PushDeliveryStatus::Rejected(PushRejection::Failed(error))
}

fn fail(statuses: &mut [Status], part: &[usize], error: &PushError) {
    for at in part {
        statuses[*at] = Some(failed(error.clone()));
    }
}

/// An error if every message met the same one, else the outcomes.
fn answer(
    messages: Vec<PushMessage>,
    statuses: Vec<Status>,
    mut errors: Vec<PushError>,
) -> Result<Vec<PushOutcome>, PushError> {
    let outcomes: Vec<PushOutcome> = messages
        .into_iter()
        .zip(statuses)
        .map(|(message, status)| PushOutcome {
            token: message.token,
            status: status.unwrap_or_else(|| {
                failed(PushError::new(
                    PushErrorKind::Other,
                    "the message was left out",
                ))
            }),
        })
        .collect();
    let Some(error) = errors.pop() else {
        return Ok(outcomes);
    };
    let all = failed(error.clone());
    if outcomes.iter().all(|outcome| outcome.status == all) {
        Err(error)
    } else {
        Ok(outcomes)
    }
}
