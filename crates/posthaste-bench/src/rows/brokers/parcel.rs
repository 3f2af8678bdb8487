//! What the clients alone send: the messages that a sink makes of the same events, already in memory.

use bytes::Bytes;
use chrono::{DateTime, Utc};
use futures::stream::{FuturesUnordered, StreamExt};
use posthaste_sinks::Envelope;

use crate::measure::Result;
use crate::work::{event, key};

/// One of them. What is left to do is to hand it to the client.
pub(super) struct Parcel {
    pub(super) id: String,
    pub(super) key: String,
    pub(super) created_at: DateTime<Utc>,
    /// Attributes with the prefix of their broker.
    pub(super) attributes: Vec<(String, String)>,
    pub(super) content_type: String,
    pub(super) body: Bytes,
}

/// So many, each with an id that was never used before.
pub(super) fn parcels(count: u64, prefix: &str) -> Result<Vec<Parcel>> {
    (0..count).map(|number| parcel(number, prefix)).collect()
}

fn parcel(number: u64, prefix: &str) -> Result<Parcel> {
    let event = event(number).stored(i64::try_from(number)?, Utc::now());
    let message = Envelope::default().message(&event)?;
    let attributes = message.attributes.iter();
    Ok(Parcel {
        id: event.id.to_string(),
        key: key(number),
        created_at: event.created_at,
        attributes: attributes.map(|(name, value)| (format!("{prefix}{name}"), value.to_string())).collect(),
        content_type: message.content_type.into_owned(),
        body: message.body.into_owned().into(),
    })
}

/// Sends in order, with at most so many whose acknowledgement is not there yet.
pub(super) async fn in_flight<'p, S, A>(
    parcels: &'p [Parcel],
    most: usize,
    mut send: impl FnMut(&'p Parcel) -> S,
) -> Result<()>
where
    S: Future<Output = Result<A>>,
    A: Future<Output = Result<()>>,
{
    let mut waiting = FuturesUnordered::new();
    for parcel in parcels {
        if waiting.len() >= most {
            waiting.next().await.transpose()?;
        }
        let sent = send(parcel).await?;
        waiting.push(sent);
    }
    while let Some(acknowledged) = waiting.next().await {
        acknowledged?;
    }
    Ok(())
}
