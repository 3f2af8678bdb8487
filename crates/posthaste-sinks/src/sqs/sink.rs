//! Delivering pages, wave by wave.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use aws_sdk_sqs::Client;
use aws_sdk_sqs::operation::send_message_batch::SendMessageBatchOutput;
use aws_sdk_sqs::types::{
    BatchResultErrorEntry, MessageAttributeValue, QueueAttributeName, SendMessageBatchRequestEntry,
};
use futures::stream::{self, StreamExt};
use posthaste::{Event, Outcome, Page, Sink};
use tokio::sync::OnceCell;
use tokio::time::Instant;

use super::client;
use super::errors::{self, Failure};
use super::message::Entry;
use super::settings::SqsSettings;
use super::waves::batches;
use crate::chains;
use crate::endpoint::{Endpoint, Route, after_silence, too_late, unless_away};
use crate::suspicion::{Suspects, Suspicion};

type Marks = Vec<(usize, Outcome)>;

/// Sends events to a queue.
#[derive(Debug)]
pub struct SqsSink {
    settings: SqsSettings,
    route: Route,
    client: OnceCell<Client>,
    suspicion: Suspicion,
}

/// What the calls of a page know of each other.
#[derive(Debug)]
struct Course<'c> {
    away: AtomicBool,
    last_start: Instant,
    suspects: Suspects<'c>,
}

impl<'c> Course<'c> {
    fn until(last_start: Instant, suspects: Suspects<'c>) -> Self {
        Self { away: AtomicBool::new(false), last_start, suspects }
    }

    /// Why nothing more may be started, if so.
    fn end(&self) -> Option<Outcome> {
        if self.away.load(Ordering::Relaxed) {
            return Some(Outcome::unavailable("not sent: the receiver is away"));
        }
        (Instant::now() >= self.last_start).then(too_late)
    }
}

impl SqsSink {
    /// Nothing is opened yet.
    pub fn new(mut settings: SqsSettings, route: Route) -> Result<Self, String> {
        settings.timeout = route.long_patience(settings.timeout);
        Ok(Self { settings, route, client: OnceCell::new(), suspicion: Suspicion::default() })
    }

    async fn client(&self) -> &Client {
        self.client.get_or_init(|| client::open(&self.settings)).await
    }

    /// Sends these events, of which no two must wait for each other.
    async fn send_wave(&self, course: &Course<'_>, events: &[Arc<Event>], wave: &[usize]) -> Marks {
        let (mut marks, mut entries) = (Vec::new(), Vec::new());
        for &index in wave {
            match Entry::of(index, &events[index], &self.settings, &self.route) {
                Ok(entry) => entries.push(entry),
                Err(reason) => marks.push((index, Outcome::dead(reason))),
            }
        }
        let calls = batches(entries, self.settings.max_batch_bytes);
        let sending = stream::iter(calls.into_iter().map(|batch| self.send_unless(course, batch)));
        let sent: Vec<Marks> = sending.buffer_unordered(self.settings.in_flight).collect().await;
        marks.extend(sent.into_iter().flatten());
        marks
    }

    /// Once the receiver is away, or the time of the page is over, nothing more is started.
    async fn send_unless(&self, course: &Course<'_>, batch: Vec<Entry>) -> Marks {
        if let Some(end) = course.end() {
            return all(&batch, &end);
        }
        let marks = self.send(course, batch).await;
        if marks.iter().any(|(_, outcome)| is_away(outcome)) {
            course.away.store(true, Ordering::Relaxed);
        }
        marks
    }

    /// One call; or, if it fails because of one of its messages, one for each, to find out which.
    async fn send(&self, course: &Course<'_>, batch: Vec<Entry>) -> Marks {
        let sent = Instant::now();
        match self.call(&batch).await {
            Ok(answer) => self.read(course, &batch, &answer, sent).await,
            Err(failure) if failure.is_silence() => self.after_silence(course, batch, &failure, sent).await,
            Err(failure) if failure.may_be_about_one() && batch.len() > 1 => {
                self.one_by_one(course, batch).await
            }
            Err(failure) => batch.iter().map(|entry| (entry.index, self.outcome(&failure, entry))).collect(),
        }
    }

    async fn one_by_one(&self, course: &Course<'_>, batch: Vec<Entry>) -> Marks {
        let mut marks = Vec::with_capacity(batch.len());
        for entry in batch {
            marks.extend(Box::pin(self.send_unless(course, vec![entry])).await);
        }
        marks
    }

    /// If SQS is there, one of the messages is at fault: it is found by sending each alone.
    async fn after_silence(
        &self,
        course: &Course<'_>,
        batch: Vec<Entry>,
        failure: &Failure,
        sent: Instant,
    ) -> Marks {
        match after_silence(self, failure.text(), self.settings.timeout).await {
            away @ Outcome::Unavailable { .. } => all(&batch, &away),
            _ if batch.len() > 1 => {
                course.suspects.fell_silent(sent);
                self.one_by_one(course, batch).await
            }
            retry => {
                let suspect =
                    |entry: &Entry| (entry.index, course.suspects.suspect(entry.index, sent, retry.clone()));
                batch.iter().map(suspect).collect()
            }
        }
    }

    /// What a call that was answered says of its messages. That all of them fail, and by nobody's fault, is the server's.
    async fn read(
        &self,
        course: &Course<'_>,
        batch: &[Entry],
        answer: &SendMessageBatchOutput,
        sent: Instant,
    ) -> Marks {
        let fixed = self.fixed_queue();
        let marks: Marks =
            batch.iter().map(|entry| (entry.index, outcome_of(entry, answer, fixed))).collect();
        if marks.iter().any(|(_, outcome)| *outcome == Outcome::Delivered) {
            course.suspects.accepted();
        }
        if !batch.iter().all(|entry| is_nobodys_fault(entry, answer)) {
            return marks;
        }
        match &marks[..] {
            [(index, Outcome::Retry { reason, .. })] => {
                let outcome = unless_away(self, reason.clone(), self.settings.timeout).await;
                vec![(*index, course.suspects.suspect(*index, sent, outcome))]
            }
            _ => marks.into_iter().map(|(index, outcome)| (index, as_away(outcome))).collect(),
        }
    }

    fn outcome(&self, failure: &Failure, entry: &Entry) -> Outcome {
        failure.outcome(&entry.queue_url, self.fixed_queue())
    }

    fn fixed_queue(&self) -> bool {
        self.settings.queue_url.as_literal().is_some()
    }

    async fn call(&self, batch: &[Entry]) -> Result<SendMessageBatchOutput, Failure> {
        let entries = batch.iter().map(request_entry).collect();
        self.in_time(async {
            let request = self.client().await.send_message_batch();
            let request = request.queue_url(&batch[0].queue_url).set_entries(Some(entries));
            request.send().await.map_err(|error| Failure::of(&error))
        })
        .await
    }

    /// The library's deadline does not cover everything, such as finding credentials.
    async fn in_time<T>(&self, asking: impl Future<Output = Result<T, Failure>>) -> Result<T, Failure> {
        let limit = self.settings.timeout;
        tokio::time::timeout(limit, asking).await.unwrap_or_else(|_| Err(Failure::silence(limit)))
    }

    /// An attribute of the queue; `None` if it may not be seen.
    async fn queue_attribute(
        &self,
        queue: &str,
        name: QueueAttributeName,
    ) -> Result<Option<String>, Failure> {
        let seen = self.in_time(async {
            let request = self.client().await.get_queue_attributes();
            let request = request.queue_url(queue).attribute_names(name.clone());
            request.send().await.map_err(|error| Failure::of(&error))
        });
        match seen.await {
            Ok(answer) => Ok(answer.attributes().and_then(|all| all.get(&name)).cloned()),
            Err(failure) if failure.is_denied() => Ok(None),
            Err(failure) => Err(failure),
        }
    }

    /// Where the queue differs from event to event there is nothing to look at but the server.
    async fn see_server(&self) -> Result<(), Failure> {
        self.in_time(async {
            let asked = self.client().await.list_queues().max_results(1).send().await;
            asked.map(drop).map_err(|error| Failure::of(&error))
        })
        .await
    }
}

#[async_trait]
impl Sink for SqsSink {
    async fn deliver(&self, page: &mut Page) {
        let events = page.events().to_vec();
        let mut chains: Vec<VecDeque<usize>> =
            chains::chains(page, self.route.in_key_order).into_iter().map(Into::into).collect();
        let last_start = self.route.last_start(page, self.settings.timeout);
        let course = Course::until(last_start, self.suspicion.suspects());
        while !chains.is_empty() {
            if let Some(end) = course.end() {
                chains.iter().for_each(|chain| page.mark(chain[0], end.clone()));
                break;
            }
            let first: Vec<usize> = chains.iter().filter_map(|chain| chain.front().copied()).collect();
            for (index, outcome) in self.send_wave(&course, &events, &first).await {
                page.mark(index, outcome);
            }
            // Behind an event that was not delivered the rest of its key stays unmarked.
            chains.retain_mut(|chain| {
                let sent = chain.pop_front().and_then(|index| page.outcome(index));
                sent == Some(&Outcome::Delivered) && !chain.is_empty()
            });
        }
        course.suspects.judge(page);
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

    fn overlaps(&self) -> bool {
        true
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

/// The same attempt, given back.
fn as_away(outcome: Outcome) -> Outcome {
    match outcome {
        Outcome::Retry { reason, .. } => Outcome::unavailable(reason),
        other => other,
    }
}

fn all(batch: &[Entry], outcome: &Outcome) -> Marks {
    batch.iter().map(|entry| (entry.index, outcome.clone())).collect()
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

/// What a call that was answered says of one of its messages. `fixed`: the queue is the same for all events.
fn outcome_of(entry: &Entry, answer: &SendMessageBatchOutput, fixed: bool) -> Outcome {
    match (failed_entry(entry, answer), is_successful(entry, answer)) {
        (Some(failed), _) => errors::of_entry(failed, fixed),
        (None, true) => Outcome::Delivered,
        (None, false) => Outcome::retry("the answer of SQS does not mention this message"),
    }
}

fn is_nobodys_fault(entry: &Entry, answer: &SendMessageBatchOutput) -> bool {
    match failed_entry(entry, answer) {
        Some(failed) => errors::is_servers_fault(failed),
        None => !is_successful(entry, answer),
    }
}

fn failed_entry<'a>(entry: &Entry, answer: &'a SendMessageBatchOutput) -> Option<&'a BatchResultErrorEntry> {
    let id = entry.index.to_string();
    answer.failed().iter().find(|failed| failed.id() == id)
}

fn is_successful(entry: &Entry, answer: &SendMessageBatchOutput) -> bool {
    let id = entry.index.to_string();
    answer.successful().iter().any(|sent| sent.id() == id)
}
