//! Retention under random schedules: subscriptions come and go, are paused, fail, are replayed and hold events, time passes, and
//! whatever happens in between, retention removes no event that a subscription still has to deliver.

mod log;

use std::collections::{BTreeMap, HashSet};
use std::time::{Duration, Instant};

use log::{Hasty, Log};
use posthaste::admin::{DeliveryQuery, ReplayFrom, RetentionPolicy};
use posthaste::{Claimed, Claims, EventId, NewEvent, Order, Outcome, Start, Subscription};
use posthaste_testkit::TestDatabase;

/// Schedules in one database: the next begins with what the last one left of the log.
const SCHEDULES: u64 = 50;

/// However slow the machine: what was not delivered by then never is.
const PATIENCE: Duration = Duration::from_secs(60);

fn schedules(full: u64, quick: u64) -> u64 {
    match std::env::var("POSTHASTE_FAULTS").as_deref() {
        Ok("full") => full,
        _ => quick,
    }
}

/// A subscription as its owner remembers it.
struct Reader {
    claims: Claims,
    paused: bool,
    /// What it was promised and did not get yet.
    needs: HashSet<EventId>,
    held: Vec<Claimed>,
    dead: HashSet<EventId>,
    retrying: HashSet<EventId>,
}

/// Which retention runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Retention {
    Real,
    /// Asks nobody who is paused.
    ForgetsThePaused,
}

/// A schedule under way.
struct Schedule<'a, L> {
    log: &'a L,
    seed: u64,
    random: fastrand::Rng,
    retention: Retention,
    readers: BTreeMap<String, Reader>,
    started: usize,
    removed: u64,
    /// Events that were gone although somebody needed them.
    lost: usize,
}

impl<'a, L: Log> Schedule<'a, L> {
    fn new(log: &'a L, seed: u64, retention: Retention) -> Self {
        let random = fastrand::Rng::with_seed(seed);
        Self { log, seed, random, retention, readers: BTreeMap::new(), started: 0, removed: 0, lost: 0 }
    }

    async fn run(&mut self) {
        self.subscribe().await;
        self.subscribe().await;
        for _ in 0..self.random.usize(8..20) {
            self.step().await;
        }
        self.end().await;
    }

    async fn step(&mut self) {
        match self.random.u8(..100) {
            ..28 => self.enqueue().await,
            28..58 => self.deliver().await,
            58..64 => self.pause_or_resume().await,
            64..80 => self.retain().await,
            80..84 => self.replay().await,
            84..89 => self.log.age().await,
            89 => self.log.end_leases().await,
            90..92 => {
                self.log.posthaste().testing().advance(Duration::from_secs(7200)).await.expect("time passes")
            }
            92..95 => self.subscribe().await,
            95..97 => self.unsubscribe().await,
            _ => self.judge_the_dead().await,
        }
    }

    fn one(&mut self) -> Option<String> {
        let at = self.random.usize(..self.readers.len().max(1));
        self.readers.keys().nth(at).cloned()
    }

    async fn subscribe(&mut self) {
        self.started += 1;
        let (name, from_now) = (format!("s{}-{}", self.seed, self.started), self.random.u8(..4) == 0);
        let order = if self.random.bool() { Order::Key } else { Order::None };
        let start = if from_now { Start::Now } else { Start::Beginning };
        let subscription =
            Subscription::new(&name).expect("a name").order(order).start(start).settings(|s| {
                s.base_delay = Duration::from_millis(1);
                s.max_delay = Duration::from_millis(1);
                s.max_attempts = 4;
            });
        let claims = self.log.posthaste().claims(&subscription).await.expect("declared");
        let needs = if from_now { HashSet::new() } else { self.log.ids().await.into_iter().collect() };
        let reader = Reader {
            claims,
            paused: false,
            needs,
            held: Vec::new(),
            dead: HashSet::new(),
            retrying: HashSet::new(),
        };
        self.readers.insert(name, reader);
    }

    /// Whatever is held is not removed.
    async fn unsubscribe(&mut self) {
        let Some(name) = self.one() else { return };
        if self.log.posthaste().admin().delete_subscription(&name).await.is_ok() {
            self.readers.remove(&name);
        }
    }

    async fn enqueue(&mut self) {
        let mut events = Vec::new();
        for _ in 0..self.random.usize(1..4) {
            let event = NewEvent::bytes("t", "x").key(format!("k{}", self.random.u8(..4)));
            let delayed = self.random.u8(..8) == 0;
            events.push(if delayed { event.delay(Duration::from_secs(3600)) } else { event });
        }
        let ids = self.log.commit(events).await;
        self.readers.values_mut().for_each(|reader| reader.needs.extend(&ids));
    }

    /// A few of one subscription: delivered, failed, given up, or kept in hand.
    async fn deliver(&mut self) {
        let Some(name) = self.one() else { return };
        for _ in 0..self.random.usize(1..5) {
            let reader = self.readers.get_mut(&name).expect("it was chosen");
            let page = reader.claims.claim(1).await.expect("claim");
            for claimed in page {
                match self.random.u8(..10) {
                    0 => reader.held.push(claimed),
                    1 => reader.settle(claimed, Outcome::dead("no")).await,
                    2 => {
                        reader.settle(claimed, Outcome::retry_after(Duration::from_secs(3600), "later")).await
                    }
                    _ => reader.settle(claimed, Outcome::Delivered).await,
                }
            }
        }
        if self.random.bool() {
            self.readers.get_mut(&name).expect("it was chosen").settle_held().await;
        }
    }

    async fn pause_or_resume(&mut self) {
        let Some(name) = self.one() else { return };
        let admin = self.log.posthaste().admin();
        let reader = self.readers.get_mut(&name).expect("it was chosen");
        reader.paused = !reader.paused;
        match reader.paused {
            true => admin.pause(&name).await.expect("paused"),
            false => admin.resume(&name).await.expect("resumed"),
        };
    }

    /// What is in somebody's hands, retried or dead is left to that.
    async fn replay(&mut self) {
        let (Some(name), ids) = (self.one(), self.log.ids().await) else { return };
        let place = self.random.usize(..ids.len().max(1));
        let from = match ids.get(place) {
            Some(id) if self.random.bool() => ReplayFrom::Event(*id),
            _ => ReplayFrom::Beginning,
        };
        self.log.posthaste().admin().replay(&name, from).await.expect("replayed");
        let again = if from == ReplayFrom::Beginning { &ids[..] } else { &ids[place..] };
        let reader = self.readers.get_mut(&name).expect("it was chosen");
        let elsewhere = reader.elsewhere();
        reader.needs.extend(again.iter().filter(|id| !elsewhere.contains(id)));
    }

    /// Dead letters are tried again, or given up for good.
    async fn judge_the_dead(&mut self) {
        let Some(name) = self.one() else { return };
        let (admin, query) = (self.log.posthaste().admin(), DeliveryQuery::dead(&name));
        let reader = self.readers.get_mut(&name).expect("it was chosen");
        let dead = std::mem::take(&mut reader.dead);
        match self.random.bool() {
            true => drop(admin.retry(&query).await.expect("revived")),
            false => {
                admin.discard(&query).await.expect("discarded");
                reader.needs.retain(|id| !dead.contains(id));
            }
        }
    }

    async fn retain(&mut self) {
        let age = if self.random.bool() { Duration::ZERO } else { Duration::from_secs(3600) };
        let chunk = self.random.u32(1..5);
        let policy = RetentionPolicy::new(|policy| {
            (policy.events_older_than, policy.journal_older_than, policy.chunk) =
                (age, Duration::ZERO, chunk);
        });
        match self.retention {
            Retention::Real => {
                self.removed += self.log.posthaste().admin().retain(&policy).await.expect("retained").events;
            }
            Retention::ForgetsThePaused => self.retain_wrongly().await,
        }
        self.look().await;
    }

    async fn retain_wrongly(&mut self) {
        let asked = self.readers.values().filter(|reader| !reader.paused);
        let needed: HashSet<EventId> = asked.flat_map(|reader| reader.needs.iter().copied()).collect();
        for id in self.log.ids().await {
            if !needed.contains(&id) {
                self.log.remove(id).await;
                self.removed += 1;
            }
        }
    }

    /// Counts what is needed and gone, once each.
    async fn look(&mut self) {
        let there: HashSet<EventId> = self.log.ids().await.into_iter().collect();
        for reader in self.readers.values_mut() {
            let before = reader.needs.len();
            reader.needs.retain(|id| there.contains(id));
            self.lost += before - reader.needs.len();
        }
    }

    /// Everybody goes on, and gets what was promised. Then all subscriptions go, for the next schedule.
    async fn end(&mut self) {
        let admin = self.log.posthaste().admin();
        let began = Instant::now();
        for (name, reader) in &mut self.readers {
            admin.resume(name).await.expect("resumed");
            reader.settle_held().await;
            while !reader.needs.is_empty() && began.elapsed() < PATIENCE {
                self.log
                    .posthaste()
                    .testing()
                    .advance(Duration::from_secs(86_400))
                    .await
                    .expect("time passes");
                admin.retry(&DeliveryQuery::dead(name)).await.expect("revived");
                for claimed in reader.claims.claim(20).await.expect("claim") {
                    reader.settle(claimed, Outcome::Delivered).await;
                }
                // What was removed wrongly never comes.
                if self.retention == Retention::ForgetsThePaused {
                    break;
                }
            }
            self.lost += if self.retention == Retention::Real { reader.needs.len() } else { 0 };
        }
        self.retain().await;
        self.log.end_leases().await;
        for name in std::mem::take(&mut self.readers).into_keys() {
            admin.delete_subscription(&name).await.expect("nobody holds it");
        }
    }
}

impl Reader {
    async fn settle(&mut self, claimed: Claimed, outcome: Outcome) {
        let id = claimed.event().id;
        let fate = outcome.clone();
        // A replay takes what is in hand from its holder.
        if self.claims.settle(claimed, outcome).await.is_err() {
            return;
        }
        self.dead.remove(&id);
        self.retrying.remove(&id);
        match fate {
            Outcome::Delivered => drop(self.needs.remove(&id)),
            Outcome::Dead { .. } => drop(self.dead.insert(id)),
            _ => drop(self.retrying.insert(id)),
        }
    }

    async fn settle_held(&mut self) {
        for claimed in std::mem::take(&mut self.held) {
            self.settle(claimed, Outcome::Delivered).await;
        }
    }

    fn elsewhere(&self) -> HashSet<EventId> {
        let held = self.held.iter().map(|claimed| claimed.event().id);
        held.chain(self.dead.iter().copied()).chain(self.retrying.iter().copied()).collect()
    }
}

/// What came of many schedules.
#[derive(Debug, Default)]
struct Found {
    schedules: u64,
    removed: u64,
    lost: usize,
}

impl Found {
    async fn of<L: Log>(seeds: std::ops::Range<u64>, retention: Retention) -> Self {
        let (log, mut found) = (L::fresh().await, Self::default());
        for seed in seeds {
            let mut schedule = Schedule::new(&log, seed, retention);
            schedule.run().await;
            if schedule.lost > 0 && retention == Retention::Real {
                println!("lost {} events in the schedule of seed {seed}", schedule.lost);
            }
            found.schedules += 1;
            found.removed += schedule.removed;
            found.lost += schedule.lost;
        }
        found
    }

    fn add(self, other: Self) -> Self {
        Self {
            schedules: self.schedules + other.schedules,
            removed: self.removed + other.removed,
            lost: self.lost + other.lost,
        }
    }
}

/// Two threads, each with a database at a time.
fn many<L: Log>(count: u64, retention: Retention) -> Found {
    let first = fastrand::u64(..1 << 40);
    let half = |from: u64, to: u64| {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
        let mut found = Found::default();
        for begin in (from..to).step_by(usize::try_from(SCHEDULES).expect("few")) {
            let seeds = first + begin..first + (begin + SCHEDULES).min(to);
            found = found.add(runtime.block_on(Found::of::<L>(seeds, retention)));
        }
        found
    };
    std::thread::scope(|scope| {
        let other = scope.spawn(|| half(count / 2, count));
        half(0, count / 2).add(other.join().expect("no panic"))
    })
}

fn nothing_that_is_needed_goes<L: Log>(name: &str, count: u64) {
    let Found { schedules, removed, lost } = many::<L>(count, Retention::Real);
    println!("{name}: {schedules} schedules, {removed} events removed, {lost} that were needed");
    assert_eq!(lost, 0);
    assert!(removed > schedules, "retention had nothing to do");
}

#[test]
fn nothing_that_is_needed_goes_on_sqlite() {
    nothing_that_is_needed_goes::<Hasty>("sqlite", schedules(10_000, 100));
}

#[test]
fn nothing_that_is_needed_goes_on_postgres() {
    nothing_that_is_needed_goes::<TestDatabase>("postgres", schedules(300, 20));
}

#[test]
fn a_retention_that_forgets_the_paused_is_seen_to_lose() {
    let Found { schedules, removed, lost } = many::<Hasty>(50, Retention::ForgetsThePaused);
    println!(
        "control, a retention that forgets the paused: {schedules} schedules, {removed} events removed, {lost} lost"
    );
    assert!(lost > 0);
}
