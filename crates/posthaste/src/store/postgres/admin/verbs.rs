//! Verbs on deliveries: retry, skip, discard, release key. Under the subscription's lock, as everything that parks and
//! releases keys.

use sqlx::Row;
use sqlx::postgres::PgConnection;

use crate::error::{Error, Result};
use crate::lease::Reader;
use crate::outcome::DeliveryStatus;
use crate::store::admin::{DeliveryQuery, Verb};
use crate::store::postgres::PgStore;

const DOING: &str = "change deliveries";

/// Rows per transaction: workers wait for the subscription's lock meanwhile.
const CHUNK: u64 = 1_000;

/// A locked part of what matches.
struct Matched {
    seqs: Vec<i64>,
    keys: Vec<String>,
}

impl PgStore {
    pub(super) async fn apply_verb(&self, verb: &Verb, query: &DeliveryQuery, who: &str) -> Result<u64> {
        let reader = self.load_reader(&query.subscription).await?;
        let (mut after, mut changed) = (0, 0);
        let mut left = query.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let mut conn = self.lend(DOING).await?;
            let mut tx = conn.begin(DOING).await?;
            self.lock_subscription(&mut tx, &reader).await?;
            let matched = self.matching(&mut tx, &reader, query, after, left.min(CHUNK)).await?;
            let Some(last) = matched.seqs.last().copied() else { break };
            changed += self.change(&mut tx, verb, &reader, &matched.seqs, who).await?;
            self.repark(&mut tx, &reader, matched.keys).await?;
            tx.commit().await.map_err(Error::database(DOING))?;
            left -= matched.seqs.len() as u64;
            after = last;
        }
        Ok(changed)
    }

    async fn matching(
        &self,
        tx: &mut PgConnection,
        reader: &Reader,
        query: &DeliveryQuery,
        after: i64,
        limit: u64,
    ) -> Result<Matched> {
        let ids: Vec<uuid::Uuid> = query.events.iter().map(|id| id.0).collect();
        let rows = self
            .query(self.sql.admin_match_deliveries.clone())
            .bind(reader.id)
            .bind(after)
            .bind(query.status.map(DeliveryStatus::as_str))
            .bind((!ids.is_empty()).then_some(ids))
            .bind(&query.error_contains)
            .bind(&query.key)
            .bind(&query.topic)
            .bind(&query.event_type)
            .bind(i64::try_from(limit).unwrap_or(i64::MAX))
            .fetch_all(tx)
            .await
            .map_err(Error::database(DOING))?;
        Ok(Matched {
            seqs: rows.iter().map(|row| row.get("seq")).collect(),
            keys: rows.iter().filter_map(|row| row.get("key")).collect(),
        })
    }

    /// Changes locked rows and leaves a line about each; returns how many.
    pub(super) async fn change(
        &self,
        tx: &mut PgConnection,
        verb: &Verb,
        reader: &Reader,
        seqs: &[i64],
        who: &str,
    ) -> Result<u64> {
        let query = match verb {
            Verb::Retry { .. } | Verb::Redeliver => self.query(self.sql.admin_revive_deliveries.clone()),
            Verb::Skip | Verb::Discard => self.query(self.sql.admin_remove_deliveries.clone()),
        };
        let query = query.bind(reader.id).bind(seqs).bind(who).bind(verb.as_str());
        let query = match verb {
            Verb::Retry { payload } => query.bind(payload).bind(reader.keyed()).bind(payload.is_some()),
            Verb::Redeliver => query.bind(None::<Vec<u8>>).bind(reader.keyed()).bind(true),
            Verb::Skip | Verb::Discard => query,
        };
        let done = query.execute(tx).await.map_err(Error::database(DOING))?;
        Ok(done.rows_affected())
    }

    pub(super) async fn let_key_go_on(&self, name: &str, key: &str, who: &str) -> Result<u64> {
        let doing = "release a key";
        let reader = self.load_reader(name).await?;
        let mut conn = self.lend(doing).await?;
        let mut tx = conn.begin(doing).await?;
        self.lock_subscription(&mut tx, &reader).await?;
        let freed = self
            .query(self.sql.admin_free_dead_of_key.clone())
            .bind(reader.id)
            .bind(key)
            .bind(who)
            .execute(&mut tx)
            .await
            .map_err(Error::database(doing))?;
        self.repark(&mut tx, &reader, vec![key.to_owned()]).await?;
        tx.commit().await.map_err(Error::database(doing))?;
        Ok(freed.rows_affected())
    }
}
