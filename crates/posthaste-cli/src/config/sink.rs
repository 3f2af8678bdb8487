//! `[subscriptions.NAME.sink]`: one sink, or `steps`, several in a row.

use std::sync::Arc;
use std::time::Duration;

use posthaste_sinks::{Endpoint, Route, Section, SinkSettings, Steps, spell_duration};
use serde_json::{Map, Value};

/// Where a subscription delivers to, checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SinkConfig {
    /// At least one.
    steps: Vec<SinkSettings>,
}

impl SinkConfig {
    /// `page_time`: how long the engine waits for a page.
    pub(super) fn check(subscription: &Section<'_>, page_time: Duration) -> Option<Self> {
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
            false => Some(Self { steps: vec![fitted(SinkSettings::validate(&sink)?, &sink, page_time, 1)] }),
            true => several(&sink, page_time),
        }
    }

    /// Whether events go to another server, not only to this machine's files.
    pub(crate) fn has_server(&self) -> bool {
        self.steps.iter().any(|step| !matches!(step, SinkSettings::Lines(_)))
    }

    /// Opens it, without waiting for any server.
    pub(crate) fn open(&self, route: &Route) -> Result<Arc<dyn Endpoint>, String> {
        let mut share = route.clone();
        share.page_time = share_of(route.page_time, self.steps.len());
        let open = |step: &SinkSettings| step.clone().open(share.clone());
        let mut steps = self.steps.iter().map(open).collect::<Result<Vec<_>, _>>()?;
        match steps.len() {
            1 => Ok(steps.remove(0)),
            _ => Ok(Arc::new(Steps::new(steps, route.in_key_order))),
        }
    }
}

/// Steps come one after the other, so that each gets its part of the time of a page.
fn share_of(page_time: Duration, steps: usize) -> Duration {
    page_time / u32::try_from(steps).unwrap_or(u32::MAX).max(1)
}

/// A send and a check must fit into the time of a page. A timeout that nobody wrote is made to fit.
fn fitted(mut sink: SinkSettings, section: &Section<'_>, page_time: Duration, steps: usize) -> SinkSettings {
    let share = share_of(page_time, steps);
    let longest = sink.longest_timeout(share);
    if let Some(timeout) = sink.timeout().filter(|timeout| *timeout > longest && section.has("timeout")) {
        let (timeout, longest) = (spell_duration(timeout), spell_duration(longest));
        let room = match steps {
            1 => format!("the subscription's timeout of {}", spell_duration(share)),
            _ => format!("this step's share of the subscription's timeout, {}", spell_duration(share)),
        };
        let sentence = "which must hold a send and a check";
        section
            .problem("timeout", format!("{timeout} is too long for {room}, {sentence}; at most {longest}"));
    }
    sink.limit_timeout(longest);
    sink
}

fn several(sink: &Section<'_>, page_time: Duration) -> Option<SinkConfig> {
    if sink.has("type") {
        sink.value("type");
        sink.problem("type", "one sink or several: give either type or steps, not both");
    }
    let steps = sink.sections("steps");
    sink.finish();
    if sink.value("steps").and_then(Value::as_array).is_some_and(Vec::is_empty) {
        sink.problem("steps", "expected at least one table, as in steps = [{ type = \"stdout\" }]");
    }
    let check =
        |step: &Section<'_>| Some(fitted(SinkSettings::validate(step)?, step, page_time, steps.len()));
    let checked: Vec<SinkSettings> = steps.iter().filter_map(check).collect();
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

#[cfg(all(test, any(feature = "all-sinks", feature = "redis")))]
mod tests {
    use posthaste_sinks::{Problems, Surroundings};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_timeout_that_nobody_wrote_is_made_to_fit() {
        let redis = json!({ "type": "redis", "url": "redis://localhost" });
        let timeouts = |sink: Value, page_time: u64| -> Vec<Duration> {
            let (problems, surroundings) = (Problems::default(), Surroundings::default());
            let table = json!({ "sink": sink });
            let section = Section::new("s", table.as_object().expect("a table"), &problems, &surroundings);
            let config = SinkConfig::check(&section, Duration::from_secs(page_time)).expect("good");
            assert_eq!(problems.count(), 0, "{:?}", problems.into_vec());
            config.steps.iter().filter_map(SinkSettings::timeout).collect()
        };
        assert_eq!(timeouts(redis.clone(), 60), [Duration::from_secs(5)]);
        assert_eq!(timeouts(redis.clone(), 10), [Duration::from_secs(4)]);
        let steps = json!({ "steps": [redis.clone(), redis] });
        assert_eq!(timeouts(steps, 10), [Duration::from_secs(2); 2]);
    }
}
