//! The handle applications hold: enqueue, start workers, claim by hand, operate.

use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use tokio_util::sync::{CancellationToken, DropGuard};

use crate::claim::Claims;
use crate::enqueue::{self, Database, Log, Producer};
use crate::error::{InvalidEvent, Result};
use crate::event::{Enqueued, Limits, NewEvent};
#[cfg(feature = "postgres")]
use crate::id::SchemaName;
use crate::id::WorkerName;
use crate::observe::Bell;
use crate::registry::Registry;
use crate::sink::{Handler, Receiver, Sink};
use crate::store::Store;
use crate::store::admin::AdminStore;
use crate::subscription::Subscription;
use crate::wake::Doorkeeper;
use crate::worker::{Roster, WorkerBuilder};

#[cfg(feature = "postgres")]
mod transactional;

/// An open log. Cheap to clone; all clones share one listener and wake each other.
#[derive(Debug, Clone)]
pub struct Posthaste {
    pub(crate) store: Arc<dyn Store>,
    pub(crate) admin_store: Arc<dyn AdminStore>,
    pub(crate) log: Log,
    limits: Limits,
    registry: Option<Registry>,
    door: Arc<Doorkeeper>,
    due_bell: Arc<Bell>,
    roster: Arc<Roster>,
    watching: Arc<Mutex<Weak<DropGuard>>>,
}

impl Posthaste {
    /// A log in PostgreSQL, in the schema `posthaste`.
    #[cfg(feature = "postgres")]
    pub fn postgres(pool: sqlx::PgPool) -> Self {
        Self::postgres_in(pool, SchemaName::default())
    }

    /// A log in PostgreSQL, in a schema of your choice.
    #[cfg(feature = "postgres")]
    pub fn postgres_in(pool: sqlx::PgPool, schema: SchemaName) -> Self {
        let store = crate::store::postgres::PgStore::new(pool, schema);
        let admin_store: Arc<dyn AdminStore> = Arc::new(store.clone());
        Self::open(Arc::new(store.clone()), admin_store, Database::Postgres(store))
    }

    /// A log in a SQLite database. Open the pool with [`sqlite_options`](crate::sqlite_options).
    #[cfg(feature = "sqlite")]
    pub fn sqlite(pool: sqlx::SqlitePool) -> Self {
        let store = crate::store::sqlite::SqliteStore::new(pool);
        let admin_store: Arc<dyn AdminStore> = Arc::new(store.clone());
        Self::open(Arc::new(store.clone()), admin_store, Database::Sqlite(store))
    }

    fn open(store: Arc<dyn Store>, admin_store: Arc<dyn AdminStore>, database: Database) -> Self {
        Self {
            store,
            admin_store,
            log: Log(database),
            limits: Limits::default(),
            registry: None,
            door: Arc::new(Doorkeeper::new()),
            due_bell: Arc::default(),
            roster: Arc::default(),
            watching: Arc::default(),
        }
    }

    /// Sends statements to PostgreSQL without preparing them, and does without LISTEN: for a pool of connections to a pooler
    /// that gives each transaction to another connection of the server, such as PgBouncer in transaction mode. New events
    /// are then found by polling, and a statement costs more round trips than usual. Call it before anything is started;
    /// on SQLite it changes nothing.
    ///
    /// Enqueue in a transaction then, begun by sqlx. The statements of your application are its own: give them
    /// `persistent(false)`, and send them in transactions as well.
    pub fn without_prepared_statements(self) -> Self {
        match self.log.0.clone() {
            #[cfg(feature = "postgres")]
            Database::Postgres(store) => {
                let store = store.without_prepared_statements();
                Self {
                    store: Arc::new(store.clone()),
                    admin_store: Arc::new(store.clone()),
                    log: Log(Database::Postgres(store)),
                    ..self
                }
            }
            #[cfg(feature = "sqlite")]
            Database::Sqlite(_) => self,
        }
    }

    /// Changes how large events may be.
    pub fn with_limits(mut self, change: impl FnOnce(&mut Limits)) -> Self {
        change(&mut self.limits);
        self
    }

    /// Lets only events be enqueued that fit the registry. Producers that call the SQL function are not checked here:
    /// put [`Registry::checked`] before the sink.
    pub fn with_registry(mut self, registry: Registry) -> Self {
        self.registry = Some(registry);
        self
    }

    pub(crate) fn max_payload(&self) -> usize {
        self.limits.max_payload
    }

    /// Creates Posthaste's tables or brings them up to date. Safe to call at every start and from many processes.
    ///
    /// On PostgreSQL it also creates three roles without a login, named after the schema, and gives them their rights:
    /// `posthaste_producer` enqueues and sees nothing, `posthaste_relay` delivers and changes no event, `posthaste_viewer`
    /// reads. If the user may not create roles, it goes on without them; what an administrator can run is in the log, as a
    /// notice of the server. Roles of these names that are there get what they lack.
    pub async fn migrate(&self) -> Result<()> {
        self.store.migrate().await
    }

    /// The SQL that [`migrate`](Self::migrate) runs, one text per version, oldest first, for those who apply it with a tool
    /// of their own. Each is complete: the first creates the schema, and each records the version it brings about. On
    /// PostgreSQL one more follows, which creates the roles and gives them their rights: it may run any number of times, and
    /// must run again after each later version.
    pub fn migration_sql(&self) -> Vec<String> {
        self.store.migration_sql()
    }

    /// The version of the tables that this program works with.
    pub fn schema_version(&self) -> usize {
        self.store.schema_version()
    }

    /// Enqueues an event on the caller's connection: it exists if and only if the caller's transaction commits.
    ///
    /// Bad input is refused before any SQL is sent, so it never aborts the transaction. What stays possible, and is
    /// worth running the transaction again, is [`ErrorKind::Conflict`](crate::ErrorKind::Conflict): a serialisation
    /// failure under REPEATABLE READ, or a deadlock between callers that enqueue the same dedupe keys.
    pub async fn enqueue(&self, connection: &mut impl Producer, event: NewEvent) -> Result<Enqueued> {
        let enqueued = self.enqueue_checked(connection, &[event]).await?;
        enqueued.into_iter().next().ok_or_else(|| crate::Error::Corrupt("enqueue answered nothing".into()))
    }

    /// Enqueues many events with one statement, in the order given. All or nothing.
    pub async fn enqueue_many(
        &self,
        connection: &mut impl Producer,
        events: impl IntoIterator<Item = NewEvent>,
    ) -> Result<Vec<Enqueued>> {
        let events: Vec<NewEvent> = events.into_iter().collect();
        self.enqueue_checked(connection, &events).await
    }

    async fn enqueue_checked(
        &self,
        connection: &mut impl Producer,
        events: &[NewEvent],
    ) -> Result<Vec<Enqueued>> {
        if let Some(registry) = &self.registry {
            events.iter().try_for_each(|event| registry.check_new(event)).map_err(InvalidEvent::from)?;
        }
        enqueue::enqueue(&self.log, &self.limits, connection, events).await
    }

    /// Wakes the workers of this process. Call it after the commit, never before: a worker that looks too early finds
    /// nothing. Not needed for delivery, only for speed.
    pub fn wake(&self) {
        self.door.bell.ring();
        self.due_bell.ring();
    }

    /// A worker that calls `handler` for every event, several at a time.
    pub fn handler(&self, subscription: Subscription, handler: impl Handler) -> WorkerBuilder {
        self.worker(subscription, Receiver::Handler(Arc::new(handler)))
    }

    /// A worker that hands pages of events to a sink.
    pub fn sink(&self, subscription: Subscription, sink: impl Sink) -> WorkerBuilder {
        self.worker(subscription, Receiver::Sink(Arc::new(sink)))
    }

    /// Claims by hand: a page at a time, each event settled alone.
    pub async fn claims(&self, subscription: &Subscription) -> Result<Claims> {
        Claims::open(self.store.clone(), subscription).await
    }

    pub(crate) fn worker(&self, subscription: Subscription, receiver: Receiver) -> WorkerBuilder {
        WorkerBuilder {
            store: self.store.clone(),
            door: self.door.clone(),
            watching: self.watch(),
            due_bell: self.due_bell.clone(),
            roster: self.roster.clone(),
            subscription,
            receiver,
            name: WorkerName::unique(),
            grace: Duration::from_secs(25),
        }
    }

    /// One watcher per handle, alive as long as a worker is.
    fn watch(&self) -> Arc<DropGuard> {
        let mut watching = self.watching.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(guard) = watching.upgrade() {
            return guard;
        }
        let stop = CancellationToken::new();
        let guard = Arc::new(stop.clone().drop_guard());
        *watching = Arc::downgrade(&guard);
        let (store, bell) = (self.store.clone(), self.door.bell.clone());
        tokio::spawn(async move { store.watch(bell, stop).await });
        guard
    }
}
