//! The push service, killed while it sends.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use duebox_expo::FakeExpo;
use duebox_sqlite::{Database, Statement};

use crate::place::{Place, Running, until};

const DEVICES: i64 = 60;

/// The quarter of an hour after which tickets that a killed poller had are due again.
async fn let_time_pass(place: &Place) {
    let earlier = if place.is_postgres() {
        "due_at - INTERVAL '1 hour'"
    } else {
        "due_at - 3600000000"
    };
    let earlier = Statement::new(format!("UPDATE pending_receipts SET due_at = {earlier}"));
    place.db.execute(&earlier).await.expect("move the tickets");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_loses_no_greeting_and_no_receipt() {
    for place in Place::all().await {
        let provider = Arc::new(FakeExpo::start().await.expect("a provider"));
        let devices = DEVICES.to_string();
        let arguments = [
            "--database",
            &place.url,
            "--provider",
            provider.url(),
            "--devices",
            &devices,
            "--lease",
            "1",
        ];
        for life in 1..=3 {
            let mut running = Running::start("push", &arguments);
            running.line();
            let enough = life * 10;
            until("it sends", async || provider.issued().len() >= enough).await;
            running.kill();
        }

        // Nobody is asked before its time, and then there is a receipt.
        let clock = Arc::clone(&provider);
        let hours = tokio::spawn(async move {
            loop {
                clock.advance(Duration::from_hours(1));
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        });
        let running = Running::start("push", &arguments);
        let rows = "SELECT COUNT(*) AS n FROM outbox";
        until("every greeting is sent", async || {
            place.number(rows).await == 0
        })
        .await;
        let tickets = "SELECT COUNT(*) AS n FROM pending_receipts";
        until("every ticket is settled", async || {
            let_time_pass(&place).await;
            place.number(tickets).await == 0
        })
        .await;
        let last = tokio::task::spawn_blocking(move || running.finished()).await;
        assert_eq!(last.expect("its last line"), "greeted 60, gone 6");
        hours.abort();

        let greeted: BTreeSet<String> = provider
            .issued()
            .into_iter()
            .map(|(_, token)| token)
            .collect();
        assert_eq!(
            greeted.len(),
            60,
            "every device was greeted, some perhaps again"
        );
        let wrong = "SELECT COUNT(*) AS n FROM device
            WHERE gone <> CASE WHEN token LIKE '%gone%' THEN 1 ELSE 0 END";
        assert_eq!(place.number(wrong).await, 0);
        place.remove().await;
    }
}
