//! Hostile names: whatever stands where a name is due, in the library and in the SQL function, is used as a name, found to be
//! unknown, or refused with a typed error. It never becomes part of a statement.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[macro_use]
mod admin_common;

use admin_common::{Database, quick};
use posthaste::admin::{DeliveryQuery, EventQuery, ReplayFrom};
use posthaste::inbox::{PostgresInbox, SqliteInbox};
use posthaste::{
    ErrorKind, EventId, NewEvent, Result, SchemaName, Subscription, SubscriptionName, WorkerName,
};
use posthaste_testkit::{SqliteDatabase, TestDatabase, hostile_name, servers};
use sqlx::Row;

fn names() -> usize {
    match std::env::var("POSTHASTE_FAULTS").as_deref() {
        Ok("full") => 2_000,
        _ => 300,
    }
}

#[test]
fn a_name_that_is_let_in_needs_no_quotes() {
    let mut random = fastrand::Rng::new();
    for _ in 0..20 * names() {
        let name = hostile_name(&mut random);
        let plain = |more: &str| name.chars().all(|c| c.is_ascii_alphanumeric() || more.contains(c));
        assert!(SchemaName::parse(&name).is_err() || plain("_"), "{name:?}");
        assert!(SubscriptionName::parse(&name).is_err() || plain("._-"), "{name:?}");
        assert!(WorkerName::parse(&name).is_err() || !name.contains(char::is_control), "{name:?}");
    }
}

/// What an answer may be: done, unknown, or refused. PostgreSQL takes no NUL in a text, and says so itself.
fn is_typed<T>(answer: Result<T>, name: &str) {
    if let Err(error) = answer {
        let refused = matches!(error.kind(), ErrorKind::Invalid | ErrorKind::NotFound);
        assert!(refused || name.contains('\0'), "{name:?}: {error:?}");
    }
}

on_every_database!(no_name_injects_in_the_library);

async fn no_name_injects_in_the_library<D: Database + Inbox>() {
    let db = D::fresh().await;
    db.run("create table canary (n integer)").await;
    let admin = db.posthaste().admin();
    let mut kept = db.posthaste().claims(&quick("orders")).await.unwrap();
    let mut random = fastrand::Rng::new();
    for turn in 0..names() {
        let name = hostile_name(&mut random);
        let some = || Some(name.clone());
        let by_name = DeliveryQuery::all(&name);
        let of_orders = DeliveryQuery::dead("orders").only(|query| {
            (query.key, query.topic, query.event_type, query.error_contains) =
                (some(), some(), some(), some());
        });
        let events = EventQuery::new(|query| {
            (query.namespace, query.topic, query.event_type) = (some(), some(), some());
            (query.key, query.aggregate_type, query.aggregate_id, query.text) =
                (some(), some(), some(), some());
        });
        is_typed(admin.subscription(&name).await, &name);
        is_typed(admin.events(&events).await, &name);
        is_typed(admin.events(&EventQuery::new(|query| query.subscription = some())).await, &name);
        is_typed(admin.release_key("orders", &name).await, &name);
        is_typed(admin.count(&of_orders).await, &name);
        match turn % 8 {
            0 => is_typed(admin.pause(&name).await, &name),
            1 => is_typed(admin.resume(&name).await, &name),
            2 => is_typed(admin.replay(&name, ReplayFrom::Beginning).await, &name),
            3 => is_typed(admin.blocked_keys(&name, 10).await, &name),
            4 => is_typed(admin.retry(&by_name).await, &name),
            5 => is_typed(admin.clone().acting_as(&name).discard(&of_orders).await, &name),
            6 if name != "orders" => is_typed(admin.delete_subscription(&name).await, &name),
            _ => is_typed(admin.redeliver(&name, EventId(uuid::Uuid::nil())).await, &name),
        }
        let filtered = Subscription::new("filtered").unwrap().topic(&name).namespace(&name).event_type(&name);
        is_typed(db.posthaste().claims(&filtered).await.map(drop), &name);
        let event =
            NewEvent::bytes(&name, "x").key(&name).namespace(&name).event_type(&name).dedupe_key(&name);
        is_typed(db.enqueue_with(db.posthaste(), vec![event]).await, &name);
        is_typed(D::mark(&db, &name).await, &name);
        for claimed in kept.claim(10).await.unwrap() {
            assert_eq!(claimed.event().topic, claimed.event().namespace, "it arrives as it was");
            kept.settle(claimed, posthaste::Outcome::Delivered).await.unwrap();
        }
    }
    db.run("insert into canary values (1)").await;
    assert_eq!(db.scalar("select count(*) from canary").await, 1);
    assert!(admin.subscription("orders").await.is_ok());
    println!("{} names in every place of the library; the canary lives", names());
}

/// The names of consumers and of what they receive.
trait Inbox {
    async fn mark(db: &Self, name: &str) -> Result<()>;
}

macro_rules! inbox {
    ($database:ty, $inbox:ident) => {
        impl Inbox for $database {
            async fn mark(db: &Self, name: &str) -> Result<()> {
                let inbox = $inbox::new(db.pool.clone(), "consumer")?;
                inbox.migrate().await?;
                let mut tx = db.pool.begin().await.unwrap();
                let mark = inbox.check_and_mark(&mut tx, name).await?;
                assert_eq!(mark, posthaste::inbox::Mark::Fresh, "nothing is kept of it");
                drop(tx);
                $inbox::new(db.pool.clone(), name).map(drop)
            }
        }
    };
}
inbox!(TestDatabase, PostgresInbox);
inbox!(SqliteDatabase, SqliteInbox);

/// Arguments of the SQL function that are names.
const ARGUMENTS: [&str; 8] = [
    "topic",
    "namespace",
    "event_type",
    "key",
    "aggregate_type",
    "aggregate_id",
    "dedupe_key",
    "content_type",
];

#[tokio::test]
async fn no_name_injects_in_the_sql_function() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        db.run("create table canary (n integer)").await;
        let (mut random, mut stored, mut refused) = (fastrand::Rng::new(), 0, 0);
        for turn in 0..names() {
            let (name, argument) = (hostile_name(&mut random), ARGUMENTS[turn % ARGUMENTS.len()]);
            let topic = if argument == "topic" { "" } else { ", topic => 'orders'" };
            let insert =
                format!("select id from posthaste.enqueue(payload => '{{}}', {argument} => $1{topic})");
            let answer = sqlx::query(sqlx::AssertSqlSafe(insert)).bind(&name).fetch_one(&db.pool).await;
            match answer {
                Ok(row) => {
                    let read = format!("select {argument} from posthaste.events where id = $1");
                    let read = sqlx::query_scalar::<_, Option<String>>(sqlx::AssertSqlSafe(read));
                    let found = read.bind(row.get::<uuid::Uuid, _>("id")).fetch_one(&db.pool).await.unwrap();
                    stored += usize::from(found.is_none_or(|found| found == name));
                }
                Err(error) => {
                    let code = error
                        .as_database_error()
                        .and_then(|error| error.code().map(|code| code.into_owned()));
                    // Its own refusal, or that of a NUL by the server.
                    assert!(matches!(code.as_deref(), Some("22023" | "22021")), "{name:?}: {error}");
                    refused += 1;
                }
            }
        }
        assert_eq!(stored + refused, names(), "each arrives as it was, or not at all");
        db.run("insert into canary values (1)").await;
        println!("{} names in the SQL function: {stored} stored as they were, {refused} refused", names());
    }
}

/// The control: what would happen to the canary if a name ever became part of a statement.
#[tokio::test]
async fn the_canary_dies_of_a_name_that_becomes_sql() {
    let db = TestDatabase::new().await;
    db.run("create table canary (n integer)").await;
    let pasted = "select 1 where 'x' = ''; drop table canary; --";
    sqlx::raw_sql(sqlx::AssertSqlSafe(pasted)).execute(&db.pool).await.unwrap();
    let alive = db.scalar("select count(to_regclass('canary'))").await;
    println!("control, a name pasted into a statement: {alive} canaries left");
    assert_eq!(alive, 0);
}
