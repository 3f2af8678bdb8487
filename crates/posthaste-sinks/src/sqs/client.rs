//! The client of Amazon's library: our deadline, one repetition of its own, keys from the settings or the usual places.

use std::time::Duration;

use aws_config::retry::RetryConfig;
use aws_config::timeout::TimeoutConfig;
use aws_config::{BehaviorVersion, Region};
use aws_sdk_sqs::Client;
use aws_sdk_sqs::config::{Credentials, SharedCredentialsProvider};

use super::settings::{Keys, SqsSettings};

/// One repetition bears with a connection that was closed while it was idle; more is the worker's business, which knows
/// of all its events and of the receiver's state.
const ATTEMPTS: u32 = 2;

/// Reads the places where AWS's tools look (environment, shared files, container, machine). No request is made yet.
pub(super) async fn open(settings: &SqsSettings) -> Client {
    let timeouts = TimeoutConfig::builder()
        .connect_timeout(settings.timeout.min(Duration::from_secs(5)))
        .operation_timeout(settings.timeout)
        .build();
    let mut loader = aws_config::defaults(BehaviorVersion::latest())
        .region(Region::new(settings.region.clone()))
        .retry_config(RetryConfig::standard().with_max_attempts(ATTEMPTS))
        .timeout_config(timeouts);
    if let Some(keys) = &settings.keys {
        loader = loader.credentials_provider(credentials(keys));
    }
    if let Some(url) = &settings.endpoint_url {
        loader = loader.endpoint_url(url);
    }
    Client::new(&loader.load().await)
}

fn credentials(keys: &Keys) -> SharedCredentialsProvider {
    let session = keys.session.as_ref().map(|session| session.expose().to_owned());
    let (id, secret) = (keys.id.expose(), keys.secret.expose());
    SharedCredentialsProvider::new(Credentials::new(id, secret, session, None, "posthaste"))
}
