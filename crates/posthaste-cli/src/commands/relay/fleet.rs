//! What runs: a worker and a watched sink for each subscription.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use posthaste::{Sink, Worker, WorkerName};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tracing::{info, warn};

use super::board::Board;
use super::tally::Tally;
use super::watched::{Watched, route};
use crate::config::{DatabaseConfig, RelayConfig, SubscriptionConfig};
use crate::database::{Database, refused};
use crate::failure::{Code, Failure};

/// How long to wait before a subscription is declared again that the database had no time for.
const TRY_AGAIN: Duration = Duration::from_secs(1);

/// All running subscriptions, by name.
#[derive(Debug)]
pub(crate) struct Fleet {
    pub(crate) name: WorkerName,
    grace: Duration,
    database: Database,
    board: Arc<Board>,
    stop: CancellationToken,
    running: BTreeMap<String, Running>,
    /// Every worker that has not ended, also those that are no longer among the running.
    working: TaskTracker,
    tally: Arc<Tally>,
}

/// How far a start came.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started {
    All,
    /// Somebody wants to stop.
    Stopped,
}

/// A subscription whose sink was opened.
#[derive(Debug, Clone)]
pub(crate) struct Prepared {
    pub(crate) config: SubscriptionConfig,
    pub(crate) sink: Arc<Watched>,
}

impl Prepared {
    /// The sink, behind the registry if there is one.
    fn receiver(&self) -> Arc<dyn Sink> {
        match &self.config.registry {
            Some(known) => Arc::new(known.registry.checked(self.sink.clone(), self.config.policy.order)),
            None => self.sink.clone(),
        }
    }
}

#[derive(Debug)]
struct Running {
    prepared: Prepared,
    stop: CancellationToken,
    ended: JoinHandle<()>,
}

impl Fleet {
    pub(crate) fn new(
        relay: &RelayConfig,
        database: Database,
        board: Arc<Board>,
        stop: CancellationToken,
    ) -> Self {
        let name = worker_name(relay.name.as_deref());
        let (running, working, tally) = (BTreeMap::new(), TaskTracker::new(), Arc::default());
        Self { name, grace: relay.grace, database, board, stop, running, working, tally }
    }

    /// Opens the sinks; no server is waited for.
    pub(crate) fn prepare(&self, configs: &[SubscriptionConfig]) -> Result<Vec<Prepared>, Failure> {
        let prepare = |config: &SubscriptionConfig| {
            let endpoint = config.sink.open(&route(config)).map_err(|sentence| {
                Failure::configuration(format!("subscriptions.{}.sink: {sentence}", config.name))
            })?;
            let sink = Arc::new(Watched::new(&config.name, endpoint, self.tally.clone()));
            Ok(Prepared { config: config.clone(), sink })
        };
        configs.iter().map(prepare).collect()
    }

    /// Declares the subscriptions and starts a worker for each. A wish to stop ends it, whatever it waits for.
    pub(crate) async fn start(&mut self, prepared: Vec<Prepared>) -> Result<Started, Failure> {
        let stop = self.stop.clone();
        for prepared in prepared {
            let Some(running) = stop.run_until_cancelled(self.start_one(&prepared)).await else {
                return Ok(Started::Stopped);
            };
            self.running.insert(prepared.config.name.clone(), running?);
            self.show();
        }
        Ok(Started::All)
    }

    /// A database that is away for a moment is waited for.
    async fn start_one(&self, prepared: &Prepared) -> Result<Running, Failure> {
        let mut said = false;
        loop {
            match self.try_to_start(prepared).await {
                Err(Failure::Coded(Code::Unavailable, sentence)) => {
                    if !said {
                        warn!(
                            subscription = prepared.config.name,
                            "not started yet: {sentence}; trying again"
                        );
                        said = true;
                    }
                    tokio::time::sleep(TRY_AGAIN).await;
                }
                done => return done,
            }
        }
    }

    async fn try_to_start(&self, prepared: &Prepared) -> Result<Running, Failure> {
        let refused = |error| refused(&error, &self.database.config);
        let declared = prepared.config.declaration().map_err(refused)?;
        let stop = self.stop.child_token();
        let starting = self
            .database
            .posthaste
            .sink(declared, prepared.receiver())
            .name(self.name.clone())
            .grace(self.grace.mul_f32(0.8))
            .start_until(stop.clone());
        // Dropped halfway it has started nothing: the worker's task is the last thing it makes.
        let worker = self.database.in_time(async { starting.await.map_err(refused) }).await?;
        tokio::spawn(prepared.sink.clone().watch(stop.clone()));
        let following = follow(worker, prepared.sink.clone(), stop.clone(), self.tally.clone());
        Ok(Running { prepared: prepared.clone(), stop, ended: self.working.spawn(following) })
    }

    fn show(&self) {
        self.board.show(self.running.values().map(|running| running.prepared.sink.clone()).collect());
    }

    /// Whether no more than the login is different there; then new connections are made with it.
    pub(crate) fn takes_login_of(&mut self, database: &DatabaseConfig) -> bool {
        self.database.takes_login_of(database)
    }

    /// What runs at the moment.
    pub(crate) fn configs(&self) -> Vec<SubscriptionConfig> {
        self.running.values().map(|running| running.prepared.config.clone()).collect()
    }

    /// The names of those whose workers ended although nobody stopped them.
    pub(crate) fn ended(&self) -> Vec<String> {
        let ended = self.running.iter().filter(|(_, running)| running.prepared.sink.ended().is_some());
        ended.map(|(name, _)| name.clone()).collect()
    }

    /// Stops some, all at the same time; what they handle is finished first. If this is given up, [`stop`](Self::stop)
    /// still waits for them.
    pub(crate) async fn stop_some(&mut self, names: &[String]) {
        let leaving = names.iter().filter_map(|name| self.running.remove(name));
        let stopping: Vec<_> = leaving.map(Running::end).collect();
        join_all(stopping).await;
        self.show();
    }

    /// Stops everything within the grace time.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let cut_off_before = self.tally.cut_off();
        self.stop.cancel();
        self.working.close();
        let settled = tokio::time::timeout(self.grace, self.working.wait()).await.is_ok();
        let unfinished = self.tally.unfinished() - cut_off_before;
        if settled && unfinished == 0 {
            info!(delivered = self.tally.delivered(), "stopped cleanly");
            return Ok(());
        }
        Err(Failure::sentence(not_clean(self.grace, unfinished, settled)))
    }
}

impl Running {
    async fn end(self) {
        self.stop.cancel();
        drop(self.ended.await);
    }
}

/// Waits for the end of a worker. One that nobody stopped is noticed, and its sink no longer watched.
async fn follow(worker: Worker, sink: Arc<Watched>, stop: CancellationToken, tally: Arc<Tally>) {
    let counters = worker.counters().clone();
    let end = worker.stopped().await;
    tally.add_delivered(counters.delivered());
    if !stop.is_cancelled() {
        sink.note_ended(end);
        stop.cancel();
    }
}

/// What a stop could not do in its time, and what comes of it.
fn not_clean(grace: Duration, unfinished: u64, settled: bool) -> String {
    let cut_off = (unfinished > 0).then(|| {
        let events = if unfinished == 1 { "1 event was" } else { &format!("{unfinished} events were") };
        format!("{events} still being delivered, and whoever takes over delivers what was cut off again")
    });
    let unsettled = (!settled).then(|| {
        "the database did not answer in time, so leases run out instead of being given back, and what was delivered but \
         not settled, if anything, is delivered again"
            .to_owned()
    });
    let reasons: Vec<String> = cut_off.into_iter().chain(unsettled).collect();
    format!("stopped after the grace time of {grace:?}: {}", reasons.join("; "))
}

/// The name for people, and a few random digits: relays of one name would look like one when lanes are shared out.
fn worker_name(configured: Option<&str>) -> WorkerName {
    let host = || {
        let read = std::fs::read_to_string("/proc/sys/kernel/hostname").ok();
        let host = read.or_else(|| std::env::var("HOSTNAME").ok()).unwrap_or_else(|| "relay".to_owned());
        format!("{}-{}", host.trim(), std::process::id())
    };
    let name = configured.map_or_else(host, str::to_owned);
    let name: String = name.chars().take(190).collect();
    WorkerName::parse(&format!("{name}.{:04x}", fastrand::u16(..))).unwrap_or_else(|_| WorkerName::unique())
}
