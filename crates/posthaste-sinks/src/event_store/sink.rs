//! Appending pages to the table.

use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use posthaste::{Outcome, Page, Sink};
use sqlx::{AssertSqlSafe, Connection, PgConnection};

use super::errors::{Failure, failure};
use super::link::Link;
use super::rest::Rest;
use super::rows::{Columns, Row};
use super::settings::EventStoreSettings;
use super::state::State;
use super::table::{Statements, TAKE_TURNS};
use crate::endpoint::{Endpoint, Route};

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
}

impl EventStoreSink {
    /// Nothing is connected yet; the error is a sentence.
    pub fn new(settings: EventStoreSettings, route: Route) -> Result<Self, String> {
        let options = settings.options()?;
        let place = match options.get_socket() {
            Some(socket) => socket.display().to_string(),
            None => format!("{}:{}", options.get_host(), options.get_port()),
        };
        let place = format!("{} in {} at {place}", settings.table(), options.get_database().unwrap_or("?"));
        let link = Link::new(options, settings.timeout());
        let statements = Statements::about(settings.table_name());
        Ok(Self { settings, route, place, link, statements, ready: AtomicBool::new(false) })
    }

    async fn append(&self, page: &Page, rows: &[Option<Row>], group: &[usize]) -> Result<(), Failure> {
        let columns = Columns::of(page, rows, group);
        let stored =
            self.link.run(async |connection: &mut PgConnection| self.store(connection, &columns).await).await;
        stored.map_err(|error| {
            // Somebody may have dropped the table: the next page looks again.
            self.ready.store(false, Ordering::Relaxed);
            failure(&error, &self.settings)
        })
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
            if state.exists {
                let columns = sqlx::query(AssertSqlSafe(self.statements.columns.as_str()));
                columns.persistent(false).execute(connection).await?;
            }
            Ok(state)
        };
        self.link.run_anew(looking).await
    }

    fn sentence(&self, error: &sqlx::Error) -> String {
        let reason = match failure(error, &self.settings) {
            Failure::All(Outcome::Unavailable { reason } | Outcome::Retry { reason, .. }) => reason,
            Failure::Row(reason) => reason,
            Failure::All(other) => format!("{other:?}"),
        };
        format!("{}: {reason}", self.describe())
    }
}

#[async_trait]
impl Sink for EventStoreSink {
    /// One statement for the page. If a row is refused, the page is halved until that row is found.
    async fn deliver(&self, page: &mut Page) {
        let mut rest = Rest::new(self.route.in_key_order);
        let rows = rest.prepare(page, &self.route);
        while let Some(group) = rest.next(page) {
            match self.append(page, &rows, &group).await {
                Ok(()) => group.iter().for_each(|index| page.delivered(*index)),
                Err(Failure::Row(_)) if group.len() > 1 => rest.split(group),
                Err(Failure::Row(reason)) => rest.fail(page, &group, &Outcome::dead(reason)),
                Err(Failure::All(outcome @ Outcome::Unavailable { .. })) => {
                    rest.fail(page, &group, &outcome);
                    rest.give_up(page, &outcome);
                }
                Err(Failure::All(outcome)) => rest.fail(page, &group, &outcome),
            }
        }
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
