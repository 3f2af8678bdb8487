//! Looking at the service: is it there, does it know us, will anybody get what we publish?

use google_cloud_gax::error::rpc::Code;
use google_cloud_pubsub::Error;
use tokio::time::timeout;

use super::client::Client;
use super::errors::{code, sentence};

/// A topic that nobody has: the answer that it is missing shows that we were let in.
const NOBODYS: &str = "posthaste-check";

/// Reaches the service and, if there is one topic, sees it. The right to look at a topic is not needed for publishing, so
/// that being refused it is no failure.
pub(super) async fn check(client: &Client) -> Result<(), String> {
    let settings = client.settings();
    let topic = settings.topic.as_literal();
    let name = settings.topic_name(topic.unwrap_or(NOBODYS))?;
    let asking = async {
        let looked = client.topics().await?.get_topic().set_topic(&name).send().await;
        match looked.map_err(|error| (code(&error), error)) {
            Ok(_) | Err((Some(Code::PermissionDenied), _)) => Ok(()),
            Err((Some(Code::NotFound), _)) if topic.is_none() => Ok(()),
            Err((Some(Code::NotFound), error)) => {
                Err(format!("{}; create the topic {name}", sentence(&error)))
            }
            Err((_, error)) => Err(sentence(&error)),
        }
    };
    let limit = settings.timeout;
    timeout(limit, asking).await.unwrap_or_else(|_| Err(format!("no answer within {limit:?}")))
}

/// What is risky although it works.
pub(super) async fn warnings(client: &Client, in_key_order: bool) -> Vec<String> {
    let settings = client.settings();
    let Some(Ok(name)) = settings.topic.as_literal().map(|topic| settings.topic_name(topic)) else {
        return Vec::new();
    };
    let looking = look(client, &name, in_key_order);
    match timeout(settings.timeout, looking).await {
        Ok(Ok(warnings)) => warnings,
        Ok(Err(reason)) => vec![format!("could not look at {name}: {reason}")],
        Err(_) => vec![format!("could not look at {name}: no answer within {:?}", settings.timeout)],
    }
}

async fn look(client: &Client, name: &str, in_key_order: bool) -> Result<Vec<String>, String> {
    let said = |error: Error| sentence(&error);
    let admin = client.topics().await?;
    let topic = admin.get_topic().set_topic(name).send().await.map_err(said)?;
    let listed = admin.list_topic_subscriptions().set_topic(name).send().await.map_err(said)?;
    let mut warnings = Vec::new();
    if listed.subscriptions.is_empty() && topic.message_retention_duration.is_none() {
        warnings.push(format!(
            "{name} has no subscription and keeps nothing: what is published now reaches nobody; create a subscription first"
        ));
    }
    if in_key_order {
        for subscription in unordered(client, &listed.subscriptions).await? {
            warnings.push(format!(
                "{subscription} does not keep the order of keys; create it anew with --enable-message-ordering"
            ));
        }
    }
    Ok(warnings)
}

/// The subscriptions that do not ask for order.
async fn unordered(client: &Client, names: &[String]) -> Result<Vec<String>, String> {
    let admin = client.subscriptions().await?;
    let mut unordered = Vec::new();
    for name in names {
        // Subscriptions may belong to other projects, where we may not look.
        if let Ok(subscription) = admin.get_subscription().set_subscription(name).send().await
            && !subscription.enable_message_ordering
        {
            unordered.push(name.clone());
        }
    }
    Ok(unordered)
}
