//! What is risky about a stream although it works.

use std::time::Duration;

use async_nats::jetstream::stream::{Config, DiscardPolicy, StorageType};

use super::connection::Connection;
use super::settings::NatsSettings;
use crate::endpoint::Route;

/// Asks for the stream, if it is known which one it is, and judges it.
pub(super) async fn ask(connection: &Connection, settings: &NatsSettings, route: &Route) -> Vec<String> {
    let jetstream = &connection.jetstream;
    let name = match (&settings.stream, settings.subject.as_literal()) {
        (Some(stream), _) => Some(stream.clone()),
        (None, Some(subject)) => jetstream.stream_by_subject(subject).await.ok(),
        (None, None) => None,
    };
    let Some(name) = name else { return Vec::new() };
    let Ok(stream) = jetstream.get_stream(name).await else { return Vec::new() };
    let clustered = connection.client().server_info().cluster.is_some();
    judge(&stream.cached_info().config, clustered, route.repeats_within)
}

fn judge(stream: &Config, clustered: bool, repeats_within: Duration) -> Vec<String> {
    let mut warnings = Vec::new();
    let mut warn = |sentence: String| warnings.push(format!("stream {}: {sentence}", stream.name));
    if stream.storage == StorageType::Memory {
        warn("it is kept in memory and is gone after a restart; create it with file storage".into());
    }
    if clustered && stream.num_replicas < 3 {
        let copies = stream.num_replicas;
        warn(format!("{copies} of its servers keep it; a lost disk loses events, so give it 3 replicas"));
    }
    if stream.duplicate_window < repeats_within {
        let (window, repeats) = (stream.duplicate_window, repeats_within);
        warn(format!(
            "its duplicate window is {window:?}, and an event may be sent again after {repeats:?} (lease plus longest \
             delay); such a repetition is stored twice unless the window is at least as long"
        ));
    }
    let limited = stream.max_messages > 0 || stream.max_bytes > 0 || stream.max_messages_per_subject > 0;
    if stream.discard == DiscardPolicy::Old && limited {
        warn("when it is full it drops its oldest messages, read or not; discard = new makes it refuse instead".into());
    }
    if stream.no_ack {
        warn(
            "it acknowledges nothing (no_ack), so no event will ever count as delivered; turn that off"
                .into(),
        );
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    fn safe() -> Config {
        Config {
            name: "ORDERS".into(),
            num_replicas: 3,
            duplicate_window: Duration::from_secs(600),
            discard: DiscardPolicy::New,
            max_messages: 10,
            ..Config::default()
        }
    }

    #[test]
    fn each_risk_has_its_sentence() {
        let minute = Duration::from_secs(60);
        assert!(judge(&safe(), true, minute).is_empty());
        for (words, stream) in [
            ("kept in memory", Config { storage: StorageType::Memory, ..safe() }),
            ("3 replicas", Config { num_replicas: 1, ..safe() }),
            ("duplicate window", Config { duplicate_window: Duration::from_secs(1), ..safe() }),
            ("oldest messages", Config { discard: DiscardPolicy::Old, ..safe() }),
            ("no_ack", Config { no_ack: true, ..safe() }),
        ] {
            let warnings = judge(&stream, true, minute);
            assert!(matches!(&warnings[..], [one] if one.contains(words)), "{words}: {warnings:?}");
        }
        let alone = Config { num_replicas: 1, ..safe() };
        assert!(judge(&alone, false, minute).is_empty(), "one server has one copy");
    }
}
