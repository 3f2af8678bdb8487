//! A small service that keeps orders. Whoever sends the bills hears of each of them through an event.

use std::sync::Arc;

use posthaste::{Event, Handler, NewEvent, Posthaste, Subscription, WorkerBuilder};
use serde_json::json;
use sqlx::{SqliteConnection, SqlitePool};

/// What can go wrong with an order.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Creates the table of orders.
pub async fn create_tables(pool: &SqlitePool) -> Result<(), Failure> {
    let table =
        "create table orders (id text primary key, total integer not null, paid integer not null default 0)";
    sqlx::query(table).execute(pool).await?;
    Ok(())
}

// snippet: business
/// Keeps an order and tells about it, in the caller's transaction: both or neither.
pub async fn place_order(
    posthaste: &Posthaste,
    tx: &mut SqliteConnection,
    id: &str,
    total: i64,
) -> Result<(), Failure> {
    sqlx::query("insert into orders (id, total) values (?, ?)")
        .bind(id)
        .bind(total)
        .execute(&mut *tx)
        .await?;
    let event = NewEvent::json("orders", &json!({ "order": id, "total": total }))?;
    posthaste.enqueue(tx, event.event_type("order.placed").key(id)).await?;
    if total >= 1000 {
        let review = NewEvent::json("reviews", &json!({ "order": id }))?;
        posthaste.enqueue(tx, review.delay(REVIEW_AFTER).dedupe_key(format!("review/{id}"))).await?;
    }
    Ok(())
}
// end snippet

/// Large orders are looked at again after a day.
pub const REVIEW_AFTER: std::time::Duration = std::time::Duration::from_secs(86_400);

// snippet: worker
/// Whoever bills hears of every order, in order; a bill that cannot be sent is tried again for hours.
pub fn billing(posthaste: &Posthaste, bill: impl Handler) -> Result<WorkerBuilder, Failure> {
    let subscription = Subscription::new("billing")?.topic("orders").settings(|s| {
        s.base_delay = std::time::Duration::from_secs(60);
        s.max_delay = std::time::Duration::from_secs(3600);
        s.max_attempts = 6;
    });
    Ok(posthaste.handler(subscription, bill))
}
// end snippet

/// Reminds a person of every large order, when its time has come.
pub fn reviews(posthaste: &Posthaste, remind: impl Handler) -> Result<WorkerBuilder, Failure> {
    Ok(posthaste.handler(Subscription::new("reviews")?.topic("reviews"), remind))
}

/// Marks an order as paid once its bill has been sent; refuses what is no order for good.
pub async fn mark_paid(pool: &SqlitePool, event: Arc<Event>) -> posthaste::Outcome {
    let Some(id) = &event.key else { return posthaste::Outcome::dead("an order without its number") };
    match sqlx::query("update orders set paid = 1 where id = ?").bind(id).execute(pool).await {
        Ok(_) => posthaste::Outcome::Delivered,
        Err(error) => posthaste::Outcome::retry(error),
    }
}
