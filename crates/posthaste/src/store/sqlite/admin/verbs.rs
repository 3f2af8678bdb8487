//! Verbs on deliveries: retry, skip, discard, release key. Under the write lock, as everything that parks and releases
//! keys.

use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::lease::Reader;
use crate::outcome::DeliveryStatus;
use crate::store::admin::{DeliveryQuery, Verb};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::convert::json;
use crate::store::sqlite::statements::SQL;

use super::{record_deliveries, repark};

const DOING: &str = "change deliveries";

/// Rows per transaction: everybody else who writes waits meanwhile.
const CHUNK: u64 = 1_000;

/// A part of what matches.
struct Matched {
    seqs: Vec<i64>,
    keys: Vec<String>,
}

impl SqliteStore {
    pub(super) async fn apply_verb(&self, verb: &Verb, query: &DeliveryQuery, who: &str) -> Result<u64> {
        let (mut after, mut changed) = (0, 0);
        let mut left = query.limit.unwrap_or(u64::MAX);
        while left > 0 {
            let seqs = for_a_while!(self.apply_to_chunk(verb, query, after, left.min(CHUNK), who))?;
            let Some(last) = seqs.last() else { break };
            changed += seqs.len() as u64;
            left -= seqs.len() as u64;
            after = *last;
        }
        Ok(changed)
    }

    /// Returns what was changed; nothing means that there is no more.
    async fn apply_to_chunk(
        &self,
        verb: &Verb,
        query: &DeliveryQuery,
        after: i64,
        limit: u64,
        who: &str,
    ) -> Result<Vec<i64>> {
        let reader = self.load_reader(&query.subscription).await?;
        let mut tx = self.begin(DOING).await?;
        let matched = matching(&mut tx, &reader, query, after, limit).await?;
        if !matched.seqs.is_empty() {
            record_deliveries(&mut tx, &reader, &matched.seqs, who, verb.as_str()).await?;
            change(&mut tx, verb, &reader, &matched.seqs, who).await?;
            repark(&mut tx, &reader, matched.keys).await?;
            tx.commit(DOING).await?;
        }
        Ok(matched.seqs)
    }

    pub(super) async fn let_key_go_on(&self, name: &str, key: &str, who: &str) -> Result<u64> {
        let doing = "release a key";
        let reader = self.load_reader(name).await?;
        let mut tx = self.begin(doing).await?;
        let seqs: Vec<i64> = sqlx::query_scalar(SQL.admin_dead_of_key.clone())
            .bind(reader.id)
            .bind(key)
            .fetch_all(&mut *tx)
            .await
            .map_err(Error::database(doing))?;
        record_deliveries(&mut tx, &reader, &seqs, who, "release key").await?;
        sqlx::query(SQL.admin_free_deliveries.clone())
            .bind(reader.id)
            .bind(json(&seqs)?)
            .execute(&mut *tx)
            .await
            .map_err(Error::database(doing))?;
        repark(&mut tx, &reader, vec![key.to_owned()]).await?;
        tx.commit(doing).await?;
        Ok(seqs.len() as u64)
    }
}

async fn matching(
    tx: &mut SqliteConnection,
    reader: &Reader,
    query: &DeliveryQuery,
    after: i64,
    limit: u64,
) -> Result<Matched> {
    let ids: Vec<uuid::Uuid> = query.events.iter().map(|id| id.0).collect();
    let rows = sqlx::query(SQL.admin_match_deliveries.clone())
        .bind(reader.id)
        .bind(after)
        .bind(query.status.map(DeliveryStatus::as_str))
        .bind((!ids.is_empty()).then(|| json(&ids)).transpose()?)
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

pub(super) async fn change(
    tx: &mut SqliteConnection,
    verb: &Verb,
    reader: &Reader,
    seqs: &[i64],
    who: &str,
) -> Result<()> {
    let query = match verb {
        Verb::Retry { .. } | Verb::Redeliver => sqlx::query(SQL.admin_revive_deliveries.clone()),
        Verb::Skip | Verb::Discard => sqlx::query(SQL.admin_remove_deliveries.clone()),
    };
    let query = query.bind(reader.id).bind(json(&seqs)?);
    let query = match verb {
        Verb::Retry { payload } => query.bind(who).bind(payload).bind(reader.keyed()).bind(payload.is_some()),
        Verb::Redeliver => query.bind(who).bind(None::<Vec<u8>>).bind(reader.keyed()).bind(true),
        Verb::Skip | Verb::Discard => query,
    };
    query.execute(tx).await.map(|_| ()).map_err(Error::database(DOING))
}
