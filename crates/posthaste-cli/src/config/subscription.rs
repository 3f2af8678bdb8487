//! `[subscriptions.NAME]`: who gets which events, how, and where they go.

use posthaste::{Filter, Order, Settings, Subscription, SubscriptionName};
use posthaste_sinks::Section;

use super::database::without_prefix;
use super::policy::Policy;
use super::sink::SinkConfig;
use crate::registry::RegistryConfig;

/// Attempts if nobody says otherwise and a server is behind the sink: outages and throttling are part of its life.
const ATTEMPTS_WITH_A_SERVER: u32 = 25;

/// A subscription, checked. Comparable, so that a reload restarts only what changed.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct SubscriptionConfig {
    pub(crate) name: String,
    pub(crate) filter: Filter,
    pub(crate) policy: Policy,
    pub(crate) sink: SinkConfig,
    /// Events that do not fit it are dead before they reach the sink.
    pub(crate) registry: Option<RegistryConfig>,
}

impl SubscriptionConfig {
    pub(super) fn check(
        name: &str,
        section: &Section<'_>,
        usual: &Policy,
        registry: Option<&RegistryConfig>,
    ) -> Option<Self> {
        if let Err(error) = SubscriptionName::parse(name) {
            section.problem("", without_prefix(&error));
        }
        let (filter, policy) = (filter(section), Policy::check(section, usual));
        let sink = SinkConfig::check(section, policy.settings.timeout);
        misplaced_steps(section);
        let registry = registry.filter(|_| section.flag("registry").unwrap_or(true)).cloned();
        // Without a registry the word may still be written.
        section.value("registry");
        section.finish();
        let checked = Self { name: name.to_owned(), filter, policy, sink: sink?, registry };
        checked.note_contradictions(section);
        Some(checked)
    }

    /// What no single value is to blame for.
    fn note_contradictions(&self, section: &Section<'_>) {
        let delays = self.settings().base_delay > self.settings().max_delay;
        if let Some(Err(posthaste::Error::InvalidSetting { setting, problem })) =
            self.declaration().ok().map(|declared| declared.validate())
            && !delays
        {
            section.problem(&setting, problem);
        }
    }

    /// The tunable settings, with the attempts that suit the sink.
    pub(crate) fn settings(&self) -> Settings {
        let mut settings = self.policy.settings;
        settings.max_attempts = match self.policy.max_attempts {
            Some(attempts) => attempts,
            None if self.sink.has_server() => ATTEMPTS_WITH_A_SERVER,
            None => settings.max_attempts,
        };
        settings
    }

    /// The declaration for the engine.
    pub(crate) fn declaration(&self) -> posthaste::Result<Subscription> {
        let policy = &self.policy;
        let mut declared = Subscription::new(&self.name)?
            .order(policy.order)
            .claim_by(policy.claim_by)
            .after_dead(policy.after_dead)
            .lanes(policy.lanes)
            .start(policy.start)
            .settings(|settings| *settings = self.settings());
        declared = self.filter.namespaces.iter().fold(declared, |declared, name| declared.namespace(name));
        declared = self.filter.topics.iter().fold(declared, |declared, name| declared.topic(name));
        declared = self.filter.event_types.iter().fold(declared, |declared, name| declared.event_type(name));
        Ok(self.filter.tenants.iter().fold(declared, |declared, tenant| declared.tenant(*tenant)))
    }

    /// Its order, for people.
    pub(crate) fn order_in_words(&self) -> String {
        match (self.policy.order, self.policy.lanes) {
            (Order::Key, 1) => "in order per key".to_owned(),
            (Order::Key, lanes) => format!("in order per key, {lanes} lanes"),
            (Order::Strict, _) => "in strict order".to_owned(),
            (Order::None, _) => "without order".to_owned(),
        }
    }

    /// Its filter, for people.
    pub(crate) fn filter_in_words(&self) -> String {
        let tenants: Vec<String> = self.filter.tenants.iter().map(ToString::to_string).collect();
        let parts = [
            ("namespaces", &self.filter.namespaces),
            ("topics", &self.filter.topics),
            ("event types", &self.filter.event_types),
            ("tenants", &tenants),
        ];
        let written = parts.iter().filter(|(_, list)| !list.is_empty());
        let words: Vec<String> = written.map(|(word, list)| format!("{word} {}", list.join(", "))).collect();
        match words.is_empty() {
            true => "all events".to_owned(),
            false => words.join("; "),
        }
    }
}

fn filter(section: &Section<'_>) -> Filter {
    let tenant = |(index, text): (usize, &String)| match text.parse() {
        Ok(tenant) => Some(tenant),
        Err(_) => {
            section.problem(&format!("tenants[{index}]"), format!("expected a UUID, got {text:?}"));
            None
        }
    };
    let tenants = section.texts("tenants");
    Filter {
        namespaces: section.texts("namespaces"),
        topics: section.texts("topics"),
        event_types: section.texts("event_types"),
        tenants: tenants.iter().enumerate().filter_map(tenant).collect(),
    }
}

/// Said here because the right place is hard to guess.
fn misplaced_steps(section: &Section<'_>) {
    for name in ["steps", "type"].into_iter().filter(|name| section.has(name)) {
        section.value(name);
        section.problem(name, format!("belongs into the table [{}.sink]", section.path()));
    }
}
