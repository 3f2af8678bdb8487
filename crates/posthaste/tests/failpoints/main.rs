//! Workers that die by SIGKILL at each failpoint between a claim and the end of its settlement, while a writer goes on: on
//! PostgreSQL and on SQLite nothing is lost, invented or changed, first deliveries stay in order, and the duplicates stay within
//! the bound. So every point of the list is also shown to be reached; that there is no other one, the compiler sees to.
//!
//! This program is trial and worker in one: with orders in its environment it is a worker. Words on the command line select
//! failpoints, and `POSTHASTE_FAILPOINT_KILLS` says how often to kill at each.

mod scene;
mod stage;
mod trial;
mod worker;

use std::time::Instant;

use futures::StreamExt;
use posthaste::testing::FAILPOINTS;

use scene::ONLY_ON_POSTGRES;
use stage::Store;
use trial::{Line, Trial};
use worker::Orders;

/// Trials spend most of their time waiting for the lease of a worker that was killed.
const AT_ONCE: usize = 10;
const KILLS: usize = 3;

#[tokio::main]
async fn main() {
    match Orders::from_environment() {
        Some(orders) => worker::work(orders).await,
        None => try_all().await,
    }
}

async fn try_all() {
    let begun = Instant::now();
    let kills = std::env::var("POSTHASTE_FAILPOINT_KILLS").map_or(KILLS, |kills| kills.parse().unwrap());
    let trials = selected().into_iter().map(|(store, point)| Trial { store, point, kills }.run());
    let mut trials = futures::stream::iter(trials).buffer_unordered(AT_ONCE);
    let mut lines: Vec<Line> = Vec::new();
    while let Some(line) = trials.next().await {
        println!("{line}");
        line.judge();
        lines.push(line);
    }
    let sum = |of: fn(&Line) -> usize| lines.iter().map(of).sum::<usize>();
    let (kills, duplicates) = (sum(|line| line.kills), sum(|line| line.verdict.duplicates));
    println!(
        "{kills} kills at {} failpoints in {:?}: {duplicates} duplicates among {} events",
        lines.len(),
        begun.elapsed(),
        sum(|line| line.verdict.accepted),
    );
    // The control: deaths in the middle of batches cost something. Without any duplicate they came at harmless moments.
    assert!(lines.len() < FAILPOINTS.len() || duplicates > 0, "nobody was killed in the middle of anything");
    println!("\n{} passed, 0 failed", lines.len());
}

/// Every failpoint on every store that has it, or those that the command line names.
fn selected() -> Vec<(Store, &'static str)> {
    assert!(ONLY_ON_POSTGRES.iter().all(|point| FAILPOINTS.contains(point)));
    let words: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let wanted = |point: &str| words.is_empty() || words.iter().any(|word| point.contains(word.as_str()));
    let on = |point: &'static str| Store::ALL.map(|store| (store, point));
    let there =
        |(store, point): &(Store, &str)| *store == Store::Postgres || !ONLY_ON_POSTGRES.contains(point);
    FAILPOINTS.iter().copied().filter(|point| wanted(point)).flat_map(on).filter(there).collect()
}
