//! Producers in any language: a role that may do nothing but call `posthaste.enqueue` does so in its own transaction.
//!
//! A rolled-back transaction leaves neither the order nor the event. Runs on PostgreSQL, as a user who may create roles:
//! `DATABASE_URL=postgres://localhost/example cargo run -p posthaste --example enqueue_from_sql`

use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::{Event, Posthaste, Start, Subscription, Worker};
use sqlx::{AssertSqlSafe, PgConnection, PgPool};
use uuid::Uuid;

type Anything<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// What a producer in any language sends. Named arguments; all but the topic and one payload are optional.
const ENQUEUE: &str = "select id, duplicate from posthaste.enqueue(
    topic => 'example.orders', payload => $1, event_type => 'order.created', key => $2, dedupe_key => $2)";

#[tokio::main]
async fn main() -> Anything {
    let url = std::env::var("DATABASE_URL").or_else(|_| std::env::var("POSTHASTE_TEST_POSTGRES"));
    let url = url.map_err(|_| "set DATABASE_URL to a PostgreSQL database, as a user who may create roles")?;
    run(PgPool::connect(&url).await?).await
}

pub(crate) async fn run(pool: PgPool) -> Anything {
    let posthaste = Posthaste::postgres(pool.clone());
    posthaste.migrate().await?;
    let role = format!("example_producer_{:08x}", fastrand::u32(..));
    prepare(&pool, &role).await?;
    let result = demonstrate(&pool, &posthaste, &role).await;
    clean_up(&pool, &role).await?;
    result
}

/// The role owns nothing; it may insert its own orders, and enqueue.
async fn prepare(pool: &PgPool, role: &str) -> Anything {
    let statements = format!(
        "create role {role}; drop table if exists example_orders; create table example_orders (number text primary key);
         grant insert on example_orders to {role}; select posthaste.grant_producer('{role}')"
    );
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(pool).await?;
    Ok(())
}

async fn clean_up(pool: &PgPool, role: &str) -> Anything {
    let statements = format!("drop owned by {role}; drop role {role}; drop table example_orders");
    sqlx::raw_sql(AssertSqlSafe(statements)).execute(pool).await?;
    Ok(())
}

async fn demonstrate(pool: &PgPool, posthaste: &Posthaste, role: &str) -> Anything {
    let received = Arc::new(Mutex::new(Vec::new()));
    let worker = start_worker(posthaste, received.clone()).await?;
    let orders: Vec<String> = (1..=3).map(|n| format!("{role}/order-{n}")).collect();

    let (first, duplicate) = order_in_sql(pool, role, &orders[0], true).await?;
    assert!(!duplicate);
    order_in_sql(pool, role, &orders[1], false).await?;
    order_in_sql(pool, role, &orders[2], true).await?;
    let (same, duplicate) = enqueue_again(pool, role, &orders[0]).await?;
    assert!(duplicate && same == first, "already enqueued: the first one's id is the answer");
    everything_else_is_forbidden(pool, role).await?;

    wait_until(|| received.lock().is_ok_and(|received| received.len() == 2)).await?;
    worker.stop().await;
    let mut received = received.lock().map_err(|_| "a handler panicked")?.clone();
    received.sort();
    let numbers: Vec<String> =
        sqlx::query_scalar("select number from example_orders order by 1").fetch_all(pool).await?;
    println!("orders in the table: {}, events received: {}, rolled back: 1", numbers.len(), received.len());
    assert_eq!(numbers, [orders[0].clone(), orders[2].clone()], "the rolled-back order is not there");
    assert_eq!(received, numbers, "the worker got exactly the committed ones");
    Ok(())
}

async fn start_worker(posthaste: &Posthaste, received: Arc<Mutex<Vec<String>>>) -> Anything<Worker> {
    let handler = move |event: Arc<Event>| {
        let received = received.clone();
        async move {
            let number: String = event.json().map_err(|error| error.to_string())?;
            received.lock().map_err(|_| "poisoned")?.push(number);
            Ok::<(), String>(())
        }
    };
    let subscription = Subscription::new("example-orders")?.topic("example.orders").start(Start::Now);
    Ok(posthaste.handler(subscription, handler).start().await?)
}

/// The producer's transaction: its own row and the event, then commit or not.
async fn order_in_sql(pool: &PgPool, role: &str, number: &str, commit: bool) -> Anything<(Uuid, bool)> {
    let mut tx = pool.begin().await?;
    become_producer(&mut tx, role).await?;
    sqlx::query("insert into example_orders values ($1)").bind(number).execute(&mut *tx).await?;
    let enqueued = enqueue(&mut tx, number).await?;
    match commit {
        true => tx.commit().await?,
        false => tx.rollback().await?,
    }
    println!("{number}: {}", if commit { "committed" } else { "rolled back" });
    Ok(enqueued)
}

async fn enqueue_again(pool: &PgPool, role: &str, number: &str) -> Anything<(Uuid, bool)> {
    let mut tx = pool.begin().await?;
    become_producer(&mut tx, role).await?;
    let enqueued = enqueue(&mut tx, number).await?;
    tx.commit().await?;
    Ok(enqueued)
}

async fn enqueue(connection: &mut PgConnection, number: &str) -> Anything<(Uuid, bool)> {
    let payload = format!("\"{number}\"");
    Ok(sqlx::query_as(ENQUEUE).bind(payload).bind(number).fetch_one(connection).await?)
}

/// For the rest of the transaction only; a real producer would log in as this role.
async fn become_producer(connection: &mut PgConnection, role: &str) -> Anything {
    sqlx::raw_sql(AssertSqlSafe(format!("set local role {role}"))).execute(connection).await?;
    Ok(())
}

async fn everything_else_is_forbidden(pool: &PgPool, role: &str) -> Anything {
    for forbidden in [
        "select count(*) from posthaste.events",
        "insert into posthaste.events (topic, payload) values ('t', '')",
        "delete from posthaste.events",
        "select * from posthaste.subscriptions",
    ] {
        let mut tx = pool.begin().await?;
        become_producer(&mut tx, role).await?;
        let refused = sqlx::query(forbidden).execute(&mut *tx).await;
        let error = refused.err().ok_or_else(|| format!("the producer may {forbidden}"))?;
        assert!(error.to_string().contains("permission denied"), "{forbidden}: {error}");
        tx.rollback().await?;
    }
    println!("the producer can neither read nor write the log any other way");
    Ok(())
}

async fn wait_until(condition: impl Fn() -> bool) -> Anything {
    let waiting = async {
        while !condition() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    Ok(tokio::time::timeout(Duration::from_secs(30), waiting).await?)
}
