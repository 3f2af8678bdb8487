//! What an operator should know although it works: where acknowledged events could still be lost, and limits that differ.

use std::sync::Arc;
use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, ConfigResource, ResourceSpecifier};

use super::client::{Client, Log};
use super::settings::{KafkaSettings, Mechanism, host};
use crate::tls::is_this_machine;

const WITHIN: Duration = Duration::from_secs(5);

/// What can be asked of a topic, and of ourselves. What nobody answers is left out: `check` tells of that.
pub(super) async fn of(client: &Arc<Client>, settings: &KafkaSettings) -> Vec<String> {
    let mut warnings = Vec::from_iter(open_password(settings));
    if let Some(topic) = settings.topic.as_literal() {
        warnings.extend(of_replicas(client.clone(), topic.to_owned()).await);
        let resource = describe(client, topic).await;
        warnings.extend(resource.iter().flat_map(|resource| of_config(topic, resource, settings)));
    }
    warnings
}

fn open_password(settings: &KafkaSettings) -> Option<String> {
    let plain = settings.login.as_ref().is_some_and(|login| login.mechanism == Mechanism::Plain);
    let elsewhere = settings.brokers.iter().any(|broker| !is_this_machine(host(broker)));
    (plain && elsewhere && !settings.tls.on)
        .then(|| "the password crosses the network in clear text: set tls = true, or use SCRAM".to_owned())
}

async fn of_replicas(client: Arc<Client>, topic: String) -> Option<String> {
    let fewest = tokio::task::spawn_blocking(move || {
        let metadata = client.metadata(Some(&topic), WITHIN).ok()?;
        let partitions = metadata.topics().iter().flat_map(|topic| topic.partitions());
        let fewest = partitions.map(|partition| partition.replicas().len()).min()?;
        Some((topic, fewest))
    });
    let (topic, fewest) = fewest.await.ok()??;
    (fewest < 2).then(|| {
        format!(
            "topic {topic} has one replica: a lost disk loses events that count as delivered; give it three"
        )
    })
}

async fn describe(client: &Client, topic: &str) -> Option<ConfigResource> {
    let admin: AdminClient<Log> = client.another().ok()?;
    let options = AdminOptions::new().request_timeout(Some(WITHIN));
    let answers = admin.describe_configs(&[ResourceSpecifier::Topic(topic)], &options).await;
    // Ending it waits for its thread.
    drop(tokio::task::spawn_blocking(move || drop(admin)).await);
    answers.ok()?.into_iter().next()?.ok()
}

fn of_config(topic: &str, resource: &ConfigResource, settings: &KafkaSettings) -> Vec<String> {
    let value = |name: &str| resource.get(name).and_then(|entry| entry.value.as_deref());
    let number = |name: &str| value(name).and_then(|text| text.parse::<usize>().ok());
    let mut warnings = Vec::new();
    if number("min.insync.replicas").is_some_and(|replicas| replicas < 2) {
        warnings.push(format!(
            "topic {topic} has min.insync.replicas=1: one broker alone may acknowledge an event and then lose it; set 2"
        ));
    }
    if value("unclean.leader.election.enable") == Some("true") {
        warnings.push(format!(
            "topic {topic} has unclean.leader.election.enable=true: delivered events can be lost; set false"
        ));
    }
    let most = number("max.message.bytes").filter(|most| *most < settings.max_message_bytes);
    warnings.extend(most.map(|most| {
        let ours = settings.max_message_bytes;
        format!("topic {topic} takes {most} bytes at a time, max_message_bytes is {ours}; set it to {most}")
    }));
    warnings
}
