//! New events as they come.
//!
//! On PostgreSQL an event becomes visible when its transaction commits, possibly after events with higher numbers.
//! So the newest part of the log is looked at again each time, and what was not seen there before is new.

use std::collections::BTreeSet;
use std::time::Duration;

use posthaste::Admin;
use posthaste::admin::{EventQuery, Found};

use crate::cli::events::ListEvents;
use crate::context::Context;
use crate::failure::Failure;
use crate::signals::until_stopped;
use crate::talk::out;
use crate::talk::table::fit;

use super::list::{cells, check_subscription, found_json};

const LOOK_EVERY: Duration = Duration::from_millis(400);
/// Events remembered as seen: how far back a late commit is noticed.
const REMEMBERED: usize = 2_000;

pub(super) async fn run(context: &Context, options: ListEvents) -> Result<(), Failure> {
    until_stopped(follow(context.clone(), options)).await
}

async fn follow(context: Context, options: ListEvents) -> Result<(), Failure> {
    let admin = context.admin();
    let mut query = options.filter.query();
    query.limit = 500;
    check_subscription(&admin, &query).await?;
    let mut seen = Seen::default();
    seen.new_ones(admin.events(&query).await?.events);
    loop {
        for found in seen.new_ones(newest(&admin, &query, seen.floor).await?) {
            match context.json {
                true => out::line(found_json(&found))?,
                false => out::line(line(&found))?,
            }
        }
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

/// Everything above a place, newest first.
async fn newest(admin: &Admin, query: &EventQuery, floor: i64) -> Result<Vec<Found>, Failure> {
    let (mut query, mut all) = (query.clone(), Vec::new());
    loop {
        let page = admin.events(&query).await?;
        all.extend(page.events);
        match page.next {
            Some(next) if next > floor && all.len() < REMEMBERED => query.after = Some(next),
            _ => return Ok(all),
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    seqs: BTreeSet<i64>,
    /// What lies at or below this is not looked at any more.
    floor: i64,
}

impl Seen {
    /// Those that were not seen before, oldest first.
    fn new_ones(&mut self, found: Vec<Found>) -> Vec<Found> {
        let fresh = |one: &Found| one.event.seq > self.floor && self.seqs.insert(one.event.seq);
        let mut fresh: Vec<Found> = found.into_iter().filter(fresh).collect();
        fresh.sort_by_key(|one| one.event.seq);
        while self.seqs.len() > REMEMBERED {
            self.floor = self.seqs.pop_first().unwrap_or(self.floor);
        }
        fresh
    }
}

fn line(found: &Found) -> String {
    let cells = cells(found);
    let widths = [36, 19, 12, 14, 14, 10, 3];
    let fitted = cells.iter().zip(widths).map(|(cell, width)| fit(cell, width));
    fitted.collect::<Vec<_>>().join(" ").trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_remembered_is_bounded_and_forgotten_from_below() {
        let mut seen = Seen { seqs: (1..=3_000).collect(), floor: 0 };
        assert!(seen.new_ones(Vec::new()).is_empty());
        assert_eq!((seen.seqs.len(), seen.floor), (REMEMBERED, 1_000));
    }
}
