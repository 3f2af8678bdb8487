//! Copies from a Pub/Sub subscription.

use std::time::Duration;

use google_cloud_auth::credentials::anonymous;
use google_cloud_pubsub::client::Subscriber;
use posthaste::inbox::{Source, event_id_of};

use crate::Result;
use crate::worker::{Answer, Copy, Worker};

/// Reads until the process ends. `endpoint` is an emulator's address; without one it is Google's, with the credentials of
/// the environment.
pub async fn work(worker: Worker, endpoint: Option<&str>, subscription: &str) -> Result<()> {
    let mut builder = Subscriber::builder();
    if let Some(endpoint) = endpoint {
        builder = builder.with_endpoint(endpoint).with_credentials(anonymous::Builder::new().build());
    }
    // What a dead worker had in hand comes again after its lease, so it should not be everything, nor for long.
    let subscribing = builder.build().await?.subscribe(subscription).set_max_outstanding_messages(200);
    let mut messages = subscribing.set_max_lease_extension(Duration::from_secs(10)).build();
    while let Some(received) = messages.next().await {
        let (message, handler) = received?;
        let copy = event_id_of(Source::Pubsub, &message.attributes).map(|event_id| Copy {
            source: "pubsub",
            event_id,
            body: message.data.to_vec(),
        });
        let answer = match &copy {
            Some(copy) => worker.handle(copy).await,
            None => Answer::Acknowledge,
        };
        // Dropped without an acknowledgement, the message comes again.
        if answer == Answer::Acknowledge {
            handler.ack();
        }
    }
    Ok(())
}
