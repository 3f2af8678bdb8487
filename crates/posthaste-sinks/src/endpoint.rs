//! What every sink here is, beyond delivering pages.

use std::time::Duration;

use async_trait::async_trait;
use posthaste::{Settings, Sink};

use crate::envelope::Envelope;

/// What a sink knows of the subscription it serves.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Route {
    /// The subscription's name.
    pub subscription: String,
    /// Whether events of one key must arrive in order.
    pub in_key_order: bool,
    /// How events become messages.
    pub envelope: Envelope,
    /// How long after the first time an event may be sent once more: its lease and its longest delay.
    pub repeats_within: Duration,
}

impl Route {
    /// A subscription in key order, with CloudEvents in binary form.
    pub fn new(subscription: impl Into<String>) -> Self {
        let usual = Settings::default();
        Self {
            subscription: subscription.into(),
            in_key_order: true,
            envelope: Envelope::default(),
            repeats_within: usual.lease + usual.max_delay,
        }
    }

    /// With the lease and the delays of these settings.
    pub fn settings(mut self, settings: &Settings) -> Self {
        self.repeats_within = settings.lease + settings.max_delay;
        self
    }

    /// Without any order among events.
    pub fn without_order(mut self) -> Self {
        self.in_key_order = false;
        self
    }

    /// With another envelope.
    pub fn envelope(mut self, envelope: Envelope) -> Self {
        self.envelope = envelope;
        self
    }
}

/// A sink with a server behind it. `Sink::check` is its health check.
#[async_trait]
pub trait Endpoint: Sink {
    /// What it is and where, without secrets, as in `kafka at 10.0.0.1:9092`.
    fn describe(&self) -> String;

    /// What an operator should know although it works: missing durability, limits that do not fit.
    async fn warnings(&self) -> Vec<String> {
        Vec::new()
    }
}
