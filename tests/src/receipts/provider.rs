//! A push provider and a registry of devices to poll against, on a clock that
//! the test sets.

use std::collections::{BTreeMap, HashMap};
use std::sync::Mutex;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{
    DeviceRegistry, DeviceToken, PushError, PushErrorKind, PushFuture, PushReceipt,
    PushReceiptSource, PushReceiptStatus, PushRejection, PushStoreError, PushTicketId,
};

pub(super) const DELIVERED: PushReceiptStatus = PushReceiptStatus::Delivered;
pub(super) const GONE: PushReceiptStatus =
    PushReceiptStatus::Rejected(PushRejection::DeviceNotRegistered);
pub(super) const TOO_BIG: PushReceiptStatus =
    PushReceiptStatus::Rejected(PushRejection::MessageTooBig);

/// What a provider will say about a ticket, and from when on.
pub(super) struct Fate {
    pub(super) ready_at: DateTime<Utc>,
    pub(super) status: PushReceiptStatus,
}

/// Answers by fate; a ticket without one never settles.
pub(super) struct Provider {
    pub(super) fates: Mutex<HashMap<PushTicketId, Fate>>,
    pub(super) now: Mutex<DateTime<Utc>>,
    /// Whether every request fails.
    pub(super) down: Mutex<bool>,
}

impl Provider {
    pub(super) fn new(now: DateTime<Utc>) -> Self {
        Self {
            fates: Mutex::default(),
            now: Mutex::new(now),
            down: Mutex::new(false),
        }
    }

    pub(super) fn will_say(
        &self,
        ticket: PushTicketId,
        ready_at: DateTime<Utc>,
        status: PushReceiptStatus,
    ) {
        let fate = Fate { ready_at, status };
        self.fates.lock().expect("fates").insert(ticket, fate);
    }

    /// From now on every request fails, or none.
    pub(super) fn fails(&self, down: bool) {
        *self.down.lock().expect("down") = down;
    }
}

impl PushReceiptSource for Provider {
    fn receipts(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        Box::pin(async move {
            // A request is something that one waits for.
            tokio::task::yield_now().await;
            if *self.down.lock().expect("down") {
                return Err(PushError::new(PushErrorKind::Unavailable, "no route"));
            }
            let now = *self.now.lock().expect("now");
            let fates = self.fates.lock().expect("fates");
            let found = tickets.into_iter().filter_map(|ticket| {
                let fate = fates.get(&ticket).filter(|fate| fate.ready_at <= now)?;
                let status = fate.status.clone();
                Some(PushReceipt { ticket, status })
            });
            Ok(found.collect())
        })
    }
}

/// Takes the question and never answers, as a machine that is about to die.
pub(super) struct Silent;

impl PushReceiptSource for Silent {
    fn receipts(
        &self,
        _: Vec<PushTicketId>,
    ) -> PushFuture<'_, Result<Vec<PushReceipt>, PushError>> {
        Box::pin(std::future::pending())
    }
}

/// The devices that are sent to, and since when.
#[derive(Default)]
pub(super) struct Devices(Mutex<BTreeMap<DeviceToken, DateTime<Utc>>>);

impl Devices {
    pub(super) fn register(&self, token: DeviceToken, at: DateTime<Utc>) {
        self.0.lock().expect("devices").insert(token, at);
    }

    pub(super) fn has(&self, token: &DeviceToken) -> bool {
        self.0.lock().expect("devices").contains_key(token)
    }
}

impl DeviceRegistry for Devices {
    fn invalidate(
        &self,
        tokens: Vec<DeviceToken>,
        sent_at: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            let mut devices = self.0.lock().expect("devices");
            let mut stopped = 0;
            for token in tokens {
                if devices.get(&token).is_some_and(|since| *since <= sent_at) {
                    devices.remove(&token);
                    stopped += 1;
                }
            }
            Ok(stopped)
        })
    }
}

/// A registry that fails every call.
pub(super) struct Refusing(pub(super) PushStoreError);

impl DeviceRegistry for Refusing {
    fn invalidate(
        &self,
        _: Vec<DeviceToken>,
        _: DateTime<Utc>,
    ) -> PushFuture<'_, Result<u64, PushStoreError>> {
        Box::pin(std::future::ready(Err(self.0)))
    }
}
