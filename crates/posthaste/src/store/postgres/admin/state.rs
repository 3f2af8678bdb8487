//! How a subscription stands, in counts that stop somewhere.

use chrono::{DateTime, Utc};
use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::lease::{Lane, Reader};
use crate::store::admin::{Count, LaneState, SubscriptionState};
use crate::store::postgres::PgStore;
use crate::store::postgres::declare::{filter_of, reader_of};
use crate::store::postgres::mark::{Mark, Range};
use crate::store::postgres::read::{bigints, bind_wanted};
use crate::subscription::Filter;

use super::position::{Position, lane_of};

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

/// Whose events are counted.
struct Wanted<'a> {
    reader: &'a Reader,
    filter: &'a Filter,
    limit: u32,
}

impl PgStore {
    pub(super) async fn state_of(&self, name: &str, limit: u32) -> Result<SubscriptionState> {
        let mut conn = self.lend(DOING).await?;
        let row = self
            .query(self.sql.admin_subscription.clone())
            .bind(name)
            .fetch_optional(&mut conn)
            .await
            .map_err(Error::database(DOING))?
            .ok_or_else(|| Error::NoSuchSubscription(name.to_owned()))?;
        let (reader, filter) = (reader_of(&row)?, filter_of(&row));
        let wanted = Wanted { reader: &reader, filter: &filter, limit };
        let mut unclaimed = Tally::default();
        for position in self.positions(&mut conn, &reader).await? {
            unclaimed.add(self.count_unclaimed(&mut conn, &wanted, &position).await?);
        }
        let in_batches = self.count_open(&mut conn, &wanted).await?;
        let counts = self.counts(&mut conn, &reader, limit).await?;
        let mut state = assemble(&row, reader.clone(), filter, limit, unclaimed, in_batches, &counts);
        state.workers = self.workers(&mut conn, &reader).await?.into_iter().map(|(name, _)| name).collect();
        state.lanes = self.lane_states(&mut conn, &reader).await?;
        Ok(state)
    }

    /// What lies beyond a lane's progress: the rest of its open window, and what is not behind that.
    async fn count_unclaimed(
        &self,
        conn: &mut PgConnection,
        wanted: &Wanted<'_>,
        position: &Position,
    ) -> Result<Tally> {
        let lane = position.lane;
        let Some(hi) = &position.hi else {
            return self.count_range(conn, wanted, lane, &Range::beyond(&position.lo), None).await;
        };
        let rest = Range::window(&position.lo, hi, position.pos);
        let mut tally = self.count_range(conn, wanted, lane, &rest, Some(hi)).await?;
        tally.add(self.count_range(conn, wanted, lane, &Range::beyond(hi), None).await?);
        Ok(tally)
    }

    /// Events in batches that are not settled; of a batch that was handled in part, the rest.
    async fn count_open(&self, conn: &mut PgConnection, wanted: &Wanted<'_>) -> Result<Count> {
        let mut count = Count::default();
        for row in self.open_batches(conn, wanted.reader).await? {
            let whole = u64::from(row.get::<i32, _>("count").unsigned_abs());
            let done_to: i64 = row.get("done_to");
            let after = done_to.max(row.get::<i64, _>("seq_from") - 1);
            let left = match after == done_to || row.get::<Option<Vec<i64>>, _>("done").is_some() {
                false => Count::up_to(u64::MAX, whole),
                true => {
                    let lo = self.load_mark(conn, row.get("lo")).await?;
                    let hi = self.load_mark(conn, row.get("hi")).await?;
                    let rest = Range::window(&lo, &hi, after).limited_to(row.get("seq_to"));
                    self.count_range(conn, wanted, lane_of(&row), &rest, Some(&hi)).await?.count
                }
            };
            count = count.plus(left.minus(row.get::<i64, _>("beyond").unsigned_abs()));
        }
        Ok(count)
    }

    async fn count_range(
        &self,
        conn: &mut PgConnection,
        wanted: &Wanted<'_>,
        lane: Lane,
        range: &Range,
        hi: Option<&Mark>,
    ) -> Result<Tally> {
        let limit = i64::from(wanted.limit);
        let main = self.query(self.sql.admin_count_range.clone());
        let main = bind_wanted(main, wanted.reader.id, wanted.filter, lane)
            .bind(range.after)
            .bind(range.upto)
            .bind(range.from_xid.to_string())
            .bind(hi.map(|hi| hi.snapshot.as_str()))
            .bind(limit * LOOK_FACTOR)
            .bind(limit + 1)
            .fetch_one(&mut *conn)
            .await
            .map_err(Error::database(DOING))?;
        let mut tally = tally_of(&main, wanted.limit);
        if range.has_late() {
            let late = self.query(self.sql.admin_count_late.clone());
            let late = bind_wanted(late, wanted.reader.id, wanted.filter, lane)
                .bind(range.late_after)
                .bind(range.late_upto)
                .bind(bigints(&range.late))
                .bind(limit + 1)
                .fetch_one(conn)
                .await
                .map_err(Error::database(DOING))?;
            tally.add(tally_of(&late, wanted.limit));
        }
        Ok(tally)
    }

    async fn counts(&self, conn: &mut PgConnection, reader: &Reader, limit: u32) -> Result<PgRow> {
        self.query(self.sql.admin_counts.clone())
            .bind(reader.id)
            .bind(i64::from(limit) + 1)
            .fetch_one(conn)
            .await
            .map_err(Error::database(DOING))
    }

    /// Who is alive, and whether it holds something.
    pub(super) async fn workers(
        &self,
        conn: &mut PgConnection,
        reader: &Reader,
    ) -> Result<Vec<(String, bool)>> {
        let rows = self
            .query(self.sql.admin_workers.clone())
            .bind(reader.id)
            .fetch_all(conn)
            .await
            .map_err(Error::database(DOING))?;
        Ok(rows.iter().map(|row| (row.get("name"), row.get("holds"))).collect())
    }

    async fn lane_states(&self, conn: &mut PgConnection, reader: &Reader) -> Result<Vec<LaneState>> {
        let rows = self
            .query(self.sql.admin_lanes.clone())
            .bind(reader.id)
            .fetch_all(conn)
            .await
            .map_err(Error::database(DOING))?;
        let lane = |row: &PgRow| LaneState {
            generation: row.get("generation"),
            lane: row.get("lane"),
            batches: row.get("number"),
            moved_at: row.get("moved_at"),
            held_by: row.get("held_by"),
            held_until: row.get("held_until"),
        };
        Ok(rows.iter().map(lane).collect())
    }
}

fn tally_of(row: &PgRow, limit: u32) -> Tally {
    let found = u64::try_from(row.get::<i64, _>("found")).unwrap_or(0);
    let count = Count::up_to(u64::from(limit), found).at_least(row.get("cut"));
    Tally { count, oldest_at: row.get("oldest_at") }
}

fn assemble(
    row: &PgRow,
    reader: Reader,
    filter: Filter,
    limit: u32,
    unclaimed: Tally,
    in_batches: Count,
    counts: &PgRow,
) -> SubscriptionState {
    let limit = u64::from(limit);
    let number = |name: &str| u64::try_from(counts.get::<i64, _>(name)).unwrap_or(0);
    let count = |name: &str| Count::up_to(limit, number(name));
    // A part of a list that was cut may have more of its kind behind the cut.
    let part = |name: &str, of: &str| count(name).at_least(number(of) > limit);
    let in_flight = in_batches.plus(count("leased"));
    let now: DateTime<Utc> = counts.get("now");
    let oldest_at = [unclaimed.oldest_at, counts.get("oldest_at")].into_iter().flatten().min();
    let overrides: serde_json::Value = row.get("overrides");
    let overridden = overrides.as_object().map(|map| map.keys().cloned().collect()).unwrap_or_default();
    SubscriptionState {
        name: reader.name,
        order: reader.order,
        claim_by: reader.claim_by,
        after_dead: reader.after_dead,
        lane_count: reader.lanes,
        filter,
        settings: reader.settings,
        overridden,
        paused_since: row.get("paused_at"),
        lag: unclaimed.count.plus(in_flight).plus(count("due")).plus(count("parked")),
        oldest_age: oldest_at.map(|at| (now - at).to_std().unwrap_or_default()),
        in_flight,
        retrying: part("due_tried", "due").plus(part("parked_tried", "parked")),
        parked: count("parked"),
        parked_keys: part("parked_keys", "parked"),
        delayed: part("delayed", "due"),
        dead: count("dead"),
        newest_dead_at: counts.get("newest_dead_at"),
        oldest_retry_due: counts.get("oldest_retry_due"),
        last_error: counts.get("last_error"),
        workers: Vec::new(),
        lanes: Vec::new(),
    }
}
