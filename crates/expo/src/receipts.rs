use std::collections::BTreeSet;

use duebox_core::{
    PushError, PushErrorKind, PushFuture, PushReceipt, PushReceiptSource, PushReceiptStatus,
    PushTicketId,
};
use serde_json::{Value, json};

use crate::config::{ExpoPush, Inner};
use crate::http::Failure;
use crate::wire;

/// How many tickets one request asks for, as the official Node SDK does.
/// Expo's documentation allows 1000.
const CHUNK: usize = 300;

impl PushReceiptSource for ExpoPush {
    fn receipts(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        Box::pin(async move {
            let tickets: Vec<_> = tickets
                .into_iter()
                .collect::<BTreeSet<_>>()
                .into_iter()
                .collect();
            let mut receipts = Vec::new();
            let mut first_error = None;
            for part in tickets.chunks(CHUNK) {
                match self.0.read_part(part).await {
                    Ok(read) => receipts.extend(read),
                    Err(error) => {
                        let stop = matches!(
                            error.kind(),
                            PushErrorKind::RateLimited
                                | PushErrorKind::Unauthorized
                                | PushErrorKind::Unavailable
                        );
                        first_error.get_or_insert(error);
                        if stop {
                            break;
                        }
                    }
                }
            }
            match first_error {
                Some(error) if receipts.is_empty() => Err(error),
                _ => Ok(receipts),
            }
        })
    }
}

impl Inner {
    async fn read_part(&self, part: &[PushTicketId]) -> Result<Vec<PushReceipt>, PushError> {
        let ids: Vec<_> = part.iter().map(PushTicketId::as_str).collect();
        let json = json!({ "ids": ids }).to_string().into_bytes();
        let mut done = 0;
        let value = loop {
            let error = match self.post(&self.receipts_url, json.clone()).await {
                Ok(value) => break value,
                Err(Failure::Error(error) | Failure::Projects(_, error)) => error,
            };
            // Reading again is harmless, sent or not.
            let passing = matches!(
                error.kind(),
                PushErrorKind::Unavailable | PushErrorKind::RateLimited
            );
            if !passing || !self.wait_to_retry(&error, done).await {
                return Err(error);
            }
            done += 1;
        };
        let Some(answers) = value.get("data").and_then(Value::as_object) else {
            return Err(PushError::new(
                PushErrorKind::Unreadable,
                "the push service did not answer with receipts by ticket",
            )
            .with_status(200));
        };
        // Only what was asked for is looked at.
        Ok(part
            .iter()
            .filter_map(|ticket| {
                let answer = answers.get(ticket.as_str())?;
                let status = match answer.get("status")?.as_str()? {
                    "ok" => PushReceiptStatus::Delivered,
                    "error" => PushReceiptStatus::Rejected(wire::rejection(answer)),
                    _ => return None,
                };
                Some(PushReceipt {
                    ticket: ticket.clone(),
                    status,
                })
            })
            .collect())
    }
}
