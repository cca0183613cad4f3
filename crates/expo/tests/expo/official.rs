//! The official client (npm `expo-server-sdk`) and this one, on the same scenarios, each
//! with a fake of its own.
//!
//! What both did is in `tests/official/golden.json`. It is compared with what this client
//! does always, and with what the official client does where Node is. The fake is asked
//! again for what the official client asked it, always. `DUEBOX_TEST_EXPO_BLESS=1`
//! writes the record anew.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use duebox_core::{
    PushDeliveryStatus, PushError, PushReceiptSource, PushReceiptStatus, PushRejection, PushSender,
    PushTicketId,
};
use duebox_expo::{FakeExpo, FakeFault, FakeRequest, Spoil};
use serde_json::{Map, Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::stage::{Clock, builder, fake, run_on, to};
use crate::tests;

tests!(official:
    this_client_does_as_the_golden_record_says,
    the_fake_answers_as_it_answered_the_official_client,
    the_clients_differ_where_it_is_said_and_nowhere_else,
);

const BEARER: &str = "secret-bearer";

struct Scenario {
    name: &'static str,
    tokens: Vec<String>,
    faults: Vec<FakeFault>,
    /// How many tickets are then asked for, and after how long.
    receipts: usize,
    after: Duration,
    receipt_faults: Vec<FakeFault>,
    /// Why the clients differ, if they do.
    differs: Option<&'static str>,
}

fn phones(count: usize) -> Vec<String> {
    (0..count).map(|at| format!("phone-{at}")).collect()
}

fn named(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

fn scenario(name: &'static str, tokens: Vec<String>, faults: Vec<FakeFault>) -> Scenario {
    Scenario {
        name,
        tokens,
        faults,
        receipts: 0,
        after: Duration::ZERO,
        receipt_faults: Vec::new(),
        differs: None,
    }
}

impl Scenario {
    fn receipts(mut self, count: usize, after: Duration, faults: Vec<FakeFault>) -> Self {
        (self.receipts, self.after, self.receipt_faults) = (count, after, faults);
        self
    }

    fn differs(mut self, reason: &'static str) -> Self {
        self.differs = Some(reason);
        self
    }
}

fn scenarios() -> Vec<Scenario> {
    let accepted = |status, body: &str| FakeFault::AcceptThen {
        status,
        body: body.into(),
    };
    let slow = || FakeFault::too_many_requests(None);
    let ready = Duration::from_mins(15);
    let fates = [
        "a",
        "gone",
        "toobig",
        "rate",
        "mismatch",
        "credentials",
        "unheard",
        "late",
        "never",
    ];
    vec![
        scenario("one message", phones(1), vec![]),
        scenario("a hundred in one request", phones(100), vec![]),
        scenario("two hundred and fifty in three", phones(250), vec![]),
        scenario(
            "refused by their tickets",
            named(&["a", "unregistered-1", "b", "unregistered-2"]),
            vec![],
        ),
        scenario("slow down once", phones(1), vec![slow()]),
        scenario("slow down twice", phones(1), vec![slow(), slow()]),
        scenario("slow down for good", phones(2), vec![slow(), slow(), slow()]),
        scenario("the service fails", phones(1), vec![accepted(500, "<html>")]),
        scenario("a gateway gives up", phones(1), vec![accepted(504, "<html>")]),
        scenario("an error of the request", phones(1), vec![FakeFault::answer(
            400,
            r#"{"errors":[{"code":"VALIDATION_ERROR","message":"no"}]}"#,
        )]),
        scenario("errors with status 200", phones(1), vec![FakeFault::answer(
            200,
            r#"{"errors":[{"code":"PUSH_TOO_MANY_NOTIFICATIONS","message":"no"}]}"#,
        )]),
        scenario("no JSON", phones(1), vec![accepted(200, "no json")]),
        scenario("the connection is closed", phones(1), vec![FakeFault::Close]),
        scenario(
            "the second of three requests is lost",
            phones(250),
            vec![FakeFault::Spoil(vec![]), accepted(504, "<html>")],
        ),
        scenario("an error of a code that nobody knows", phones(3), vec![FakeFault::Spoil(vec![(
            1,
            Spoil::UnheardError,
        )])])
        .differs("a code is kept up to what is no letter, digit or mark of one: the rest may be anybody's data"),
        scenario("fewer tickets than messages", phones(2), vec![accepted(
            200,
            r#"{"data":[{"status":"ok","id":"x"}]}"#,
        )])
        .differs(
            "the official client throws an error without a code; this one says that the answer cannot be read",
        ),
        scenario("several projects", named(&["a", "b-project-1", "c"]), vec![])
            .differs("the official client fails the whole request; this one sends each project's by itself"),
        scenario("errors beside tickets", phones(2), vec![FakeFault::ErrorsBeside("X".into())])
            .differs("the official client throws the tickets away; this one keeps them"),
        scenario("a ticket without an id", phones(2), vec![FakeFault::Spoil(vec![(
            1,
            Spoil::NoId,
        )])])
        .differs("the official client hands on what it was given; this one says that it is spoilt"),
        scenario("an impossible id", phones(2), vec![FakeFault::Spoil(vec![(1, Spoil::ImpossibleId)])])
            .differs("the official client hands on what it was given; this one says that it is spoilt"),
        scenario("one id twice", phones(3), vec![FakeFault::Spoil(vec![(2, Spoil::SameId)])])
            .differs("whose it is cannot be known: this client spoils both, and ends no wrong device"),
        scenario("receipts of every kind", named(&fates), vec![]).receipts(9, ready, vec![]),
        scenario("receipts too early", phones(2), vec![]).receipts(2, Duration::from_mins(1), vec![]),
        scenario("receipts of two requests", phones(301), vec![]).receipts(301, ready, vec![]),
        scenario("receipts of a failing service", phones(1), vec![])
            .receipts(1, ready, vec![FakeFault::answer(503, "<html>")])
            .differs("the official client reads no receipt again; to read again is harmless, so this one does"),
        scenario("receipts slowed down", phones(1), vec![])
            .receipts(1, ready, vec![slow()])
            .differs("the official client reads no receipt again; to read again is harmless, so this one does"),
    ]
}

/// What a fake saw: all that a client decides, and no more.
fn seen(requests: &[FakeRequest]) -> Value {
    let seen = requests.iter().map(|request| {
        json!({
            "path": request.path,
            "items": request.items,
            "gzip": request.gzip,
            "bearer": request.bearer,
            "status": request.status,
        })
    });
    seen.collect()
}

fn failure(error: &PushError) -> Value {
    match (error.code(), error.status()) {
        (Some(code), _) => json!({ "failed": code.as_str() }),
        (None, Some(status)) => json!({ "failed": status }),
        (None, None) => json!({ "failed": "no answer" }),
    }
}

fn rejected(rejection: &PushRejection) -> Value {
    match rejection {
        PushRejection::Failed(error) => failure(error),
        other => json!({ "error": other.name() }),
    }
}

/// What this client does in a scenario, and what the fake saw of it.
async fn ours(scenario: &Scenario) -> Value {
    let fake = prepared(scenario).await;
    let expo = builder(&fake, &Clock::default()).build().expect("a client");
    let tokens = to(scenario.tokens.iter().map(String::as_str));
    let count = tokens.len();
    let outcomes: Vec<Value> = match expo.send(tokens).await {
        Ok(outcomes) => outcomes
            .iter()
            .map(|outcome| match &outcome.status {
                PushDeliveryStatus::Accepted(ticket) => json!({ "ok": ticket.as_str() }),
                PushDeliveryStatus::Rejected(rejection) => rejected(rejection),
                _ => json!({ "ok": null }),
            })
            .collect(),
        Err(error) => vec![failure(&error); count],
    };
    let mut receipts = Map::new();
    if scenario.receipts > 0 {
        settle(&fake, scenario);
        let asked = tickets(scenario)
            .into_iter()
            .map(|id| PushTicketId::new(id).expect("a ticket"));
        match expo.receipts(asked.collect()).await {
            Ok(read) => {
                for one in read {
                    let status = match &one.status {
                        PushReceiptStatus::Delivered => json!("ok"),
                        PushReceiptStatus::Rejected(rejection) => json!(rejection.name()),
                        _ => Value::Null,
                    };
                    receipts.insert(one.ticket.as_str().to_owned(), status);
                }
            }
            Err(error) => {
                receipts.insert("failed".into(), failure(&error)["failed"].clone());
            }
        }
    }
    json!({ "outcomes": outcomes, "receipts": receipts, "requests": seen(&fake.requests()) })
}

async fn prepared(scenario: &Scenario) -> FakeExpo {
    let fake = fake().await;
    fake.require_token(BEARER);
    for fault in &scenario.faults {
        fake.then(fault.clone());
    }
    fake
}

fn settle(fake: &FakeExpo, scenario: &Scenario) {
    fake.advance(scenario.after);
    for fault in &scenario.receipt_faults {
        fake.then(fault.clone());
    }
}

fn tickets(scenario: &Scenario) -> Vec<String> {
    (0..scenario.receipts)
        .map(|number| crate::stage::ticket(number).as_str().to_owned())
        .collect()
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/official")
}

fn golden() -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(folder().join("golden.json")).expect("the golden record");
    serde_json::from_str(&text).expect("JSON")
}

fn blesses() -> bool {
    std::env::var_os("DUEBOX_TEST_EXPO_BLESS").is_some()
}

fn bless(part: &str, name: &str, value: Value) {
    let path = folder().join("golden.json");
    let text = std::fs::read_to_string(&path).unwrap_or_else(|_| "{}".into());
    let mut all: BTreeMap<String, Value> = serde_json::from_str(&text).expect("JSON");
    let of = all.entry(name.to_owned()).or_insert_with(|| json!({}));
    of[part] = value;
    let lines: Vec<String> = all
        .iter()
        .map(|(name, of)| format!("{}: {of}", Value::from(name.as_str())))
        .collect();
    let text = format!("{{\n{}\n}}\n", lines.join(",\n"));
    std::fs::write(path, text).expect("write the golden record");
}

async fn this_client_does_as_the_golden_record_says() {
    for scenario in scenarios() {
        let done = ours(&scenario).await;
        if blesses() {
            bless("ours", scenario.name, done);
            continue;
        }
        assert_eq!(done, golden()[scenario.name]["ours"], "{}", scenario.name);
    }
}

async fn the_clients_differ_where_it_is_said_and_nowhere_else() {
    if blesses() {
        return;
    }
    let golden = golden();
    let known: Vec<&str> = scenarios().iter().map(|scenario| scenario.name).collect();
    assert!(
        golden.keys().all(|name| known.contains(&name.as_str())),
        "{known:?}"
    );
    for scenario in scenarios() {
        let (ours, theirs) = (
            &golden[scenario.name]["ours"],
            &golden[scenario.name]["official"],
        );
        assert!(!theirs.is_null(), "{}: nothing is on record", scenario.name);
        let same = ["outcomes", "receipts", "requests"]
            .iter()
            .all(|part| ours[part] == theirs[part]);
        assert_eq!(same, scenario.differs.is_none(), "{}", scenario.name);
    }
}

/// The official client's requests once more, in the same bytes but for the compression.
async fn the_fake_answers_as_it_answered_the_official_client() {
    if blesses() {
        return;
    }
    let golden = golden();
    for scenario in scenarios() {
        let fake = prepared(&scenario).await;
        let mut settled = scenario.receipts == 0;
        let exchange = golden[scenario.name]["official"]["exchange"].as_array();
        for one in exchange.expect("an exchange") {
            let path = one["path"].as_str().expect("a path");
            if path == "getReceipts" && !settled {
                settle(&fake, &scenario);
                settled = true;
            }
            ask(&fake, path, one["body"].as_str().expect("a body")).await;
            let request = fake.requests().pop().expect("a request");
            assert_eq!(request.status, one["status"], "{}", scenario.name);
            assert_eq!(request.answer, one["answer"], "{}", scenario.name);
        }
    }
}

async fn ask(fake: &FakeExpo, path: &str, body: &str) {
    let address = fake.url().trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address)
        .await
        .expect("connect");
    let head = format!(
        "POST /--/api/v2/push/{path} HTTP/1.1\r\nhost: {address}\r\nauthorization: Bearer {BEARER}\r\n\
         content-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("ask");
    stream.write_all(body.as_bytes()).await.expect("ask");
    let mut answer = Vec::new();
    // It may be cut off.
    let _ = stream.read_to_end(&mut answer).await;
}

/// Where the official client is installed, or why it is not.
pub(crate) struct Node(PathBuf);

pub(crate) fn node() -> Result<Node, String> {
    let version = Command::new("node").arg("--version").output();
    let version = version.map_err(|_| "no Node.js".to_owned())?;
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let major = version.trim_start_matches('v').split('.').next();
    if major
        .and_then(|major| major.parse().ok())
        .is_none_or(|major: u32| major < 20)
    {
        return Err(format!("Node.js {version} is older than 20"));
    }
    let folder = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("official");
    std::fs::create_dir_all(&folder).expect("a folder");
    for file in ["client.mjs", "package.json", "package-lock.json"] {
        std::fs::copy(self::folder().join(file), folder.join(file)).expect("copy the client");
    }
    if !folder
        .join("node_modules/expo-server-sdk/package.json")
        .exists()
    {
        let done = Command::new("npm")
            .args(["ci", "--ignore-scripts", "--no-audit", "--no-fund"])
            .current_dir(&folder)
            .output();
        if !done.is_ok_and(|done| done.status.success()) {
            return Err("npm cannot install expo-server-sdk".to_owned());
        }
    }
    Ok(Node(folder))
}

/// The official client does as the golden record says, or is written into it.
pub(crate) fn compare(Node(folder): Node) {
    // The client is waited for by blocking.
    let runtime = tokio::runtime::Builder::new_multi_thread();
    run_on(runtime, async move {
        for scenario in scenarios() {
            let done = theirs(&folder, &scenario).await;
            if blesses() {
                bless("official", scenario.name, done);
            } else {
                assert_eq!(
                    done,
                    golden()[scenario.name]["official"],
                    "{}",
                    scenario.name
                );
            }
        }
    });
}

async fn theirs(folder: &Path, scenario: &Scenario) -> Value {
    let fake = prepared(scenario).await;
    let mut client = Command::new("node")
        .arg("client.mjs")
        .current_dir(folder)
        .env("EXPO_BASE_URL", fake.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("start the official client");
    let mut input = client.stdin.take().expect("its input");
    let mut output = BufReader::new(client.stdout.take().expect("its output"));
    let mut told = |order: Value| -> Value {
        writeln!(input, "{order}").expect("tell it");
        let mut line = String::new();
        tokio::task::block_in_place(|| output.read_line(&mut line)).expect("its answer");
        serde_json::from_str(&line).expect("JSON")
    };
    let tokens: Vec<String> = scenario
        .tokens
        .iter()
        .map(|name| format!("ExponentPushToken[{name}]"))
        .collect();
    let sent = told(json!({ "tokens": tokens, "bearer": BEARER, "tickets": [] }));
    let mut receipts = json!({});
    if scenario.receipts > 0 {
        settle(&fake, scenario);
        let order = json!({ "tokens": [], "bearer": BEARER, "tickets": tickets(scenario) });
        receipts = told(order)["receipts"].clone();
    }
    drop(input);
    assert!(client.wait().expect("its end").success());
    let requests = fake.requests();
    let exchange = requests.iter().map(|request| {
        json!({
            "path": request.path,
            "body": request.body,
            "status": request.status,
            "answer": request.answer,
        })
    });
    json!({
        "outcomes": sent["outcomes"],
        "receipts": receipts,
        "requests": seen(&requests),
        "exchange": exchange.collect::<Vec<_>>(),
    })
}
