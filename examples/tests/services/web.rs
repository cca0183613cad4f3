//! The service over HTTP, killed while it is asked.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::mpsc;
use std::thread;

use crate::place::{Place, Running, until};

/// Status and body of an answer; `None` if there was no whole one.
fn ask(address: &str, method: &str, path: &str, body: &str) -> Option<(u16, String)> {
    let mut stream = TcpStream::connect(address).ok()?;
    let request = format!(
        "{method} {path} HTTP/1.1\r\nhost: test\r\nconnection: close\r\n\
         content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, body) = answer.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some((status, body.to_owned()))
}

fn sign_up(address: &str, email: &str) -> Option<(u16, String)> {
    let body = format!(r#"{{"email":"{email}"}}"#);
    ask(address, "POST", "/accounts", &body)
}

fn id(body: &str) -> String {
    let account: serde_json::Value = serde_json::from_str(body).expect("an account");
    account["id"].as_str().expect("an id").to_owned()
}

fn start(place: &Place) -> (Running, String) {
    let arguments = [
        "--database",
        &place.url,
        "--listen",
        "127.0.0.1:0",
        "--lease",
        "1",
    ];
    let mut running = Running::start("web", &arguments);
    let line = running.line();
    let address = line.strip_prefix("http://").expect("an address").to_owned();
    (running, address)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_answered_outlives_a_kill_and_is_welcomed_once() {
    for place in Place::all().await {
        let mut answered = BTreeSet::new();
        for life in 0..3 {
            let (running, address) = start(&place);
            // Another thread asks without end, so that a request is under way at the kill.
            let (told, created) = mpsc::channel();
            let asking = thread::spawn(move || {
                for number in 0.. {
                    match sign_up(&address, &format!("{life}-{number}@example.com")) {
                        Some((201, body)) => drop(told.send(id(&body))),
                        Some((status, _)) => panic!("status {status}"),
                        None => break,
                    }
                }
            });
            answered.extend((0..20).map(|_| created.recv().expect("it signs up")));
            running.kill();
            asking.join().expect("it asked until the kill");
            answered.extend(created.try_iter());
        }

        let (running, address) = start(&place);
        let rows = "SELECT COUNT(*) AS n FROM outbox";
        until("every row is done", async || place.number(rows).await == 0).await;
        for id in &answered {
            let path = format!("/accounts/{id}");
            let (status, body) = ask(&address, "GET", &path, "").expect("an answer");
            assert_eq!(status, 200);
            assert!(body.contains(r#""welcomes":1"#), "{body}");
        }
        // Also those whose answer was lost by the kill.
        let others = "SELECT COUNT(*) AS n FROM account WHERE welcomes <> 1";
        assert_eq!(place.number(others).await, 0);
        let accounts = place.number("SELECT COUNT(*) AS n FROM account").await;
        assert!(accounts >= i64::try_from(answered.len()).expect("few"));

        let taken = sign_up(&address, "0-0@example.com").expect("an answer");
        let refused = sign_up(&address, "nobody").expect("an answer");
        let health = ask(&address, "GET", "/health", "").expect("an answer");
        assert_eq!((taken.0, refused.0, health.0), (409, 422, 204));
        #[cfg(unix)]
        running.terminate();
        place.remove().await;
    }
}
