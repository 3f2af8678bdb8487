//! What streams answer to the messages of one connection.
//!
//! The client library can wait for an answer too; it takes a channel, three timers and a boxed future for each, and reads
//! a document into strings that nobody looks at. Where thousands of messages a second are on their way, that is what
//! they cost most (docs/adr/0013). Here each has a place in a list, and one task hears all answers.

use std::borrow::Cow;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_nats::jetstream;
use async_nats::jetstream::context::{PublishError, PublishErrorKind};
use async_nats::{Client, Message, StatusCode, SubscribeError, Subscriber};
use futures::StreamExt;
use serde::Deserialize;
use tokio::task::JoinHandle;
use tokio::time::{Instant, MissedTickBehavior, interval};

/// How many answers are looked at in one go.
const AT_ONCE: usize = 256;
/// So often within the time for an answer somebody looks whose time is over.
const LOOKS: u32 = 20;

/// The stream has it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Anew,
    /// It had a message with the same id already, and dropped this one.
    Already {
        stream: String,
        sequence: u64,
    },
}

type Answer = Result<Stored, PublishError>;

/// Hears answers until it is dropped.
#[derive(Debug)]
pub(super) struct Answers {
    /// What stands before the number of a message in the subject of its answer.
    inbox: String,
    places: Arc<Mutex<Places>>,
    listening: JoinHandle<()>,
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

impl Answers {
    /// Begins to listen. Nobody waits longer than `timeout` for an answer.
    pub(super) async fn listen(client: &Client, timeout: Duration) -> Result<Self, SubscribeError> {
        let (inbox, places) = (format!("{}.", client.new_inbox()), Arc::<Mutex<Places>>::default());
        let answers = client.subscribe(format!("{inbox}*")).await?;
        let listening = tokio::spawn(hear(answers, inbox.len(), places.clone(), timeout));
        Ok(Self { inbox, places, listening })
    }

    /// A place for the answer to a message that is sent at this moment.
    pub(super) fn expect(&self, now: Instant) -> Expected<'_> {
        Expected { answers: self, number: lock(&self.places).take(now), taken: false }
    }
}

/// An answer that is waited for. Once this is dropped, an answer that comes all the same is nobody's.
#[derive(Debug)]
#[must_use]
pub(super) struct Expected<'a> {
    answers: &'a Answers,
    number: Number,
    taken: bool,
}

impl Expected<'_> {
    /// The subject for the answer.
    pub(super) fn reply_to(&self) -> String {
        let Number { place, turn } = self.number;
        format!("{}{place}-{turn}", self.answers.inbox)
    }
}

impl Future for Expected<'_> {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Answer> {
        let answer = lock(&self.answers.places).poll(self.number, context.waker());
        self.taken = answer.is_ready();
        answer
    }
}

impl Drop for Expected<'_> {
    fn drop(&mut self) {
        if !self.taken {
            lock(&self.answers.places).leave(self.number);
        }
    }
}

/// Names one message of a connection. The turn is another one for each message that has the place, so that a late answer
/// is not taken for the answer to the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Number {
    place: usize,
    turn: u64,
}

impl Number {
    fn parse(text: &str) -> Option<Self> {
        let (place, turn) = text.split_once('-')?;
        Some(Self { place: place.parse().ok()?, turn: turn.parse().ok()? })
    }
}

#[derive(Debug, Default)]
struct Places {
    places: Vec<Place>,
    free: Vec<usize>,
    /// No answer will come any more.
    over: bool,
}

#[derive(Debug)]
struct Place {
    turn: u64,
    since: Instant,
    answer: Option<Answer>,
    waker: Option<Waker>,
}

impl Places {
    fn take(&mut self, now: Instant) -> Number {
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(Place { turn: 0, since: now, answer: None, waker: None });
            self.places.len() - 1
        });
        let taken = &mut self.places[place];
        taken.since = now;
        Number { place, turn: taken.turn }
    }

    /// Whoever gets the answer leaves the place.
    fn poll(&mut self, number: Number, waker: &Waker) -> Poll<Answer> {
        let place = &mut self.places[number.place];
        let answer = place.answer.take().or_else(|| self.over.then(|| Err(broken())));
        match answer {
            Some(answer) => {
                self.leave(number);
                Poll::Ready(answer)
            }
            None => {
                place.waker.get_or_insert_with(|| waker.clone()).clone_from(waker);
                Poll::Pending
            }
        }
    }

    fn leave(&mut self, number: Number) {
        let place = &mut self.places[number.place];
        (place.turn, place.answer, place.waker) = (place.turn + 1, None, None);
        self.free.push(number.place);
    }

    /// Notes an answer and returns who is to be woken.
    fn note(&mut self, number: Number, answer: Answer) -> Option<Waker> {
        let place = self.places.get_mut(number.place).filter(|place| place.turn == number.turn)?;
        place.answer.get_or_insert(answer);
        place.waker.take()
    }

    /// Whoever waits since that time gets this answer.
    fn give_up(&mut self, since: Instant, error: fn() -> PublishError) -> Vec<Waker> {
        let late = self.places.iter_mut().filter(|place| place.waker.is_some() && place.since <= since);
        late.filter_map(|place| {
            place.answer.get_or_insert_with(|| Err(error()));
            place.waker.take()
        })
        .collect()
    }

    fn end(&mut self) -> Vec<Waker> {
        self.over = true;
        self.give_up(Instant::now(), broken)
    }
}

/// Until the connection is over.
async fn hear(answers: Subscriber, prefix: usize, places: Arc<Mutex<Places>>, timeout: Duration) {
    let mut answers = answers.ready_chunks(AT_ONCE);
    let pause = (timeout / LOOKS).max(Duration::from_millis(1));
    let mut look = interval(pause);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            heard = answers.next() => match heard {
                Some(messages) => note_all(&messages, prefix, &places),
                None => break,
            },
            // Rather one look too early than too late: others count on this time.
            now = look.tick() => if let Some(since) = (now + pause).checked_sub(timeout) {
                let late = lock(&places).give_up(since, || PublishError::new(PublishErrorKind::TimedOut));
                wake(late);
            },
        }
    }
    let waiting = lock(&places).end();
    wake(waiting);
}

/// Reads before it locks, and wakes afterwards.
fn note_all(messages: &[Message], prefix: usize, places: &Mutex<Places>) {
    let read = |message: &Message| Some((Number::parse(message.subject.get(prefix..)?)?, read(message)));
    let answers: Vec<(Number, Answer)> = messages.iter().filter_map(read).collect();
    let mut places = lock(places);
    let woken: Vec<Waker> =
        answers.into_iter().filter_map(|(number, answer)| places.note(number, answer)).collect();
    drop(places);
    wake(woken);
}

fn wake(waiting: Vec<Waker>) {
    waiting.into_iter().for_each(Waker::wake);
}

fn broken() -> PublishError {
    PublishError::new(PublishErrorKind::BrokenPipe)
}

/// What a stream says.
#[derive(Deserialize)]
struct Document<'m> {
    error: Option<jetstream::Error>,
    #[serde(borrow)]
    stream: Option<Cow<'m, str>>,
    seq: Option<u64>,
    #[serde(default)]
    duplicate: bool,
}

fn read(message: &Message) -> Answer {
    if message.status == Some(StatusCode::NO_RESPONDERS) {
        return Err(PublishError::new(PublishErrorKind::StreamNotFound));
    }
    let other = |error| PublishError::with_source(PublishErrorKind::Other, error);
    match serde_json::from_slice(&message.payload).map_err(other)? {
        Document { error: Some(error), .. } => Err(PublishError::with_source(PublishErrorKind::Other, error)),
        Document { stream: Some(stream), seq: Some(sequence), duplicate: true, .. } => {
            Ok(Stored::Already { stream: stream.into_owned(), sequence })
        }
        Document { stream: Some(_), seq: Some(_), .. } => Ok(Stored::Anew),
        _ => Err(other(serde::de::Error::custom("no acknowledgement of a stream"))),
    }
}

fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use futures::task::noop_waker;
    use posthaste_testkit::brokers::nats::NatsServer;

    use super::*;

    const STORED: &str = r#"{"stream":"S","seq":7}"#;

    fn kind(answer: Answer) -> PublishErrorKind {
        answer.expect_err("no acknowledgement").kind()
    }

    fn said(payload: &str) -> Answer {
        read(&message("x", payload))
    }

    fn message(subject: &str, payload: &str) -> Message {
        let (status, description, length) = (None, None, payload.len());
        let payload = payload.to_owned().into();
        Message { subject: subject.into(), reply: None, payload, headers: None, status, description, length }
    }

    #[test]
    fn only_a_stream_with_a_sequence_has_stored_it() {
        assert_eq!(said(STORED).expect("stored"), Stored::Anew);
        let again = said(r#"{"stream":"S","seq":7,"duplicate":true}"#).expect("stored");
        assert_eq!(again, Stored::Already { stream: "S".into(), sequence: 7 });
        let refused = r#"{"error":{"code":400,"err_code":10060,"description":"no"},"stream":"S","seq":0}"#;
        let refused = said(refused).expect_err("refused");
        let source = std::error::Error::source(&refused).expect("a reason");
        assert!(source.downcast_ref::<jetstream::Error>().is_some(), "{refused}");
        for gibberish in ["", "OK", "{}", r#"{"stream":"S"}"#, r#"{"seq":7}"#, r#"{"stream":1,"seq":7}"#] {
            let error = said(gibberish).expect_err("nobody's acknowledgement");
            let source = std::error::Error::source(&error).expect("a reason");
            assert!(source.downcast_ref::<serde_json::Error>().is_some(), "{gibberish}: {error}");
        }
        let nobody = Message { status: Some(StatusCode::NO_RESPONDERS), ..message("x", "") };
        assert_eq!(kind(read(&nobody)), PublishErrorKind::StreamNotFound);
    }

    #[tokio::test]
    async fn a_late_answer_is_not_taken_for_that_to_the_next_message() {
        let (mut places, waker) = (Places::default(), noop_waker());
        let first = places.take(Instant::now());
        assert!(places.poll(first, &waker).is_pending());
        places.leave(first);
        let second = places.take(Instant::now());
        assert_eq!(second.place, first.place, "the place is used again");
        assert!(places.note(first, Ok(Stored::Anew)).is_none());
        assert!(places.poll(second, &waker).is_pending());
        places.note(second, Err(broken()));
        places.note(second, Ok(Stored::Anew));
        let Poll::Ready(answer) = places.poll(second, &waker) else { panic!("answered") };
        assert_eq!(kind(answer), PublishErrorKind::BrokenPipe, "the first one counts");
    }

    #[tokio::test]
    async fn nobody_waits_for_a_connection_that_is_over() {
        let (mut places, waker) = (Places::default(), noop_waker());
        let (asked, unasked) = (places.take(Instant::now()), places.take(Instant::now()));
        assert!(places.poll(asked, &waker).is_pending());
        assert_eq!(places.end().len(), 1, "who waits is woken");
        let later = places.take(Instant::now());
        for number in [asked, unasked, later] {
            let Poll::Ready(answer) = places.poll(number, &waker) else { panic!("{number:?} waits") };
            assert_eq!(kind(answer), PublishErrorKind::BrokenPipe);
        }
    }

    #[tokio::test]
    async fn who_gets_no_answer_is_told_so_when_the_time_is_over_and_not_before() {
        let Ok(server) = NatsServer::start("").await else { return };
        let client = async_nats::connect(server.url()).await.expect("a connection");
        let timeout = Duration::from_millis(400);
        let answers = Answers::listen(&client, timeout).await.expect("listens");
        let start = Instant::now();
        let (silent, answered) = (answers.expect(start), answers.expect(start));
        client.publish(answered.reply_to(), STORED.into()).await.expect("sent");
        let (silent, answered) = tokio::join!(silent, answered);
        assert_eq!(answered.expect("stored"), Stored::Anew);
        assert_eq!(kind(silent), PublishErrorKind::TimedOut);
        assert!(start.elapsed() >= timeout - timeout / LOOKS, "{:?}", start.elapsed());
        let long_ago = start.checked_sub(timeout).expect("a moment");
        assert_eq!(kind(answers.expect(long_ago).await), PublishErrorKind::TimedOut);
    }
}
