//! The poller over the store: what it settles is gone, what it could not
//! settle is not.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::uuid::Uuid;
use duebox_core::{
    PendingReceipt, PendingReceiptStore, PushStoreError, PushStoreFuture, PushTicketId,
    RECEIPT_POLL_DELAY, RECEIPT_RETENTION, ReceiptPoll, poll_pending_receipts,
};

use super::cancelling::cut_short;
use super::chapter;
use super::context::{
    ReceiptContext, at, limit, many, names, owned, owner, receipt, sent, ticket, token,
};
use super::provider::{DELIVERED, Devices, GONE, Provider, Refusing, TOO_BIG};

chapter!(polling:
    what_settles_is_counted_and_deleted,
    a_device_registered_anew_after_the_send_stays,
    a_failure_at_any_call_loses_no_ticket,
    a_registry_that_fails_keeps_the_tickets_of_dead_devices,
    a_source_that_fails_keeps_every_ticket,
    a_poll_that_is_dropped_loses_no_ticket,
    pollers_at_once_settle_each_ticket_once,
);

/// One ticket of each fate, named with a prefix, and the devices they went to.
async fn fill(store: &dyn PendingReceiptStore, prefix: &str, now: DateTime<Utc>) -> World {
    let world = World {
        provider: Provider::new(now),
        devices: Devices::default(),
        prefix: prefix.to_owned(),
    };
    let mut call = Vec::new();
    for (fate, sent_at) in [
        ("ok", now),
        ("dead", now),
        ("big", now),
        ("late", now),
        ("old", now - RECEIPT_RETENTION - RECEIPT_POLL_DELAY),
    ] {
        let pending = sent(&format!("{prefix}{fate}"), sent_at);
        world.devices.register(pending.token.clone(), sent_at);
        call.push(pending);
    }
    for (fate, status) in [("ok", DELIVERED), ("dead", GONE), ("big", TOO_BIG)] {
        let ticket = ticket(&format!("{prefix}{fate}"));
        world.provider.will_say(ticket, now, status);
    }
    assert_eq!(store.record(call, now).await, Ok(5));
    world
}

struct World {
    provider: Provider,
    devices: Devices,
    prefix: String,
}

impl World {
    async fn poll(
        &self,
        store: &dyn PendingReceiptStore,
        now: DateTime<Utc>,
    ) -> Result<ReceiptPoll, duebox_core::ReceiptPollError> {
        poll_pending_receipts(&self.provider, store, &self.devices, now, limit(100)).await
    }

    /// Nothing is left but the ticket without an answer, and no device is sent
    /// to that is gone.
    async fn assert_settled(&self, cx: &ReceiptContext, what: &str) {
        let late = format!("{}late", self.prefix);
        assert_eq!(names(&cx.all().await), [late.as_str()], "{what}");
        let device = |fate: &str| token(&format!("token-of-{}{fate}", self.prefix));
        assert!(!self.devices.has(&device("dead")), "{what}");
        for fate in ["ok", "big", "late", "old"] {
            assert!(self.devices.has(&device(fate)), "{what}");
        }
        assert_eq!(cx.delete(&[late]).await, 1);
    }
}

async fn what_settles_is_counted_and_deleted(cx: Arc<ReceiptContext>) {
    let now = at(2 * 86_400);
    let world = fill(&*cx.store, "", now).await;
    let poll = world.poll(&*cx.store, now).await.expect("poll");
    let counted = (poll.taken, poll.delivered, poll.rejected, poll.unsettled);
    assert_eq!(counted, (5, 1, 2, 2));
    let done = (poll.gone, poll.invalidated, poll.deleted, poll.purged);
    assert_eq!(done, (1, 1, 3, 1));
    let again = world.poll(&*cx.store, now).await.expect("poll");
    assert_eq!(again, ReceiptPoll::default());
    let due = now + RECEIPT_POLL_DELAY;
    assert_eq!(world.poll(&*cx.store, due).await.expect("poll").taken, 1);
    world.assert_settled(&cx, "after one poll").await;
}

async fn a_device_registered_anew_after_the_send_stays(cx: Arc<ReceiptContext>) {
    let world = fill(&*cx.store, "", at(86_400)).await;
    let device = token("token-of-dead");
    let after = at(86_400) + duebox_core::chrono::TimeDelta::microseconds(1);
    world.devices.register(device.clone(), after);
    let poll = world.poll(&*cx.store, at(86_400)).await.expect("poll");
    assert_eq!((poll.gone, poll.invalidated, poll.deleted), (1, 0, 3));
    assert!(world.devices.has(&device));
}

/// Fails the call of that number, before it does its work or after.
struct Failing<'a> {
    inner: &'a dyn PendingReceiptStore,
    calls: AtomicUsize,
    fails: usize,
    after: bool,
}

impl Failing<'_> {
    fn run<'a, T: Send + 'a>(
        &'a self,
        call: PushStoreFuture<'a, Result<T, PushStoreError>>,
    ) -> PushStoreFuture<'a, Result<T, PushStoreError>> {
        let fails = self.calls.fetch_add(1, Ordering::Relaxed) == self.fails;
        Box::pin(async move {
            if fails && !self.after {
                return Err(PushStoreError::Busy);
            }
            let answer = call.await;
            if fails {
                Err(PushStoreError::Busy)
            } else {
                answer
            }
        })
    }
}

impl PendingReceiptStore for Failing<'_> {
    fn record(
        &self,
        receipts: Vec<PendingReceipt>,
        due_at: DateTime<Utc>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        self.inner.record(receipts, due_at)
    }

    fn take_due(
        &self,
        now: DateTime<Utc>,
        retry_at: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<Vec<PendingReceipt>, PushStoreError>> {
        self.run(self.inner.take_due(now, retry_at, limit))
    }

    fn delete(
        &self,
        tickets: Vec<PushTicketId>,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        self.run(self.inner.delete(tickets))
    }

    fn purge(
        &self,
        sent_before: DateTime<Utc>,
        limit: NonZeroU32,
    ) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        self.run(self.inner.purge(sent_before, limit))
    }

    fn erase_owner(&self, owner_id: Uuid) -> PushStoreFuture<'_, Result<u64, PushStoreError>> {
        self.inner.erase_owner(owner_id)
    }
}

async fn a_failure_at_any_call_loses_no_ticket(cx: Arc<ReceiptContext>) {
    let now = at(2 * 86_400);
    for after in [false, true] {
        for fails in 0..3 {
            let what = format!("call {fails}, after its work: {after}");
            let world = fill(&*cx.store, &format!("{fails}{after}-"), now).await;
            let failing = Failing {
                inner: &*cx.store,
                calls: AtomicUsize::new(0),
                fails,
                after,
            };
            let failed = world.poll(&failing, now).await.expect_err(&what);
            let counts = failed.poll;
            let settled = counts.delivered + counts.rejected;
            assert_eq!(counts.taken, settled + counts.unsettled, "{what}");
            let again = world.poll(&*cx.store, now + RECEIPT_POLL_DELAY).await;
            again.expect(&what);
            world.assert_settled(&cx, &what).await;
        }
    }
}

async fn a_registry_that_fails_keeps_the_tickets_of_dead_devices(cx: Arc<ReceiptContext>) {
    for (name, error) in [
        ("busy", PushStoreError::Busy),
        ("broken", PushStoreError::Internal),
    ] {
        let now = at(2 * 86_400);
        let world = fill(&*cx.store, &format!("{name}-"), now).await;
        let registry = Refusing(error);
        let failed =
            poll_pending_receipts(&world.provider, &*cx.store, &registry, now, limit(100)).await;
        let counts = failed.expect_err(name).poll;
        let told = (counts.taken, counts.delivered, counts.rejected, counts.gone);
        assert_eq!(told, (5, 1, 1, 0), "{name}");
        let again = world.poll(&*cx.store, now + RECEIPT_POLL_DELAY).await;
        assert_eq!(again.expect(name).invalidated, 1, "{name}");
        world.assert_settled(&cx, name).await;
    }
}

async fn a_source_that_fails_keeps_every_ticket(cx: Arc<ReceiptContext>) {
    let now = at(2 * 86_400);
    let world = fill(&*cx.store, "", now).await;
    world.provider.fails(true);
    let failed = world.poll(&*cx.store, now).await;
    let counts = failed.expect_err("a source that fails").poll;
    assert_eq!((counts.taken, counts.unsettled, counts.purged), (5, 5, 0));
    world.provider.fails(false);
    let again = world.poll(&*cx.store, now + RECEIPT_POLL_DELAY).await;
    let counts = again.expect("poll");
    assert_eq!((counts.taken, counts.deleted, counts.purged), (5, 3, 1));
    world
        .assert_settled(&cx, "after a source that failed")
        .await;
}

async fn a_poll_that_is_dropped_loses_no_ticket(cx: Arc<ReceiptContext>) {
    // Far enough apart that a server that is still busy with a dropped poll
    // finds nothing of the next one.
    for polls in 0..1_000 {
        let now = at(86_400 * (2 + 3 * i64::from(polls)));
        let what = format!("dropped after {polls} polls");
        let world = fill(&*cx.store, &format!("{polls}-"), now).await;
        let done = cut_short(world.poll(&*cx.store, now), polls).await;
        // While the server is still busy with it, later polls pass over what
        // it holds.
        let mut left = 0;
        for delays in 1..80 {
            let later = now + RECEIPT_POLL_DELAY * delays;
            left = world.poll(&*cx.store, later).await.expect(&what).taken;
            if left == 1 {
                break;
            }
        }
        assert_eq!(left, 1, "only the late one is left, {what}");
        world.assert_settled(&cx, &what).await;
        if done.is_some() {
            return;
        }
    }
    panic!("a poll that waits a thousand times");
}

async fn pollers_at_once_settle_each_ticket_once(cx: Arc<ReceiptContext>) {
    let now = at(86_400);
    let provider = Arc::new(Provider::new(now));
    let devices = Arc::new(Devices::default());
    let call: Vec<_> = many(2_000)
        .into_iter()
        .map(|each| PendingReceipt {
            owner_id: owner(2),
            sent_at: now,
            ..each
        })
        .collect();
    for each in &call {
        provider.will_say(each.ticket.clone(), now, DELIVERED);
    }
    cx.record(call, now).await;
    cx.record(vec![owned("other", owner(3))], at(90_000)).await;
    let mut pollers = tokio::task::JoinSet::new();
    for _ in 0..4 {
        let store = cx.sandbox.another().await;
        let (provider, devices) = (Arc::clone(&provider), Arc::clone(&devices));
        pollers.spawn(async move {
            let (mut taken, mut deleted) = (0, 0);
            loop {
                let poll =
                    poll_pending_receipts(&*provider, &*store, &*devices, now, limit(100)).await;
                let poll = match poll {
                    Ok(poll) => poll,
                    Err(error) => panic!("{error}"),
                };
                taken += poll.taken;
                deleted += poll.deleted;
                if poll.taken == 0 {
                    return (taken, deleted);
                }
            }
        });
    }
    let counts = pollers.join_all().await;
    assert_eq!(
        counts.iter().map(|(taken, _)| taken).sum::<u64>(),
        2_000,
        "{counts:?}"
    );
    assert_eq!(
        counts.iter().map(|(_, deleted)| deleted).sum::<u64>(),
        2_000,
        "{counts:?}"
    );
    let left = cx.all().await;
    assert_eq!(names(&left), ["other"]);
    assert!(left[0].sent_at == receipt("other").sent_at);
}
