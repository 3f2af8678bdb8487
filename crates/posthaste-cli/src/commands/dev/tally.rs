//! Where every event stands, read from the view `posthaste_event_status`, and the news since the last look.
//!
//! Delivered and dead events at the old end of the log are counted once and not read again, so a look stays cheap
//! however long the demonstration runs.

use std::collections::HashMap;

use sqlx::SqlitePool;

use super::subscriptions::NAMES;
use crate::failure::Failure;

/// With more news than this in one look (a high `--rate`), those who only wait are left to the counts.
const MANY: usize = 4;

/// The moment when an event begins to wait behind an earlier one.
const WAITS: &str = "waits";

/// How many events of a subscription are in which state.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) delivered: u64,
    /// Not tried yet: fresh, being handled for the first time, or behind an earlier event of its key.
    pub(crate) waiting: u64,
    /// Failed at least once, and will be tried again.
    pub(crate) retrying: u64,
    pub(crate) dead: u64,
}

impl Counts {
    fn add(&mut self, row: &Row) {
        match (row.status.as_str(), row.failures()) {
            ("delivered", _) => self.delivered += 1,
            ("dead", _) => self.dead += 1,
            (_, 0) => self.waiting += 1,
            _ => self.retrying += 1,
        }
    }

    pub(crate) fn open(&self) -> u64 {
        self.waiting + self.retrying
    }

    pub(crate) fn all(&self) -> u64 {
        self.delivered + self.dead + self.open()
    }
}

/// Something that happened since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct News {
    pub(crate) moment: &'static str,
    pub(crate) subscription: &'static str,
    pub(crate) order: String,
    pub(crate) sentence: String,
}

/// One event in one subscription, as the view has it.
#[derive(Debug, Clone, Default)]
struct Row {
    subscription: usize,
    seq: i64,
    order: String,
    customer: String,
    status: String,
    attempts: i64,
    parked: bool,
    error: String,
    due_in: f64,
}

impl Row {
    /// Attempts that have failed: one that is being made right now has not.
    fn failures(&self) -> i64 {
        match self.status.as_str() {
            "processing" => (self.attempts - 1).max(0),
            _ => self.attempts,
        }
    }

    fn settled(&self) -> bool {
        matches!(self.status.as_str(), "delivered" | "dead")
    }
}

/// What was already told about an event that is not settled everywhere.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    failures: i64,
    kept_back: bool,
    dead: bool,
    recovered: bool,
}

/// The counts, and what they were made from.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    counts: [Counts; 3],
    /// Up to this seq everything is delivered or dead, and counted in `settled`.
    floor: i64,
    settled: [Counts; 3],
    told: HashMap<(usize, i64), Told>,
}

impl Tally {
    /// Before anything runs: what the file holds from earlier is no news.
    pub(crate) async fn begin(pool: &SqlitePool) -> Result<Self, Failure> {
        let mut tally = Self::default();
        tally.read(pool).await?;
        Ok(tally)
    }

    pub(crate) fn counts(&self) -> &[Counts; 3] {
        &self.counts
    }

    pub(crate) fn all_settled(&self) -> bool {
        self.counts.iter().all(|counts| counts.open() == 0)
    }

    /// Looks again; answers what happened since.
    pub(crate) async fn read(&mut self, pool: &SqlitePool) -> Result<Vec<News>, Failure> {
        let rows =
            rows_above(pool, self.floor).await.map_err(Failure::while_doing("read the event status"))?;
        Ok(self.absorb(&rows))
    }

    fn absorb(&mut self, rows: &[Row]) -> Vec<News> {
        let mut news: Vec<News> = rows.iter().flat_map(|row| self.news(row)).collect();
        if news.len() > MANY {
            news.retain(|news| news.moment != WAITS);
        }
        self.counts = self.settled;
        rows.iter().for_each(|row| self.counts[row.subscription].add(row));
        self.raise_floor(rows);
        news
    }

    fn raise_floor(&mut self, rows: &[Row]) {
        let newest = rows.iter().map(|row| row.seq).max().unwrap_or(self.floor);
        let open = rows.iter().filter(|row| !row.settled()).map(|row| row.seq).min();
        self.floor = open.map_or(newest, |seq| seq - 1);
        let below = rows.iter().filter(|row| row.seq <= self.floor);
        below.for_each(|row| self.settled[row.subscription].add(row));
        self.told.retain(|(_, seq), _| *seq > self.floor);
    }

    fn news(&mut self, row: &Row) -> Option<News> {
        let (moment, sentence) = self.happened(row)?;
        Some(News { moment, subscription: NAMES[row.subscription], order: row.order.clone(), sentence })
    }

    fn happened(&mut self, row: &Row) -> Option<(&'static str, String)> {
        let told = self.told.entry((row.subscription, row.seq)).or_default();
        let (order, name, customer) = (&row.order, NAMES[row.subscription], &row.customer);
        if row.status == "dead" && !std::mem::replace(&mut told.dead, true) {
            let attempts = row.attempts;
            let sentence = format!(
                "order {order} is poison for {name}: dead after {attempts} attempts; the others go on"
            );
            return Some(("dead", sentence));
        }
        if row.status == "pending" && row.attempts > std::mem::replace(&mut told.failures, row.attempts) {
            let (error, due_in) = (&row.error, row.due_in);
            let sentence = format!("order {order}: {name} failed ({error}), trying again in {due_in:.1} s");
            return Some(("failed", sentence));
        }
        if row.parked && !std::mem::replace(&mut told.kept_back, true) {
            let sentence =
                format!("order {order} waits at {name}: an earlier order of {customer} comes first");
            return Some((WAITS, sentence));
        }
        if row.status == "delivered" && told.failures > 0 && !std::mem::replace(&mut told.recovered, true) {
            return Some(("recovered", format!("order {order}: {name} recovered, delivered by retry")));
        }
        None
    }
}

/// The columns of one row of the view, in the order of the statement below.
type Columns = (String, i64, String, String, String, i64, bool, String, f64);

async fn rows_above(pool: &SqlitePool, floor: i64) -> sqlx::Result<Vec<Row>> {
    let statement = "select subscription, seq, coalesce(aggregate_id, '?'), coalesce(key, '?'), status, attempts, \
         parked, coalesce(last_error, ''), \
         max(0.0, (julianday(next_attempt_at) - julianday('now')) * 86400.0) \
         from posthaste_event_status where seq > ?1 order by seq";
    let columns: Vec<Columns> = sqlx::query_as(statement).bind(floor).fetch_all(pool).await?;
    Ok(columns.into_iter().filter_map(row).collect())
}

/// A kept file may have further subscriptions; they are not ours to show.
fn row(columns: Columns) -> Option<Row> {
    let (subscription, seq, order, customer, status, attempts, parked, error, due_in) = columns;
    let subscription = NAMES.iter().position(|name| *name == subscription)?;
    Some(Row { subscription, seq, order, customer, status, attempts, parked, error, due_in })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(subscription: usize, seq: i64, status: &str, attempts: i64) -> Row {
        let (order, status) = (seq.to_string(), status.to_owned());
        Row {
            subscription,
            seq,
            order,
            status,
            attempts,
            error: "away".into(),
            due_in: 0.4,
            ..Row::default()
        }
    }

    fn sentences(news: Vec<News>) -> Vec<String> {
        news.into_iter().map(|news| news.sentence).collect()
    }

    #[test]
    fn a_retry_is_told_once_per_failure_and_then_its_recovery() {
        let mut tally = Tally::default();
        let mut news = |status, attempts| sentences(tally.absorb(&[row(1, 17, status, attempts)]));
        assert!(news("pending", 0).is_empty());
        assert_eq!(news("pending", 1), ["order 17: billing failed (away), trying again in 0.4 s"]);
        assert!(news("pending", 1).is_empty());
        assert!(news("processing", 2).is_empty());
        assert_eq!(news("pending", 2).len(), 1);
        assert_eq!(news("delivered", 0), ["order 17: billing recovered, delivered by retry"]);
    }

    #[test]
    fn a_dead_letter_is_told_once() {
        let mut tally = Tally::default();
        let rows = [row(0, 13, "pending", 0), row(2, 13, "dead", 3)];
        let told = ["order 13 is poison for analytics: dead after 3 attempts; the others go on"];
        assert_eq!(sentences(tally.absorb(&rows)), told);
        assert!(tally.absorb(&rows).is_empty());
    }

    #[test]
    fn what_is_settled_is_counted_once_and_not_read_again() {
        let mut tally = Tally::default();
        tally.absorb(&[row(0, 1, "delivered", 0), row(1, 1, "dead", 3), row(0, 2, "pending", 1)]);
        assert_eq!(tally.floor, 1);
        assert_eq!(tally.counts[0], Counts { delivered: 1, retrying: 1, ..Counts::default() });
        tally.absorb(&[row(0, 2, "delivered", 0), row(0, 3, "processing", 1)]);
        assert_eq!(tally.floor, 2);
        assert_eq!(tally.counts[0], Counts { delivered: 2, waiting: 1, ..Counts::default() });
        assert_eq!(tally.counts[1], Counts { dead: 1, ..Counts::default() });
    }

    #[test]
    fn nothing_new_changes_nothing() {
        let mut tally = Tally::default();
        tally.absorb(&[row(0, 1, "delivered", 0)]);
        assert!(tally.absorb(&[]).is_empty());
        assert_eq!((tally.floor, tally.counts[0].delivered), (1, 1));
    }
}
