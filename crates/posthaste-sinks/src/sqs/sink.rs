//! Delivering pages, wave by wave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::{MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry};
use futures::stream::{self, StreamExt};
use posthaste::{Event, Outcome, Page, Sink};
use tokio::sync::OnceCell;

use super::client;
use super::errors::{self, Failure};
use super::message::Entry;
use super::settings::SqsSettings;
use super::waves::batches;
use crate::chains;
use crate::endpoint::{Endpoint, Route};

type Marks = Vec<(usize, Outcome)>;

/// Sends events to a queue.
#[derive(Debug)]
pub struct SqsSink {
    settings: SqsSettings,
    route: Route,
    client: OnceCell<Client>,
}

impl SqsSink {
    /// Nothing is opened yet.
    pub fn new(settings: SqsSettings, route: Route) -> Result<Self, String> {
        Ok(Self { settings, route, client: OnceCell::new() })
    }

    async fn client(&self) -> &Client {
        self.client.get_or_init(|| client::open(&self.settings)).await
    }

    /// Sends these events, of which no two must wait for each other.
    async fn send_wave(&self, events: &[Arc<Event>], wave: impl Iterator<Item = usize>) -> Marks {
        let (mut marks, mut entries) = (Vec::new(), Vec::new());
        for index in wave {
            match Entry::of(index, &events[index], &self.settings, &self.route) {
                Ok(entry) => entries.push(entry),
                Err(reason) => marks.push((index, Outcome::dead(reason))),
            }
        }
        let away = AtomicBool::new(false);
        let calls = batches(entries, self.settings.max_batch_bytes);
        let sending = stream::iter(calls.into_iter().map(|batch| self.send_unless(&away, batch)));
        let sent: Vec<Marks> = sending.buffer_unordered(self.settings.in_flight).collect().await;
        marks.extend(sent.into_iter().flatten());
        marks
    }

    /// Once the receiver is away nothing more is started.
    async fn send_unless(&self, away: &AtomicBool, batch: Vec<Entry>) -> Marks {
        if away.load(Ordering::Relaxed) {
            return batch.iter().map(|entry| (entry.index, not_sent())).collect();
        }
        let marks = self.send(batch).await;
        if marks.iter().any(|(_, outcome)| is_away(outcome)) {
            away.store(true, Ordering::Relaxed);
        }
        marks
    }

    /// One call; or, if SQS refuses it because of one of its messages, one for each, to find out which.
    async fn send(&self, batch: Vec<Entry>) -> Marks {
        match self.call(&batch).await {
            Ok(answer) => batch.iter().map(|entry| (entry.index, outcome_of(entry, &answer))).collect(),
            Err(failure) if failure.is_about_contents() && batch.len() > 1 => {
                let mut marks = Vec::with_capacity(batch.len());
                for entry in batch {
                    marks.push((entry.index, self.send_alone(entry).await));
                }
                marks
            }
            Err(failure) => batch.iter().map(|entry| (entry.index, self.outcome(&failure, entry))).collect(),
        }
    }

    async fn send_alone(&self, entry: Entry) -> Outcome {
        let batch = [entry];
        match self.call(&batch).await {
            Ok(answer) => outcome_of(&batch[0], &answer),
            Err(failure) => self.outcome(&failure, &batch[0]),
        }
    }

    fn outcome(&self, failure: &Failure, entry: &Entry) -> Outcome {
        failure.outcome(&entry.queue_url, self.settings.queue_url.as_literal().is_some())
    }

    async fn call(&self, batch: &[Entry]) -> Result<SendMessageBatchOutput, Failure> {
        let entries = batch.iter().map(request_entry).collect();
        let request = self.client().await.send_message_batch();
        let request = request.queue_url(&batch[0].queue_url).set_entries(Some(entries));
        // The library's deadline does not cover everything, such as finding credentials.
        match tokio::time::timeout(self.settings.timeout, request.send()).await {
            Ok(answer) => answer.map_err(|error| Failure::of(&error)),
            Err(_) => Err(Failure::silence(self.settings.timeout)),
        }
    }

    /// An attribute of the queue; `None` if it may not be seen.
    async fn queue_attribute(
        &self,
        queue: &str,
        name: QueueAttributeName,
    ) -> Result<Option<String>, Failure> {
        let request =
            self.client().await.get_queue_attributes().queue_url(queue).attribute_names(name.clone());
        match tokio::time::timeout(self.settings.timeout, request.send()).await {
            Ok(Ok(answer)) => Ok(answer.attributes().and_then(|all| all.get(&name)).cloned()),
            Ok(Err(error)) => {
                Some(Failure::of(&error)).filter(|failure| !failure.is_denied()).map_or(Ok(None), Err)
            }
            Err(_) => Err(Failure::silence(self.settings.timeout)),
        }
    }

    /// Where the queue differs from event to event there is nothing to look at but the server.
    async fn see_server(&self) -> Result<(), Failure> {
        let request = self.client().await.list_queues().max_results(1);
        match tokio::time::timeout(self.settings.timeout, request.send()).await {
            Ok(answer) => answer.map(drop).map_err(|error| Failure::of(&error)),
            Err(_) => Err(Failure::silence(self.settings.timeout)),
        }
    }
}

#[async_trait]
impl Sink for SqsSink {
    async fn deliver(&self, page: &mut Page) {
        let events = page.events().to_vec();
        let mut chains: Vec<VecDeque<usize>> =
            chains::chains(page, self.route.in_key_order).into_iter().map(Into::into).collect();
        while !chains.is_empty() {
            let first: Vec<usize> = chains.iter().filter_map(|chain| chain.front().copied()).collect();
            for (index, outcome) in self.send_wave(&events, first.into_iter()).await {
                page.mark(index, outcome);
            }
            let away = events.iter().enumerate().any(|(index, _)| page.outcome(index).is_some_and(is_away));
            // Behind an event that was not delivered the rest of its key stays unmarked.
            chains.retain_mut(|chain| {
                let sent = chain.pop_front().and_then(|index| page.outcome(index));
                sent == Some(&Outcome::Delivered) && !chain.is_empty()
            });
            if away {
                chains.iter().for_each(|chain| page.mark(chain[0], not_sent()));
                break;
            }
        }
    }

    /// With the right to send and nothing else, a queue cannot be seen; that SQS answers so is enough then.
    async fn check(&self) -> Result<(), String> {
        let seen = match self.settings.queue_url.as_literal() {
            Some(queue) => self.queue_attribute(queue, QueueAttributeName::QueueArn).await.map(drop),
            None => self
                .see_server()
                .await
                .or_else(|failure| if failure.is_denied() { Ok(()) } else { Err(failure) }),
        };
        seen.map_err(|failure| format!("{}: {}", self.describe(), failure.text()))
    }
}

#[async_trait]
impl Endpoint for SqsSink {
    fn describe(&self) -> String {
        match self.settings.queue_url.as_literal() {
            Some(queue) => format!("sqs at {queue}"),
            None => format!("sqs in {}", self.settings.region),
        }
    }

    async fn warnings(&self) -> Vec<String> {
        let Some(queue) = self.settings.queue_url.as_literal() else { return Vec::new() };
        let mut warnings = Vec::new();
        if self.route.in_key_order && !queue.ends_with(".fifo") {
            warnings.push(format!(
                "sqs: {queue} is a standard queue, which promises no order and may deliver twice; use a FIFO queue or order = \"none\""
            ));
        }
        let limit = self.queue_attribute(queue, QueueAttributeName::MaximumMessageSize).await.ok().flatten();
        let limit = limit.and_then(|limit| limit.parse::<usize>().ok());
        if let Some(limit) = limit.filter(|limit| *limit < self.settings.max_batch_bytes) {
            warnings.push(format!(
                "sqs: {queue} takes messages of {limit} bytes; larger ones end dead. Raise its MaximumMessageSize, or write max_batch_bytes = {limit}"
            ));
        }
        warnings
    }
}

fn is_away(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable { .. })
}

fn not_sent() -> Outcome {
    Outcome::unavailable("not sent: the receiver is away")
}

/// The name of a message within its call is its place in the page.
fn request_entry(entry: &Entry) -> SendMessageBatchRequestEntry {
    let mut request =
        SendMessageBatchRequestEntry::builder().id(entry.index.to_string()).message_body(&entry.body);
    for (name, value) in &entry.attributes {
        let value = MessageAttributeValue::builder().data_type("String").string_value(value).build();
        request =
            request.message_attributes(name, value.unwrap_or_else(|_| unreachable!("the type is there")));
    }
    if let Some(fifo) = &entry.fifo {
        request = request.message_group_id(&fifo.group).message_deduplication_id(&fifo.dedupe_id);
    }
    request.build().unwrap_or_else(|_| unreachable!("id and body are there"))
}

/// What a call that was answered says of one of its messages.
fn outcome_of(entry: &Entry, answer: &SendMessageBatchOutput) -> Outcome {
    let id = entry.index.to_string();
    if let Some(failed) = answer.failed().iter().find(|failed| failed.id() == id) {
        return errors::of_entry(failed);
    }
    match answer.successful().iter().any(|sent| sent.id() == id) {
        true => Outcome::Delivered,
        false => Outcome::retry("the answer of SQS does not mention this message"),
    }
}
