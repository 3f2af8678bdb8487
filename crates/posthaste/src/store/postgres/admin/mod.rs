//! Operating a log in PostgreSQL: the questions and verbs of the admin module. Nothing here is on the way of an event.

use async_trait::async_trait;
use sqlx::postgres::PgConnection;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::lease::Reader;
use crate::store::admin::{
    AdminStore, BlockedKey, Count, DeliveryQuery, EventDetail, EventPage, EventQuery, Operation, Override,
    Reading, RebaseReport, Redelivery, ReplayFrom, RetentionPolicy, RetentionReport, SubscriptionState, Verb,
};

use super::PgStore;

mod position;
mod state;
mod search;
mod questions;
mod verbs;
mod redeliver;
mod subscriptions;
mod replay;
mod retain;
mod rebase;

#[async_trait]
impl AdminStore for PgStore {
    async fn subscription_names(&self) -> Result<Vec<String>> {
        self.patiently("list subscriptions", self.list_names()).await
    }

    async fn subscription_state(&self, name: &str, limit: u32) -> Result<SubscriptionState> {
        self.patiently("count what a subscription has", self.state_of(name, limit)).await
    }

    async fn search(&self, query: &EventQuery) -> Result<EventPage> {
        self.patiently("search", self.search_events(query)).await
    }

    async fn event_detail(&self, id: EventId) -> Result<EventDetail> {
        self.patiently("show an event", self.detail_of(id)).await
    }

    async fn readings(&self, event: &Event) -> Result<Vec<Reading>> {
        self.patiently("look into the journal", self.readings_of(event)).await
    }

    async fn blocked_keys(&self, subscription: &str, look_at: u32, limit: u32) -> Result<Vec<BlockedKey>> {
        self.patiently("list blocked keys", self.list_blocked(subscription, look_at, limit)).await
    }

    async fn count_deliveries(&self, query: &DeliveryQuery, limit: u32) -> Result<Count> {
        self.patiently("count deliveries", self.count_matching(query, limit)).await
    }

    async fn apply(&self, verb: &Verb, query: &DeliveryQuery, who: &str) -> Result<u64> {
        self.patiently("change deliveries", self.apply_verb(verb, query, who)).await
    }

    async fn redeliver(&self, subscription: &str, id: EventId, who: &str) -> Result<Redelivery> {
        self.patiently("deliver an event again", self.deliver_again(subscription, id, who)).await
    }

    async fn release_key(&self, subscription: &str, key: &str, who: &str) -> Result<u64> {
        self.patiently("release a key", self.let_key_go_on(subscription, key, who)).await
    }

    async fn set_paused(&self, subscription: &str, paused: bool, who: &str) -> Result<bool> {
        self.patiently("pause or resume a subscription", self.pause_or_resume(subscription, paused, who))
            .await
    }

    async fn override_settings(&self, subscription: &str, change: Override<'_>, who: &str) -> Result<()> {
        self.patiently("change settings", self.write_overrides(subscription, change, who)).await
    }

    async fn delete_subscription(&self, subscription: &str, who: &str) -> Result<()> {
        self.patiently("delete a subscription", self.remove_subscription(subscription, who)).await
    }

    async fn replay(&self, subscription: &str, from: ReplayFrom, who: &str) -> Result<i64> {
        self.patiently("replay", self.read_again(subscription, from, who)).await
    }

    async fn retain(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.patiently("run retention", self.run_retention(policy)).await
    }

    async fn preview_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.patiently("preview retention", self.preview(policy)).await
    }

    async fn rebase(&self, who: &str) -> Result<RebaseReport> {
        self.patiently("rebase", self.rebase_cluster(who)).await
    }

    async fn keep(&self, who: &str) -> Result<()> {
        self.patiently("keep", self.keep_cluster(who)).await
    }

    async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        self.patiently("list operations", self.list_operations(limit)).await
    }

    async fn operations_on(&self, id: EventId) -> Result<Vec<Operation>> {
        self.patiently("list operations", self.list_operations_on(id)).await
    }
}

impl PgStore {
    async fn list_names(&self) -> Result<Vec<String>> {
        self.query_scalar(self.sql.admin_names.clone())
            .fetch_all(&mut *self.lend("list subscriptions").await?)
            .await
            .map_err(Error::database("list subscriptions"))
    }

    /// Leaves a line about a verb, in the transaction that carries it out.
    async fn record(
        &self,
        tx: &mut PgConnection,
        who: &str,
        verb: &str,
        subscription: Option<&str>,
        detail: serde_json::Value,
    ) -> Result<()> {
        self.query(self.sql.admin_record.clone())
            .bind(who)
            .bind(verb)
            .bind(subscription)
            .bind(detail)
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("record an operation"))
    }

    /// Puts the waiting events of keys in order after rows of them came, went or changed.
    async fn repark(&self, tx: &mut PgConnection, reader: &Reader, mut keys: Vec<String>) -> Result<()> {
        keys.sort_unstable();
        keys.dedup();
        if keys.is_empty() || !reader.keyed() {
            return Ok(());
        }
        self.query(self.sql.admin_repark_keys.clone())
            .bind(reader.id)
            .bind(keys)
            .bind(reader.dead_blocks())
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("put keys in order"))
    }

    /// The first lock of what moves subscriptions, so that retention does not run at the same moment.
    async fn lock_meta(&self, tx: &mut PgConnection) -> Result<()> {
        self.query(self.sql.admin_lock_meta.clone())
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("keep retention away"))
    }

    async fn lock_lanes(&self, tx: &mut PgConnection, reader: &Reader) -> Result<()> {
        self.query(self.sql.lock_lanes.clone())
            .bind(reader.id)
            .execute(tx)
            .await
            .map(|_| ())
            .map_err(Error::database("lock lanes"))
    }
}
