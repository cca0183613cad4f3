//! One greeting to one device.

use std::sync::Arc;
use std::time::Duration;

use duebox_expo::ExpoPush;
use duebox_sqlite::{
    DeviceRegistry, PendingReceiptStore, PushDeliveryStatus, PushMessage, PushSender, PushSent,
    accepted_receipts, uuid::Uuid,
};
use duebox_worker::{Job, Outcome};

use crate::Error;
use crate::devices::Devices;

pub(crate) const TOPIC: &str = "push.greeting";

/// When receipts are asked for. A service waits for `RECEIPT_POLL_DELAY`, a quarter of
/// an hour, by `record_accepted`; nobody wants to watch that.
const SOON: Duration = Duration::from_millis(500);

#[derive(Clone)]
pub(crate) struct Sender {
    pub(crate) devices: Devices,
    pub(crate) expo: Arc<ExpoPush>,
    pub(crate) pending: Arc<dyn PendingReceiptStore>,
}

pub(crate) async fn send(sender: Sender, job: Job) -> Outcome {
    match try_send(&sender, &job).await {
        Ok(outcome) => outcome,
        // What an error says may quote what was sent.
        Err(_) => Outcome::retry("a database or the provider could not do it"),
    }
}

async fn try_send(sender: &Sender, job: &Job) -> Result<Outcome, Error> {
    let Sender {
        devices,
        expo,
        pending,
    } = sender;
    let id = job.payload();
    let Some(token) = devices.token(id).await? else {
        return Ok(Outcome::Done);
    };
    // Before the call: a device that registers anew meanwhile must not be taken for gone.
    let started = devices.now().await?;
    let message = PushMessage::new(token.clone()).title("Hello");
    let outcomes = match expo.send(vec![message]).await {
        Ok(outcomes) => outcomes,
        Err(error) if error.sent() == PushSent::NotSent => {
            return Ok(Outcome::retry("the provider did not take it"));
        }
        // Perhaps it was sent: nobody wants to be told twice.
        Err(_) => return Ok(Outcome::Done),
    };
    for outcome in &outcomes {
        if let PushDeliveryStatus::Rejected(why) = &outcome.status
            && why.is_device_gone()
        {
            devices.invalidate(vec![token.clone()], started).await?;
        }
    }
    let owner = Uuid::parse_str(id)?;
    let receipts = accepted_receipts(owner, &outcomes, started);
    pending.record(receipts, started + SOON).await?;
    devices.greeted(id).await?;
    Ok(Outcome::Done)
}
