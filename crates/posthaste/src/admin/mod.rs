//! Operating Posthaste: look, and act as a person. The CLI and the dashboard speak to this and to nothing else.
//!
//! Reads are bounded, whatever the size of the log. Verbs take effect in running workers by themselves and never touch
//! what a worker holds under a live lease, except [`Admin::replay`], which takes lanes away on purpose.

use crate::error::{Error, InvalidEvent, Result};
use crate::event::Event;
use crate::handle::Posthaste;
use crate::id::EventId;
use crate::outcome::DeliveryStatus;
use crate::store::admin::{AdminStore, Override, Verb};

pub use crate::store::admin::{
    BlockedKey, Count, DeliveryQuery, EventDetail, EventPage, EventQuery, EventState, EventStatus, Found,
    HeldBack, LaneState, Operation, Reading, RebaseReport, Redelivery, ReplayFrom, RetentionPolicy,
    RetentionReport, SettingsChange, SubscriptionState,
};

/// How far counts go before they say "more than".
const COUNT_LIMIT: u32 = 10_000;

/// What people may ask and do.
#[derive(Debug, Clone)]
pub struct Admin {
    posthaste: Posthaste,
    who: String,
    count_limit: u32,
}

impl Posthaste {
    /// To look at it and to operate it.
    pub fn admin(&self) -> Admin {
        Admin { posthaste: self.clone(), who: "admin".to_owned(), count_limit: COUNT_LIMIT }
    }
}

impl Admin {
    /// Says who acts; it is recorded with every verb.
    pub fn acting_as(mut self, who: impl Into<String>) -> Self {
        self.who = who.into();
        self
    }

    /// How far counts go before they say "more than". Default 10,000.
    pub fn counting_to(mut self, limit: u32) -> Self {
        self.count_limit = limit.max(1);
        self
    }

    fn store(&self) -> &dyn AdminStore {
        self.posthaste.admin_store.as_ref()
    }

    // --- looking

    /// How every subscription stands, by name.
    pub async fn subscriptions(&self) -> Result<Vec<SubscriptionState>> {
        let mut states = Vec::new();
        for name in self.store().subscription_names().await? {
            match self.subscription(&name).await {
                Ok(state) => states.push(state),
                // Deleted since the names were read.
                Err(Error::NoSuchSubscription(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(states)
    }

    /// How a subscription stands.
    pub async fn subscription(&self, name: &str) -> Result<SubscriptionState> {
        self.store().subscription_state(name, self.count_limit).await
    }

    /// Lists or searches events, a page at a time. Looking is bounded; the page says how far it looked.
    pub async fn events(&self, query: &EventQuery) -> Result<EventPage> {
        if !(1..=500).contains(&query.limit) {
            return Err(Error::invalid_setting("limit", format!("{} is not 1 to 500", query.limit)));
        }
        if query.status.is_some() && query.subscription.is_none() {
            return Err(Error::invalid_setting(
                "status",
                "an event has a status only in a subscription; name one",
            ));
        }
        if query.error_contains.is_some() && query.subscription.is_none() {
            return Err(Error::invalid_setting(
                "error",
                "an event has an error only in a subscription; name one",
            ));
        }
        self.store().search(query).await
    }

    /// An event, with its state and its attempts in every subscription that wants it.
    pub async fn event(&self, id: EventId) -> Result<EventDetail> {
        self.store().event_detail(id).await
    }

    /// What people did, newest first.
    pub async fn operations(&self, limit: u32) -> Result<Vec<Operation>> {
        self.store().operations(limit).await
    }

    /// What people did to one event, oldest first.
    pub async fn operations_on(&self, id: EventId) -> Result<Vec<Operation>> {
        self.store().operations_on(id).await
    }

    /// In which batches an event was read, as far as the journal is kept.
    pub async fn readings(&self, event: &Event) -> Result<Vec<Reading>> {
        self.store().readings(event).await
    }

    /// Keys whose events wait for the one at their head, those with most of them first: behind a retry they go on by
    /// themselves, behind a dead letter (with the policy `block`) they wait for a person.
    pub async fn blocked_keys(&self, subscription: &str, limit: u32) -> Result<Vec<BlockedKey>> {
        self.store().blocked_keys(subscription, self.count_limit, limit).await
    }

    // --- deliveries

    /// How many deliveries match: what a verb would be for.
    pub async fn count(&self, query: &DeliveryQuery) -> Result<Count> {
        self.store().count_deliveries(query, self.count_limit).await
    }

    /// Tries dead or waiting deliveries again, now, with all attempts before them. Steps that a sink has finished stay
    /// finished. Returns how many.
    pub async fn retry(&self, query: &DeliveryQuery) -> Result<u64> {
        self.apply(&Verb::Retry { payload: None }, query).await
    }

    /// Tries one event again with another body, from its first step on; the log keeps the one that was enqueued.
    pub async fn edit_and_retry(
        &self,
        subscription: &str,
        id: EventId,
        payload: impl Into<Vec<u8>>,
    ) -> Result<u64> {
        let payload: Vec<u8> = payload.into();
        let (len, max) = (payload.len(), self.posthaste.max_payload());
        if len > max {
            return Err(InvalidEvent::PayloadTooLarge { len, max }.into());
        }
        let query = DeliveryQuery::event(subscription, id);
        self.apply(&Verb::Retry { payload: Some(payload) }, &query).await
    }

    /// Delivers one event once more to one subscription, whatever became of it: from its first step on, with all attempts
    /// before it, and in the order of its key. One that was not delivered yet comes anyway. Safe to repeat.
    ///
    /// # Errors
    /// [`Error::NoSuchEvent`] if retention has removed it; [`Error::NotWanted`] if the subscription leaves it out.
    pub async fn redeliver(&self, subscription: &str, id: EventId) -> Result<Redelivery> {
        let redelivery = self.store().redeliver(subscription, id, &self.who).await?;
        self.posthaste.wake();
        Ok(redelivery)
    }

    /// Takes deliveries out of the way as if they were done, so that their keys go on. Returns how many.
    pub async fn skip(&self, query: &DeliveryQuery) -> Result<u64> {
        self.apply(&Verb::Skip, query).await
    }

    /// Gives dead letters up for good. Returns how many.
    pub async fn discard(&self, query: &DeliveryQuery) -> Result<u64> {
        let dead = query.clone().only(|query| query.status = Some(DeliveryStatus::Dead));
        self.apply(&Verb::Discard, &dead).await
    }

    /// Lets a key go on although its head is dead; the dead letters stay. Returns how many no longer hold the key.
    pub async fn release_key(&self, subscription: &str, key: &str) -> Result<u64> {
        let released = self.store().release_key(subscription, key, &self.who).await?;
        self.posthaste.wake();
        Ok(released)
    }

    async fn apply(&self, verb: &Verb, query: &DeliveryQuery) -> Result<u64> {
        let changed = self.store().apply(verb, query, &self.who).await?;
        self.posthaste.wake();
        Ok(changed)
    }

    // --- subscriptions

    /// Stops claiming, in every process, within a second; what is being handled is finished. `false`: it was paused.
    pub async fn pause(&self, subscription: &str) -> Result<bool> {
        self.store().set_paused(subscription, true, &self.who).await
    }

    /// Goes on. `false`: it was not paused.
    pub async fn resume(&self, subscription: &str) -> Result<bool> {
        self.store().set_paused(subscription, false, &self.who).await
    }

    /// Puts settings over the declared ones; running workers take them up within a second. What comes out must be valid
    /// as a whole.
    pub async fn change_settings(&self, subscription: &str, change: SettingsChange) -> Result<()> {
        self.store().override_settings(subscription, Override::Put(change), &self.who).await
    }

    /// Goes back to the declared settings, all of them.
    pub async fn reset_settings(&self, subscription: &str) -> Result<()> {
        self.store().override_settings(subscription, Override::TakeAll, &self.who).await
    }

    /// Goes back to what is declared for these settings, by their [names](SettingsChange::NAMES); what lies over the others
    /// stays. What comes out must be valid as a whole.
    pub async fn reset_only(&self, subscription: &str, settings: &[&str]) -> Result<()> {
        self.store().override_settings(subscription, Override::Take(settings), &self.who).await
    }

    /// Removes a subscription with its progress and its deliveries. Refused while a worker holds something of it.
    pub async fn delete_subscription(&self, subscription: &str) -> Result<()> {
        self.store().delete_subscription(subscription, &self.who).await
    }

    /// Makes a subscription read again from a place on, and then on as usual; returns the seq it reads from. Events that
    /// have a delivery are left to it, but begin with their first step again. Workers lose their lanes and take them again, so what they handle at this moment
    /// may be delivered twice.
    pub async fn replay(&self, subscription: &str, from: ReplayFrom) -> Result<i64> {
        let seq = self.store().replay(subscription, from, &self.who).await?;
        self.posthaste.wake();
        Ok(seq)
    }

    // --- the log

    /// Removes events that are old enough and that nobody needs, and what else has served its time. Safe at any time and
    /// from many processes; small transactions.
    pub async fn retain(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.store().retain(policy).await
    }

    /// How many events [`retain`](Self::retain) would remove now, and what holds the others back. Changes nothing.
    pub async fn preview_retention(&self, policy: &RetentionPolicy) -> Result<RetentionReport> {
        self.store().preview_retention(policy).await
    }

    /// After dump and restore, or a logical move: ties every subscription to the transaction ids of this cluster. Loses
    /// nothing, neither old events nor those enqueued here before it ran.
    pub async fn rebase(&self) -> Result<RebaseReport> {
        self.store().rebase(&self.who).await
    }

    /// After pg_upgrade, which gives the cluster a new identity but keeps transaction ids: records that, and no more.
    pub async fn keep(&self) -> Result<()> {
        self.store().keep(&self.who).await
    }
}
