//! What runs: a worker and a watched sink for each subscription.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::join_all;
use posthaste::{Sink, Worker, WorkerName};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::board::Board;
use super::watched::{Watched, route};
use crate::config::{RelayConfig, SubscriptionConfig};
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
    worker: Worker,
    stop: CancellationToken,
}

impl Fleet {
    pub(crate) fn new(
        relay: &RelayConfig,
        database: Database,
        board: Arc<Board>,
        stop: CancellationToken,
    ) -> Self {
        let name = worker_name(relay.name.as_deref());
        Self { name, grace: relay.grace, database, board, stop, running: BTreeMap::new() }
    }

    /// Opens the sinks; no server is waited for.
    pub(crate) fn prepare(&self, configs: &[SubscriptionConfig]) -> Result<Vec<Prepared>, Failure> {
        let prepare = |config: &SubscriptionConfig| {
            let endpoint = config.sink.open(&route(config)).map_err(|sentence| {
                Failure::configuration(format!("subscriptions.{}.sink: {sentence}", config.name))
            })?;
            let sink = Arc::new(Watched::new(&config.name, endpoint));
            Ok(Prepared { config: config.clone(), sink })
        };
        configs.iter().map(prepare).collect()
    }

    /// Declares the subscriptions and starts a worker for each.
    pub(crate) async fn start(&mut self, prepared: Vec<Prepared>) -> Result<(), Failure> {
        for prepared in prepared {
            let name = prepared.config.name.clone();
            if let Some(running) = self.start_one(prepared).await? {
                self.running.insert(name, running);
            }
        }
        self.board.show(self.running.values().map(|running| running.prepared.sink.clone()).collect());
        Ok(())
    }

    /// `None`: somebody wants to stop. A database that is away for a moment is waited for.
    async fn start_one(&self, prepared: Prepared) -> Result<Option<Running>, Failure> {
        let mut said = false;
        while !self.stop.is_cancelled() {
            match self.try_to_start(&prepared).await {
                Ok(running) => return Ok(Some(running)),
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
                Err(failure) => return Err(failure),
            }
        }
        Ok(None)
    }

    async fn try_to_start(&self, prepared: &Prepared) -> Result<Running, Failure> {
        let refused = |error| refused(&error, &self.database.config);
        let declared = prepared.config.declaration().map_err(refused)?;
        let stop = self.stop.child_token();
        let worker = self
            .database
            .posthaste
            .sink(declared, prepared.receiver())
            .name(self.name.clone())
            .grace(self.grace.mul_f32(0.8))
            .start_until(stop.clone())
            .await
            .map_err(refused)?;
        tokio::spawn(prepared.sink.clone().watch(stop.clone()));
        Ok(Running { prepared: prepared.clone(), worker, stop })
    }

    /// What runs at the moment.
    pub(crate) fn configs(&self) -> Vec<SubscriptionConfig> {
        self.running.values().map(|running| running.prepared.config.clone()).collect()
    }

    /// Stops some, all at the same time; what they handle is finished first.
    pub(crate) async fn stop_some(&mut self, names: &[String]) {
        let leaving = names.iter().filter_map(|name| self.running.remove(name));
        let stopping: Vec<_> = leaving.map(Running::end).collect();
        join_all(stopping).await;
        self.board.show(self.running.values().map(|running| running.prepared.sink.clone()).collect());
    }

    /// Stops everything within the grace time.
    pub(crate) async fn stop(self) -> Result<(), Failure> {
        let counters: Vec<_> =
            self.running.values().map(|running| running.worker.counters().clone()).collect();
        let stopping = join_all(self.running.into_values().map(Running::end));
        let ended = tokio::time::timeout(self.grace, stopping).await;
        let delivered: u64 = counters.iter().map(|counters| counters.delivered()).sum();
        if ended.is_err() {
            return Err(Failure::sentence(format!(
                "stopped after the grace time of {:?} although deliveries were still under way; whoever takes over \
                 makes them again",
                self.grace
            )));
        }
        info!(delivered, "stopped cleanly");
        Ok(())
    }
}

impl Running {
    async fn end(self) {
        self.stop.cancel();
        self.worker.stopped().await;
    }
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
