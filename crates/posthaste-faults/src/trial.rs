//! The standard trial: processes of writers, relays, the verifying sink, and the checker that compares what was accepted with
//! what was committed. Rows bring the fault.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use posthaste::{EventId, Posthaste};
use posthaste_testkit::{Committed, Ledger, Server, TestDatabase, Verdict};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{ConnectOptions, PgPool};
use tempfile::TempDir;

use crate::broker::Broker;
use crate::collector::{Collector, Delivery};
use crate::finding::{Finding, Result};
use crate::log;
use crate::relay::{Plan, Relay, SUBSCRIPTION};
use crate::stage::Stage;
use crate::writer::{self, Habits, Writer};

/// Without a single arrival for so long, what is missing counts as lost.
const PATIENCE: Duration = Duration::from_secs(45);

/// A backlog is worked off within this time, however slow the machine.
const LONGEST: Duration = Duration::from_secs(300);

/// Without an arrival for so long, what is missing may be dead.
const QUIET: Duration = Duration::from_secs(1);

/// Keys of probes: enough to find every lane.
const PROBES: usize = 16;

/// A trial under way.
pub(crate) struct Trial {
    pub(crate) plan: Plan,
    pub(crate) collector: Collector,
    /// Where relays find the collector; rows may put something in between.
    pub(crate) collector_port: u16,
    /// What receives instead of the collector.
    pub(crate) broker: Option<Arc<dyn Broker>>,
    pub(crate) relays: Vec<Relay>,
    pub(crate) writers: Vec<Writer>,
    /// Where relays and writers find the database; rows may put something in between.
    pub(crate) relay_url: String,
    pub(crate) writer_url: String,
    /// The trial's own way to the database.
    pub(crate) pool: PgPool,
    program: PathBuf,
    folder: TempDir,
    /// The name of the next relay.
    started: usize,
}

impl Trial {
    /// On a new database of the first server that runs all the time; nobody writes and nobody reads yet.
    pub(crate) async fn prepare(stage: &Stage, plan: Plan) -> Result<Self> {
        Self::prepare_on(stage, &stage.servers[0], plan).await
    }

    /// On a new database of this server.
    pub(crate) async fn prepare_on(stage: &Stage, server: &Server, plan: Plan) -> Result<Self> {
        let database = TestDatabase::on(server).await;
        Self::in_database(stage, database.options.to_url_lossy().as_ref(), plan).await
    }

    /// In this database, which has Posthaste's tables already.
    pub(crate) async fn in_database(stage: &Stage, url: &str, plan: Plan) -> Result<Self> {
        let pool = connect(url)?;
        writer::prepare(&pool).await?;
        let collector = Collector::start().await?;
        Ok(Self {
            plan,
            collector_port: collector.port(),
            collector,
            broker: None,
            relays: Vec::new(),
            writers: Vec::new(),
            relay_url: url.to_owned(),
            writer_url: url.to_owned(),
            pool,
            program: stage.relay.clone(),
            folder: tempfile::tempdir()?,
            started: 0,
        })
    }

    /// Two relays that deliver, then two processes of writers.
    pub(crate) async fn begin(&mut self) -> Result<()> {
        self.start_relays(2)?;
        self.until_delivering().await?;
        self.start_writers(2, Habits::default()).await
    }

    pub(crate) async fn start_writers(&mut self, processes: usize, habits: Habits) -> Result<()> {
        for _ in 0..processes {
            self.writers.push(Writer::start(&self.writer_url, habits).await?);
        }
        Ok(())
    }

    pub(crate) fn start_relays(&mut self, count: usize) -> Result<()> {
        for _ in 0..count {
            let relay = self.new_relay()?;
            self.relays.push(relay);
        }
        Ok(())
    }

    /// One more relay, with a name of its own.
    pub(crate) fn new_relay(&mut self) -> Result<Relay> {
        self.started += 1;
        let (name, port) = (format!("relay-{}", self.started), self.collector_port);
        Relay::start(&self.program, self.folder.path(), &name, &self.plan, &self.relay_url, port)
    }

    /// Until every lane delivers what is written now; returns how long that took.
    pub(crate) async fn until_delivering(&mut self) -> Result<Duration> {
        let (began, probes) = (Instant::now(), self.write_probes().await?);
        match self.until_arrived(&probes).await? {
            true => Ok(began.elapsed()),
            false => Err(self.complaint("new events do not arrive").into()),
        }
    }

    /// Until these have arrived or are dead. `false`: nothing comes any more.
    async fn until_arrived(&self, wanted: &HashSet<EventId>) -> Result<bool> {
        let (began, mut missing) = (Instant::now(), wanted.clone());
        let (mut seen, mut since) = (0, Instant::now());
        // Other lanes may go on for ever beside one that stands still.
        while since.elapsed() < PATIENCE && began.elapsed() < LONGEST {
            let before = seen;
            for id in self.arrived_after(&mut seen).await? {
                missing.remove(&id);
            }
            // The database may be away, so it is asked only if nothing comes, and need not answer.
            let quiet = since.elapsed() > QUIET;
            if missing.is_empty() || quiet && self.are_dead(&missing).await.unwrap_or(false) {
                return Ok(true);
            }
            if seen > before {
                since = Instant::now();
            }
            // A broker is not asked, but the log, which has more to do.
            let pause = if self.broker.is_some() { 100 } else { 10 };
            tokio::time::sleep(Duration::from_millis(pause)).await;
        }
        Ok(false)
    }

    /// What the receiver took after the first `seen`. A broker cannot be read yet: all that the log says it has.
    async fn arrived_after(&self, seen: &mut usize) -> Result<Vec<EventId>> {
        let (arrived, known) = match &self.broker {
            Some(_) => (log::delivered(&self.pool).await?, 0),
            None => (self.collector.accepted_after(*seen), *seen),
        };
        *seen = known + arrived.len();
        Ok(arrived)
    }

    async fn are_dead(&self, events: &HashSet<EventId>) -> Result<bool> {
        let dead: HashSet<EventId> = log::dead(&self.pool).await?.into_iter().map(|dead| dead.id).collect();
        Ok(events.is_subset(&dead))
    }

    /// One event of each of several keys, in a transaction that is repeated until it commits.
    async fn write_probes(&self) -> Result<HashSet<EventId>> {
        let began = Instant::now();
        loop {
            match self.try_write_probes().await {
                Ok(probes) => return Ok(probes),
                Err(error) if began.elapsed() > PATIENCE => return Err(error),
                Err(_) => tokio::time::sleep(Duration::from_millis(20)).await,
            }
        }
    }

    async fn try_write_probes(&self) -> Result<HashSet<EventId>> {
        let mut tx = self.pool.begin().await?;
        let (posthaste, mut probes) = (self.posthaste(), HashSet::new());
        for number in 0..PROBES {
            probes.extend(writer::write(&posthaste, &mut tx, &format!("probe-{number}"), 1).await?);
        }
        tx.commit().await?;
        Ok(probes)
    }

    pub(crate) fn posthaste(&self) -> Posthaste {
        Posthaste::postgres(self.pool.clone())
    }

    /// The database is elsewhere now; relays and writers that are started from now on go there.
    pub(crate) fn move_to(&mut self, url: &str) -> Result<()> {
        self.pool = connect(url)?;
        (self.relay_url, self.writer_url) = (url.to_owned(), url.to_owned());
        Ok(())
    }

    /// Ends the writers, in the middle of what they do.
    pub(crate) async fn stop_writers(&mut self) -> Result<()> {
        for writer in self.writers.drain(..) {
            writer.stop().await?;
        }
        Ok(())
    }

    /// Ends the writers, waits until everything has arrived or nothing comes any more, ends the relays, and compares.
    pub(crate) async fn end(&mut self) -> Result<Verdict> {
        self.stop().await?;
        self.check(&HashSet::new()).await
    }

    /// Ends the writers, waits until everything has arrived or nothing comes any more, and ends the relays.
    pub(crate) async fn stop(&mut self) -> Result<()> {
        self.stop_writers().await?;
        self.until_all_arrived().await?;
        // Whatever is sent without need is sent soon.
        tokio::time::sleep(self.plan.lease.min(Duration::from_secs(2))).await;
        for relay in &mut self.relays {
            let status = relay.terminate().await?;
            if !status.success() {
                return Err(format!("a relay ended with {status}:\n{}", relay.words()).into());
            }
        }
        Ok(())
    }

    /// Or until nothing has come for a long time.
    pub(crate) async fn until_all_arrived(&self) -> Result<()> {
        let committed = self.committed().await?.into_iter().map(|committed| committed.id).collect();
        if !self.until_arrived(&committed).await? {
            eprintln!("{}", self.complaint("what was committed does not arrive"));
        }
        Ok(())
    }

    /// Compares what was accepted with what was committed, except what the receiver has refused for good.
    pub(crate) async fn check(&self, refused: &HashSet<EventId>) -> Result<Verdict> {
        let ledger = Ledger::default();
        match &self.broker {
            Some(broker) => {
                broker.messages().await?.into_iter().for_each(|message| ledger.accept_raw(message));
            }
            None => {
                self.collector
                    .deliveries()
                    .into_iter()
                    .for_each(|delivery| ledger.accept_raw(delivery.accepted));
            }
        }
        let mut committed = self.committed().await?;
        committed.retain(|committed| !refused.contains(&committed.id));
        Ok(ledger.check(&committed))
    }

    pub(crate) async fn committed(&self) -> Result<Vec<Committed>> {
        writer::committed(&self.pool).await
    }

    /// Takes deliveries out of the account, and says how many.
    pub(crate) fn forget(&self, which: impl Fn(&Delivery) -> bool) -> usize {
        self.collector.forget(which)
    }

    /// The trial as a finding: its figures, and that no event was given up and no relay lost.
    pub(crate) async fn finding(&mut self, fault: &str, duplicates_allowed: usize) -> Result<Finding> {
        let lost = self
            .relays
            .iter_mut()
            .filter_map(|relay| (!relay.is_running()).then(|| relay.words()))
            .collect::<Vec<_>>();
        let verdict = self.end().await?;
        let state = self.posthaste().admin().subscription(SUBSCRIPTION).await?;
        let dead = state.dead;
        let finding = Finding::new(fault).figures(&verdict, duplicates_allowed);
        let finding = finding.fact("dead", dead, dead.is_zero());
        Ok(match lost.first() {
            Some(words) => {
                finding.fact("relays that ended by themselves", format!("{}: {words}", lost.len()), false)
            }
            None => finding,
        })
    }

    /// From the row of the application to the first acceptance, of all but the slowest hundredth. Probes find a relay that
    /// starts or recovers; they are left out.
    pub(crate) async fn slowest_but_one_percent(&self) -> Result<Duration> {
        let rows: Vec<(uuid::Uuid, DateTime<Utc>)> =
            sqlx::query_as("select id, at from written where key not like 'probe-%'")
                .fetch_all(&self.pool)
                .await?;
        let mut first = HashMap::new();
        for delivery in self.collector.deliveries() {
            first.entry(delivery.accepted.id.0).or_insert(DateTime::<Utc>::from(delivery.at));
        }
        let took = |(id, at): &(uuid::Uuid, DateTime<Utc>)| {
            first.get(id).and_then(|arrived| (*arrived - *at).to_std().ok())
        };
        let mut times: Vec<Duration> = rows.iter().filter_map(took).collect();
        times.sort();
        times.get(times.len() * 99 / 100).copied().ok_or_else(|| "nothing arrived".into())
    }

    fn complaint(&self, what: &str) -> String {
        let words: Vec<String> = self.relays.iter().map(Relay::words).collect();
        format!("{what} within {PATIENCE:?}; the relays said last:\n{}", words.join("\n--\n"))
    }
}

/// Connections are made when they are needed.
pub(crate) fn connect(url: &str) -> Result<PgPool> {
    let options: PgConnectOptions = url.parse()?;
    let options = options.disable_statement_logging();
    let pool = PgPoolOptions::new().max_connections(4).acquire_timeout(Duration::from_secs(5));
    Ok(pool.connect_lazy_with(options))
}
