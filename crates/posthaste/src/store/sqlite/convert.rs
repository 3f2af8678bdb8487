//! How values look in SQLite: times in microseconds, ids as text, lists as JSON; and the hash that spreads keys.

use std::time::Duration;

use chrono::{DateTime, Utc};
use serde::Serialize;
use sqlx::Row;
use sqlx::sqlite::SqliteRow;
use uuid::fmt::Hyphenated;

use crate::error::{Error, Result};
use crate::event::{Event, Headers};
use crate::id::{EventId, Token};

/// Microseconds, the unit of all times and durations.
pub(super) fn micros(duration: Duration) -> i64 {
    // Far more than anybody waits, and small enough that adding it to a time cannot overflow.
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX).min(i64::MAX / 4)
}

pub(super) fn duration_of(micros: Option<i64>) -> Option<Duration> {
    micros.map(|micros| Duration::from_micros(micros.max(0).unsigned_abs()))
}

pub(super) fn count_of(row: &SqliteRow, column: &str) -> u32 {
    u32::try_from(row.get::<i64, _>(column)).unwrap_or(u32::MAX)
}

pub(super) fn json(value: &impl Serialize) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Corrupt(error.to_string()))
}

/// The events of a batch that were handled beyond `done_to`.
pub(super) fn handled_beyond(row: &SqliteRow) -> Result<Vec<i64>> {
    let done: Option<String> = row.get("done");
    let parse = |done: String| serde_json::from_str(&done).map_err(|error| Error::Corrupt(error.to_string()));
    done.map_or(Ok(Vec::new()), parse)
}

impl Token {
    pub(super) fn text(self) -> Hyphenated {
        self.0.hyphenated()
    }
}

/// The hash of an ordering key: FNV-1a of its bytes, 64 bits, with the upper half folded onto the lower because the
/// lowest bits of FNV-1a alone mix badly. It is stored with every event, so it must never change.
pub(super) fn key_hash(key: &str) -> i64 {
    const OFFSET: u64 = 0xcbf2_9ce4_8422_2325;
    const PRIME: u64 = 0x0000_0100_0000_01b3;
    let hash = key.bytes().fold(OFFSET, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(PRIME));
    (hash ^ (hash >> 32)).cast_signed()
}

/// Reads the columns of fragments/columns.sql.
pub(super) fn event_of(row: &SqliteRow) -> Result<Event> {
    let read = || -> sqlx::Result<Event> {
        let headers: Option<sqlx::types::Json<Headers>> = row.try_get("headers")?;
        Ok(Event {
            seq: row.try_get("seq")?,
            id: EventId(row.try_get::<Hyphenated, _>("id")?.into_uuid()),
            namespace: row.try_get("namespace")?,
            topic: row.try_get("topic")?,
            event_type: row.try_get("event_type")?,
            key: row.try_get("key")?,
            aggregate_type: row.try_get("aggregate_type")?,
            aggregate_id: row.try_get("aggregate_id")?,
            tenant_id: row.try_get::<Option<Hyphenated>, _>("tenant_id")?.map(Hyphenated::into_uuid),
            dedupe_key: row.try_get("dedupe_key")?,
            payload: row.try_get("payload")?,
            content_type: row.try_get("content_type")?,
            headers: headers.map(|json| json.0).unwrap_or_default(),
            available_at: time_of(row, "available_at")?,
            created_at: time_of(row, "created_at")?.unwrap_or_default(),
        })
    };
    read().map_err(Error::database("read an event"))
}

pub(super) fn time_of(row: &SqliteRow, column: &str) -> sqlx::Result<Option<DateTime<Utc>>> {
    Ok(row.try_get::<Option<i64>, _>(column)?.and_then(DateTime::from_timestamp_micros))
}

#[cfg(test)]
mod tests {
    use super::key_hash;

    #[test]
    fn the_hash_of_a_key_never_changes() {
        // FNV-1a of "" and "a" as published, each folded.
        assert_eq!(key_hash("").cast_unsigned(), 0xcbf2_9ce4_8422_2325 ^ 0xcbf2_9ce4);
        assert_eq!(key_hash("a").cast_unsigned(), 0xaf63_dc4c_8601_ec8c ^ 0xaf63_dc4c);
    }

    #[test]
    fn keys_spread_over_lanes() {
        for step in [1, 2, 10] {
            let mut lanes = [0; 4];
            for n in (0..4_000 * step).step_by(step) {
                lanes[usize::try_from((key_hash(&format!("order-{n}")) % 4).abs()).unwrap()] += 1;
            }
            assert!(lanes.iter().all(|count| (700..1_300).contains(count)), "{step}: {lanes:?}");
        }
    }
}
