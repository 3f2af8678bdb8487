//! What `[defaults]` and every subscription may say: order, start, the tunable settings, the envelope.

use std::time::Duration;

use chrono::{DateTime, Utc};
use posthaste::{AfterDead, ClaimBy, Order, Settings, Start};
use posthaste_sinks::{Envelope, Section};

/// A policy. What a table leaves out comes from the policy it stands on.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Policy {
    pub(crate) order: Order,
    pub(crate) claim_by: ClaimBy,
    pub(crate) after_dead: AfterDead,
    pub(crate) lanes: u16,
    pub(crate) start: Start,
    pub(crate) settings: Settings,
    /// `None`: it depends on the sink.
    pub(crate) max_attempts: Option<u32>,
    pub(crate) envelope: Envelope,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            order: Order::default(),
            claim_by: ClaimBy::default(),
            after_dead: AfterDead::default(),
            lanes: 1,
            start: Start::default(),
            settings: Settings::default(),
            max_attempts: None,
            envelope: Envelope::default(),
        }
    }
}

impl Policy {
    /// Reads the fields it knows; the caller reads others and finishes the section.
    pub(super) fn check(section: &Section<'_>, usual: &Self) -> Self {
        let orders = [("key", Order::Key), ("none", Order::None), ("strict", Order::Strict)];
        let claims = [("batch", ClaimBy::Batch), ("event", ClaimBy::Event)];
        let after = [("skip", AfterDead::Skip), ("block", AfterDead::Block)];
        Self {
            order: section.choice("order", &orders).unwrap_or(usual.order),
            claim_by: section.choice("claim_by", &claims).unwrap_or(usual.claim_by),
            after_dead: section.choice("after_dead", &after).unwrap_or(usual.after_dead),
            lanes: section.number("lanes", 1..=256).unwrap_or(usual.lanes),
            start: start(section).unwrap_or(usual.start),
            settings: settings(section, usual.settings),
            max_attempts: section.number("max_attempts", 1..=10_000).or(usual.max_attempts),
            envelope: Envelope::validate_over(section, &usual.envelope),
        }
    }
}

fn start(section: &Section<'_>) -> Option<Start> {
    let text = section.text("start")?;
    match text.as_str() {
        "now" => Some(Start::Now),
        "beginning" => Some(Start::Beginning),
        time => match DateTime::parse_from_rfc3339(time) {
            Ok(time) => Some(Start::Time(time.with_timezone(&Utc))),
            Err(_) => {
                let sentence = "expected \"now\", \"beginning\" or a time such as \"2026-01-01T00:00:00Z\"";
                section.problem("start", format!("{sentence}, got {text:?}"));
                None
            }
        },
    }
}

fn settings(section: &Section<'_>, usual: Settings) -> Settings {
    let day = Duration::from_secs(86_400);
    let within = |name: &str, least: u64, usual: Duration| {
        section.duration(name, Duration::from_millis(least)..=day).unwrap_or(usual)
    };
    let mut settings = usual;
    settings.batch_size = section.number("batch_size", 1..=10_000).unwrap_or(usual.batch_size);
    settings.concurrency = section.number("concurrency", 1..=10_000).unwrap_or(usual.concurrency);
    settings.poll_interval = within("poll_interval", 1, usual.poll_interval);
    settings.lease = within("lease", 100, usual.lease);
    settings.base_delay = within("base_delay", 1, usual.base_delay);
    settings.max_delay = within("max_delay", 1, usual.max_delay);
    settings.timeout = within("timeout", 1, usual.timeout);
    settings.rate = section.number("rate", 0..=1_000_000).unwrap_or(usual.rate);
    if settings.base_delay > settings.max_delay {
        let (base, max) = (settings.base_delay, settings.max_delay);
        section.problem("base_delay", format!("{base:?} is longer than max_delay, {max:?}; make it shorter"));
    }
    settings
}
