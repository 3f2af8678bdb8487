//! PostgreSQL, the main store: plain PostgreSQL 13 or newer, no extension, no replication slot, no superuser.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sqlx::postgres::PgRow;
use sqlx::{PgPool, Row};
use tokio_util::sync::CancellationToken;

use crate::error::{Error, Result};
use crate::event::{DEFAULT_NAMESPACE, Event, Headers, JSON};
use crate::id::{EventId, SchemaName, Token};
use crate::lease::{Batch, DeliveryClaim, DeliverySettlement, Holder, Lane, LaneClaim, Reader, Trouble};
use crate::observe::Bell;
use crate::store::{BatchRef, Cursor, Fresh, Handled, Hold, Sign, Store};
use crate::subscription::Subscription;

mod mark;
mod statements;
mod deadline;
mod kept;
mod ask;
mod migrate;
mod enqueue;
mod declare;
mod read;
mod lanes;
mod troubles;
mod takeover;
mod ahead;
mod claim;
mod deliveries;
mod settle;
mod wake;
mod window;
mod admin;
#[cfg(feature = "testing")]
mod testing;
#[cfg(test)]
mod tests;

use deadline::{Patience, Question};
use kept::Kept;
pub(crate) use read::PgCursor;
use statements::Statements;

/// The log in a PostgreSQL schema.
#[derive(Debug, Clone)]
pub(crate) struct PgStore {
    pub(crate) pool: PgPool,
    pub(crate) schema: SchemaName,
    pub(crate) sql: Arc<Statements>,
    memory: Arc<Memory>,
    /// Whether statements are prepared once per connection.
    prepared: bool,
}

/// What all clones of a store remember.
#[derive(Debug, Default)]
struct Memory {
    /// Per subscription of order `none`: generation and number of a batch before which all are finished, for ever.
    finished_before: Mutex<HashMap<i64, (i32, i64)>>,
    patience: Patience,
    kept: Kept,
}

impl PgStore {
    pub(crate) fn new(pool: PgPool, schema: SchemaName) -> Self {
        let sql = Arc::new(Statements::compile(&schema));
        Self { pool, schema, sql, memory: Arc::default(), prepared: true }
    }

    /// The same log through a pooler that gives each transaction to another connection.
    pub(crate) fn without_prepared_statements(self) -> Self {
        Self { prepared: false, ..self }
    }

    fn oldest_unfinished(&self, reader: &Reader) -> (i32, i64) {
        self.memory
            .finished_before
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&reader.id)
            .copied()
            .unwrap_or((0, 0))
    }

    /// A fail-over may have undone batches: what was known to be finished may be numbered anew.
    fn forget_unfinished(&self, reader: &Reader, newest: i64) {
        let mut known = self.memory.finished_before.lock().unwrap_or_else(PoisonError::into_inner);
        if known.get(&reader.id).is_some_and(|(_, number)| *number > newest) {
            known.remove(&reader.id);
        }
    }

    fn note_unfinished(&self, reader: &Reader, oldest: (i32, i64)) {
        self.memory.finished_before.lock().unwrap_or_else(PoisonError::into_inner).insert(reader.id, oldest);
    }
}

#[async_trait]
impl Store for PgStore {
    async fn migrate(&self) -> Result<()> {
        self.patiently("migrate", self.run_migrations()).await
    }

    fn migration_sql(&self) -> Vec<String> {
        self.printed_migrations()
    }

    fn schema_version(&self) -> usize {
        migrate::needed_version()
    }

    async fn check(&self) -> Result<()> {
        self.within(Question::new("check the database"), self.check_database()).await
    }

    async fn declare(&self, subscription: &Subscription) -> Result<Reader> {
        self.patiently("declare a subscription", self.declare_subscription(subscription)).await
    }

    async fn reader(&self, name: &str) -> Result<Reader> {
        self.within(Question::new("read a subscription"), self.load_reader(name)).await
    }

    async fn readers(&self) -> Result<Vec<Reader>> {
        self.within(Question::new("read the subscriptions"), self.load_readers()).await
    }

    async fn claim_lane(&self, reader: &Reader, holder: &Holder) -> Result<Option<LaneClaim>> {
        self.within(Question::about("take a lane", reader), self.take_lane(reader, holder)).await
    }

    async fn claim_fresh(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
        holder: &Holder,
        cursor: &mut Cursor,
    ) -> Result<Fresh> {
        self.within(Question::about("claim", reader), self.claim_page(reader, lane, owner, holder, cursor))
            .await
    }

    async fn held_batches(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Token,
        cursor: &mut Cursor,
    ) -> Result<Vec<Batch>> {
        let looking = self.batches_of(reader, lane, owner, cursor);
        self.within(Question::about("look for claims", reader), looking).await
    }

    async fn reclaim_batch(&self, reader: &Reader, holder: &Holder) -> Result<Option<Batch>> {
        self.within(Question::about("take a batch over", reader), self.take_expired_batch(reader, holder))
            .await
    }

    async fn claim_deliveries(
        &self,
        reader: &Reader,
        holder: &Holder,
        limit: u32,
        solo_allowed: bool,
    ) -> Result<Vec<DeliveryClaim>> {
        self.within(
            Question::about("claim deliveries", reader),
            self.take_due_deliveries(reader, holder, limit, solo_allowed),
        )
        .await
    }

    async fn open_lane(&self, reader: &Reader) -> Result<Lane> {
        self.within(Question::about("find the open lane", reader), self.find_open_lane(reader)).await
    }

    async fn settle_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        self.within(
            Question::about("settle a batch", reader),
            self.finish_batch(reader, batch, troubles, holder),
        )
        .await
    }

    async fn settle_delivered(
        &self,
        reader: &Reader,
        batch: BatchRef,
        _holder: &Holder,
        flush: bool,
    ) -> Result<bool> {
        let waits = Some(if flush { "on" } else { "off" });
        let settle = async {
            let mut conn = self.lend("settle a batch").await?;
            let held = self.mark_finished(&mut conn, reader, batch, waits).await?;
            self.keep(conn);
            Ok(held)
        };
        self.within(Question::about("settle a batch", reader), settle).await
    }

    async fn record_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        handled: &Handled,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        self.within(
            Question::about("record what was handled", reader),
            self.record_progress(reader, batch, handled, troubles, holder),
        )
        .await
    }

    async fn hold_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        hold: &Hold,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        self.within(
            Question::about("hold a batch", reader),
            self.record_hold(reader, batch, hold, troubles, holder),
        )
        .await
    }

    async fn settle_deliveries(
        &self,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<i64>> {
        self.within(Question::about("settle deliveries", reader), self.write_settlements(reader, settlements))
            .await
    }

    async fn renew(&self, reader: &Reader, tokens: &[Token], lease: Duration) -> Result<Vec<Token>> {
        self.within(Question::about("renew leases", reader), self.renew_leases(reader, tokens, lease)).await
    }

    async fn release_lane(&self, reader: &Reader, lane: Lane, token: Token) -> Result<()> {
        self.within(Question::about("release a lane", reader), self.give_lane_back(reader, lane, token)).await
    }

    async fn announce_worker(&self, reader: &Reader, holder: &Holder) -> Result<u32> {
        self.within(Question::about("announce a worker", reader), self.say_alive(reader, holder)).await
    }

    async fn dismiss_worker(&self, reader: &Reader, holder: &Holder) -> Result<()> {
        self.within(Question::about("dismiss a worker", reader), self.say_goodbye(reader, holder)).await
    }

    async fn next_due(&self, reader: &Reader, solo_allowed: bool) -> Result<Option<Duration>> {
        self.within(
            Question::about("look for due deliveries", reader),
            self.time_to_next_due(reader, solo_allowed),
        )
        .await
    }

    async fn watch(&self, bell: Arc<Bell>, stop: CancellationToken) {
        self.listen(bell, stop).await;
    }

    async fn put_up_sign(&self, lasting: Duration) -> Result<Sign> {
        self.within(Question::new("put up the sign"), self.raise_sign(lasting)).await
    }

    async fn draw_xid(&self) -> Result<Sign> {
        self.within(Question::new("draw an xid"), self.newest_xid()).await
    }

    async fn all_ended(&self, sign: &Sign) -> Result<bool> {
        self.within(Question::new("look for running producers"), self.producers_ended(sign)).await
    }
}

/// Microseconds, the unit in which durations are sent: intervals are added on the database's clock, and taken from it. Four
/// thousand years at most: more than anybody waits, and the clock of PostgreSQL reaches no further than to 4713 BC. A statement
/// that runs out of it would abort the producer's transaction.
pub(super) fn micros(duration: Duration) -> i64 {
    const LONGEST: Duration = Duration::from_secs(4_000 * 365 * 86_400);
    i64::try_from(duration.min(LONGEST).as_micros()).unwrap_or(i64::MAX)
}

pub(super) fn duration_of(micros: Option<i64>) -> Option<Duration> {
    micros.map(|micros| Duration::from_micros(micros.max(0).unsigned_abs()))
}

pub(super) fn steps_of(row: &PgRow) -> u32 {
    u32::try_from(row.get::<i16, _>("steps")).unwrap_or(0)
}

/// Reads the columns of fragments/columns.sql, which are the first of every statement that has them: to look up their
/// names and to compare their types in every row was a third of a worker's time. What most events have in common is null.
pub(super) fn event_of(row: &PgRow) -> Result<Event> {
    let read = || -> sqlx::Result<Event> {
        let headers: Option<sqlx::types::Json<Headers>> = row.try_get_unchecked(12)?;
        Ok(Event {
            seq: row.try_get_unchecked(0)?,
            id: EventId(row.try_get_unchecked(1)?),
            namespace: row
                .try_get_unchecked::<Option<_>, _>(2)?
                .unwrap_or_else(|| DEFAULT_NAMESPACE.to_owned()),
            topic: row.try_get_unchecked(3)?,
            event_type: row.try_get_unchecked(4)?,
            key: row.try_get_unchecked(5)?,
            aggregate_type: row.try_get_unchecked(6)?,
            aggregate_id: row.try_get_unchecked(7)?,
            tenant_id: row.try_get_unchecked(8)?,
            dedupe_key: row.try_get_unchecked(9)?,
            payload: row.try_get_unchecked(10)?,
            content_type: row.try_get_unchecked::<Option<_>, _>(11)?.unwrap_or_else(|| JSON.to_owned()),
            headers: headers.map(|json| json.0).unwrap_or_default(),
            available_at: row.try_get_unchecked(13)?,
            created_at: row.try_get_unchecked(14)?,
        })
    };
    read().map_err(Error::database("read an event"))
}
