//! Subscriptions: created at a mark, kept in step with their declaration.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::lease::{Lane, Reader};
use crate::subscription::{AfterDead, ClaimBy, Filter, Order, Settings, Start, Subscription};

use super::PgStore;
use super::mark::Mark;

const DOING: &str = "declare a subscription";

impl PgStore {
    pub(crate) async fn declare_subscription(&self, subscription: &Subscription) -> Result<Reader> {
        subscription.validate()?;
        let known = match self.load_reader(subscription.name.as_str()).await {
            Ok(reader) => Some(reader),
            Err(Error::NoSuchSubscription(_)) => None,
            Err(error) => return Err(error),
        };
        // The mark must be taken before the transaction that stores it draws an xid.
        let start = match &known {
            None => Some(self.start_mark(subscription.start).await?),
            Some(_) => None,
        };
        self.write_declaration(subscription, start).await?;
        let reader = self.load_reader(subscription.name.as_str()).await?;
        if reader.lanes != subscription.lanes {
            self.split_lanes(&reader, subscription.lanes).await?;
        }
        if known.is_some() {
            self.query(self.sql.ring.clone())
                .execute(&mut *self.lend(DOING).await?)
                .await
                .map_err(Error::database(DOING))?;
        }
        self.load_reader(subscription.name.as_str()).await
    }

    async fn write_declaration(&self, subscription: &Subscription, start: Option<Mark>) -> Result<()> {
        let declared =
            serde_json::to_value(subscription.settings).map_err(|e| Error::Corrupt(e.to_string()))?;
        let mut conn = self.lend(DOING).await?;
        let mut tx = conn.begin(DOING).await?;
        // Retention either sees the new subscription or is over before it begins.
        self.query(self.sql.stay_retention.clone()).execute(&mut tx).await.map_err(Error::database(DOING))?;
        let row = self
            .query(self.sql.declare.clone())
            .bind(subscription.name.as_str())
            .bind(subscription.order.as_str())
            .bind(subscription.claim_by.as_str())
            .bind(subscription.after_dead.as_str())
            .bind(i32::from(subscription.lanes))
            .bind(declared)
            .fetch_one(&mut tx)
            .await
            .map_err(Error::database(DOING))?;
        let (id, version): (i64, i32) = (row.get("id"), row.get("filter_version"));
        if row.get("created") {
            let start = start
                .ok_or_else(|| Error::Corrupt("the subscription vanished while it was declared".into()))?;
            let mark = self.store_mark(&mut tx, &start).await?;
            self.open_generation(&mut tx, id, 1, i32::from(subscription.lanes), mark).await?;
            self.store_filter(&mut tx, id, 1, &subscription.filter).await?;
        } else {
            self.release_waiting(&mut tx, id, subscription).await?;
        }
        if !row.get::<bool, _>("created")
            && self.load_filter(&mut tx, id, version).await? != subscription.filter
        {
            self.store_filter(&mut tx, id, version + 1, &subscription.filter).await?;
        }
        tx.commit().await.map_err(Error::database(DOING))
    }

    /// What the declaration no longer holds back is due: everything without an order of keys, and what waits behind a
    /// dead letter if those are passed over.
    async fn release_waiting(
        &self,
        tx: &mut PgConnection,
        id: i64,
        subscription: &Subscription,
    ) -> Result<()> {
        let statement = match (subscription.order, subscription.after_dead) {
            (Order::Key, AfterDead::Block) => return Ok(()),
            (Order::Key, AfterDead::Skip) => self.sql.release_heads.clone(),
            _ => self.sql.release_parked.clone(),
        };
        let release = self.query(statement).bind(id);
        release.execute(tx).await.map(|_| ()).map_err(Error::database(DOING))
    }

    /// Where a new subscription begins. The place is looked up after the mark: what commits in between is not behind
    /// the mark and is read anyway.
    async fn start_mark(&self, start: Start) -> Result<Mark> {
        let mut conn = self.lend(DOING).await?;
        let (mark, _) = self.take_mark(&mut conn).await?;
        let replay_from = match start {
            Start::Now => None,
            Start::Beginning => Some(1),
            Start::Time(time) => Some(self.seq_at_time(&mut conn, time).await?),
            Start::Event(id) => Some(self.seq_of_event(&mut conn, id).await?),
        };
        // What was drawn after the mark is unseen, wherever the place lies: an event below it could still commit.
        let replay_from = replay_from.map(|seq| seq.min(mark.floor_seq + 1));
        Ok(Mark { replay_from, ..mark })
    }

    pub(super) async fn seq_at_time(
        &self,
        conn: &mut PgConnection,
        time: chrono::DateTime<chrono::Utc>,
    ) -> Result<i64> {
        self.query_scalar(self.sql.seq_at_time.clone())
            .bind(time)
            .fetch_one(conn)
            .await
            .map_err(Error::database("find a place in time"))
    }

    pub(super) async fn seq_of_event(&self, conn: &mut PgConnection, id: crate::id::EventId) -> Result<i64> {
        let row = self
            .query(self.sql.event_by_id.clone())
            .bind(id.0)
            .fetch_optional(conn)
            .await
            .map_err(Error::database("find an event"))?;
        row.map(|row| row.get("seq")).ok_or_else(|| Error::NoSuchEvent(id.to_string()))
    }

    pub(super) async fn open_generation(
        &self,
        conn: &mut PgConnection,
        subscription: i64,
        generation: i32,
        lanes: i32,
        mark: i64,
    ) -> Result<()> {
        self.query(self.sql.insert_lanes.clone())
            .bind(subscription)
            .bind(generation)
            .bind(lanes)
            .bind(mark)
            .execute(conn)
            .await
            .map(|_| ())
            .map_err(Error::database(DOING))
    }

    async fn store_filter(
        &self,
        conn: &mut PgConnection,
        subscription: i64,
        version: i32,
        filter: &Filter,
    ) -> Result<()> {
        self.query(self.sql.insert_filter.clone())
            .bind(subscription)
            .bind(version)
            .bind(listed(&filter.namespaces))
            .bind(listed(&filter.topics))
            .bind(listed(&filter.event_types))
            .bind(listed(&filter.tenants))
            .execute(conn)
            .await
            .map(|_| ())
            .map_err(Error::database(DOING))
    }

    pub(super) async fn load_filter(
        &self,
        conn: &mut PgConnection,
        subscription: i64,
        version: i32,
    ) -> Result<Filter> {
        let row = self
            .query(self.sql.filter.clone())
            .bind(subscription)
            .bind(version)
            .fetch_one(conn)
            .await
            .map_err(Error::database("read a filter"))?;
        Ok(filter_of(&row))
    }

    pub(crate) async fn load_reader(&self, name: &str) -> Result<Reader> {
        let row = self
            .query(self.sql.reader.clone())
            .bind(name)
            .fetch_optional(&mut *self.lend("read a subscription").await?)
            .await
            .map_err(Error::database("read a subscription"))?
            .ok_or_else(|| Error::NoSuchSubscription(name.to_owned()))?;
        reader_of(&row)
    }

    pub(crate) async fn load_readers(&self) -> Result<Vec<Reader>> {
        let rows = self
            .query(self.sql.readers.clone())
            .fetch_all(&mut *self.lend("read the subscriptions").await?)
            .await
            .map_err(Error::database("read the subscriptions"))?;
        Ok(rows.iter().filter_map(|row| reader_of(row).ok()).collect())
    }

    pub(crate) async fn find_open_lane(&self, reader: &Reader) -> Result<Lane> {
        let row = self
            .query(self.sql.open_lane.clone())
            .bind(reader.id)
            .fetch_one(&mut *self.lend("find the open lane").await?)
            .await
            .map_err(Error::database("find the open lane"))?;
        Ok(Lane { generation: row.get("generation"), number: row.get("lane"), of: row.get("lanes") })
    }
}

pub(super) fn reader_of(row: &PgRow) -> Result<Reader> {
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

/// Reads the filter columns; null means all.
pub(super) fn filter_of(row: &PgRow) -> Filter {
    let texts = |column: &str| row.get::<Option<Vec<String>>, _>(column).unwrap_or_default();
    Filter {
        namespaces: texts("namespaces"),
        topics: texts("topics"),
        event_types: texts("event_types"),
        tenants: row.get::<Option<Vec<uuid::Uuid>>, _>("tenants").unwrap_or_default(),
    }
}

/// An empty list in a filter means all, which is null in the database.
pub(super) fn listed<T: Clone>(list: &[T]) -> Option<Vec<T>> {
    (!list.is_empty()).then(|| list.to_vec())
}
