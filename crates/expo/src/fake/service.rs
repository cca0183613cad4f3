//! What the service does with a request, apart from how it comes.

use std::collections::VecDeque;
use std::io::Write;
use std::time::Duration;

use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Map, Value, json};

use super::FakeRequest;
use super::fault::{FakeFault, Spoil};
use super::http::{Reply, Request};

/// When a receipt is there, and when a late one is.
const READY: Duration = Duration::from_mins(15);
const LATE: Duration = Duration::from_hours(6);

#[derive(Default)]
pub(super) struct Service {
    pub(super) now: Duration,
    pub(super) token: Option<String>,
    pub(super) faults: VecDeque<FakeFault>,
    pub(super) requests: Vec<FakeRequest>,
    accepted: Vec<Accepted>,
}

struct Accepted {
    /// The token that it was sent to.
    token: String,
    at: Duration,
}

/// The answer without a fault.
struct Plain {
    status: u16,
    body: Value,
}

fn ticket_id(number: usize) -> String {
    format!("00000000-0000-4000-8000-{number:012}")
}

fn refused(status: u16, code: &str, details: &Value) -> Plain {
    let error = json!({ "code": code, "message": "as the fake was told", "details": details });
    Plain {
        status,
        body: json!({ "errors": [error] }),
    }
}

fn error(code: &str, token: &str) -> Value {
    // The real service says the token in its text, and here.
    json!({
        "status": "error",
        "message": format!("\"{token}\" has the error {code}"),
        "details": { "error": code, "expoPushToken": token },
    })
}

impl Service {
    pub(super) fn issued(&self) -> Vec<(String, String)> {
        let all = self.accepted.iter().enumerate();
        all.map(|(number, one)| (ticket_id(number), one.token.clone()))
            .collect()
    }

    pub(super) fn answer(&mut self, request: &Request) -> Reply {
        let fault = self.faults.pop_front();
        let accepts = !matches!(
            fault,
            Some(FakeFault::Answer { .. } | FakeFault::Redirect(_) | FakeFault::Bomb)
        );
        let plain = if accepts {
            self.plain(request)
        } else {
            refused(500, "UNUSED", &Value::Null)
        };
        let reply = reply(fault, plain);
        let (status, answer) = match &reply {
            Reply::Whole { status, body, .. } => (*status, String::from_utf8_lossy(body)),
            _ => (0, "".into()),
        };
        let name = request.path.rsplit('/').next().unwrap_or_default();
        self.requests.push(FakeRequest {
            path: name.to_owned(),
            items: items(request).map_or(0, |items| items.len()),
            gzip: request.gzip,
            bearer: request.bearer.is_some(),
            status,
            body: request.body.clone(),
            answer: answer.into_owned(),
        });
        reply
    }

    fn plain(&mut self, request: &Request) -> Plain {
        if let Some(token) = &self.token
            && request.bearer.as_deref() != Some(&format!("Bearer {token}"))
        {
            return refused(401, "UNAUTHORIZED", &Value::Null);
        }
        let Some(items) = items(request) else {
            return refused(400, "VALIDATION_ERROR", &Value::Null);
        };
        match request.path.as_str() {
            "/--/api/v2/push/send" => self.send(&items),
            "/--/api/v2/push/getReceipts" => self.receipts(&items),
            _ => refused(404, "NOT_FOUND", &Value::Null),
        }
    }

    fn send(&mut self, tokens: &[String]) -> Plain {
        if tokens.len() > 100 {
            return refused(400, "PUSH_TOO_MANY_NOTIFICATIONS", &Value::Null);
        }
        let mut projects: Map<String, Value> = Map::new();
        for token in tokens {
            let project = if token.contains("b-project") {
                "@b/app"
            } else {
                "@a/app"
            };
            let listed = projects.entry(project).or_insert_with(|| json!([]));
            if let Some(listed) = listed.as_array_mut() {
                listed.push(json!(token));
            }
        }
        if projects.len() > 1 {
            return refused(400, "PUSH_TOO_MANY_EXPERIENCE_IDS", &projects.into());
        }
        let tickets: Vec<Value> = tokens
            .iter()
            .map(|token| {
                if token.contains("unregistered") {
                    return error("DeviceNotRegistered", token);
                }
                let id = ticket_id(self.accepted.len());
                self.accepted.push(Accepted {
                    token: token.clone(),
                    at: self.now,
                });
                json!({ "status": "ok", "id": id })
            })
            .collect();
        Plain {
            status: 200,
            body: json!({ "data": tickets }),
        }
    }

    fn receipts(&self, ids: &[String]) -> Plain {
        if ids.len() > 1_000 {
            return refused(400, "PUSH_TOO_MANY_RECEIPTS", &Value::Null);
        }
        let mut receipts = Map::new();
        for id in ids {
            let number = id.rsplit('-').next().and_then(|number| number.parse().ok());
            let accepted = number.and_then(|number: usize| self.accepted.get(number));
            if let Some(receipt) = accepted.and_then(|one| one.receipt(self.now)) {
                receipts.insert(id.clone(), receipt);
            }
        }
        Plain {
            status: 200,
            body: json!({ "data": receipts }),
        }
    }
}

impl Accepted {
    fn receipt(&self, now: Duration) -> Option<Value> {
        let token = self.token.as_str();
        let ready = if token.contains("late") { LATE } else { READY };
        if token.contains("never") || now < self.at + ready {
            return None;
        }
        let codes = [
            ("gone", "DeviceNotRegistered"),
            ("toobig", "MessageTooBig"),
            ("rate", "MessageRateExceeded"),
            ("mismatch", "MismatchSenderId"),
            ("credentials", "InvalidCredentials"),
            ("unheard", "SomethingUnheardOf"),
        ];
        let code = codes.iter().find(|(name, _)| token.contains(name));
        Some(match code {
            Some((_, code)) => error(code, token),
            None => json!({ "status": "ok" }),
        })
    }
}

/// The recipients or the tickets of a request.
fn items(request: &Request) -> Option<Vec<String>> {
    let body: Value = serde_json::from_str(&request.body).ok()?;
    let text = |value: &Value| value.as_str().map(str::to_owned);
    if let Some(ids) = body.get("ids") {
        return ids.as_array()?.iter().map(text).collect();
    }
    let messages = match &body {
        Value::Array(messages) => messages.as_slice(),
        one => std::slice::from_ref(one),
    };
    let mut tokens = Vec::new();
    for message in messages {
        match message.get("to")? {
            Value::Array(many) => {
                for to in many {
                    tokens.push(text(to)?);
                }
            }
            one => tokens.push(text(one)?),
        }
    }
    Some(tokens)
}

fn whole(status: u16, body: impl Into<Vec<u8>>) -> Reply {
    Reply::Whole {
        status,
        headers: "content-type: application/json\r\n".into(),
        body: body.into(),
    }
}

fn reply(fault: Option<FakeFault>, plain: Plain) -> Reply {
    let Plain { status, mut body } = plain;
    match fault {
        None => whole(status, body.to_string()),
        Some(FakeFault::Answer {
            status,
            headers,
            body,
        }) => Reply::Whole {
            status,
            headers,
            body: body.into(),
        },
        Some(FakeFault::AcceptThen { status, body }) => whole(status, body),
        Some(FakeFault::ErrorsBeside(code)) => {
            body["errors"] = json!([{ "code": code, "message": "as the fake was told" }]);
            whole(status, body.to_string())
        }
        Some(FakeFault::Cut) => Reply::Cut(body.to_string().into()),
        Some(FakeFault::Close) => Reply::Close,
        Some(FakeFault::Silence) => Reply::Silence,
        Some(FakeFault::Endless) => Reply::Endless,
        Some(FakeFault::Bomb) => Reply::Whole {
            status: 200,
            headers: "content-encoding: gzip\r\n".into(),
            body: bomb(),
        },
        Some(FakeFault::Redirect(to)) => Reply::Whole {
            status: 307,
            headers: format!("location: {to}\r\n"),
            body: Vec::new(),
        },
        Some(FakeFault::Spoil(places)) => {
            for (at, spoil) in places {
                spoil_at(&mut body["data"], at, spoil);
            }
            whole(status, body.to_string())
        }
    }
}

fn spoil_at(tickets: &mut Value, at: usize, spoil: Spoil) {
    let first = tickets[0]["id"].clone();
    let Some(ticket) = tickets.get_mut(at) else {
        return;
    };
    *ticket = match spoil {
        Spoil::NoId => json!({ "status": "ok" }),
        Spoil::ImpossibleId => json!({ "status": "ok", "id": "two words" }),
        Spoil::SameId => json!({ "status": "ok", "id": first }),
        Spoil::Null => Value::Null,
        Spoil::UnheardError => error("Unheard: ExponentPushToken[secret]", "secret"),
    };
}

/// Sixty-four mebibytes of blanks, packed.
fn bomb() -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
    let blanks = vec![b' '; 1 << 16];
    for _ in 0..1 << 10 {
        // Writing to a Vec cannot fail.
        let _ = packed.write_all(&blanks);
    }
    packed.finish().unwrap_or_default()
}
