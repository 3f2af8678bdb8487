//! Delivering to streams.

use std::collections::HashMap;
use std::sync::Arc;

use async_trait::async_trait;
use posthaste::{Event, Outcome, Page, Sink};
use redis::{Client, Script};
use tokio::time::timeout;

use super::connection::{Connection, ask, client};
use super::errors::{breaks_connection, explain, failed, refused};
use super::fields::Entry;
use super::script::{Answer, add};
use super::settings::RedisSettings;
use super::warnings;
use crate::endpoint::{Endpoint, Route};

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
    connection: tokio::sync::Mutex<Option<Arc<Connection>>>,
}

/// An event that can be sent, and where it stands.
struct Ready {
    index: usize,
    chain: usize,
    entry: Entry,
}

impl RedisSink {
    /// Reads certificates and opens nothing else: the first page or health check connects.
    pub fn new(settings: RedisSettings, route: Route) -> Result<Self, String> {
        let client = client(&settings)?;
        let script = Script::new(include_str!("script.lua"));
        Ok(Self { settings, route, client, script, connection: tokio::sync::Mutex::default() })
    }

    /// The connection, or a new one if there is none that works. Whoever comes meanwhile waits for the same one.
    async fn connection(&self) -> Result<Arc<Connection>, String> {
        let mut place = self.connection.lock().await;
        if let Some(connection) = place.as_ref()
            && connection.is_alive().await
        {
            return Ok(connection.clone());
        }
        *place = None;
        let opening =
            timeout(self.settings.timeout * 2, Connection::open(&self.client, self.settings.timeout));
        let opened = opening.await.unwrap_or_else(|_| Err("no answer in time".to_owned())).map(Arc::new);
        *place = opened.as_ref().ok().cloned();
        opened.map_err(|sentence| format!("{}: {sentence}", self.describe()))
    }

    async fn forget(&self, connection: &Arc<Connection>) {
        let mut place = self.connection.lock().await;
        if place.as_ref().is_some_and(|current| Arc::ptr_eq(current, connection)) {
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

    /// Adds one part and marks it. Says which chains got stuck, or that there is no sense in going on.
    async fn add_part(
        &self,
        connection: &Arc<Connection>,
        page: &mut Page,
        part: &[&Ready],
    ) -> Result<Vec<usize>, Outcome> {
        let entries: Vec<&Entry> = part.iter().map(|ready| &ready.entry).collect();
        let chains: Vec<usize> = part.iter().map(|ready| ready.chain).collect();
        let answers = match add(connection, &self.script, &entries, &chains).await {
            Ok(answers) => answers,
            Err(error) => {
                if breaks_connection(&error) {
                    self.forget(connection).await;
                }
                return Err(failed(&error, &self.describe()));
            }
        };
        let everywhere = self.settings.stream.as_literal().is_some();
        let (mut stuck, mut away) = (Vec::new(), None);
        for (ready, answer) in part.iter().zip(answers) {
            match answer {
                Answer::Added => page.delivered(ready.index),
                Answer::LeftOut => {}
                Answer::Refused(words) => {
                    let outcome = refused(&words, &ready.entry.stream, everywhere);
                    if matches!(outcome, Outcome::Unavailable { .. }) {
                        away = Some(outcome.clone());
                    }
                    page.mark(ready.index, outcome);
                    stuck.push(ready.chain);
                }
            }
        }
        away.map_or(Ok(stuck), Err)
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

/// Parts that follow one another, none too large.
fn parts(ready: &[Ready]) -> Vec<&[Ready]> {
    let (mut parts, mut start, mut size) = (Vec::new(), 0, 0);
    for (place, next) in ready.iter().enumerate() {
        let with = size + next.entry.size();
        if place > start && (with > PART_BYTES || place - start >= PART_EVENTS) {
            parts.push(&ready[start..place]);
            (start, size) = (place, 0);
        }
        size += next.entry.size();
    }
    if start < ready.len() {
        parts.push(&ready[start..]);
    }
    parts
}

#[async_trait]
impl Sink for RedisSink {
    /// One part after the other, so that what is refused in one stops its key in the next.
    async fn deliver(&self, page: &mut Page) {
        let connection = match self.connection().await {
            Ok(connection) => connection,
            Err(sentence) => return page.mark_rest(&Outcome::unavailable(sentence)),
        };
        let ready = self.ready(page, connection.longest);
        let mut stuck: Vec<usize> = Vec::new();
        for part in parts(&ready) {
            let free: Vec<&Ready> = part.iter().filter(|ready| !stuck.contains(&ready.chain)).collect();
            match self.add_part(&connection, page, &free).await {
                Ok(more) => stuck.extend(more),
                Err(outcome) => return page.mark_rest(&outcome),
            }
        }
    }

    async fn check(&self) -> Result<(), String> {
        let patience = self.settings.timeout * 3;
        let answer = timeout(patience, self.look()).await;
        answer.unwrap_or_else(|_| Err(format!("{}: no answer within {patience:?}", self.describe())))
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
        let Ok(connection) = self.connection().await else { return Vec::new() };
        let asked = warnings::ask_all(&connection, &self.settings);
        timeout(self.settings.timeout * 2, asked).await.unwrap_or_default()
    }
}
