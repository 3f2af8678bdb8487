//! Appending pages to the table.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste::{Outcome, Page, Sink};
use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::time::Instant;

use super::errors::{Failure, failure};
use super::link::{Link, Turn};
use super::rest::Rest;
use super::rows::{Columns, Row};
use super::settings::EventStoreSettings;
use super::state::State;
use super::table::{Statements, TAKE_TURNS};
use crate::endpoint::{Endpoint, Route, after_silence, too_late, unless_away};
use crate::suspicion::{Suspects, Suspicion};

/// Appends events to a table.
#[derive(Debug)]
pub struct EventStoreSink {
    settings: EventStoreSettings,
    route: Route,
    place: String,
    link: Link,
    statements: Statements,
    /// The table was seen, or made.
    ready: AtomicBool,
    suspicion: Suspicion,
}

impl EventStoreSink {
    /// Nothing is connected yet; the error is a sentence.
    pub fn new(mut settings: EventStoreSettings, route: Route) -> Result<Self, String> {
        settings.timeout = route.long_patience(settings.timeout);
        let options = settings.options()?;
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let place = format!("{} in {} at {place}", settings.table(), options.get_database().unwrap_or("?"));
        let link = Link::new(options, settings.timeout());
        let statements = Statements::about(settings.table_name());
        let (ready, suspicion) = (AtomicBool::new(false), Suspicion::default());
        Ok(Self { settings, route, place, link, statements, ready, suspicion })
    }

    async fn append(
        &self,
        turn: &mut Turn<'_>,
        page: &Page,
        rows: &[Option<Row>],
        group: &[usize],
    ) -> Result<(), Failure> {
        let columns = Columns::of(page, rows, group);
        let storing = async |connection: &mut PgConnection| self.store(connection, &columns).await;
        self.link.run(turn, storing).await.map_err(|error| {
            // Somebody may have dropped the table: the next page looks again.
            self.ready.store(false, Ordering::Relaxed);
            failure(&error, &self.settings)
        })
    }

    /// Whether it was the server, which then fails a check too. `Ok` is what it means for a single row.
    async fn ask_about(&self, failure: Failure) -> Result<Outcome, Outcome> {
        let meaning = match failure {
            Failure::Row(reason) => Outcome::dead(reason),
            Failure::All(outcome) => outcome,
            Failure::Silence(silence) => after_silence(self, &silence, self.settings.timeout()).await,
            Failure::Doubtful(reason) => unless_away(self, reason, self.settings.timeout()).await,
        };
        match meaning {
            away @ Outcome::Unavailable { .. } => Err(away),
            about_rows => Ok(about_rows),
        }
    }

    async fn store(&self, connection: &mut PgConnection, columns: &Columns<'_>) -> Result<(), sqlx::Error> {
        let mut tx = connection.begin().await?;
        let turn = sqlx::query(TAKE_TURNS).persistent(false).bind(self.settings.table());
        turn.execute(&mut *tx).await?;
        if self.settings.creates_table() && !self.ready.load(Ordering::Relaxed) {
            self.create(&mut tx).await?;
        }
        // Not kept prepared: a pooler between us and the server may hand the next page to another session.
        sqlx::query(AssertSqlSafe(self.statements.append.as_str()))
            .persistent(false)
            .bind(&columns.id)
            .bind(&columns.namespace)
            .bind(&columns.topic)
            .bind(&columns.event_type)
            .bind(&columns.key)
            .bind(&columns.aggregate_type)
            .bind(&columns.aggregate_id)
            .bind(&columns.tenant_id)
            .bind(&columns.content_type)
            .bind(&columns.payload)
            .bind(&columns.headers)
            .bind(&columns.created_at)
            .execute(&mut *tx)
            .await?;
        tx.commit().await?;
        self.ready.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// `create table if not exists` would ask for the right to create even where the table is there.
    async fn create(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        if !State::of(connection, self.settings.table_name()).await?.exists {
            sqlx::raw_sql(AssertSqlSafe(self.statements.create_table.as_str())).execute(connection).await?;
        }
        Ok(())
    }

    async fn look(&self) -> Result<State, sqlx::Error> {
        let looking = async |connection: &mut PgConnection| {
            let state = State::of(connection, self.settings.table_name()).await?;
            if state.exists && state.problem(&self.settings).is_none() {
                self.rehearse(connection).await?;
            }
            Ok(state)
        };
        self.link.run_anew(looking).await
    }

    /// All that an append needs, and nothing is appended: the columns, the rights, our turn, the table's lock.
    async fn rehearse(&self, connection: &mut PgConnection) -> Result<(), sqlx::Error> {
        let mut tx = connection.begin().await?;
        let columns = sqlx::query(AssertSqlSafe(self.statements.columns.as_str()));
        columns.persistent(false).execute(&mut *tx).await?;
        let turn = sqlx::query(TAKE_TURNS).persistent(false).bind(self.settings.table());
        turn.execute(&mut *tx).await?;
        let nothing = sqlx::query(AssertSqlSafe(self.statements.rehearse.as_str()));
        nothing.persistent(false).execute(&mut *tx).await?;
        tx.rollback().await
    }

    fn sentence(&self, error: &sqlx::Error) -> String {
        let reason = match failure(error, &self.settings) {
            Failure::All(Outcome::Unavailable { reason } | Outcome::Retry { reason, .. }) => reason,
            Failure::Row(reason) | Failure::Doubtful(reason) | Failure::Silence(reason) => reason,
            Failure::All(other) => format!("{other:?}"),
        };
        format!("{}: {reason}", self.describe())
    }
}

/// A page on its way.
struct Course<'c> {
    sink: &'c EventStoreSink,
    page: &'c mut Page,
    rows: Vec<Option<Row>>,
    rest: Rest,
    suspects: Suspects<'c>,
}

impl Course<'_> {
    /// Group by group; the outcome is for this group and the rest.
    async fn run(&mut self, last_start: Instant) {
        while let Some(group) = self.rest.next(self.page) {
            if let Err(outcome) = self.append(&group, last_start).await {
                self.rest.fail(self.page, &group, &outcome);
                self.rest.give_up(self.page, &outcome);
            }
        }
        self.suspects.judge(self.page);
    }

    async fn append(&mut self, group: &[usize], last_start: Instant) -> Result<(), Outcome> {
        let mut turn = self.sink.link.turn(last_start).await.ok_or_else(too_late)?;
        if Instant::now() >= last_start {
            return Err(too_late());
        }
        let sent = Instant::now();
        let stored = self.sink.append(&mut turn, self.page, &self.rows, group).await;
        drop(turn);
        match stored {
            Ok(()) => {
                self.suspects.accepted();
                group.iter().for_each(|index| self.page.delivered(*index));
            }
            Err(failure) => self.find_out(group, failure, sent).await?,
        }
        Ok(())
    }

    /// Which row it was. A refusal comes at once, so the group is halved until the row is found; silence takes its time,
    /// so each row goes alone.
    async fn find_out(&mut self, group: &[usize], failure: Failure, sent: Instant) -> Result<(), Outcome> {
        let (silence, refused) = (matches!(failure, Failure::Silence(_)), matches!(failure, Failure::Row(_)));
        let doubtful = silence || matches!(failure, Failure::Doubtful(_));
        let outcome = self.sink.ask_about(failure).await?;
        if let ([_, _, ..], true) = (group, doubtful) {
            self.suspects.fell_silent(sent);
        }
        let outcome = match group {
            [index] if doubtful => self.suspects.suspect(*index, sent, outcome),
            _ => outcome,
        };
        match group {
            [_, _, ..] if silence => self.rest.split_up(group),
            [_, _, ..] if refused || doubtful => self.rest.split(group),
            _ => self.rest.fail(self.page, group, &outcome),
        }
        match self.suspects.are_innocent() {
            true => Err(Outcome::unavailable("not sent: nothing is stored")),
            false => Ok(()),
        }
    }
}

#[async_trait]
impl Sink for EventStoreSink {
    /// One statement for the page, as long as no row is in the way.
    async fn deliver(&self, page: &mut Page) {
        let last_start = self.route.last_start(page, self.settings.timeout());
        let mut rest = Rest::new(self.route.in_key_order);
        let rows = rest.prepare(page, &self.route);
        Course { sink: self, page, rows, rest, suspects: self.suspicion.suspects() }.run(last_start).await;
    }

    async fn check(&self) -> Result<(), String> {
        let state = self.look().await.map_err(|error| self.sentence(&error))?;
        state.problem(&self.settings).map_or(Ok(()), |problem| Err(format!("{}: {problem}", self.describe())))
    }
}

#[async_trait]
impl Endpoint for EventStoreSink {
    fn describe(&self) -> String {
        format!("event_store {}", self.place)
    }

    async fn warnings(&self) -> Vec<String> {
        match self.look().await {
            Ok(state) => state.warnings(&self.settings),
            Err(error) => vec![self.sentence(&error)],
        }
    }
}
