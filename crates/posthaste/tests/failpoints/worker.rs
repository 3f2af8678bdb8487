//! The worker: handles events as their fates say, records what it accepts, and dies where it was told to.

use std::collections::HashSet;
use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use posthaste::{Event, EventId, Outcome, Posthaste};
use rustix::process::{Signal, getpid, kill_process};
use serde::{Deserialize, Serialize};
use sqlx::PgConnection;

use crate::scene::{Fate, Scene};
use crate::stage::{Place, RECORD};

const ORDERS: &str = "POSTHASTE_FAILPOINT_ORDERS";

/// What a worker is told.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Orders {
    pub(crate) place: Place,
    pub(crate) scene: Scene,
    /// The file in which acceptances are recorded.
    pub(crate) record: PathBuf,
    /// Where to die, and when it gets there for the how-manieth time.
    pub(crate) death: Option<(String, u32)>,
}

impl Orders {
    pub(crate) fn from_environment() -> Option<Self> {
        std::env::var(ORDERS).ok().map(|orders| serde_json::from_str(&orders).unwrap())
    }

    /// Starts this program as a worker.
    pub(crate) fn start(&self) -> tokio::process::Child {
        tokio::process::Command::new(std::env::current_exe().unwrap())
            .env(ORDERS, serde_json::to_string(self).unwrap())
            .kill_on_drop(true)
            .spawn()
            .unwrap()
    }
}

/// Works until it is killed, by itself or by others.
pub(crate) async fn work(orders: Orders) {
    if let Some((point, time)) = orders.death.clone() {
        assert!(posthaste::testing::on_failpoint(die_at(point, time)));
    }
    let posthaste = orders.place.open().await;
    start(&orders, &posthaste).start().await.unwrap().stopped().await;
}

fn die_at(point: String, time: u32) -> impl Fn(&'static str) + Send + Sync + 'static {
    let times = AtomicU32::new(0);
    move |reached| {
        if reached == point && times.fetch_add(1, Ordering::SeqCst) + 1 == time {
            kill_process(getpid(), Signal::KILL).unwrap();
            // Nothing more happens here, even if another thread is the first to notice.
            std::thread::sleep(Duration::from_secs(60));
        }
    }
}

fn start(orders: &Orders, posthaste: &Posthaste) -> posthaste::WorkerBuilder {
    let subscription = orders.scene.subscription();
    let failed = Failed::default();
    if orders.scene == Scene::Transactional {
        return posthaste
            .transactional(subscription, move |tx, event| write(tx, event, failed.clone()))
            .unwrap();
    }
    let file = File::options().append(true).open(&orders.record).unwrap();
    let record = Arc::new(Mutex::new(file));
    posthaste.handler(subscription, move |event: Arc<Event>| {
        let (failed, record) = (failed.clone(), record.clone());
        async move {
            let outcome = failed.outcome_of(&event).await;
            if outcome == Outcome::Delivered {
                accept(&record, &event);
            }
            outcome
        }
    })
}

/// What has failed once in this process.
#[derive(Debug, Clone, Default)]
struct Failed(Arc<Mutex<HashSet<EventId>>>);

impl Failed {
    async fn outcome_of(&self, event: &Event) -> Outcome {
        match Fate::of(&event.payload) {
            Fate::Rejected => Outcome::dead("rejected"),
            Fate::FailsFirst if self.0.lock().unwrap().insert(event.id) => {
                Outcome::retry("the first attempt")
            }
            Fate::Slow => {
                tokio::time::sleep(Duration::from_millis(30)).await;
                Outcome::Delivered
            }
            _ => Outcome::Delivered,
        }
    }
}

/// One write of one line: what was accepted before a death is in the file, whole.
fn accept(record: &Mutex<File>, event: &Event) {
    let (key, body) = (event.key.as_deref().unwrap_or_default(), String::from_utf8_lossy(&event.payload));
    let line = format!("{} {key} {body}\n", event.id.0);
    record.lock().unwrap().write_all(line.as_bytes()).unwrap();
}

/// Writes first and fails afterwards: the worst order.
fn write(tx: &mut PgConnection, event: Arc<Event>, failed: Failed) -> BoxFuture<'_, Outcome> {
    Box::pin(async move {
        let insert = sqlx::query(RECORD).bind(event.id.0).bind(&event.key).bind(&event.payload);
        match insert.execute(&mut *tx).await {
            Ok(_) => failed.outcome_of(&event).await,
            Err(error) => Outcome::retry(error),
        }
    })
}
