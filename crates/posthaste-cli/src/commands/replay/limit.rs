//! The limit of a replay: put over the subscription's rate, and taken away so that nothing is left of it.

use posthaste::Admin;
use posthaste::admin::{SettingsChange, SubscriptionState};

use crate::failure::Failure;

/// A rate that lies over the declared one until the replay is done.
#[derive(Debug)]
pub(super) struct Limit {
    subscription: String,
    rate: u32,
    /// What an operator had put there before; `None`: nothing, so that nothing must be left.
    former: Option<u32>,
}

impl Limit {
    pub(super) async fn set(
        admin: &Admin,
        before: &SubscriptionState,
        rate: Option<u32>,
    ) -> Result<Option<Self>, Failure> {
        let Some(rate) = rate else { return Ok(None) };
        let overridden = before.overridden.iter().any(|name| name == "rate");
        let limit = Self {
            subscription: before.name.clone(),
            rate,
            former: overridden.then_some(before.settings.rate),
        };
        limit.put(admin, rate).await?;
        Ok(Some(limit))
    }

    /// As it was before.
    pub(super) async fn take_away(limit: Option<&Self>, admin: &Admin) -> Result<(), Failure> {
        let Some(limit) = limit else { return Ok(()) };
        match limit.former {
            Some(rate) => limit.put(admin, rate).await,
            None => Ok(admin.reset_only(&limit.subscription, &["rate"]).await?),
        }
    }

    async fn put(&self, admin: &Admin, rate: u32) -> Result<(), Failure> {
        let change = SettingsChange::new(|settings| settings.rate = Some(rate));
        Ok(admin.change_settings(&self.subscription, change).await?)
    }

    /// Nobody here sees the end of the replay, and nobody else takes the limit away.
    pub(super) fn say_that_it_stays(&self) {
        let Self { subscription, rate, former } = self;
        let events = if *rate == 1 { "event" } else { "events" };
        eprintln!("The limit of {rate} {events} a second stays. When the replay is done, type:");
        match former {
            Some(former) => eprintln!("  posthaste subscriptions set {subscription} --rate {former}"),
            None => eprintln!("  posthaste subscriptions set {subscription} --reset rate"),
        }
    }
}
