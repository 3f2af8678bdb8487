//! `[subscriptions.NAME.sink]`: one sink, or `steps`, several in a row.

use std::sync::Arc;

use posthaste_sinks::{Endpoint, Route, Section, SinkSettings, Steps};
use serde_json::{Map, Value};

/// Where a subscription delivers to, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SinkConfig {
    /// At least one.
    steps: Vec<SinkSettings>,
}

impl SinkConfig {
    pub(super) fn check(subscription: &Section<'_>) -> Option<Self> {
        if !subscription.has("sink") {
            let sentence = format!(
                "is missing; write for example [{}.sink] with type = \"stdout\"",
                subscription.path()
            );
            subscription.value("sink");
            subscription.problem("sink", sentence);
            return None;
        }
        let sink = subscription.section("sink")?;
        match sink.has("steps") {
            false => Some(Self { steps: vec![SinkSettings::validate(&sink)?] }),
            true => several(&sink),
        }
    }

    /// Whether events go to another server, not only to this machine's files.
    pub(crate) fn has_server(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step, SinkSettings::Lines(_)))
    }

    /// Opens it, without waiting for any server.
    pub(crate) fn open(&self, route: &Route) -> Result<Arc<dyn Endpoint>, String> {
        let open = |step: &SinkSettings| step.clone().open(route.clone());
        let mut steps = self.steps.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        match steps.len() {
            1 => Ok(steps.remove(0)),
            _ => Ok(Arc::new(Steps::new(steps, route.in_key_order))),
        }
    }
}

fn several(sink: &Section<'_>) -> Option<SinkConfig> {
    if sink.has("type") {
        sink.value("type");
        sink.problem("type", "one sink or several: give either type or steps, not both");
    }
    let steps = sink.sections("steps");
    sink.finish();
    if sink.value("steps").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        sink.problem("steps", "expected at least one table, as in steps = [{ type = \"stdout\" }]");
    }
    let checked: Vec<SinkSettings> = steps.iter().filter_map(SinkSettings::validate).collect();
    (!steps.is_empty() && checked.len() == steps.len()).then_some(SinkConfig { steps: checked })
}

/// An event store without a URL is a table in the relay's own database: it gets the URL as it was written.
pub(super) fn share_database_url(table: &mut Map<String, Value>) {
    let url = table.get("database").and_then(|database| database.get("url")).cloned();
    let Some(url) = url.filter(|url| !url.as_str().is_some_and(|url| url.starts_with("sqlite:"))) else {
        return;
    };
    let Some(Value::Object(subscriptions)) = table.get_mut("subscriptions") else { return };
    for sink in subscriptions.values_mut().filter_map(|subscription| subscription.get_mut("sink")) {
        if let Some(Value::Array(steps)) = sink.get_mut("steps") {
            steps.iter_mut().for_each(|step| share_with(step, &url));
        }
        share_with(sink, &url);
    }
}

fn share_with(sink: &mut Value, url: &Value) {
    let store = sink.get("type").and_then(Value::as_str) == Some("event_store");
    if let Some(sink) = sink.as_object_mut().filter(|_| store) {
        sink.entry("url").or_insert_with(|| url.clone());
    }
}
