//! Producers and a worker at once: what a worker that keeps up costs the producers.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::bench::Bench;
use crate::measure::{Better, Contender, Figure, Result, Role};
use crate::ours;
use crate::rows::enqueue::{nobody_sleeps, produce};
use crate::worker::Following;

const PRODUCERS: u64 = 4;

/// What is asked is what a worker costs that has been there for a while: PostgreSQL makes plans for each of its connections first.
/// Producers begin so much earlier, with and without a worker.
const SETTLES_IN: u64 = 4;

pub(crate) async fn together(bench: &Bench) -> Result<Vec<Figure>> {
    let (seconds, settles_in, rounds) = (bench.seconds(6), bench.seconds(SETTLES_IN), bench.rounds_times(3));
    let (pool, posthaste) = ours::create(&bench.cluster, "together").await?;
    let title = format!(
        "{PRODUCERS} producers, single-row transactions for {seconds} s, with and without a worker, {rounds} rounds"
    );
    let figure = Figure::timed("together", title, "transactions/s", Better::More).demand(
        "with a worker",
        Some("without a worker"),
        0.9,
    );
    let (pool, posthaste, cluster, turn) = (&pool, &posthaste, &bench.cluster, &AtomicU32::new(0));
    // How many it is in all, and the rate of those that count.
    let producers = move || async move {
        let before = produce(pool, posthaste, PRODUCERS, settles_in).await?;
        let rate = produce(pool, posthaste, PRODUCERS, seconds).await?;
        Result::Ok((before * settles_in as f64 + rate * seconds as f64, rate))
    };
    let contenders = vec![
        Contender::new("without a worker", Role::Limit, move || async move { Ok(producers().await?.1) })
            .prepared_by(move || nobody_sleeps(pool)),
        Contender::new("with a worker", Role::Ours, move || async move {
            // A new one each time: it begins with what is enqueued now.
            let name = format!("follows-{}", turn.fetch_add(1, Ordering::Relaxed));
            let worker = Following::start(cluster, "together", &name, "orders").await?;
            let (count, rate) = producers().await?;
            let told = worker.end().await?;
            match told.delivered as f64 >= count * 0.99 {
                true => Ok(rate),
                false => Err(format!("it did not keep up: {} delivered", told.delivered).into()),
            }
        }),
    ];
    Ok(vec![figure.measure(rounds, contenders).await])
}
