//! Where a lane stands, and the same place moved: the arithmetic that replay and rebase share.
//!
//! A place is a mark and, from some seq on, "nothing was seen". Everything not behind the mark, or at or above that seq,
//! is still to be read.

use sqlx::Row;
use sqlx::postgres::{PgConnection, PgRow};

use crate::error::{Error, Result};
use crate::lease::{Lane, Reader};
use crate::store::postgres::PgStore;
use crate::store::postgres::mark::Mark;
use crate::store::postgres::read::mark_of;

/// A lane of the generation at work.
#[derive(Debug, Clone)]
pub(super) struct Position {
    pub(super) lane: Lane,
    /// The newest batch's number.
    pub(super) number: i64,
    pub(super) lo: Mark,
    /// The open window's end, and how far the window was claimed.
    pub(super) hi: Option<Mark>,
    pub(super) pos: i64,
}

impl Position {
    /// The place as one mark: what it does not see, and everything from the seq on, was not read. With a window open
    /// that is the window's end, unless so far only events below `lo` were read from it (of transactions that were
    /// open then): what `lo` sees above them must not be read again.
    pub(super) fn place(&self) -> (&Mark, Option<i64>) {
        let reach = self.lo.replay_from.map_or(self.lo.ceil_seq, |from| self.lo.ceil_seq.min(from - 1));
        match &self.hi {
            Some(hi) if self.pos >= reach => (hi, Some(self.pos + 1)),
            _ => (&self.lo, self.lo.replay_from),
        }
    }

    /// The mark from which a lane reads everything from `from` on, and what it had not read yet.
    pub(super) fn rewound(&self, from: i64) -> Mark {
        let (mark, unread) = self.place();
        let target = unread.map_or(from, |unread| unread.min(from));
        // Nothing it sees lies above its ceiling: then there is nothing to read again.
        if target > mark.ceil_seq {
            return mark.clone();
        }
        // Transactions that began after the mark draw their seqs above its floor and are found from there on only.
        Mark { replay_from: Some(target.min(mark.floor_seq + 1)), ..mark.clone() }
    }
}

impl PgStore {
    pub(super) async fn positions(&self, conn: &mut PgConnection, reader: &Reader) -> Result<Vec<Position>> {
        let rows = self
            .query(self.sql.admin_positions.clone())
            .bind(reader.id)
            .fetch_all(conn)
            .await
            .map_err(Error::database("read the lanes' progress"))?;
        rows.iter().map(position_of).collect()
    }

    /// The unfinished batches of a subscription, in order, in the columns that `reread_batch` takes.
    pub(super) async fn open_batches(&self, conn: &mut PgConnection, reader: &Reader) -> Result<Vec<PgRow>> {
        self.query(self.sql.admin_open_batches.clone())
            .bind(reader.id)
            .fetch_all(conn)
            .await
            .map_err(Error::database("read unfinished batches"))
    }
}

fn position_of(row: &PgRow) -> Result<Position> {
    let open = row.get::<Option<i64>, _>("hi_id").is_some();
    Ok(Position {
        lane: lane_of(row),
        number: row.get("number"),
        lo: mark_of(row, "lo_")?,
        hi: open.then(|| mark_of(row, "hi_")).transpose()?,
        pos: row.get("pos"),
    })
}

pub(super) fn lane_of(row: &PgRow) -> Lane {
    Lane { generation: row.get("generation"), number: row.get("lane"), of: row.get("lanes") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::postgres::mark::Snapshot;

    fn mark(snapshot: &str, floor_seq: i64, ceil_seq: i64, floor_xid: u64) -> Mark {
        let snapshot = Snapshot::parse(snapshot).unwrap();
        Mark { id: 7, snapshot, floor_seq, floor_xid, ceil_seq, steps: vec![], replay_from: None }
    }

    fn position(lo: Mark, hi: Option<Mark>, pos: i64) -> Position {
        Position { lane: Lane { generation: 1, number: 0, of: 1 }, number: 3, lo, hi, pos }
    }

    #[test]
    fn a_replay_into_the_future_changes_nothing() {
        let at = position(mark("10:20:12", 500, 500, 20), None, 0);
        assert_eq!(at.rewound(501), at.lo);
        let at_beginning = position(Mark { replay_from: Some(1), ..at.lo.clone() }, None, 0);
        assert_eq!(at_beginning.rewound(300).replay_from, Some(1), "what was not read yet stays to be read");
    }

    #[test]
    fn a_replay_never_reaches_above_the_floor() {
        // Between floor and ceiling lie seqs of transactions that began after the mark: they are no late ones.
        let at = position(mark("10:20:12", 500, 520, 20), None, 0);
        assert_eq!(at.rewound(510).replay_from, Some(501));
        assert_eq!(at.rewound(100).replay_from, Some(100));
    }

    #[test]
    fn within_an_open_window_its_end_is_the_place() {
        // With `lo` as the place, a transaction that began between lo and hi and is still open would be lost.
        let (lo, hi) = (mark("10:10:", 0, 0, 10), mark("15:30:15", 1_000, 1_000, 30));
        let at = position(lo, Some(hi.clone()), 500);
        let rewound = at.rewound(400);
        assert_eq!((rewound.snapshot, rewound.replay_from), (hi.snapshot.clone(), Some(400)));
        assert_eq!(at.rewound(900).replay_from, Some(501), "the rest of the window is still to be read");
    }

    #[test]
    fn while_a_window_is_among_its_late_events_its_beginning_is_the_place() {
        let (lo, hi) = (mark("5:10:5", 100, 100, 10), mark("30:30:", 110, 110, 30));
        let at = position(lo.clone(), Some(hi), 50);
        assert_eq!(at.rewound(90), Mark { replay_from: Some(90), ..lo });
    }
}
