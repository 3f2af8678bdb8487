//! How a subscription stands, in counts that stop somewhere.

use chrono::{DateTime, Utc};
use sqlx::sqlite::SqliteRow;
use sqlx::{Row, SqliteConnection};

use crate::error::{Error, Result};
use crate::lease::{Lane, Reader};
use crate::store::admin::{Count, LaneState, SubscriptionState};
use crate::store::sqlite::SqliteStore;
use crate::store::sqlite::convert::time_of;
use crate::store::sqlite::declare::reader_of;
use crate::store::sqlite::read::{Range, StoredFilter, bind_wanted, load_filter};
use crate::store::sqlite::statements::SQL;
use crate::store::sqlite::takeover::lane_of;

use super::position::{open_batches, positions};

const DOING: &str = "look at a subscription";

/// Events looked at for one that is counted: a filter that wants little must not walk over the whole log.
const LOOK_FACTOR: i64 = 10;

/// What was counted so far, and the oldest of it.
#[derive(Debug, Clone, Copy, Default)]
struct Tally {
    count: Count,
    oldest_at: Option<DateTime<Utc>>,
}

impl Tally {
    fn add(&mut self, other: Tally) {
        self.count = self.count.plus(other.count);
        self.oldest_at = [self.oldest_at, other.oldest_at].into_iter().flatten().min();
    }
}

impl SqliteStore {
    pub(super) async fn state_of(&self, name: &str, limit: u32) -> Result<SubscriptionState> {
        // One snapshot for all questions: between two of them a batch could be settled, and be counted twice or never.
        let mut conn = self.pool.begin().await.map_err(Error::database(DOING))?;
        let row = sqlx::query(SQL.admin_subscription.clone())
            .bind(name)
            .fetch_optional(&mut *conn)
            .await
            .map_err(Error::database(DOING))?
            .ok_or_else(|| Error::NoSuchSubscription(name.to_owned()))?;
        let (reader, filter) = (reader_of(&row)?, StoredFilter::read(&row));
        let mut unclaimed = Tally::default();
        for position in positions(&mut conn, &reader).await? {
            let range = Range { after: position.pos, upto: i64::MAX };
            unclaimed.add(count_range(&mut conn, &reader, &filter, position.lane, range, limit).await?);
        }
        let in_batches = count_open(&mut conn, &reader, limit).await?;
        let counts = counts(&mut conn, &reader, limit).await?;
        let mut state = assemble(&row, reader.clone(), limit, unclaimed, in_batches, &counts)?;
        state.workers = workers(&mut conn, &reader).await?.into_iter().map(|(name, _)| name).collect();
        state.lanes = lane_states(&mut conn, &reader).await?;
        Ok(state)
    }
}

/// Events in batches that are not settled; of a batch that was handled in part, the rest.
async fn count_open(conn: &mut SqliteConnection, reader: &Reader, limit: u32) -> Result<Count> {
    let mut count = Count::default();
    for row in open_batches(conn, reader).await? {
        let done_to: i64 = row.get("done_to");
        let after = done_to.max(row.get::<i64, _>("seq_from") - 1);
        let left = match after == done_to || row.get::<Option<&str>, _>("done").is_some() {
            false => Count::up_to(u64::MAX, row.get::<i64, _>("count").unsigned_abs()),
            true => {
                let filter = load_filter(conn, reader.id, row.get("filter_version")).await?;
                let rest = Range { after, upto: row.get("seq_to") };
                count_range(conn, reader, &filter, lane_of(&row), rest, limit).await?.count
            }
        };
        count = count.plus(left.minus(row.get::<i64, _>("beyond").unsigned_abs()));
    }
    Ok(count)
}

async fn count_range(
    conn: &mut SqliteConnection,
    reader: &Reader,
    filter: &StoredFilter,
    lane: Lane,
    range: Range,
    limit: u32,
) -> Result<Tally> {
    let row = bind_wanted(sqlx::query(SQL.admin_count_range.clone()), reader, filter, lane, range)
        .bind(i64::from(limit) * LOOK_FACTOR)
        .bind(i64::from(limit) + 1)
        .fetch_one(conn)
        .await
        .map_err(Error::database(DOING))?;
    let found = row.get::<i64, _>("found").unsigned_abs();
    let count = Count::up_to(u64::from(limit), found).at_least(row.get("cut"));
    Ok(Tally { count, oldest_at: time(&row, "oldest_at")? })
}

async fn counts(conn: &mut SqliteConnection, reader: &Reader, limit: u32) -> Result<SqliteRow> {
    sqlx::query(SQL.admin_counts.clone())
        .bind(reader.id)
        .bind(i64::from(limit) + 1)
        .fetch_one(conn)
        .await
        .map_err(Error::database(DOING))
}

/// Who is alive, and whether it holds something.
pub(super) async fn workers(conn: &mut SqliteConnection, reader: &Reader) -> Result<Vec<(String, bool)>> {
    let rows = sqlx::query(SQL.admin_workers.clone())
        .bind(reader.id)
        .fetch_all(conn)
        .await
        .map_err(Error::database(DOING))?;
    Ok(rows.iter().map(|row| (row.get("name"), row.get("holds"))).collect())
}

async fn lane_states(conn: &mut SqliteConnection, reader: &Reader) -> Result<Vec<LaneState>> {
    let rows = sqlx::query(SQL.admin_lanes.clone())
        .bind(reader.id)
        .fetch_all(conn)
        .await
        .map_err(Error::database(DOING))?;
    let lane = |row: &SqliteRow| {
        Ok(LaneState {
            generation: row.get("generation"),
            lane: row.get("lane"),
            batches: row.get("number"),
            moved_at: time(row, "moved_at")?,
            held_by: row.get("held_by"),
            held_until: time(row, "held_until")?,
        })
    };
    rows.iter().map(lane).collect()
}

fn time(row: &SqliteRow, column: &str) -> Result<Option<DateTime<Utc>>> {
    time_of(row, column).map_err(Error::database(DOING))
}

fn assemble(
    row: &SqliteRow,
    reader: Reader,
    limit: u32,
    unclaimed: Tally,
    in_batches: Count,
    counts: &SqliteRow,
) -> Result<SubscriptionState> {
    let limit = u64::from(limit);
    let number = |name: &str| counts.get::<i64, _>(name).unsigned_abs();
    let count = |name: &str| Count::up_to(limit, number(name));
    // A part of a list that was cut may have more of its kind behind the cut.
    let part = |name: &str, of: &str| count(name).at_least(number(of) > limit);
    let in_flight = in_batches.plus(count("leased"));
    let now = time(counts, "now")?.unwrap_or_default();
    let oldest_at = [unclaimed.oldest_at, time(counts, "oldest_at")?].into_iter().flatten().min();
    let overrides: serde_json::Value = row.get("overrides");
    let overridden = overrides.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
    Ok(SubscriptionState {
        name: reader.name,
        order: reader.order,
        claim_by: reader.claim_by,
        after_dead: reader.after_dead,
        lane_count: reader.lanes,
        filter: StoredFilter::read(row).parsed()?,
        settings: reader.settings,
        overridden,
        paused_since: time(row, "paused_at")?,
        lag: unclaimed.count.plus(in_flight).plus(count("due")).plus(count("parked")),
        oldest_age: oldest_at.map(|at| (now - at).to_std().unwrap_or_default()),
        in_flight,
        retrying: part("due_tried", "due").plus(part("parked_tried", "parked")),
        parked: count("parked"),
        parked_keys: part("parked_keys", "parked"),
        delayed: part("delayed", "due"),
        dead: count("dead"),
        newest_dead_at: time(counts, "newest_dead_at")?,
        oldest_retry_due: time(counts, "oldest_retry_due")?,
        last_error: counts.get("last_error"),
        workers: Vec::new(),
        lanes: Vec::new(),
    })
}
