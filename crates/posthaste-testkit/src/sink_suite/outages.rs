//! The server goes away and comes back. Nothing is lost, nobody's attempts are used up, nothing is dead.

use serde_json::json;

use super::{SinkBench, Trial, received_different, results, until};

/// Three outages while two thousand events are on their way.
pub async fn a_server_taken_away_costs_no_event_and_no_attempt<B: SinkBench>(bench: &B) {
    let mut trial = Trial::new().await;
    trial.commit_numbered(500, 50).await;
    let subscription = Trial::subscription().settings(|settings| settings.batch_size = 20);
    let worker = trial.log.posthaste.sink(subscription, bench.sink()).start().await.expect("start");
    let counters = worker.counters().clone();
    for outage in 1..=3_u64 {
        let before = counters.delivered();
        until("it goes on", async || counters.delivered() > before).await;
        bench.take_away().await;
        trial.commit_numbered(500, 50).await;
        let seen = counters.unavailable();
        until("the outage is noticed", async || counters.unavailable() > seen).await;
        bench.bring_back().await;
        assert_eq!((counters.dead(), counters.retried()), (0, 0), "after outage {outage}");
    }
    until("all are settled", async || counters.delivered() >= 2000).await;
    let received = received_different(bench, 2000).await;
    worker.stop().await;
    let verdict = trial.verdict(&received);
    let inversions = if B::ORDERED { verdict.inversions } else { 0 };
    assert_eq!((verdict.lost, verdict.ghosts, verdict.corrupted, inversions), (0, 0, 0, 0), "{verdict}");
    assert_eq!((counters.dead(), counters.retried()), (0, 0), "attempts burned");
    let facts = json!({ "outages": 3, "events": 2000, "lost": verdict.lost, "attempts burned": counters.retried(),
        "dead": counters.dead(), "inversions": inversions });
    results::passed(bench, "outages", facts);
}

/// The server is not there yet when the worker starts.
pub async fn a_server_that_is_away_at_the_start_is_waited_for<B: SinkBench>(bench: &B) {
    let mut trial = Trial::new().await;
    trial.commit_numbered(20, 4).await;
    let sink = bench.sink();
    bench.take_away().await;
    let worker = trial.log.posthaste.sink(Trial::subscription(), sink).start().await.expect("start");
    let counters = worker.counters().clone();
    until("it was tried", async || counters.unavailable() > 0).await;
    bench.bring_back().await;
    let received = received_different(bench, 20).await;
    until("all are settled", async || counters.delivered() >= 20).await;
    worker.stop().await;
    let verdict = trial.verdict(&received);
    assert_eq!((verdict.lost, verdict.corrupted), (0, 0), "{verdict}");
    assert_eq!((counters.dead(), counters.retried()), (0, 0), "attempts burned");
    results::passed(
        bench,
        "away at the start",
        json!({ "lost": verdict.lost, "attempts burned": counters.retried() }),
    );
}
