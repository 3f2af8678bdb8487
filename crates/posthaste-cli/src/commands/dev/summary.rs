//! The last words: what became of everything, as the store has it, and what to do next.

use std::sync::Arc;
use std::time::Duration;

use posthaste::Counters;
use serde_json::{Map, Value, json};
use sqlx::SqlitePool;

use super::application::Application;
use super::file::DatabaseFile;
use super::json::stamped;
use super::screen::plural;
use super::subscriptions::NAMES;
use super::tally::{Counts, Tally};
use crate::failure::Failure;

/// What the summary states.
#[derive(Debug)]
pub(crate) struct Facts {
    elapsed: Duration,
    orders: i64,
    events: i64,
    before: u64,
    rolled_back: u64,
    counts: [Counts; 3],
    retries: [u64; 3],
    dead_letters: Vec<DeadLetter>,
}

#[derive(Debug)]
struct DeadLetter {
    order: String,
    subscription: String,
    error: String,
    delivered_by: Option<String>,
}

impl Facts {
    pub(crate) async fn gather(
        pool: &SqlitePool,
        application: &Application,
        work: Vec<Arc<Counters>>,
        elapsed: Duration,
    ) -> Result<Self, Failure> {
        let tally = Tally::begin(pool).await?;
        let mut retries = [0; 3];
        retries.iter_mut().zip(&work).for_each(|(retries, counters)| *retries = counters.retried());
        Ok(Self {
            elapsed,
            orders: number(pool, "select count(*) from orders").await?,
            events: number(
                pool,
                "select count(distinct seq) from posthaste_event_status where topic = 'orders'",
            )
            .await?,
            before: application.before(),
            rolled_back: application.rolled_back(),
            counts: *tally.counts(),
            retries,
            dead_letters: dead_letters(pool).await?,
        })
    }
}

async fn number(pool: &SqlitePool, statement: &'static str) -> Result<i64, Failure> {
    sqlx::query_scalar(statement).fetch_one(pool).await.map_err(Failure::while_doing("count for the summary"))
}

async fn dead_letters(pool: &SqlitePool) -> Result<Vec<DeadLetter>, Failure> {
    let statement = "select coalesce(aggregate_id, '?'), subscription, coalesce(last_error, 'no reason given'), \
         (select group_concat(subscription, ' and ') from posthaste_event_status o \
         where o.seq = d.seq and o.status = 'delivered') \
         from posthaste_event_status d where status = 'dead' order by seq";
    let rows: Vec<(String, String, String, Option<String>)> = sqlx::query_as(statement)
        .fetch_all(pool)
        .await
        .map_err(Failure::while_doing("read the dead letters"))?;
    let letter =
        |(order, subscription, error, delivered_by)| DeadLetter { order, subscription, error, delivered_by };
    Ok(rows.into_iter().map(letter).collect())
}

/// The summary, line by line.
pub(crate) fn lines(facts: &Facts, file: &DatabaseFile) -> Vec<String> {
    let mut lines = vec![format!("Stopped cleanly after {} s. The database says:", facts.elapsed.as_secs())];
    lines.push(String::new());
    lines.extend(written(facts));
    lines.push(String::new());
    lines.extend(table(facts));
    lines.push(String::new());
    lines.extend(facts.dead_letters.iter().flat_map(dead_letter));
    lines.extend(still_open(facts));
    lines.extend(what_next(file));
    lines
}

/// The summary for scripts.
pub(crate) fn json(facts: &Facts, file: &DatabaseFile) -> Value {
    let one = |((name, counts), retries): ((&&str, &Counts), u64)| {
        let facts = json!({
            "delivered": counts.delivered,
            "events": counts.all(),
            "retries": retries,
            "dead": counts.dead,
            "open": counts.open(),
        });
        ((*name).to_owned(), facts)
    };
    let elapsed = facts.elapsed;
    let letter = |letter: &DeadLetter| json!({ "order": letter.order, "subscription": letter.subscription, "error": letter.error });
    let facts = json!({
        "orders": facts.orders,
        "events": facts.events,
        "orders_before": facts.before,
        "rolled_back": facts.rolled_back,
        "subscriptions":
            NAMES.iter().zip(&facts.counts).zip(facts.retries).map(one).collect::<Map<_, _>>(),
        "dead_letters": facts.dead_letters.iter().map(letter).collect::<Vec<_>>(),
        "database": file.path().display().to_string(),
        "database_kept": !file.is_temporary(),
    });
    stamped("summary", elapsed, facts)
}

fn written(facts: &Facts) -> Vec<String> {
    let Facts { orders, events, before, rolled_back, .. } = facts;
    let mut lines =
        vec![format!("  {orders} orders written, {events} events enqueued, each pair in one transaction")];
    if *before > 0 {
        lines.push(format!("  {before} of the orders were in the file before"));
    }
    let transactions = plural(*rolled_back, "transaction", "transactions");
    lines.push(format!(
        "  {rolled_back} {transactions} rolled back: neither the order nor its event is there"
    ));
    lines
}

fn table(facts: &Facts) -> Vec<String> {
    let mut lines = vec![format!(
        "  {:<12}{:>15}{:>10}{:>7}{:>13}",
        "subscription", "delivered", "retries", "dead", "still open"
    )];
    for ((name, counts), retries) in NAMES.iter().zip(&facts.counts).zip(facts.retries) {
        let delivered = format!("{} of {}", counts.delivered, counts.all());
        lines.push(format!(
            "  {name:<12}{delivered:>15}{retries:>10}{:>7}{:>13}",
            counts.dead,
            counts.open()
        ));
    }
    lines
}

fn dead_letter(letter: &DeadLetter) -> Vec<String> {
    let DeadLetter { order, subscription, error, delivered_by } = letter;
    let mut lines = vec![format!("  Dead letter: order {order} in {subscription}"), format!("    {error}")];
    lines.extend(
        delivered_by.iter().map(|names| format!("    order {order} was delivered to {names} all the same")),
    );
    lines.push(String::new());
    lines
}

fn still_open(facts: &Facts) -> Vec<String> {
    match facts.counts.iter().map(Counts::open).sum() {
        0 => Vec::new(),
        open => vec![
            format!("  {open} deliveries are still open; a worker on this database would go on with them."),
            String::new(),
        ],
    }
}

fn what_next(file: &DatabaseFile) -> Vec<String> {
    let path = file.path().display();
    let about_file = match file.is_temporary() {
        true => [
            format!("The database {path} was temporary and is removed."),
            "To keep one and look into it: posthaste dev --database orders.db".to_owned(),
        ],
        false => [
            format!("The database stays: {path}"),
            format!(
                "Look into it: sqlite3 {path} \"select * from posthaste_event_status where status <> 'delivered'\""
            ),
        ],
    };
    let next = "Next: the same in your own application; the example in README.md fits on one screen.";
    about_file.into_iter().chain([next.to_owned()]).collect()
}
