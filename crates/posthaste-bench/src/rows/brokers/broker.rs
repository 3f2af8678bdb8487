//! Both sides of the comparison, the same for every broker.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use async_trait::async_trait;
use chrono::Utc;
use posthaste::{ClaimBy, Outcome, Page, Posthaste};
use posthaste_sinks::{Endpoint, Problems, Route, Section, SinkSettings, Surroundings};
use serde_json::Value;

use super::parcel::{Parcel, parcels};
use crate::bench::Bench;
use crate::cluster::checkpoint;
use crate::measure::{Better, Contender, Figure, Result, Role};
use crate::ours;
use crate::rows::drain::rate;
use crate::work::event;

/// The name of the variable with the secret of [`Broker::sink`].
pub(super) const SECRET: &str = "SECRET";

/// A broker of our own, and what its client does without us.
#[async_trait]
pub(super) trait Broker: Sized + Send + Sync + 'static {
    /// The name of the figure.
    const NAME: &'static str;
    /// As people call it.
    const TITLE: &'static str;
    /// So many that a sample takes a few seconds.
    const EVENTS: u64;
    /// What stands before the names of attributes.
    const PREFIX: &'static str;
    /// So many events per claim: what served best, as with the peers.
    const BATCH: u32 = ours::BATCH;

    /// Its client, connected.
    type Client: Send + Sync;

    /// Starts it, or says what is missing.
    async fn start() -> Result<Self>;

    /// Forgets all messages.
    async fn clear(&self) -> Result<()>;

    /// How many messages there are since the last [`clear`](Self::clear).
    async fn count(&self) -> Result<u64>;

    /// The table that configures the sink.
    fn sink(&self) -> Value;

    /// The client with the settings of the sink.
    async fn client(&self) -> Result<Self::Client>;

    /// Sends with the client alone, until everything is acknowledged.
    async fn send(&self, client: &Self::Client, parcels: &[Parcel]) -> Result<()>;
}

/// The figure of one broker.
pub(super) async fn measure<B: Broker>(bench: &Bench) -> Result<Figure> {
    let count = bench.events(B::EVENTS);
    let title = format!("{}: {count} waiting events, and the client alone", B::TITLE);
    let mut figure = Figure::timed(B::NAME, title, "events/s", Better::More).demand(
        "posthaste",
        Some("client alone"),
        0.8,
    );
    // A task of its own, because a server that does not come up is a panic.
    let broker = match tokio::spawn(B::start()).await.map_err(Into::into).flatten() {
        Ok(broker) => Arc::new(broker),
        Err(error) => {
            figure.skip(B::TITLE, error.to_string());
            return Ok(figure);
        }
    };
    let (pool, posthaste) = ours::create(&bench.cluster, "brokers").await?;
    ours::load(&pool, &posthaste, count).await?;
    checkpoint(&pool).await?;
    let (broker, posthaste, turn) = (&broker, &posthaste, &AtomicU32::new(0));
    let contenders = vec![
        Contender::new("client alone", Role::Limit, move || alone(broker.clone(), count)),
        Contender::new("posthaste", Role::Ours, move || ours(&**broker, posthaste, turn, count)),
    ];
    Ok(figure.measure(bench.rounds, contenders).await)
}

/// On a thread of the runtime, where workers deliver too. One message more goes before the time is taken, here and behind
/// Posthaste: a client that was asked to connect is not ready yet. Kafka's first message waits half a second for the producer's id.
async fn alone<B: Broker>(broker: Arc<B>, count: u64) -> Result<f64> {
    broker.clear().await?;
    let sending = tokio::spawn({
        let (broker, parcels) = (broker.clone(), parcels(count + 1, B::PREFIX)?);
        async move {
            let client = broker.client().await?;
            let (first, rest) = parcels.split_at(1);
            broker.send(&client, first).await?;
            let start = Instant::now();
            broker.send(&client, rest).await?;
            Result::Ok(start.elapsed())
        }
    });
    let elapsed = sending.await??;
    expect(&*broker, count + 1).await?;
    Ok(rate(count, elapsed.as_secs_f64()))
}

async fn ours<B: Broker>(broker: &B, posthaste: &Posthaste, turn: &AtomicU32, count: u64) -> Result<f64> {
    broker.clear().await?;
    let turn = turn.fetch_add(1, Ordering::Relaxed);
    let subscription = ours::subscription_by(&format!("brokers-{turn}"), ClaimBy::Batch, B::BATCH)?;
    let sink = open(&broker.sink())?;
    send_first(&*sink).await?;
    let elapsed = ours::drain_to(posthaste, subscription, sink, count).await?;
    expect(broker, count + 1).await?;
    Ok(rate(count, elapsed.as_secs_f64()))
}

async fn send_first(sink: &dyn Endpoint) -> Result<()> {
    let mut page = Page::new(vec![Arc::new(event(0).stored(0, Utc::now()))]);
    sink.deliver(&mut page).await;
    match page.outcome(0) {
        Some(Outcome::Delivered) => Ok(()),
        other => Err(format!("the first message did not arrive: {other:?}").into()),
    }
}

/// A rate counts only if the messages have arrived, each once: nothing fails here.
async fn expect<B: Broker>(broker: &B, count: u64) -> Result<()> {
    match broker.count().await? {
        arrived if arrived == count => Ok(()),
        arrived => Err(format!("{arrived} of {count} messages have arrived").into()),
    }
}

/// As the relay opens it.
fn open(table: &Value) -> Result<Arc<dyn Endpoint>> {
    let (problems, mut surroundings) = (Problems::default(), Surroundings::default());
    surroundings.variables.insert(SECRET.to_owned(), super::webhook::SECRET.to_owned());
    let fields = table.as_object().ok_or("no table")?;
    let settings = SinkSettings::validate(&Section::new("sink", fields, &problems, &surroundings));
    let settings = settings.filter(|_| problems.count() == 0);
    let settings = settings.ok_or_else(|| format!("bad settings: {problems:?}"))?;
    Ok(settings.open(Route::new("brokers"))?)
}
