//! Marks and windows: reading the log without losing, repeating or reordering anything. Pure arithmetic on xids.
//!
//! A mark is a point between "already seen" and "not yet". A window is a pair of marks `(lo, hi)`; its events are those
//! visible in `hi` and not in `lo`, in seq order. That set never changes once `hi` is fixed, so a page of it names a
//! batch for ever: it can be leased, re-read after a crash and shown to an operator.

use crate::error::{Error, Result};

/// A transaction snapshot in PostgreSQL's own terms, parsed from its text form `xmin:xmax:x1,x2`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    text: String,
    xmin: u64,
    xmax: u64,
    xip: Vec<u64>,
}

impl Snapshot {
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let corrupt = || Error::Corrupt(format!("`{text}` is not a snapshot"));
        let mut parts = text.splitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse::<u64>().ok());
        let (xmin, xmax) = (number().ok_or_else(corrupt)?, number().ok_or_else(corrupt)?);
        let list = parts.next().ok_or_else(corrupt)?;
        let xip = list
            .split(',')
            .filter(|xid| !xid.is_empty())
            .map(|xid| xid.parse().map_err(|_| corrupt()))
            .collect::<Result<Vec<u64>>>()?;
        Ok(Self { text: text.to_owned(), xmin, xmax, xip })
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether a transaction had committed (or aborted) when the snapshot was taken.
    pub(crate) fn sees(&self, xid: u64) -> bool {
        xid < self.xmin || (xid < self.xmax && !self.xip.contains(&xid))
    }
}

/// A mark, as stored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Its row's id; 0 until it is stored.
    pub(crate) id: i64,
    pub(crate) snapshot: Snapshot,
    pub(crate) floor_seq: i64,
    pub(crate) floor_xid: u64,
    pub(crate) ceil_seq: i64,
    pub(crate) steps: Vec<(u64, i64)>,
    pub(crate) replay_from: Option<i64>,
}

impl Mark {
    /// The transactions that were running: the listed ones, and those at or above xmax. `pg_snapshot_xmax` is one past
    /// the last *completed* xid, so transactions up to `floor_xid` may run already and hold a low seq. The mark's own
    /// transaction is left out: it enqueues nothing.
    pub(crate) fn running(&self) -> Vec<u64> {
        let above = self.snapshot.xmax..self.floor_xid;
        self.snapshot.xip.iter().copied().filter(|xid| *xid != self.floor_xid).chain(above).collect()
    }

    /// Transactions from this xid on began after the mark, and so drew every seq after `floor_seq`.
    fn first_later_xid(&self) -> u64 {
        self.snapshot.xmax.max(self.floor_xid + 1)
    }

    /// A seq that lies below everything the transaction can have drawn.
    fn bound_of(&self, xid: u64) -> i64 {
        self.steps.iter().rev().find(|(above, _)| *above < xid).map_or(0, |(_, seq)| *seq)
    }

    /// The same of each of them.
    pub(crate) fn bounds_of(&self, xids: &[u64]) -> Vec<i64> {
        xids.iter().map(|xid| self.bound_of(*xid)).collect()
    }

    /// Remembers, for each running transaction, the latest earlier mark it began after: that mark's floor bounds the
    /// search for its events once it has committed. Without this the search would start at the head of the log.
    pub(crate) fn following(mut self, lo: &Mark) -> Self {
        self.steps = steps_for(&self.running(), &lo.known_steps());
        self
    }

    /// What the next mark must remember, whoever is running then: what this one does, and its own floor.
    pub(crate) fn known_steps(&self) -> Vec<(u64, i64)> {
        let mut known = steps_for(&self.running(), &self.steps);
        known.push((self.floor_xid, self.floor_seq));
        known
    }

    pub(crate) fn steps_as_pairs(&self) -> Vec<i64> {
        as_pairs(&self.steps)
    }

    pub(crate) fn steps_from_pairs(pairs: &[i64]) -> Vec<(u64, i64)> {
        pairs.chunks_exact(2).map(|pair| (pair[0].unsigned_abs(), pair[1])).collect()
    }
}

/// Of the known steps those that bound one of these transactions.
fn steps_for(running: &[u64], known: &[(u64, i64)]) -> Vec<(u64, i64)> {
    let best = |xid: &u64| known.iter().copied().rev().find(|(above, _)| above < xid);
    let mut steps: Vec<_> = running.iter().filter_map(best).collect();
    steps.sort_unstable();
    steps.dedup();
    steps
}

pub(crate) fn as_pairs(steps: &[(u64, i64)]) -> Vec<i64> {
    steps.iter().flat_map(|(xid, seq)| [i64::try_from(*xid).unwrap_or(i64::MAX), *seq]).collect()
}

/// What to read of the log, in the terms of the page statements.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Range {
    /// Main branch: `seq > after and seq <= upto and xid >= from_xid`, by the primary key.
    pub(crate) after: i64,
    pub(crate) upto: i64,
    pub(crate) from_xid: u64,
    /// Late branch: events of just these transactions, `seq > late_after and seq <= late_upto`.
    pub(crate) late: Vec<u64>,
    pub(crate) late_after: i64,
    pub(crate) late_upto: i64,
}

impl Range {
    /// The events of window `(lo, hi)` after `pos`.
    pub(crate) fn window(lo: &Mark, hi: &Mark, pos: i64) -> Self {
        let late = lo.running().into_iter().filter(|xid| hi.snapshot.sees(*xid)).collect();
        Self::of(lo, late, pos, hi.ceil_seq)
    }

    /// What is not behind `lo`, however far the log goes: for a look that needs no `hi`. Rows that have not committed
    /// hide themselves.
    pub(crate) fn beyond(lo: &Mark) -> Self {
        Self::of(lo, lo.running(), 0, i64::MAX)
    }

    fn of(lo: &Mark, late: Vec<u64>, pos: i64, ceil: i64) -> Self {
        let bound = lo.bounds_of(&late).into_iter().min().unwrap_or(0);
        let (after, from_xid, late_ceil) = match lo.replay_from {
            // A replay reads everything from that seq on, and below it only what had not been seen.
            Some(from) => (pos.max(from - 1), 0, ceil.min(from - 1)),
            None => (pos.max(lo.floor_seq), lo.first_later_xid(), ceil),
        };
        Self { after, upto: ceil, from_xid, late, late_after: pos.max(bound), late_upto: late_ceil }
    }

    /// Narrows the range to a claimed page.
    pub(crate) fn limited_to(mut self, seq_to: i64) -> Self {
        self.upto = self.upto.min(seq_to);
        self.late_upto = self.late_upto.min(seq_to);
        self
    }

    pub(crate) fn has_late(&self) -> bool {
        !self.late.is_empty() && self.late_after < self.late_upto
    }

    /// Whether the late branch spans so much of the log that the index on xids is cheaper than the primary key.
    pub(crate) fn late_is_far(&self, log_end: i64) -> bool {
        self.late_upto.min(log_end).saturating_sub(self.late_after) > super::window::NEAR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(snapshot: &str, floor_seq: i64, floor_xid: u64) -> Mark {
        let snapshot = Snapshot::parse(snapshot).unwrap();
        Mark { id: 0, snapshot, floor_seq, floor_xid, ceil_seq: floor_seq, steps: vec![], replay_from: None }
    }

    #[test]
    fn a_snapshot_sees_what_had_ended() {
        let snapshot = Snapshot::parse("10:20:12,15").unwrap();
        let seen: Vec<u64> = (8..22).filter(|xid| snapshot.sees(*xid)).collect();
        assert_eq!(seen, [8, 9, 10, 11, 13, 14, 16, 17, 18, 19]);
        assert!(Snapshot::parse("10:20").is_err() && Snapshot::parse("a:b:").is_err());
        assert!(Snapshot::parse("10:20:").unwrap().xip.is_empty());
    }

    #[test]
    fn transactions_between_xmax_and_the_floor_count_as_running() {
        // xmax is one past the last completed xid: 20 to 22 may be running, 23 is the mark's own.
        assert_eq!(mark("10:20:12", 5, 23).running(), [12, 20, 21, 22]);
        assert_eq!(mark("10:20:12", 5, 23).first_later_xid(), 24);
        assert_eq!(mark("10:20:12,18", 5, 18).running(), [12]);
    }

    #[test]
    fn a_running_transaction_is_searched_from_the_last_mark_before_it_began() {
        let first = mark("100:100:", 1_000, 100);
        let second = mark("105:110:105", 2_000, 112).following(&first);
        assert_eq!(second.steps, [(100, 1_000)]);
        let third = mark("105:130:105,125", 3_000, 131).following(&second);
        assert_eq!(third.bound_of(105), 1_000, "it began after the first mark");
        assert_eq!(third.bound_of(125), 2_000, "it began after the second mark");
        let hi = mark("130:140:", 4_000, 141);
        let range = Range::window(&third, &hi, 0);
        assert_eq!((range.late, range.late_after), (vec![105, 125, 130], 1_000));
    }

    #[test]
    fn a_replay_reads_everything_from_its_place_on_and_the_unseen_below_it() {
        let mut lo = mark("10:20:12", 500, 21);
        lo.replay_from = Some(100);
        let hi = mark("30:30:", 900, 30);
        let range = Range::window(&lo, &hi, 0);
        assert_eq!((range.after, range.from_xid), (99, 0));
        assert_eq!((range.late, range.late_upto), (vec![12, 20], 99));
    }
}
