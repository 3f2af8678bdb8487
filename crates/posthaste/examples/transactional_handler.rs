//! A handler whose writes commit together with the settlement: exactly once inside one database.
//!
//! Half of the accounts' first attempts fail after they have written; those writes are rolled back with the attempt.
//! Runs on PostgreSQL, in a database where it may create tables:
//! `DATABASE_URL=postgres://localhost/example cargo run -p posthaste --example transactional_handler`

use std::collections::HashSet;
use std::error::Error;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures::future::BoxFuture;
use posthaste::{Event, NewEvent, Posthaste, Subscription, Worker};
use sqlx::{PgConnection, PgPool};

type Anything<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

/// How many payments are made.
const PAYMENTS: i64 = 20;

#[tokio::main]
async fn main() -> Anything {
    let url = std::env::var("DATABASE_URL").or_else(|_| std::env::var("POSTHASTE_TEST_POSTGRES"));
    let url = url.map_err(|_| "set DATABASE_URL to a PostgreSQL database where tables may be created")?;
    run(PgPool::connect(&url).await?).await
}

pub(crate) async fn run(pool: PgPool) -> Anything {
    let posthaste = Posthaste::postgres(pool.clone());
    posthaste.migrate().await?;
    prepare(&pool).await?;
    let bookings = start_bookings(&posthaste).await?;
    enqueue_payments(&pool, &posthaste).await?;

    wait_until(|| bookings.counters().delivered() == PAYMENTS as u64).await?;
    let retried = bookings.counters().retried();
    bookings.stop().await;

    let (booked, accounts): (i64, i64) =
        sqlx::query_as("select count(*), count(distinct account) from example_bookings")
            .fetch_one(&pool)
            .await?;
    println!(
        "{PAYMENTS} payments, {retried} attempts failed after writing, {booked} bookings for {accounts} accounts"
    );
    assert_eq!(retried, PAYMENTS as u64 / 2, "half of them failed once");
    assert_eq!((booked, accounts), (PAYMENTS, PAYMENTS), "every payment is booked exactly once");
    Ok(())
}

/// A fresh table, and a subscription that begins now, so that the example can be run again on the same database.
async fn prepare(pool: &PgPool) -> Anything {
    sqlx::raw_sql(
        "drop table if exists example_bookings; create table example_bookings (account bigint, cents bigint)",
    )
    .execute(pool)
    .await?;
    Ok(())
}

async fn start_bookings(posthaste: &Posthaste) -> Anything<Worker> {
    let failed = Arc::new(Mutex::new(HashSet::new()));
    let subscription = Subscription::new("bookings")?
        .topic("example.payments")
        .start(posthaste::Start::Now)
        .settings(|settings| settings.base_delay = Duration::from_millis(50));
    let builder = posthaste.transactional(subscription, move |tx, event| book(tx, event, failed.clone()))?;
    Ok(builder.start().await?)
}

/// Writes first and may fail afterwards: the worst moment. No unique key and no check guards the table.
fn book(
    tx: &mut PgConnection,
    event: Arc<Event>,
    failed: Arc<Mutex<HashSet<i64>>>,
) -> BoxFuture<'_, Result<(), String>> {
    Box::pin(async move {
        let account: i64 = event.json().map_err(|error| error.to_string())?;
        sqlx::query("insert into example_bookings values ($1, 100)")
            .bind(account)
            .execute(&mut *tx)
            .await
            .map_err(|error| error.to_string())?;
        let first = failed.lock().map_err(|_| "poisoned")?.insert(account);
        match first && account % 2 == 0 {
            true => Err(format!("failed after booking account {account}")),
            false => Ok(()),
        }
    })
}

async fn enqueue_payments(pool: &PgPool, posthaste: &Posthaste) -> Anything {
    let mut tx = pool.begin().await?;
    let payment = |account: i64| Ok(NewEvent::json("example.payments", &account)?.key(account.to_string()));
    let events: Vec<NewEvent> = (1..=PAYMENTS).map(payment).collect::<Anything<_>>()?;
    posthaste.enqueue_many(&mut tx, events).await?;
    tx.commit().await?;
    posthaste.wake();
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
