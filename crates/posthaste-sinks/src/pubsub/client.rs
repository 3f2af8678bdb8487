//! Google's client: one connection for all topics, one publisher per topic, made on demand.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use google_cloud_auth::credentials::{Credentials as Token, anonymous, service_account};
use google_cloud_gax::exponential_backoff::ExponentialBackoffBuilder;
use google_cloud_gax::retry_policy::RetryPolicyExt;
use google_cloud_pubsub::client::{BasePublisher, Publisher, SubscriptionAdmin, TopicAdmin};
use google_cloud_pubsub::retry_policy::RetryableErrors;
use tokio::sync::OnceCell;
use tokio::time::timeout;

use super::settings::{Credentials, PubsubSettings, service_account as key_in};

/// How many topics have a publisher at the same time.
const TOPICS: usize = 100;

/// A publisher keeps a task for every ordering key it has ever seen, so that it is replaced after this many.
const KEYS: usize = 10_000;

/// A hiccup is retried at once by the client; an outage is the engine's business.
const ATTEMPTS: u32 = 3;

/// How long the client waits for more messages of a key before it sends. A page comes at once, so hardly at all.
const GATHER: Duration = Duration::from_millis(1);

/// How messages share a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Batching {
    /// Up to a hundred, or a megabyte.
    Together,
    /// Each has its own, so that a refusal tells which one is meant.
    Alone,
}

/// The clients behind the sink.
#[derive(Debug)]
pub(super) struct Client {
    settings: PubsubSettings,
    base: OnceCell<BasePublisher>,
    publishers: Mutex<HashMap<(String, Batching), Keyed>>,
}

#[derive(Debug)]
struct Keyed {
    publisher: Publisher,
    keys: HashSet<String>,
}

impl Client {
    pub(super) fn new(settings: PubsubSettings) -> Self {
        Self { settings, base: OnceCell::new(), publishers: Mutex::default() }
    }

    pub(super) fn settings(&self) -> &PubsubSettings {
        &self.settings
    }

    /// The publisher for a topic, ready for this key: if an earlier attempt has failed, the key is no longer paused.
    pub(super) async fn publisher(
        &self,
        topic: &str,
        batching: Batching,
        key: &str,
    ) -> Result<Publisher, String> {
        let base = self.base.get_or_try_init(|| self.connect()).await?;
        let mut publishers = self.publishers();
        let place = (topic.to_owned(), batching);
        let worn_out = publishers.get(&place).is_some_and(|keyed| keyed.keys.len() >= KEYS);
        if worn_out {
            publishers.remove(&place);
        } else if !publishers.contains_key(&place) && publishers.len() >= TOPICS {
            publishers.clear();
        }
        let keyed = publishers
            .entry(place)
            .or_insert_with(|| Keyed { publisher: publisher(base, topic, batching), keys: HashSet::new() });
        if !key.is_empty() && !keyed.keys.insert(key.to_owned()) {
            keyed.publisher.resume_publish(key);
        }
        Ok(keyed.publisher.clone())
    }

    /// A publisher that has ended is not used again.
    pub(super) fn forget(&self, topic: &str) {
        self.publishers().retain(|(known, _), _| known != topic);
    }

    fn publishers(&self) -> MutexGuard<'_, HashMap<(String, Batching), Keyed>> {
        self.publishers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn connect(&self) -> Result<BasePublisher, String> {
        let limit = self.settings.timeout;
        let backoff = ExponentialBackoffBuilder::new()
            .with_initial_delay(Duration::from_millis(50))
            .with_maximum_delay(Duration::from_secs(1))
            .clamp();
        let builder = BasePublisher::builder()
            .with_retry_policy(RetryableErrors.with_time_limit(before(limit)).with_attempt_limit(ATTEMPTS))
            .with_backoff_policy(backoff);
        let builder =
            self.settings.endpoint.iter().fold(builder, |builder, endpoint| builder.with_endpoint(endpoint));
        let builder =
            self.token()?.into_iter().fold(builder, |builder, token| builder.with_credentials(token));
        within(limit, builder.build()).await
    }

    /// For looking at topics. Not kept: it is needed rarely.
    pub(super) async fn topics(&self) -> Result<TopicAdmin, String> {
        let limit = self.settings.timeout;
        let builder = TopicAdmin::builder()
            .with_retry_policy(RetryableErrors.with_time_limit(limit).with_attempt_limit(1));
        let builder =
            self.settings.endpoint.iter().fold(builder, |builder, endpoint| builder.with_endpoint(endpoint));
        let builder =
            self.token()?.into_iter().fold(builder, |builder, token| builder.with_credentials(token));
        within(limit, builder.build()).await
    }

    /// For looking at subscriptions.
    pub(super) async fn subscriptions(&self) -> Result<SubscriptionAdmin, String> {
        let limit = self.settings.timeout;
        let builder = SubscriptionAdmin::builder()
            .with_retry_policy(RetryableErrors.with_time_limit(limit).with_attempt_limit(1));
        let builder =
            self.settings.endpoint.iter().fold(builder, |builder, endpoint| builder.with_endpoint(endpoint));
        let builder =
            self.token()?.into_iter().fold(builder, |builder, token| builder.with_credentials(token));
        within(limit, builder.build()).await
    }

    /// `None` leaves it to the client to find the usual ones. Nothing is fetched yet.
    fn token(&self) -> Result<Option<Token>, String> {
        match &self.settings.credentials {
            Credentials::Default => Ok(None),
            Credentials::Anonymous => Ok(Some(anonymous::Builder::new().build())),
            Credentials::File(path) => {
                let token = service_account::Builder::new(key_in(path)?).build();
                token.map(Some).map_err(|error| format!("{}: {error}", path.display()))
            }
        }
    }
}

/// The client gives up shortly before we do: it knows better why, and holds the key's later messages back.
fn before(limit: Duration) -> Duration {
    limit * 9 / 10
}

fn publisher(base: &BasePublisher, topic: &str, batching: Batching) -> Publisher {
    let builder = base.publisher(topic).set_delay_threshold(GATHER);
    match batching {
        Batching::Together => builder.build(),
        Batching::Alone => builder.set_message_count_threshold(1).build(),
    }
}

async fn within<T, E: std::fmt::Display>(
    limit: Duration,
    building: impl Future<Output = Result<T, E>>,
) -> Result<T, String> {
    match timeout(limit, building).await {
        Ok(built) => built.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no credentials within {limit:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::template::Template;

    fn client() -> Client {
        Client::new(PubsubSettings {
            project: "shop".to_owned(),
            topic: Template::literal("orders"),
            endpoint: Some("http://127.0.0.1:1".to_owned()),
            credentials: Credentials::Anonymous,
            timeout: Duration::from_secs(1),
        })
    }

    #[tokio::test]
    async fn a_publisher_is_replaced_before_it_holds_too_many_keys() {
        let client = client();
        for n in 0..=KEYS {
            client.publisher("t", Batching::Together, &format!("k{n}")).await.expect("no connection needed");
        }
        assert_eq!(client.publishers()[&("t".to_owned(), Batching::Together)].keys.len(), 1);
    }

    #[tokio::test]
    async fn only_so_many_topics_have_a_publisher() {
        let client = client();
        for n in 0..=TOPICS {
            client.publisher(&format!("t{n}"), Batching::Together, "").await.expect("no connection needed");
        }
        assert_eq!(client.publishers().len(), 1);
        client.forget(&format!("t{TOPICS}"));
        assert!(client.publishers().is_empty());
    }
}
