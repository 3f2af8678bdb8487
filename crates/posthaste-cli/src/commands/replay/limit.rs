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
    /// The one that was asked for, if any; nothing is changed yet.
    pub(super) fn over(before: &SubscriptionState, rate: Option<u32>) -> Option<Self> {
        let overridden = before.overridden.iter().any(|name| name == "rate");
        let (subscription, former) = (before.name.clone(), overridden.then_some(before.settings.rate));
        rate.map(|rate| Self { subscription, rate, former })
    }

    pub(super) async fn set(&self, admin: &Admin) -> Result<(), Failure> {
        self.put(admin, self.rate).await
    }

    /// As it was before. If that cannot be done, it is said: whatever went wrong before must not be hidden by it.
    pub(super) async fn take_away(&self, admin: &Admin) {
        let taken = match self.former {
            Some(rate) => self.put(admin, rate).await,
            None => admin.reset_only(&self.subscription, &["rate"]).await.map_err(Failure::from),
        };
        if taken.is_err() {
            self.say_that_it_stays();
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
