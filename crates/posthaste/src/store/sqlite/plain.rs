//! Pages of a subscription without deliveries, which is the usual case: each travels as one row of JSON.

use chrono::DateTime;
use serde::Deserialize;
use sqlx::SqliteConnection;
use uuid::Uuid;

use crate::error::{Error, Result};
use crate::event::Event;
use crate::id::EventId;
use crate::lease::{ClaimedEvent, Lane, Reader};

use super::convert::duration_of;
use super::read::{PAGE_BYTES, Range, StoredFilter, bind_wanted};
use super::statements::SQL;

const DOING: &str = "read a page";

/// A payload up to this size travels with the other columns.
const SMALL: i64 = 4096;
/// No more events than this travel in one row.
const MOST: i64 = 1000;

/// One event as page_plain.sql writes it: an array, in the order of these fields.
#[derive(Debug, Deserialize)]
struct Written {
    seq: i64,
    id: Uuid,
    namespace: String,
    topic: String,
    event_type: Option<String>,
    key: Option<String>,
    aggregate_type: Option<String>,
    aggregate_id: Option<String>,
    tenant_id: Option<Uuid>,
    dedupe_key: Option<String>,
    payload: Option<String>,
    content_type: String,
    headers: Option<String>,
    available_at: Option<i64>,
    created_at: i64,
    wait: Option<i64>,
}

/// Reads up to `limit` events of a range that the filter wants in this lane, in seq order.
pub(super) async fn read_plain_page(
    conn: &mut SqliteConnection,
    reader: &Reader,
    lane: Lane,
    filter: &StoredFilter,
    mut range: Range,
    limit: i64,
) -> Result<Vec<ClaimedEvent>> {
    let (mut page, mut bytes, mut left) = (Vec::new(), 0, limit);
    while left > 0 {
        let most = left.min(MOST);
        let rows = read_row(conn, reader, lane, filter, range, most).await?;
        left = if i64::try_from(rows.len()).unwrap_or(i64::MAX) < most { 0 } else { left - most };
        for written in rows {
            if bytes > PAGE_BYTES {
                return Ok(page);
            }
            let claimed = written.claimed(conn).await?;
            bytes += claimed.event.payload.len();
            range.after = claimed.event.seq;
            page.push(claimed);
        }
    }
    Ok(page)
}

async fn read_row(
    conn: &mut SqliteConnection,
    reader: &Reader,
    lane: Lane,
    filter: &StoredFilter,
    range: Range,
    most: i64,
) -> Result<Vec<Written>> {
    let row: String = bind_wanted(sqlx::query(SQL.page_plain.clone()), reader, filter, lane, range)
        .bind(most)
        .bind(SMALL)
        .fetch_one(conn)
        .await
        .and_then(|row| sqlx::Row::try_get(&row, 0))
        .map_err(Error::database(DOING))?;
    serde_json::from_str(&row).map_err(|error| corrupt(&error))
}

impl Written {
    async fn claimed(self, conn: &mut SqliteConnection) -> Result<ClaimedEvent> {
        let payload = match &self.payload {
            Some(hex) => from_hex(hex).ok_or_else(|| corrupt(&"a payload"))?,
            None => payload_of(conn, self.seq).await?,
        };
        let headers = self.headers.as_deref().map(serde_json::from_str).transpose();
        let event = Event {
            seq: self.seq,
            id: EventId(self.id),
            namespace: self.namespace,
            topic: self.topic,
            event_type: self.event_type,
            key: self.key,
            aggregate_type: self.aggregate_type,
            aggregate_id: self.aggregate_id,
            tenant_id: self.tenant_id,
            dedupe_key: self.dedupe_key,
            payload,
            content_type: self.content_type,
            headers: headers.map_err(|error| corrupt(&error))?.unwrap_or_default(),
            available_at: self.available_at.and_then(DateTime::from_timestamp_micros),
            created_at: DateTime::from_timestamp_micros(self.created_at).unwrap_or_default(),
        };
        Ok(ClaimedEvent { event, blocked: false, elsewhere: false, wait: duration_of(self.wait) })
    }
}

async fn payload_of(conn: &mut SqliteConnection, seq: i64) -> Result<Vec<u8>> {
    let payload = sqlx::query_scalar(SQL.payload.clone()).bind(seq).fetch_one(conn);
    payload.await.map_err(Error::database(DOING))
}

fn corrupt(what: &dyn std::fmt::Display) -> Error {
    Error::Corrupt(format!("a page of events: {what}"))
}

fn from_hex(text: &str) -> Option<Vec<u8>> {
    let digit = |digit: u8| char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok());
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some(digit(*high)? << 4 | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_is_read_as_it_was_written() {
        assert_eq!(from_hex("00FF7a10"), Some(vec![0, 255, 0x7a, 0x10]));
        assert_eq!(from_hex(""), Some(Vec::new()));
        assert_eq!((from_hex("0"), from_hex("0g")), (None, None));
    }
}
