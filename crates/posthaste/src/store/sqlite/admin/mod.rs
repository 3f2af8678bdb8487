//! Operating a log in SQLite: the questions and verbs of the admin module. Nothing here is on the way of an event.
//!
//! A mark is just a seq, and every verb has the write lock from its first statement on: nobody can be faster.

use async_trait::async_trait;
use serde_json::Value;
use sqlx::SqliteConnection;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::lease::Reader;
use crate::store::admin::{
    AdminStore, BlockedKey, Count, DeliveryQuery, EventDetail, EventPage, EventQuery, Operation, Override,
    Reading, RebaseReport, Redelivery, ReplayFrom, RetentionPolicy, RetentionReport, SubscriptionState, Verb,
};

use super::SqliteStore;
use super::convert::json;
use super::statements::SQL;

mod position;
mod state;
mod search;
mod questions;
mod verbs;
mod redeliver;
mod subscriptions;
mod replay;
mod retain;

#[async_trait]
impl AdminStore for SqliteStore {
    async fn subscription_names(&self) -> Result<Vec<String>> {
        for_a_while!(self.list_names())
    }

    async fn subscription_state(&self, name: &str, limit: u32) -> Result<SubscriptionState> {
        for_a_while!(self.state_of(name, limit))
    }

    async fn search(&self, query: &EventQuery) -> Result<EventPage> {
        for_a_while!(self.search_events(query))
    }

    async fn event_detail(&self, id: EventId) -> Result<EventDetail> {
        for_a_while!(self.detail_of(id))
    }

    async fn readings(&self, event: &Event) -> Result<Vec<Reading>> {
        for_a_while!(self.readings_of(event))
    }

    async fn blocked_keys(&self, subscription: &str, look_at: u32, limit: u32) -> Result<Vec<BlockedKey>> {
        for_a_while!(self.list_blocked(subscription, look_at, limit))
    }

    async fn count_deliveries(&self, query: &DeliveryQuery, limit: u32) -> Result<Count> {
        for_a_while!(self.count_matching(query, limit))
    }

    async fn apply(&self, verb: &Verb, query: &DeliveryQuery, who: &str) -> Result<u64> {
        self.apply_verb(verb, query, who).await
    }

    async fn redeliver(&self, subscription: &str, id: EventId, who: &str) -> Result<Redelivery> {
        for_a_while!(self.deliver_again(subscription, id, who))
    }

    async fn release_key(&self, subscription: &str, key: &str, who: &str) -> Result<u64> {
        for_a_while!(self.let_key_go_on(subscription, key, who))
    }

    async fn set_paused(&self, subscription: &str, paused: bool, who: &str) -> Result<bool> {
        for_a_while!(self.pause_or_resume(subscription, paused, who))
    }

    async fn override_settings(&self, subscription: &str, change: Override<'_>, who: &str) -> Result<()> {
        for_a_while!(self.write_overrides(subscription, change, who))
    }

    async fn delete_subscription(&self, subscription: &str, who: &str) -> Result<()> {
        for_a_while!(self.remove_subscription(subscription, who))
    }

    async fn replay(&self, subscription: &str, from: ReplayFrom, who: &str) -> Result<i64> {
        for_a_while!(self.read_again(subscription, from, who))
    }

    async fn retain(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.run_retention(policy).await
    }

    async fn preview_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        for_a_while!(self.preview(policy))
    }

    /// Refused: marks are seqs of the file itself, so a file can be copied, moved and restored as it is.
    async fn rebase(&self, _who: &str) -> Result<RebaseReport> {
        let problem =
            "a SQLite file carries its marks with it, also when it is copied; there is nothing to rebase";
        Err(Error::invalid_setting("rebase", problem))
    }

    /// Refused, as [`rebase`](Self::rebase): there is no cluster whose identity could change.
    async fn keep(&self, _who: &str) -> Result<()> {
        let problem = "a SQLite file belongs to no cluster; there is nothing to keep";
        Err(Error::invalid_setting("keep", problem))
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        for_a_while!(self.list_operations(limit))
    }

    async fn operations_on(&self, id: EventId) -> Result<Vec<Operation>> {
        for_a_while!(self.list_operations_on(id))
    }
}

impl SqliteStore {
    async fn list_names(&self) -> Result<Vec<String>> {
        sqlx::query_scalar(SQL.admin_names.clone())
            .fetch_all(&self.pool)
            .await
            .map_err(Error::database("list subscriptions"))
    }
}

/// Leaves a line about a verb, in the transaction that carries it out.
async fn record(
    tx: &mut SqliteConnection,
    who: &str,
    verb: &str,
    subscription: &str,
    detail: Value,
) -> Result<()> {
    sqlx::query(SQL.admin_record.clone())
        .bind(who)
        .bind(verb)
        .bind(subscription)
        .bind(detail.to_string())
        .execute(tx)
        .await
        .map(|_| ())
        .map_err(Error::database("record an operation"))
}

/// Puts the waiting events of keys in order after rows of them came, went or changed.
async fn repark(tx: &mut SqliteConnection, reader: &Reader, mut keys: Vec<String>) -> Result<()> {
    keys.sort_unstable();
    keys.dedup();
    if keys.is_empty() || !reader.keyed() {
        return Ok(());
    }
    sqlx::query(SQL.admin_repark_keys.clone())
        .bind(reader.id)
        .bind(json(&keys)?)
        .bind(reader.dead_blocks())
        .execute(tx)
        .await
        .map(|_| ())
        .map_err(Error::database("put keys in order"))
}

/// Leaves a line about each delivery that is about to change, with what it says until then.
async fn record_deliveries(
    tx: &mut SqliteConnection,
    reader: &Reader,
    seqs: &[i64],
    who: &str,
    verb: &str,
) -> Result<()> {
    sqlx::query(SQL.admin_record_deliveries.clone())
        .bind(reader.id)
        .bind(json(&seqs)?)
        .bind(who)
        .bind(verb)
        .execute(tx)
        .await
        .map(|_| ())
        .map_err(Error::database("record an operation"))
}
