//! Ten million waiting events: as fast as one million, in little memory.

use crate::bench::Bench;
use crate::cluster::calm_down;
use crate::measure::{Better, Figure, Result, Role};
use crate::ours;
use crate::rows::drain::rate;
use crate::worker::drain_elsewhere;

/// The memory that a worker may have, in MiB.
const MEMORY: f64 = 256.0;

pub(crate) async fn backlog(bench: &Bench) -> Result<Vec<Figure>> {
    let (many, few) = (bench.events(10_000_000), bench.events(1_000_000));
    let mut speed =
        Figure::timed("backlog", format!("Drain of {many} waiting events"), "events/s", Better::More).demand(
            "posthaste, ten times as many",
            Some("posthaste"),
            0.9,
        );
    let mut memory = Figure::counted(
        "backlog memory",
        format!("Most memory while {many} events wait"),
        "MiB",
    )
    .demand("posthaste", None, MEMORY);
    for (database, count) in [("backlog_few", few), ("backlog_many", many)] {
        let (pool, posthaste) = ours::create(&bench.cluster, database).await?;
        ours::load(&pool, &posthaste, count).await?;
        calm_down(&pool).await?;
        pool.close().await;
    }
    for round in 1..=bench.rounds {
        for (name, database, count) in
            [("posthaste", "backlog_few", few), ("posthaste, ten times as many", "backlog_many", many)]
        {
            eprintln!("  backlog round {round} of {}: {count} events", bench.rounds);
            let told = drain_elsewhere(&bench.cluster, database, &format!("backlog-{round}"), count).await?;
            speed.add(name, Role::Ours, rate(count, told.seconds));
            if count == many {
                memory.add("posthaste", Role::Ours, told.memory as f64 / 1024.0 / 1024.0);
            }
        }
    }
    Ok(vec![speed, memory])
}
