//! One log, two independent listeners: `broadcast` gets every event, `companion` only what users wrote.
//!
//! The companion is away for a while. Its subscription retries; `broadcast` does not notice. Runs on SQLite:
//! `cargo run -p posthaste --example multi_listener`

use std::error::Error;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::{Event, NewEvent, Order, Posthaste, Subscription, Worker, sqlite_options};
use serde_json::{Value, json};
use sqlx::SqlitePool;

type Anything<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Anything {
    run().await
}

pub(crate) async fn run() -> Anything {
    let folder = tempfile::tempdir()?;
    let pool = SqlitePool::connect_with(sqlite_options(folder.path().join("chat.db"))).await?;
    let posthaste = Posthaste::sqlite(pool.clone());
    posthaste.migrate().await?;
    sqlx::raw_sql(
        "create table messages (text text); create table jobs (event text primary key, prompt text)",
    )
    .execute(&pool)
    .await?;

    let rooms = Rooms::default();
    let broadcast = start_broadcast(&posthaste, rooms.clone()).await?;
    let back = Arc::new(AtomicBool::new(false));
    let companion = start_companion(&posthaste, pool.clone(), back.clone()).await?;
    for (author, text) in [("user", "hello"), ("bot", "hi, I am a bot"), ("user", "what is the weather?")] {
        post(&pool, &posthaste, "message:created", &json!({ "authorType": author, "text": text })).await?;
    }
    post(&pool, &posthaste, "room:renamed", &json!({ "text": "weather" })).await?;

    wait_until(|| broadcast.counters().delivered() == 4 && companion.counters().retried() >= 2).await?;
    let jobs_then = jobs(&pool).await?;
    println!("broadcast has all 4 events; companion is away and has made {jobs_then} jobs");
    back.store(true, Ordering::SeqCst);
    wait_until(|| companion.counters().delivered() == 3).await?;
    let retries = companion.counters().retried();
    broadcast.stop().await;
    companion.stop().await;

    let heard = rooms.heard();
    println!("broadcast heard: {heard:?}");
    println!("companion is back and made {} jobs, after {retries} retries", jobs(&pool).await?);
    assert_eq!(heard, ["hello", "hi, I am a bot", "what is the weather?", "weather"]);
    assert_eq!(jobs_then, 0, "one listener failed while the other went on");
    assert_eq!(jobs(&pool).await?, 2, "one durable job per message of a user");
    Ok(())
}

/// The application's side: what was said and its event, in one transaction.
async fn post(pool: &SqlitePool, posthaste: &Posthaste, event_type: &str, payload: &Value) -> Anything {
    let mut tx = pool.begin().await?;
    let said = payload["text"].as_str();
    sqlx::query("insert into messages values (?1)").bind(said).execute(&mut *tx).await?;
    let event = NewEvent::json("chat", payload)?.event_type(event_type).key("room-1");
    posthaste.enqueue(&mut tx, event).await?;
    tx.commit().await?;
    posthaste.wake();
    Ok(())
}

/// Who listens in the rooms; a stand-in for sockets.
#[derive(Clone, Default)]
struct Rooms(Arc<Mutex<Vec<String>>>);

impl Rooms {
    fn send(&self, text: &str) {
        self.0.lock().expect("nobody panics while sending").push(text.to_owned());
    }

    fn heard(&self) -> Vec<String> {
        self.0.lock().expect("nobody panics while sending").clone()
    }
}

/// Wants everything, in the order of the whole log.
async fn start_broadcast(posthaste: &Posthaste, rooms: Rooms) -> Anything<Worker> {
    let send = move |event: Arc<Event>| {
        let rooms = rooms.clone();
        async move {
            let payload: Value = event.json()?;
            rooms.send(payload["text"].as_str().unwrap_or_default());
            serde_json::Result::Ok(())
        }
    };
    let subscription = Subscription::new("broadcast")?.order(Order::Strict);
    Ok(posthaste.handler(subscription, send).start().await?)
}

/// Wants new messages; of these only users' get a job. The work itself happens in the job, not in the listener.
async fn start_companion(posthaste: &Posthaste, pool: SqlitePool, back: Arc<AtomicBool>) -> Anything<Worker> {
    let dispatch = move |event: Arc<Event>| {
        let (pool, back) = (pool.clone(), back.load(Ordering::SeqCst));
        async move {
            match back {
                false => Err("the companion is away".to_owned()),
                true => make_job(&pool, &event).await.map_err(|error| error.to_string()),
            }
        }
    };
    let subscription = Subscription::new("companion")?
        .event_type("message:created")
        .order(Order::Strict)
        .settings(|settings| {
            settings.max_attempts = 1000;
            settings.base_delay = Duration::from_millis(50);
            settings.max_delay = Duration::from_millis(200);
        });
    Ok(posthaste.handler(subscription, dispatch).start().await?)
}

/// The event's id is the job's key: should the event come twice, there is still one job.
async fn make_job(pool: &SqlitePool, event: &Event) -> Anything {
    let message: Value = event.json()?;
    if message["authorType"] == "user" {
        sqlx::query("insert into jobs values (?1, ?2) on conflict do nothing")
            .bind(event.id.to_string())
            .bind(message["text"].as_str())
            .execute(pool)
            .await?;
    }
    Ok(())
}

async fn jobs(pool: &SqlitePool) -> Anything<i64> {
    Ok(sqlx::query_scalar("select count(*) from jobs").fetch_one(pool).await?)
}

async fn wait_until(condition: impl Fn() -> bool) -> Anything {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    Ok(tokio::time::timeout(Duration::from_secs(30), waiting).await?)
}
