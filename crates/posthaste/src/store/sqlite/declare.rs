//! Subscriptions: created at a mark, kept in step with their declaration.

use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::id::EventId;
use crate::lease::{Lane, Reader};
use crate::subscription::{AfterDead, ClaimBy, Order, Settings, Start, Subscription};

use super::SqliteStore;
use super::convert::json;
use super::lanes::{open_generation, split_lanes};
use super::read::{StoredFilter, last_seq, load_filter};
use super::statements::SQL;

const DOING: &str = "declare a subscription";

impl SqliteStore {
    pub(crate) async fn declare_subscription(&self, subscription: &Subscription) -> Result<Reader> {
        subscription.validate()?;
        let mut tx = self.begin(DOING).await?;
        let known = sqlx::query(SQL.declared.clone())
            .bind(subscription.name.as_str())
            .fetch_optional(&mut *tx)
            .await
            .map_err(Error::database(DOING))?;
        match known {
            None => create(&mut tx, subscription).await?,
            Some(row) => update(&mut tx, subscription, &row).await?,
        }
        tx.commit(DOING).await?;
        self.load_reader(subscription.name.as_str()).await
    }

    pub(crate) async fn load_reader(&self, name: &str) -> Result<Reader> {
        let row = sqlx::query(SQL.reader.clone())
            .bind(name)
            .fetch_optional(&self.pool)
            .await
            .map_err(Error::database("read a subscription"))?
            .ok_or_else(|| Error::NoSuchSubscription(name.to_owned()))?;
        reader_of(&row)
    }

    pub(crate) async fn load_readers(&self) -> Result<Vec<Reader>> {
        let rows = sqlx::query(SQL.readers.clone())
            .fetch_all(&self.pool)
            .await
            .map_err(Error::database("read the subscriptions"))?;
        Ok(rows.iter().filter_map(|row| reader_of(row).ok()).collect())
    }

    pub(crate) async fn find_open_lane(&self, reader: &Reader) -> Result<Lane> {
        let row = sqlx::query(SQL.open_lane.clone())
            .bind(reader.id)
            .fetch_one(&self.pool)
            .await
            .map_err(Error::database("find the open lane"))?;
        Ok(Lane { generation: row.get("generation"), number: row.get("lane"), of: row.get("lanes") })
    }
}

async fn create(conn: &mut SqliteConnection, subscription: &Subscription) -> Result<()> {
    let start = start_mark(conn, subscription.start).await?;
    let id: i64 = sqlx::query_scalar(SQL.insert_subscription.clone())
        .bind(subscription.name.as_str())
        .bind(subscription.order.as_str())
        .bind(subscription.claim_by.as_str())
        .bind(subscription.after_dead.as_str())
        .bind(i32::from(subscription.lanes))
        .bind(json(&subscription.settings)?)
        .fetch_one(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    store_filter(conn, id, 1, &StoredFilter::of(&subscription.filter)?).await?;
    open_generation(conn, id, 1, subscription.lanes, start).await
}

async fn update(conn: &mut SqliteConnection, subscription: &Subscription, known: &SqliteRow) -> Result<()> {
    sqlx::query(SQL.update_subscription.clone())
        .bind(subscription.name.as_str())
        .bind(subscription.order.as_str())
        .bind(subscription.claim_by.as_str())
        .bind(subscription.after_dead.as_str())
        .bind(json(&subscription.settings)?)
        .execute(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    let (id, version): (i64, i32) = (known.get("id"), known.get("filter_version"));
    // What the declaration no longer holds back is due.
    let release = match (subscription.order, subscription.after_dead) {
        (Order::Key, AfterDead::Block) => None,
        (Order::Key, AfterDead::Skip) => Some(SQL.release_heads.clone()),
        _ => Some(SQL.release_parked.clone()),
    };
    if let Some(release) = release {
        sqlx::query(release).bind(id).execute(&mut *conn).await.map_err(Error::database(DOING))?;
    }
    let wanted = StoredFilter::of(&subscription.filter)?;
    if load_filter(conn, id, version).await? != wanted {
        store_filter(conn, id, version + 1, &wanted).await?;
    }
    if known.get::<i32, _>("lanes") != i32::from(subscription.lanes) {
        split_lanes(conn, id, subscription.lanes).await?;
    }
    Ok(())
}

/// Where a new subscription begins: everything up to this seq counts as seen. Under the write lock, so "now" is exact.
async fn start_mark(conn: &mut SqliteConnection, start: Start) -> Result<i64> {
    match start {
        Start::Beginning => Ok(0),
        Start::Now => last_seq(conn).await,
        Start::Time(time) => Ok(seq_at_time(conn, time).await? - 1),
        Start::Event(id) => Ok(seq_of_event(conn, id).await? - 1),
    }
}

pub(super) async fn seq_at_time(
    conn: &mut SqliteConnection,
    time: chrono::DateTime<chrono::Utc>,
) -> Result<i64> {
    sqlx::query_scalar(SQL.seq_at_time.clone())
        .bind(time.timestamp_micros())
        .fetch_one(conn)
        .await
        .map_err(Error::database("find a place in time"))
}

pub(super) async fn seq_of_event(conn: &mut SqliteConnection, id: EventId) -> Result<i64> {
    let row = sqlx::query(SQL.event_by_id.clone())
        .bind(id.0.hyphenated())
        .fetch_optional(conn)
        .await
        .map_err(Error::database("find an event"))?;
    row.map(|row| row.get("seq")).ok_or_else(|| Error::NoSuchEvent(id.to_string()))
}

/// Stores a version of the filter and puts it in force.
async fn store_filter(
    conn: &mut SqliteConnection,
    subscription: i64,
    version: i32,
    filter: &StoredFilter,
) -> Result<()> {
    sqlx::query(SQL.insert_filter.clone())
        .bind(subscription)
        .bind(version)
        .bind(&filter.namespaces)
        .bind(&filter.topics)
        .bind(&filter.event_types)
        .bind(&filter.tenants)
        .execute(&mut *conn)
        .await
        .map_err(Error::database(DOING))?;
    sqlx::query(SQL.enforce_filter.clone())
        .bind(subscription)
        .bind(version)
        .execute(conn)
        .await
        .map(|_| ())
        .map_err(Error::database(DOING))
}

pub(super) fn reader_of(row: &SqliteRow) -> Result<Reader> {
    let settings: sqlx::types::Json<Settings> =
        row.try_get("settings").map_err(Error::database("read a subscription's settings"))?;
    Ok(Reader {
        id: row.get("id"),
        name: row.get("name"),
        order: Order::parse(row.get("ordering"))?,
        claim_by: ClaimBy::parse(row.get("claim_by"))?,
        after_dead: AfterDead::parse(row.get("after_dead"))?,
        lanes: u16::try_from(row.get::<i32, _>("lanes")).unwrap_or(1),
        settings: settings.0,
        paused: row.get("paused"),
    })
}
