//! The loop that claims rows and starts their handlers.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use duebox_core::chrono::{DateTime, Utc};
use duebox_core::{Claim, ClaimCursor, DbError, OutboxRecord};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

use crate::alone::{Changes, Crowd};
use crate::claims::{Claims, Decision, GATHER, Sight};
use crate::clock::later;
use crate::db::bounded;
use crate::held::Claimed;
use crate::run::Slot;
use crate::shared::{End, Ended, Shared, Topic, stamp};
use crate::suspect::{self, Suspect};

/// From so many lapses on a row is suspected of killing its holders.
const SUSPECT: u64 = 2;
/// A row whose topic has no handler here is looked at again after this long at
/// first, and at the latest after that.
const STRANGER: (Duration, Duration) = (Duration::from_secs(1), Duration::from_mins(1));

pub(crate) struct Engine {
    shared: Arc<Shared>,
    ends: UnboundedSender<Ended>,
    claims: Claims,
    /// Away while a claim is under way.
    cursor: Option<ClaimCursor>,
    /// Claimed rows that wait for room in their topic, or for a suspect to end.
    ready: VecDeque<(Arc<Topic>, Claimed)>,
    suspects: VecDeque<Suspect>,
    /// The run of a suspect.
    lone: Option<JoinHandle<()>>,
    /// Whether it is the turn of a suspect; claims come in between.
    lone_is_next: bool,
    /// Until when room is left empty. A real moment, by whatever clock we go.
    gather: Option<Instant>,
    crowd: Option<Crowd>,
    changes: Changes,
}

type Claiming = Pin<Box<dyn Future<Output = Answer> + Send>>;

struct Answer {
    cursor: ClaimCursor,
    records: Result<Vec<OutboxRecord>, DbError>,
    asked: usize,
    nudged: bool,
    /// Whether nothing was under way as it began.
    resting: bool,
    /// Of which number among all claims.
    number: u64,
    began: Duration,
    until: DateTime<Utc>,
}

impl Engine {
    pub(crate) fn new(shared: Arc<Shared>, ends: UnboundedSender<Ended>) -> Self {
        Self {
            claims: Claims::new(shared.settings.polls),
            changes: shared.gate.changes(),
            shared,
            ends,
            cursor: Some(ClaimCursor::new()),
            ready: VecDeque::new(),
            suspects: VecDeque::new(),
            lone: None,
            lone_is_next: false,
            gather: None,
            crowd: None,
        }
    }

    /// Works until the worker stops; then gives back what it has not started,
    /// and waits for a suspect that runs.
    pub(crate) async fn run(mut self) {
        let shared = Arc::clone(&self.shared);
        let mut claiming: Option<Claiming> = None;
        loop {
            self.start();
            let mut wait = None;
            if claiming.is_none() {
                match self.decide() {
                    Decision::Claim(limit) => {
                        self.gather = None;
                        claiming = self.claim(limit);
                    }
                    Decision::Gather => {
                        self.gather.get_or_insert_with(|| Instant::now() + GATHER);
                    }
                    Decision::Wait(until) => wait = until,
                }
            }
            let gather = self.gather.filter(|_| claiming.is_none());
            tokio::select! {
                biased;
                () = shared.stopping.cancelled() => break,
                answer = async { claiming.as_mut().expect("guarded").await }, if claiming.is_some() => {
                    claiming = None;
                    self.claimed(answer);
                }
                () = shared.bell.changed() => {}
                () = self.changes.next() => {}
                () = sleep_until(gather.unwrap_or_else(Instant::now)), if gather.is_some() => {}
                () = shared.clock.sleep_until(wait.unwrap_or_default()), if wait.is_some() => {}
            }
        }
        self.stop(claiming).await;
    }

    async fn stop(mut self, claiming: Option<Claiming>) {
        let mut left: Vec<Claimed> = self.ready.drain(..).map(|(_, claimed)| claimed).collect();
        left.extend(self.suspects.drain(..).map(Suspect::into_claimed));
        self.give_back(left);
        if let Some(claiming) = claiming {
            // Dropped, it might leave rows under lease of which nobody knows.
            let answer = claiming.await;
            if let Ok(records) = answer.records {
                let bytes: usize = records.iter().map(|record| record.payload.len()).sum();
                self.shared.bytes.fetch_add(bytes as u64, Ordering::AcqRel);
                let claimed = self.shared.held.add(records, answer.until);
                self.give_back(claimed);
            }
        }
        self.crowd = None;
        if let Some(lone) = self.lone.take() {
            // A panic of it was the handler's, and has been dealt with.
            let _ = lone.await;
        }
    }

    /// Ends leases without a run.
    fn give_back(&self, claimed: Vec<Claimed>) {
        let at = self.shared.now();
        for claimed in claimed {
            self.end(&claimed, End::Release { at: at.clone() });
        }
    }

    fn end(&self, claimed: &Claimed, end: End) {
        suspect::end_without_run(&self.shared, &self.ends, claimed, end);
    }

    // ------------------------------------------------------------- claiming

    fn decide(&mut self) -> Decision {
        let shared = &self.shared;
        let settings = &shared.settings;
        let running = shared.running.load(Ordering::Acquire);
        let unwritten = shared.unwritten.load(Ordering::Acquire);
        let waits = !self.suspects.is_empty() && self.lone_is_next;
        if waits || self.lone.is_some() || shared.gate.is_wanted() {
            return Decision::Wait(None);
        }
        let taken = running + self.ready.len() + self.suspects.len();
        let mut free = settings.concurrency.saturating_sub(taken);
        if unwritten > settings.concurrency.saturating_mul(2).max(settings.batch)
            || shared.bytes.load(Ordering::Acquire) >= settings.max_bytes
        {
            free = 0;
        }
        let now = shared.clock.elapsed();
        // Between two suspects others have their turn, if there is room for any.
        let between = !self.suspects.is_empty();
        if between && free == 0 && running + self.ready.len() == 0 {
            self.lone_is_next = true;
            return Decision::Wait(Some(now));
        }
        let settling = shared.is_settling() && self.is_resting();
        let own_due = shared
            .own_due
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        self.claims.decide(Sight {
            now,
            nudged: shared.bell.is_nudged() || between || settling,
            listening: shared.listening.load(Ordering::Acquire),
            gathered: self.gather.is_some_and(|until| until <= Instant::now()),
            free,
            batch: settings.batch.min(settings.concurrency),
            own_due: own_due.first().copied(),
        })
    }

    /// Whether nothing is under way, and nothing waits here.
    fn is_resting(&self) -> bool {
        let running = self.shared.running.load(Ordering::Acquire);
        let unwritten = self.shared.unwritten.load(Ordering::Acquire);
        let waiting = self.ready.len() + self.suspects.len();
        running + unwritten + waiting == 0 && self.lone.is_none()
    }

    fn claim(&mut self, limit: usize) -> Option<Claiming> {
        let mut cursor = self.cursor.take()?;
        let shared = Arc::clone(&self.shared);
        let nudged = shared.bell.answer();
        let began = shared.clock.elapsed();
        let mut own_due = shared
            .own_due
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *own_due = own_due.split_off(&(began + Duration::from_nanos(1)));
        drop(own_due);
        if shared.is_settling() {
            // Whoever waits for the queue to be empty wants all of it looked at.
            cursor = ClaimCursor::new();
        }
        let resting = self.is_resting();
        let number = shared.settling.begun.fetch_add(1, Ordering::AcqRel) + 1;
        let settings = &shared.settings;
        let now = shared.clock.now();
        let until = later(now, settings.lease);
        let bytes = shared.bytes.load(Ordering::Acquire);
        let claim = Claim::new(stamp(now), stamp(until))
            .limit(limit as u64)
            .max_bytes(settings.max_bytes.saturating_sub(bytes).max(1))
            .locked_by(settings.name.as_str());
        Some(Box::pin(async move {
            let elapsed = || shared.clock.elapsed();
            let call = shared
                .outbox
                .claim_through(&*shared.db, &claim, &mut cursor, &elapsed);
            let records = bounded(call).await;
            Answer {
                cursor,
                records,
                asked: limit,
                nudged,
                resting,
                number,
                began,
                until,
            }
        }))
    }

    fn claimed(&mut self, answer: Answer) {
        self.cursor = Some(answer.cursor);
        let shared = Arc::clone(&self.shared);
        self.lone_is_next = true;
        let records = match answer.records {
            Ok(records) => records,
            Err(error) => return self.claim_failed(&error),
        };
        let got = records.len();
        let bytes: usize = records.iter().map(|record| record.payload.len()).sum();
        // What was cut short by its bytes is no end of the queue either.
        let asked = if bytes > 0 && bytes as u64 >= shared.settings.max_bytes / 4 {
            got
        } else {
            answer.asked
        };
        self.claims.claimed(answer.began, answer.nudged, asked, got);
        {
            let mut pulse = shared.pulse.lock().unwrap_or_else(PoisonError::into_inner);
            if pulse.failures > 0 {
                tracing::info!(outbox = shared.outbox.table(), "rows can be claimed again");
            }
            pulse.last_claim = Some((shared.clock.now(), shared.clock.elapsed()));
            pulse.failures = 0;
        }
        if got == 0 {
            if answer.resting {
                shared.settling.settled.send_replace(answer.number);
            }
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "a few thousand")]
        shared.telemetry.claimed_rows.record(got as f64);
        shared.bytes.fetch_add(bytes as u64, Ordering::AcqRel);
        for claimed in shared.held.add(records, answer.until) {
            self.take(claimed);
        }
    }

    fn claim_failed(&mut self, error: &DbError) {
        let shared = &self.shared;
        let pause = self.claims.failed(shared.clock.elapsed());
        shared.telemetry.failed_calls.increment(1);
        let mut pulse = shared.pulse.lock().unwrap_or_else(PoisonError::into_inner);
        pulse.failures += 1;
        // Said when it begins and then now and then, not ten times a second.
        if pulse.failures.is_power_of_two() {
            tracing::warn!(
                outbox = shared.outbox.table(),
                failures = pulse.failures,
                pause_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX),
                %error,
                "no rows can be claimed"
            );
        }
    }

    // ------------------------------------------------------------- starting

    /// Decides what becomes of a row that was claimed.
    fn take(&mut self, claimed: Claimed) {
        let Some(topic) = self.shared.topic(&claimed.record.topic).cloned() else {
            return self.put_off_stranger(&claimed);
        };
        if claimed.record.lapses >= SUSPECT {
            tracing::warn!(
                outbox = self.shared.outbox.table(),
                topic = claimed.record.topic,
                id = claimed.record.id,
                lapses = claimed.record.lapses,
                "holders of this row died or stood still; it runs alone"
            );
            self.suspects.push_back(Suspect { topic, claimed });
        } else if self.may_start(&topic) {
            self.spawn(&topic, claimed);
        } else if let Some(limit) = topic.limit
            && !self.has_place(&topic, limit)
        {
            let turn = topic.pace.turn(self.shared.clock.elapsed(), limit);
            let at = self.shared.after(turn);
            self.end(&claimed, End::Release { at });
        } else {
            self.ready.push_back((topic, claimed));
        }
    }

    /// Whether fewer rows of a topic wait here than run at once.
    fn has_place(&self, topic: &Arc<Topic>, limit: usize) -> bool {
        let waiting = self.ready.iter().filter(|(of, _)| Arc::ptr_eq(of, topic));
        waiting.count() < limit
    }

    fn put_off_stranger(&self, claimed: &Claimed) {
        let (first, last) = STRANGER;
        let doublings = u32::try_from(claimed.record.claims.saturating_sub(1)).unwrap_or(u32::MAX);
        let factor = 2_u32.checked_pow(doublings).unwrap_or(u32::MAX);
        let delay = first.saturating_mul(factor).min(last);
        self.shared.telemetry.without_handler.increment(1);
        tracing::debug!(
            outbox = self.shared.outbox.table(),
            topic = claimed.record.topic,
            id = claimed.record.id,
            "there is no handler for this topic here"
        );
        let at = self.shared.after(delay);
        self.end(claimed, End::Release { at });
    }

    fn may_start(&mut self, topic: &Topic) -> bool {
        if self.shared.gate.is_wanted() || !topic.has_room() {
            return false;
        }
        if self.crowd.is_none() {
            self.crowd = self.shared.gate.join();
        }
        self.crowd.is_some()
            && self.shared.running.load(Ordering::Acquire) < self.shared.settings.concurrency
    }

    fn spawn(&self, topic: &Arc<Topic>, claimed: Claimed) {
        let slot = Slot::take(&self.shared, topic, &self.ends, &claimed);
        tokio::spawn(slot.run(claimed));
    }

    /// Starts what can be started of the rows that wait here.
    fn start(&mut self) {
        if self.lone.as_ref().is_some_and(JoinHandle::is_finished) {
            self.lone = None;
            self.lone_is_next = false;
        }
        for _ in 0..self.ready.len() {
            let Some((topic, claimed)) = self.ready.pop_front() else {
                break;
            };
            if self.may_start(&topic) {
                self.spawn(&topic, claimed);
            } else {
                self.ready.push_back((topic, claimed));
            }
        }
        if self.shared.running.load(Ordering::Acquire) == 0 || self.lone.is_some() {
            // Those of this worker that run have ended, or a suspect of it runs.
            self.crowd = None;
        }
        // What has ended is written first, or a killer would take that with it.
        let resting = self.ready.is_empty()
            && self.shared.running.load(Ordering::Acquire) == 0
            && self.shared.unwritten.load(Ordering::Acquire) == 0;
        if self.lone.is_none()
            && self.lone_is_next
            && resting
            && let Some(suspect) = self.suspects.pop_front()
        {
            let wanting = self.shared.gate.want();
            let (shared, ends) = (Arc::clone(&self.shared), self.ends.clone());
            self.lone = Some(tokio::spawn(suspect.run(shared, ends, wanting)));
        }
    }
}
