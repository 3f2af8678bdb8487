//! A consumer on each store, as the suite sees it, and the plain SETNX that the suite must be able to tell from them.

use std::future::Future;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use posthaste::inbox::{Once, OnceError, PostgresInbox, RedisInbox, SqliteInbox};
use posthaste_testkit::brokers::redis::RedisServer;
use posthaste_testkit::{TestDatabase, servers, sqlite_file};
use sqlx::{PgConnection, PgPool, SqliteConnection, SqlitePool};
use tokio::sync::Semaphore;

pub(crate) type Answer = Result<Once<()>, OnceError<String>>;

/// What the effect of one copy does, after it was noted.
#[derive(Debug, Clone)]
pub(crate) enum Act {
    Succeed,
    Fail,
    Panic,
    /// Waits inside, and then goes on with the other.
    Pause(Arc<Pause>, Box<Act>),
}

#[derive(Debug)]
pub(crate) struct Pause {
    entered: Semaphore,
    go: Semaphore,
}

impl Pause {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self { entered: Semaphore::new(0), go: Semaphore::new(0) })
    }

    /// An effect that stops here.
    pub(crate) fn then(self: &Arc<Self>, act: Act) -> Act {
        Act::Pause(self.clone(), Box::new(act))
    }

    /// Until an effect is inside.
    pub(crate) async fn entered(&self) {
        bounded(self.entered.acquire()).await.unwrap().forget();
    }

    /// Lets it go on.
    pub(crate) fn go_on(&self) {
        self.go.add_permits(1);
    }

    pub(crate) async fn stop_here(&self) {
        self.entered.add_permits(1);
        bounded(self.go.acquire()).await.unwrap().forget();
    }
}

impl Act {
    pub(crate) async fn run(self) -> Result<(), String> {
        match self {
            Self::Succeed => Ok(()),
            Self::Fail => Err("the effect failed".to_owned()),
            Self::Panic => panic!("the effect panicked, as it should in this test"),
            Self::Pause(pause, then) => {
                pause.stop_here().await;
                Box::pin(then.run()).await
            }
        }
    }
}

/// A store with consumers on it.
#[async_trait]
pub(crate) trait Bench: Send + Sync + 'static {
    /// One copy of an event arrives at a consumer.
    async fn once(&self, consumer: &str, id: &str, act: Act) -> Answer;

    /// How many effects of the event stand.
    async fn effects(&self, consumer: &str, id: &str) -> usize;

    /// The same store with consumers that remember for this long.
    fn keeping(&self, keep: Duration) -> Arc<dyn Bench>;

    /// Removes what is old.
    async fn clean(&self);
}

/// For a fact to come true, on the slowest of machines.
pub(crate) async fn bounded<T>(fact: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), fact).await.expect("within two minutes")
}

/// Sends copies of an event until one of them may be acknowledged.
pub(crate) async fn until_handled(bench: &dyn Bench, consumer: &str, id: &str) -> Once<()> {
    let started = Instant::now();
    loop {
        match bench.once(consumer, id, Act::Succeed).await.expect("the store is there") {
            Once::Busy { .. } if started.elapsed() < Duration::from_secs(120) => {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            answer => return answer,
        }
    }
}

// --- Redis

/// Longer than the worst machine stands still: a lease that runs out by accident would be a second effect, and rightly so.
pub(crate) const LEASE: Duration = Duration::from_secs(8);

/// Effects outside of the store: noted when the effect is over.
#[derive(Clone)]
pub(crate) struct RedisBench {
    pub(crate) server: Arc<RedisServer>,
    inbox: RedisInbox,
    noted: Arc<Mutex<Vec<(String, String)>>>,
}

impl RedisBench {
    pub(crate) async fn new() -> Self {
        let server = Arc::new(RedisServer::start(&[]).await.expect("a Redis server"));
        let inbox = RedisInbox::connect(&server.url(), "any").await.unwrap().lease(LEASE);
        Self { server, inbox, noted: Arc::default() }
    }

    pub(crate) fn inbox(&self, consumer: &str) -> RedisInbox {
        self.inbox.for_consumer(consumer).unwrap()
    }

    /// Runs one command.
    pub(crate) async fn run<T: ::redis::FromRedisValue>(&self, words: &[&str]) -> T {
        let client = ::redis::Client::open(self.server.url()).unwrap();
        let mut connection = client.get_multiplexed_async_connection().await.unwrap();
        let mut command = ::redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        command.query_async(&mut connection).await.expect("an answer")
    }

    fn note(&self, consumer: &str, id: &str) {
        self.noted.lock().unwrap().push((consumer.to_owned(), id.to_owned()));
    }

    fn count(&self, consumer: &str, id: &str) -> usize {
        self.noted.lock().unwrap().iter().filter(|(of, what)| of == consumer && what == id).count()
    }
}

#[async_trait]
impl Bench for RedisBench {
    async fn once(&self, consumer: &str, id: &str, act: Act) -> Answer {
        let effect = async |_fence| {
            act.run().await?;
            self.note(consumer, id);
            Ok(())
        };
        self.inbox(consumer).once(id, effect).await
    }

    async fn effects(&self, consumer: &str, id: &str) -> usize {
        self.count(consumer, id)
    }

    fn keeping(&self, keep: Duration) -> Arc<dyn Bench> {
        Arc::new(Self { inbox: self.inbox.clone().keep_for(keep), ..self.clone() })
    }

    /// Redis removes by itself.
    async fn clean(&self) {}
}

/// The control: `SET key 1 NX EX ttl` before the effect, `DEL key` after a failure, and whatever is set is a duplicate.
pub(crate) struct PlainSetnx(pub(crate) RedisBench);

#[async_trait]
impl Bench for PlainSetnx {
    async fn once(&self, consumer: &str, id: &str, act: Act) -> Answer {
        let key = format!("pf:evt:processed:{consumer}:{id}");
        let set: Option<String> = self.0.run(&["SET", &key, "1", "NX", "EX", "2592000"]).await;
        if set.is_none() {
            return Ok(Once::Duplicate);
        }
        if let Err(error) = act.run().await {
            let _: i64 = self.0.run(&["DEL", &key]).await;
            return Err(OnceError::Effect(error));
        }
        self.0.note(consumer, id);
        Ok(Once::Done(()))
    }

    async fn effects(&self, consumer: &str, id: &str) -> usize {
        self.0.count(consumer, id)
    }

    fn keeping(&self, _keep: Duration) -> Arc<dyn Bench> {
        Arc::new(Self(self.0.clone()))
    }

    async fn clean(&self) {}
}

// --- databases: effects are rows of the consumer's own table, written before the effect goes on

#[derive(Clone)]
pub(crate) struct PostgresBench {
    pub(crate) pool: PgPool,
    keep: Option<Duration>,
}

impl PostgresBench {
    /// In a database without a log.
    pub(crate) async fn new() -> Self {
        let pool = TestDatabase::empty_on(&servers()[0]).await.pool;
        sqlx::raw_sql("create table effects (consumer text, event_id text)").execute(&pool).await.unwrap();
        let bench = Self { pool, keep: None };
        bench.inbox("any").migrate().await.unwrap();
        bench
    }

    pub(crate) fn inbox(&self, consumer: &str) -> PostgresInbox {
        let inbox = PostgresInbox::new(self.pool.clone(), consumer).unwrap();
        self.keep.map(|keep| inbox.clone().keep_for(keep)).unwrap_or(inbox)
    }
}

#[async_trait]
impl Bench for PostgresBench {
    async fn once(&self, consumer: &str, id: &str, act: Act) -> Answer {
        let effect = async |tx: &mut PgConnection| {
            let insert = sqlx::query("insert into effects values ($1, $2)").bind(consumer).bind(id);
            insert.execute(tx).await.map_err(|error| error.to_string())?;
            act.run().await
        };
        self.inbox(consumer).once(id, effect).await
    }

    async fn effects(&self, consumer: &str, id: &str) -> usize {
        let count = sqlx::query_scalar("select count(*) from effects where consumer = $1 and event_id = $2");
        let count: i64 = count.bind(consumer).bind(id).fetch_one(&self.pool).await.unwrap();
        count.try_into().unwrap()
    }

    fn keeping(&self, keep: Duration) -> Arc<dyn Bench> {
        Arc::new(Self { keep: Some(keep), ..self.clone() })
    }

    async fn clean(&self) {
        self.inbox("any").clean().await.unwrap();
    }
}

#[derive(Clone)]
pub(crate) struct SqliteBench {
    pub(crate) pool: SqlitePool,
    pub(crate) path: std::path::PathBuf,
    keep: Option<Duration>,
    _folder: Arc<tempfile::TempDir>,
}

impl SqliteBench {
    /// In a file without a log.
    pub(crate) async fn new() -> Self {
        let (folder, path) = sqlite_file();
        let pool = SqlitePool::connect_with(posthaste::sqlite_options(&path)).await.unwrap();
        sqlx::raw_sql("create table effects (consumer text, event_id text)").execute(&pool).await.unwrap();
        let bench = Self { pool, path, keep: None, _folder: Arc::new(folder) };
        bench.inbox("any").migrate().await.unwrap();
        bench
    }

    pub(crate) fn inbox(&self, consumer: &str) -> SqliteInbox {
        let inbox = SqliteInbox::new(self.pool.clone(), consumer).unwrap();
        self.keep.map(|keep| inbox.clone().keep_for(keep)).unwrap_or(inbox)
    }
}

#[async_trait]
impl Bench for SqliteBench {
    async fn once(&self, consumer: &str, id: &str, act: Act) -> Answer {
        let effect = async |tx: &mut SqliteConnection| {
            let insert = sqlx::query("insert into effects values (?1, ?2)").bind(consumer).bind(id);
            insert.execute(tx).await.map_err(|error| error.to_string())?;
            act.run().await
        };
        self.inbox(consumer).once(id, effect).await
    }

    async fn effects(&self, consumer: &str, id: &str) -> usize {
        let count = sqlx::query_scalar("select count(*) from effects where consumer = ?1 and event_id = ?2");
        let count: i64 = count.bind(consumer).bind(id).fetch_one(&self.pool).await.unwrap();
        count.try_into().unwrap()
    }

    fn keeping(&self, keep: Duration) -> Arc<dyn Bench> {
        Arc::new(Self { keep: Some(keep), ..self.clone() })
    }

    async fn clean(&self) {
        self.inbox("any").clean().await.unwrap();
    }
}
