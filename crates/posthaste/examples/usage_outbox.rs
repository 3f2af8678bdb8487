//! Usage of a chat, enqueued with each finished turn and published by a loop of one's own: claim a batch, settle each.
//!
//! The dedupe key is `{tenant}/{turn}/{request}`: a second enqueue of the same turn is "already enqueued", no error.
//! Runs on SQLite: `cargo run -p posthaste --example usage_outbox`

use std::error::Error;
use std::time::Duration;

use posthaste::{Claimed, Enqueued, NewEvent, Order, Outcome, Posthaste, Subscription, sqlite_options};
use serde_json::json;
use sqlx::SqlitePool;
use uuid::Uuid;

type Anything<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

#[tokio::main]
async fn main() -> Anything {
    run().await
}

pub(crate) async fn run() -> Anything {
    let folder = tempfile::tempdir()?;
    let pool = SqlitePool::connect_with(sqlite_options(folder.path().join("usage.db"))).await?;
    let posthaste = Posthaste::sqlite(pool.clone());
    posthaste.migrate().await?;
    sqlx::raw_sql("create table turns (id text primary key, tokens integer)").execute(&pool).await?;

    let (acme, globex) = (Uuid::from_u128(0xACE), Uuid::from_u128(0x610));
    enqueue_turns(&pool, &posthaste, acme, globex).await?;
    wrong_tenant_is_refused(&pool, &posthaste, acme, globex).await?;
    publish_all(&posthaste).await
}

/// Three turns; one is finalised twice, as happens when a client repeats a request.
async fn enqueue_turns(pool: &SqlitePool, posthaste: &Posthaste, acme: Uuid, globex: Uuid) -> Anything {
    let first = finalise_turn(pool, posthaste, acme, "turn-1", 120).await?;
    let again = finalise_turn(pool, posthaste, acme, "turn-1", 120).await?;
    println!("turn-1 is event {}; enqueued again: already enqueued = {}", first.id, again.duplicate);
    assert!(!first.duplicate && again.duplicate);
    assert_eq!(first.id, again.id, "the second caller learns the first one's id");
    assert!(!finalise_turn(pool, posthaste, acme, "turn-2", 0).await?.duplicate);
    assert!(!finalise_turn(pool, posthaste, globex, "turn-1", 80).await?.duplicate, "another tenant");
    Ok(())
}

/// The turn and its usage event commit together.
async fn finalise_turn(
    pool: &SqlitePool,
    posthaste: &Posthaste,
    tenant: Uuid,
    turn: &str,
    tokens: i64,
) -> Anything<Enqueued> {
    let mut tx = pool.begin().await?;
    sqlx::query("insert into turns values (?1, ?2) on conflict do nothing")
        .bind(format!("{tenant}/{turn}"))
        .bind(tokens)
        .execute(&mut *tx)
        .await?;
    let enqueued = posthaste.enqueue(&mut tx, usage(tenant, tenant, turn, tokens)?).await?;
    tx.commit().await?;
    Ok(enqueued)
}

fn usage(tenant: Uuid, key_of: Uuid, turn: &str, tokens: i64) -> Anything<NewEvent> {
    let payload = json!({ "tenant_id": tenant, "turn_id": turn, "tokens": tokens });
    let event = NewEvent::json("usage", &payload)?.namespace("mini-chat").tenant(tenant);
    Ok(event.dedupe_key(format!("{key_of}/{turn}/request-1")))
}

/// A tenant and the dedupe key of another: refused before any SQL, so the transaction goes on.
async fn wrong_tenant_is_refused(
    pool: &SqlitePool,
    posthaste: &Posthaste,
    acme: Uuid,
    globex: Uuid,
) -> Anything {
    let mut tx = pool.begin().await?;
    let refused = posthaste.enqueue(&mut tx, usage(acme, globex, "turn-9", 1)?).await;
    tx.commit().await?;
    let error = refused.err().ok_or("a foreign dedupe key was taken")?;
    println!("refused: {error}");
    Ok(())
}

/// The dispatcher's loop. `turn-2` has no tokens, which the consumer rejects; the first try of `globex` finds the
/// consumer failing.
async fn publish_all(posthaste: &Posthaste) -> Anything {
    let subscription = Subscription::new("usage-dispatcher")?
        .namespace("mini-chat")
        .order(Order::None)
        .settings(|settings| settings.base_delay = Duration::from_millis(100));
    let mut claims = posthaste.claims(&subscription).await?;
    let (mut delivered, mut retried, mut dead) = (0, 0, 0);
    for _ in 0..200 {
        for claimed in claims.claim(10).await? {
            let outcome = publish(&claimed);
            println!(
                "{} attempt {}: {outcome:?}",
                claimed.event().dedupe_key.as_deref().unwrap_or("-"),
                claimed.attempts()
            );
            match outcome {
                Outcome::Delivered => delivered += 1,
                Outcome::Dead { .. } => dead += 1,
                _ => retried += 1,
            }
            claims.settle(claimed, outcome).await?;
        }
        if delivered + dead == 3 {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("delivered {delivered}, retried {retried}, dead {dead}");
    assert_eq!((delivered, retried, dead), (2, 1, 1), "every logical event once");
    assert!(claims.claim(10).await?.is_empty(), "nothing is left");
    Ok(())
}

/// A stand-in for the consumer. It would recognise a repeated delivery by the dedupe key.
fn publish(claimed: &Claimed) -> Outcome {
    let text = claimed.event().text().unwrap_or_default();
    match (text.contains("\"tokens\":0"), text.contains("\"tokens\":80"), claimed.attempts()) {
        (true, ..) => Outcome::dead("a turn without tokens has no usage"),
        (_, true, 1) => Outcome::retry("the consumer answered 503"),
        _ => Outcome::Delivered,
    }
}
