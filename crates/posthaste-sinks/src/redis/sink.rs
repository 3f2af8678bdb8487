//! Delivering to streams.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste::{Event, Outcome, Page, Sink};
use redis::{Client, ErrorKind, RedisResult, Script};
use tokio::time::{Instant, timeout};

use super::connection::{Connection, ask, client};
use super::errors::{Failure, breaks_connection, explain, failed, refused};
use super::fields::Entry;
use super::script::{self, Answer};
use super::settings::RedisSettings;
use super::transaction::{self, Done};
use super::warnings;
use crate::endpoint::{Endpoint, Route, after_silence, too_late};
use crate::suspicion::{Suspects, Suspicion};

/// A script holds up everybody else, so it gets no more than this at a time. A larger event goes alone.
const PART_BYTES: usize = 4 * 1024 * 1024;
const PART_EVENTS: usize = 1000;

/// Adds events to streams.
#[derive(Debug)]
pub struct RedisSink {
    settings: RedisSettings,
    route: Route,
    client: Client,
    script: Script,
    /// Until one could be begun but not ended.
    transactions: AtomicBool,
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
    suspicion: Suspicion,
}

/// An event that can be sent, and where it stands.
struct Ready {
    index: usize,
    chain: usize,
    entry: Entry,
}

impl RedisSink {
    /// Reads certificates and opens nothing else: the first page or health check connects.
    pub fn new(mut settings: RedisSettings, route: Route) -> Result<Self, String> {
        settings.timeout = route.long_patience(settings.timeout);
        let client = client(&settings)?;
        let script = Script::new(include_str!("script.lua"));
        let (connection, suspicion) = (tokio::sync::Mutex::default(), Suspicion::default());
        let transactions = AtomicBool::new(true);
        Ok(Self { settings, route, client, script, transactions, connection, suspicion })
    }

    /// The connection, or a new one if there is none that works. Whoever comes meanwhile waits for the same one.
    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut place = self.connection.lock().await;
        // Taken out before it is tried: should we be given up meanwhile, the next one does not try it again.
        if let Some(connection) = place.take()
            && connection.is_alive().await
        {
            return Ok(place.insert(connection).clone());
        }
        let opened = Connection::open(&self.client, self.settings.timeout).await;
        let opened = opened.map_err(|sentence| format!("{}: {sentence}", self.describe()))?;
        Ok(place.insert(Arc::new(opened)).clone())
    }

    /// Within the deadline, after which the connection is not used again.
    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, String> {
        let limit = self.settings.timeout;
        match timeout(limit, work).await {
            Ok(done) => Ok(done),
            Err(_) => {
                self.forget();
                Err(format!("{}: no answer within {limit:?}", self.describe()))
            }
        }
    }

    /// Whoever holds the place at the moment is about to fill it with a new one.
    fn forget(&self) {
        if let Ok(mut place) = self.connection.try_lock() {
            *place = None;
        }
    }

    /// Marks what can never be sent, and what stands behind it in its key stays unmarked.
    fn ready(&self, page: &mut Page, longest: usize) -> Vec<Ready> {
        let events: Vec<Arc<Event>> = page.events().to_vec();
        let (mut ready, mut chains, mut stuck) = (Vec::new(), HashMap::new(), HashMap::new());
        for (index, event) in events.iter().enumerate() {
            let key = event.key.as_deref().filter(|_| self.route.in_key_order);
            if key.is_some_and(|key| stuck.contains_key(key)) {
                continue;
            }
            let chain = key.map_or(index, |key| *chains.entry(key).or_insert(index));
            let entry = Entry::new(&self.settings, &self.route, event);
            match entry.and_then(|entry| entry.check_size(longest).map(|()| entry)) {
                Ok(entry) => ready.push(Ready { index, chain, entry }),
                Err(sentence) => {
                    page.mark(index, Outcome::dead(format!("Redis: {sentence}")));
                    stuck.extend(key.map(|key| (key, ())));
                }
            }
        }
        ready
    }

    /// One deadline for all of it, also when the connection has to be opened or the script to be loaded.
    async fn send(&self, part: &[&Ready]) -> Result<Vec<Answer>, Failure> {
        let sending = async {
            let away = |sentence| Failure::Away(Outcome::unavailable(sentence));
            let connection = self.connection().await.map_err(away)?;
            self.add(&connection, part).await.map_err(|error| {
                if breaks_connection(&error) {
                    self.forget();
                }
                failed(&error, &self.describe(), self.one_stream())
            })
        };
        self.in_time(sending).await.unwrap_or_else(|silence| Err(Failure::Silence(silence)))
    }

    /// By a transaction if no event stands behind another one of its chain; if that does nothing, the script says why.
    async fn add(&self, connection: &Connection, part: &[&Ready]) -> RedisResult<Vec<Answer>> {
        let entries: Vec<&Entry> = part.iter().map(|ready| &ready.entry).collect();
        if self.transactions.load(Ordering::Relaxed) && part.iter().all(|ready| ready.chain == ready.index) {
            match transaction::add(connection, &entries).await? {
                Done::Answers(answers) => return Ok(answers),
                Done::Nothing => {}
                Done::Stuck => {
                    self.transactions.store(false, Ordering::Relaxed);
                    self.forget();
                    let what = "the next attempt does without one".to_owned();
                    return Err((ErrorKind::Io, "a transaction could not be ended", what).into());
                }
            }
        }
        let chains: Vec<usize> = part.iter().map(|ready| ready.chain).collect();
        script::add(connection, &self.script, &entries, &chains).await
    }

    fn one_stream(&self) -> bool {
        self.settings.stream.as_literal().is_some()
    }

    /// What the failure of an event that was sent alone, or of several, means for them.
    async fn meaning(&self, failure: Failure, stream: &str) -> Outcome {
        match failure {
            Failure::Silence(silence) => after_silence(self, &silence, self.settings.timeout).await,
            Failure::Doubtful(words) => refused(&words, stream, self.one_stream()),
            Failure::Away(outcome) => outcome,
        }
    }

    async fn look(&self) -> Result<(), String> {
        let connection = self.connection().await?;
        let said = |error| format!("{}: {}", self.describe(), explain(&error));
        ask::<()>(&connection, &["PING"]).await.map_err(said)?;
        let Some(stream) = self.settings.stream.as_literal() else { return Ok(()) };
        match ask::<String>(&connection, &["TYPE", stream]).await.map_err(said)?.as_str() {
            "none" | "stream" => Ok(()),
            other => Err(format!(
                "{}: {stream} is not a stream but a {other}; choose another name",
                self.describe()
            )),
        }
    }
}

/// A page on its way: the parts that are left, and what became of the others.
struct Turn<'t> {
    sink: &'t RedisSink,
    page: &'t mut Page,
    parts: VecDeque<&'t [Ready]>,
    /// Chains with a refused event.
    stuck: HashSet<usize>,
    suspects: Suspects<'t>,
}

impl<'t> Turn<'t> {
    /// One part after the other, so that what is refused in one stops its key in the next. The outcome is for the rest.
    async fn run(&mut self, last_start: Instant) -> Result<(), Outcome> {
        while let Some(part) = self.parts.pop_front() {
            let free: Vec<&Ready> = part.iter().filter(|ready| !self.stuck.contains(&ready.chain)).collect();
            let Some(first) = free.first() else { continue };
            if Instant::now() >= last_start {
                return Err(too_late());
            }
            let sent = Instant::now();
            match self.sink.send(&free).await {
                Ok(answers) => self.mark(&free, answers)?,
                Err(failure) => {
                    let silent_since = matches!(failure, Failure::Silence(_)).then_some(sent);
                    let outcome = self.sink.meaning(failure, &first.entry.stream).await;
                    self.one_by_one_or_blame(part, &free, outcome, silent_since)?;
                }
            }
        }
        Ok(())
    }

    fn mark(&mut self, part: &[&Ready], answers: Vec<Answer>) -> Result<(), Outcome> {
        let (everywhere, mut away) = (self.sink.one_stream(), None);
        for (ready, answer) in part.iter().zip(answers) {
            match answer {
                Answer::Added => {
                    self.suspects.accepted();
                    self.page.delivered(ready.index);
                }
                Answer::LeftOut => {}
                Answer::Refused(words) => {
                    let outcome = refused(&words, &ready.entry.stream, everywhere);
                    away = Some(outcome.clone()).filter(is_away).or(away);
                    self.blame(ready, outcome);
                }
            }
        }
        away.map_or(Ok(()), Err)
    }

    /// What failed a whole part although the server is there is found by sending its events one by one.
    fn one_by_one_or_blame(
        &mut self,
        part: &'t [Ready],
        free: &[&Ready],
        outcome: Outcome,
        silent_since: Option<Instant>,
    ) -> Result<(), Outcome> {
        if is_away(&outcome) {
            return Err(outcome);
        }
        if let [alone] = free {
            let outcome = match silent_since {
                Some(since) => self.suspects.suspect(alone.index, since, outcome),
                None => outcome,
            };
            self.blame(alone, outcome);
        } else {
            silent_since.inspect(|since| self.suspects.fell_silent(*since));
            part.chunks(1).rev().for_each(|alone| self.parts.push_front(alone));
        }
        match self.suspects.are_innocent() {
            true => Err(Outcome::unavailable("not sent: the receiver accepts nothing")),
            false => Ok(()),
        }
    }

    fn blame(&mut self, ready: &Ready, outcome: Outcome) {
        self.page.mark(ready.index, outcome);
        self.stuck.insert(ready.chain);
    }
}

fn is_away(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Unavailable { .. })
}

/// Parts that follow one another, none too large.
fn parts(ready: &[Ready]) -> VecDeque<&[Ready]> {
    let (mut parts, mut start, mut size) = (VecDeque::new(), 0, 0);
    for (place, next) in ready.iter().enumerate() {
        let with = size + next.entry.size();
        if place > start && (with > PART_BYTES || place - start >= PART_EVENTS) {
            parts.push_back(&ready[start..place]);
            (start, size) = (place, 0);
        }
        size += next.entry.size();
    }
    if start < ready.len() {
        parts.push_back(&ready[start..]);
    }
    parts
}

#[async_trait]
impl Sink for RedisSink {
    async fn deliver(&self, page: &mut Page) {
        let last_start = self.route.last_start(page, self.settings.timeout);
        let connection = match self.in_time(self.connection()).await.flatten() {
            Ok(connection) => connection,
            Err(sentence) => return page.mark_rest(&Outcome::unavailable(sentence)),
        };
        let ready = self.ready(page, connection.longest);
        let (parts, stuck, suspects) = (parts(&ready), HashSet::new(), self.suspicion.suspects());
        let mut turn = Turn { sink: self, page, parts, stuck, suspects };
        if let Err(outcome) = turn.run(last_start).await {
            turn.page.mark_rest(&outcome);
        }
        turn.suspects.judge(turn.page);
    }

    async fn check(&self) -> Result<(), String> {
        self.in_time(self.look()).await.flatten()
    }

    fn overlaps(&self) -> bool {
        true
    }
}

#[async_trait]
impl Endpoint for RedisSink {
    fn describe(&self) -> String {
        let RedisSettings { host, port, database, .. } = &self.settings;
        let database = if *database == 0 { String::new() } else { format!(", database {database}") };
        format!("redis at {host}:{port}{database}")
    }

    async fn warnings(&self) -> Vec<String> {
        let asking = async {
            let connection = self.connection().await.ok()?;
            Some(warnings::ask_all(&connection, &self.settings).await)
        };
        timeout(self.settings.timeout * 2, asking).await.ok().flatten().unwrap_or_default()
    }
}
