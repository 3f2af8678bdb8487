//! SQLite, the embedded default: one file, one writer at a time, nothing to install.
//!
//! Commit order is `seq` order here, so a mark is just a seq and needs no snapshot. What this store owns instead is
//! patience: every write of ours is a `BEGIN IMMEDIATE` transaction, and a busy database is waited for, never reported.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sqlx::SqlitePool;
use sqlx::sqlite::{SqliteConnectOptions, SqliteSynchronous};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::error::Result;
use crate::id::Token;
use crate::lease::{Batch, DeliveryClaim, DeliverySettlement, Holder, Lane, LaneClaim, Reader, Trouble};
use crate::observe::Bell;
use crate::store::{BatchRef, Cursor, Fresh, Handled, Hold, Sign, Store};
use crate::subscription::Subscription;

mod statements;
#[macro_use]
mod busy;
mod convert;
mod migrate;
mod enqueue;
mod declare;
mod read;
mod plain;
mod lanes;
mod deliveries;
mod settle;
mod ahead;
mod claim;
mod takeover;
mod wake;
mod admin;
#[cfg(feature = "testing")]
mod testing;
#[cfg(test)]
mod tests;

pub(crate) use ahead::Ahead;

/// The log in a SQLite database.
#[derive(Debug, Clone)]
pub(crate) struct SqliteStore {
    pub(crate) pool: SqlitePool,
    /// Writers of this process take turns here, first come first served; SQLite's own waiting sleeps and is not fair.
    turns: Arc<Mutex<()>>,
}

impl SqliteStore {
    pub(crate) fn new(pool: SqlitePool) -> Self {
        Self { pool, turns: Arc::default() }
    }
}

/// How to open a database file that holds the log. FULL: a commit survives a power failure, as a claim must before the
/// first send. The journal mode is not set here but by `migrate`, once for all connections to come: it is a property of
/// the file, and two connections that set it at the same moment are told that the database is locked, whatever their
/// busy timeout.
pub fn sqlite_options(path: impl AsRef<Path>) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .synchronous(SqliteSynchronous::Full)
        .foreign_keys(true)
        .busy_timeout(Duration::from_secs(30))
}

#[async_trait]
impl Store for SqliteStore {
    async fn migrate(&self) -> Result<()> {
        for_a_while!(self.use_wal())?;
        for_a_while!(self.run_migrations())
    }

    fn migration_sql(&self) -> Vec<String> {
        self.printed_migrations()
    }

    fn schema_version(&self) -> usize {
        migrate::needed_version()
    }

    async fn check(&self) -> Result<()> {
        patiently!(self.check_database())
    }

    async fn declare(&self, subscription: &Subscription) -> Result<Reader> {
        patiently!(self.declare_subscription(subscription))
    }

    async fn reader(&self, name: &str) -> Result<Reader> {
        patiently!(self.load_reader(name))
    }

    async fn readers(&self) -> Result<Vec<Reader>> {
        patiently!(self.load_readers())
    }

    async fn claim_lane(&self, reader: &Reader, holder: &Holder) -> Result<Option<LaneClaim>> {
        patiently!(self.take_lane(reader, holder))
    }

    async fn claim_fresh(
        &self,
        reader: &Reader,
        lane: Lane,
        owner: Option<Token>,
        holder: &Holder,
        cursor: &mut Cursor,
    ) -> Result<Fresh> {
        patiently!(self.claim_page(reader, lane, owner, holder, cursor))
    }

    async fn reclaim_batch(&self, reader: &Reader, holder: &Holder) -> Result<Option<Batch>> {
        patiently!(self.take_expired_batch(reader, holder))
    }

    async fn claim_deliveries(
        &self,
        reader: &Reader,
        holder: &Holder,
        limit: u32,
        solo_allowed: bool,
    ) -> Result<Vec<DeliveryClaim>> {
        patiently!(self.take_due_deliveries(reader, holder, limit, solo_allowed))
    }

    async fn open_lane(&self, reader: &Reader) -> Result<Lane> {
        patiently!(self.find_open_lane(reader))
    }

    async fn settle_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        patiently!(self.finish_batch(reader, batch, troubles, holder))
    }

    async fn record_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        handled: &Handled,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        patiently!(self.record_progress(reader, batch, handled, troubles, holder))
    }

    async fn hold_batch(
        &self,
        reader: &Reader,
        batch: BatchRef,
        hold: &Hold,
        troubles: &[Trouble],
        holder: &Holder,
    ) -> Result<bool> {
        patiently!(self.record_hold(reader, batch, hold, troubles, holder))
    }

    async fn settle_deliveries(
        &self,
        reader: &Reader,
        settlements: &[DeliverySettlement],
    ) -> Result<Vec<i64>> {
        patiently!(self.write_settlements(reader, settlements))
    }

    async fn renew(&self, reader: &Reader, tokens: &[Token], lease: Duration) -> Result<Vec<Token>> {
        patiently!(self.renew_leases(reader, tokens, lease))
    }

    async fn release_lane(&self, reader: &Reader, lane: Lane, token: Token) -> Result<()> {
        patiently!(self.give_lane_back(reader, lane, token))
    }

    async fn announce_worker(&self, reader: &Reader, holder: &Holder) -> Result<u32> {
        patiently!(self.say_alive(reader, holder))
    }

    async fn dismiss_worker(&self, reader: &Reader, holder: &Holder) -> Result<()> {
        patiently!(self.say_goodbye(reader, holder))
    }

    async fn next_due(&self, reader: &Reader, solo_allowed: bool) -> Result<Option<Duration>> {
        patiently!(self.time_to_next_due(reader, solo_allowed))
    }

    async fn watch(&self, bell: Arc<Bell>, stop: CancellationToken) {
        self.watch_file(bell, stop).await;
    }

    /// Nobody needs to ring: the watch sees every commit to the file.
    async fn put_up_sign(&self, _lasting: Duration) -> Result<Sign> {
        Ok(Sign { before: None })
    }

    async fn draw_xid(&self) -> Result<Sign> {
        Ok(Sign { before: None })
    }

    async fn all_ended(&self, _sign: &Sign) -> Result<bool> {
        Ok(true)
    }
}
