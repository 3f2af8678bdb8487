//! One trial: a writer, workers that die at one failpoint, one that does not, and the comparison of what was committed with what
//! was accepted.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::os::unix::process::ExitStatusExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use posthaste::testing::{NotDelivered, Why};
use posthaste::{EventId, NewEvent};
use posthaste_testkit::{Committed, Verdict};

use crate::scene::{Fate, NAME, Scene};
use crate::stage::{Stage, Store};
use crate::worker::Orders;

const SIGKILL: i32 = 9;
/// For what must happen: a trial that takes longer hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// Enough that some are free while a lost worker's events hold theirs.
const KEYS: u64 = 20;
/// More than two batches, and every fate.
const BURST: usize = 24;
const PAUSE: Duration = Duration::from_millis(200);

/// Workers that die at one failpoint.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Trial {
    pub(crate) store: Store,
    pub(crate) point: &'static str,
    pub(crate) kills: usize,
}

impl Trial {
    pub(crate) async fn run(self) -> Line {
        let scene = Scene::of(self.point);
        let stage = Arc::new(Stage::set(self.store).await);
        let stop = Arc::new(AtomicBool::new(false));
        let writer = tokio::spawn(write(stage.clone(), scene, stop.clone()));
        let record = tempfile::NamedTempFile::new().unwrap();
        let orders = Orders { place: stage.place(), scene, record: record.path().to_owned(), death: None };
        let mut kills = 0;
        for _ in 0..self.kills {
            for death in self.deaths() {
                self.die(&orders, death).await;
                kills += 1;
            }
        }
        stop.store(true, Ordering::SeqCst);
        let written = writer.await.unwrap();
        let survivor = orders.start();
        let dead = self.settled(&stage).await;
        drop(survivor);
        assert_eq!(dead, written.rejected, "{self}: other events are dead than those that were rejected");
        let verdict = stage.ledger(record.path()).await.check(&written.accepted);
        let bound = kills * scene.duplicates_per_kill();
        Line { trial: self, scene, kills, bound, verdict }
    }

    /// Where the next workers die. Whoever dies while taking over must have something to take over.
    fn deaths(self) -> Vec<(String, u32)> {
        let inherits = self.point.starts_with("lane-") || matches!(self.point, "batch-reread" | "reclaimed");
        // A worker takes over once.
        let once = inherits || matches!(self.point, "taking-lane" | "reclaiming");
        let time = if once { 1 } else { fastrand::u32(1..=4) };
        let before = inherits.then(|| ("claimed".to_owned(), fastrand::u32(1..=4)));
        before.into_iter().chain([(self.point.to_owned(), time)]).collect()
    }

    /// Starts a worker and waits until it has killed itself where it was told to. If it does not get there, it lives on.
    async fn die(self, orders: &Orders, death: (String, u32)) {
        let mut worker = Orders { death: Some(death.clone()), ..orders.clone() }.start();
        let ended = tokio::time::timeout(PATIENCE, worker.wait()).await;
        let ended = ended.unwrap_or_else(|_| panic!("{self}: {death:?} was never reached")).unwrap();
        assert_eq!(ended.signal(), Some(SIGKILL), "{self}: {death:?} ended otherwise: {ended}");
    }

    /// Waits until everything is delivered or dead, and returns what is dead.
    async fn settled(self, stage: &Stage) -> HashSet<EventId> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        loop {
            let left = stage.posthaste().testing().not_delivered(NAME).await.unwrap();
            let unsettled: Vec<&NotDelivered> = left.iter().filter(|event| event.why != Why::Dead).collect();
            if unsettled.is_empty() {
                return left.iter().map(|event| event.id).collect();
            }
            assert!(tokio::time::Instant::now() < deadline, "{self}: left after a minute: {unsettled:?}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
}

impl fmt::Display for Trial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<8} {:<17}", self.store.name(), self.point)
    }
}

/// What was committed.
#[derive(Debug, Default)]
struct Written {
    accepted: Vec<Committed>,
    rejected: HashSet<EventId>,
}

/// Bursts of events, some of them rolled back, until told to stop. There is one writer, so places are in commit order.
async fn write(stage: Arc<Stage>, scene: Scene, stop: Arc<AtomicBool>) -> Written {
    let mut places: HashMap<String, u64> = HashMap::new();
    let mut written = Written::default();
    while !stop.load(Ordering::SeqCst) {
        let commits = fastrand::u8(..8) > 0;
        let mut next = places.clone();
        let burst: Vec<((String, u64), Vec<u8>)> =
            (0..BURST).map(|number| next_event(&mut next, number)).collect();
        let event =
            |((key, _), body): &((String, u64), Vec<u8>)| NewEvent::bytes(NAME, body.clone()).key(key);
        let ids = stage.enqueue(burst.iter().map(event).collect(), commits).await;
        if commits {
            places = next;
            for (id, (place, body)) in ids.into_iter().zip(burst) {
                written.note(id, body, place, scene);
            }
        }
        tokio::time::sleep(PAUSE).await;
    }
    written
}

/// An event of any key: its place in it, and its body.
fn next_event(places: &mut HashMap<String, u64>, number: usize) -> ((String, u64), Vec<u8>) {
    let key = format!("key-{}", fastrand::u64(..KEYS));
    let place = places.entry(key.clone()).or_default();
    *place += 1;
    let body = format!("{key}:{place}:{number}").into_bytes();
    ((key, *place), body)
}

impl Written {
    fn note(&mut self, id: EventId, payload: Vec<u8>, place: (String, u64), scene: Scene) {
        match Fate::of(&payload) {
            Fate::Rejected => drop(self.rejected.insert(id)),
            _ => self.accepted.push(Committed { id, place: scene.has_order().then_some(place), payload }),
        }
    }
}

/// What a trial found.
#[derive(Debug)]
pub(crate) struct Line {
    trial: Trial,
    scene: Scene,
    pub(crate) kills: usize,
    bound: usize,
    pub(crate) verdict: Verdict,
}

impl Line {
    pub(crate) fn judge(&self) {
        let Verdict { lost, ghosts, duplicates, inversions, corrupted, .. } = self.verdict;
        assert_eq!((lost, ghosts, inversions, corrupted), (0, 0, 0, 0), "{self}");
        assert!(duplicates <= self.bound, "too many duplicates: {self}");
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { trial, scene, kills, bound, verdict } = self;
        let scene = format!("{scene:?}").to_lowercase();
        write!(f, "{trial} {scene:<13} {kills} kills, duplicates allowed: {bound}; {verdict}")
    }
}
