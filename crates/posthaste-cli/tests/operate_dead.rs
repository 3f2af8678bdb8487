//! `posthaste dead`: one, many, all that match; counts, questions, edits.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use operate_common::*;
use posthaste::{EventId, Worker};

/// Three dead letters in billing, two of them also in audit, and one event that is fine.
async fn with_dead_letters(bench: &Bench) -> (Vec<EventId>, [Worker; 2]) {
    let workers = [
        bench.worker(quick("billing")).await,
        bench.worker(quick("audit").event_type("order.created")).await,
    ];
    let plain = posthaste::NewEvent::bytes("orders", b"bad plain".to_vec()).key("c");
    let ids =
        bench.enqueue(vec![order("a", "bad one"), order("b", "bad two"), plain, order("d", "fine")]).await;
    bench.settled("billing", 3, 0).await;
    bench.settled("audit", 2, 0).await;
    (ids, workers)
}

async fn stop(workers: [Worker; 2]) {
    for worker in workers {
        worker.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn dead_letters_are_listed_and_shown() {
    for bench in Bench::everywhere().await {
        let (ids, workers) = with_dead_letters(&bench).await;
        let words = bench.words(&["dead", "list"]);
        assert_eq!(words.matches("card\\u{1b}[2J refused").count(), 5, "{words}");
        let list = |arguments: &[&str]| {
            bench.json(&[&["dead", "list"], arguments].concat())["dead"].as_array().unwrap().len()
        };
        assert_eq!(list(&[]), 5);
        assert_eq!(list(&["--subscription", "billing"]), 3);
        assert_eq!(list(&["--subscription", "billing", "--type", "order.created"]), 2);
        assert_eq!(list(&["--key", "a"]), 2);
        assert_eq!(list(&["--error", "refused"]), 5);
        assert_eq!(list(&["--error", "timeout"]), 0);
        assert_eq!(list(&["--topic", "parcels"]), 0);
        let page = bench.json(&["dead", "list", "--limit", "2"]);
        assert_eq!(page["dead"].as_array().unwrap().len(), 3, "an event is not split over two pages");
        let after = page["next"].to_string();
        let rest = bench.json(&["dead", "list", "--limit", "2", "--after", &after]);
        assert_eq!((rest["dead"].as_array().unwrap().len(), rest["next"].is_null()), (2, true));

        let id = ids[0].to_string();
        let shown = bench.words(&["dead", "show", &id]);
        assert!(shown.contains("Dead in audit after 1 attempt:"), "{shown}");
        assert!(shown.contains("Dead in billing") && shown.contains("bad one"), "{shown}");
        let json = bench.json(&["dead", "show", &id, "--subscription", "audit"]);
        assert_eq!(json["subscriptions"].as_array().unwrap().len(), 1);
        assert_eq!(json["subscriptions"][0]["history"][0]["outcome"], "dead");
        let fine = ids[3].to_string();
        let refused = bench.refused(3, &["dead", "show", &fine]);
        assert!(
            refused.contains("is no dead letter") && refused.contains(&format!("posthaste why {fine}")),
            "{refused}"
        );
        assert!(
            bench
                .refused(3, &["dead", "list", "--subscription", "biling"])
                .contains("did you mean `billing`?")
        );
        stop(workers).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_is_retried_at_once_and_many_only_after_a_yes() {
    for bench in Bench::everywhere().await {
        let (ids, workers) = with_dead_letters(&bench).await;
        // Nobody works on them from now on, so that what is retried stays pending.
        stop(workers).await;
        let one = ids[2].to_string();
        assert_eq!(bench.words(&["dead", "retry", &one]), "1 dead letter: tried again.\n");
        let again = bench.refused(3, &["dead", "retry", &one]);
        assert!(again.contains("no dead letter in any subscription"), "{again}");

        let refused = bench.refused(2, &["dead", "retry", "--all"]);
        assert!(refused.contains("Try 4 dead letters (audit 2, billing 2) again?"), "{refused}");
        assert!(refused.contains("no terminal to ask on; add --yes"), "{refused}");
        let both = ids[0].to_string();
        assert!(
            bench.refused(2, &["dead", "retry", &both]).contains("2 dead letters"),
            "it is dead in two places"
        );
        let dry = bench.words(&["dead", "retry", "--all", "--dry-run"]);
        assert_eq!(dry, "4 dead letters (audit 2, billing 2) would be tried again. Nothing was changed.\n");
        let dry = bench.json(&["dead", "discard", "--key", "a", "--dry-run"]);
        assert_eq!(
            (dry["matched"].as_u64(), dry["changed"].as_u64(), dry["dry_run"].as_bool()),
            (Some(2), Some(0), Some(true))
        );

        let done = bench.json(&["dead", "retry", &both, "--subscription", "audit"]);
        assert_eq!((done["changed"].as_u64(), done["subscriptions"]["audit"].as_u64()), (Some(1), Some(1)));
        let done = bench.json(&["dead", "retry", "--error", "refused", "--yes"]);
        assert_eq!(
            (done["matched"].as_u64(), done["changed"].as_u64(), done["exact"].as_bool()),
            (Some(3), Some(3), Some(true))
        );
        let none = bench.words(&["dead", "retry", "--all", "--yes"]);
        assert!(none.contains("No dead letter matches"), "{none}");
        assert_eq!(bench.json(&["dead", "retry", "--all"])["matched"], 0);
        let state = bench.posthaste.admin().event(ids[0]).await.unwrap();
        assert!(state.states.iter().all(|state| state.status.as_str() == "pending"), "{state:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_discarded_is_gone_and_the_rest_stays() {
    for bench in Bench::everywhere().await {
        let (ids, workers) = with_dead_letters(&bench).await;
        let done = bench.words(&[
            "dead",
            "discard",
            "--subscription",
            "billing",
            "--type",
            "order.created",
            "--yes",
        ]);
        assert_eq!(done, "2 dead letters: given up for good.\n");
        bench.settled("billing", 1, 0).await;
        bench.settled("audit", 2, 0).await;
        let many = [ids[0].to_string(), ids[1].to_string()];
        let done = bench.json(&["dead", "discard", &many[0], &many[1], "--yes"]);
        assert_eq!(done["changed"], 2);
        bench.settled("audit", 0, 0).await;
        let unknown = "0198c5d2-7c1e-7a43-9f5b-2b1c6a1f0e11";
        assert!(bench.refused(3, &["dead", "discard", unknown]).contains("there is no event"));
        assert!(
            bench
                .refused(3, &["dead", "discard", unknown, "--subscription", "billing"])
                .contains("there is no event")
        );
        stop(workers).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_letter_is_tried_again_with_another_body() {
    for bench in Bench::everywhere().await {
        let (ids, workers) = with_dead_letters(&bench).await;
        let id = ids[0].to_string();
        let told = bench.words(&["dead", "edit", &id, "--subscription", "billing", "--payload", "good"]);
        assert!(told.contains("with the new body"), "{told}");
        bench.settled("billing", 2, 0).await;
        assert_eq!(
            bench.words(&["events", "show", &id, "--payload-only"]),
            "bad one",
            "the log keeps what was enqueued"
        );
        let again = bench.refused(3, &["dead", "edit", &id, "--subscription", "billing", "--payload", "x"]);
        assert!(again.contains("no dead letter in billing"), "{again}");
        let fed =
            fed(bench.command(&["dead", "edit", &id, "-s", "audit", "--payload", "-", "--json"]), b"good");
        assert_eq!(fed.code, 0, "{fed:?}");
        bench.settled("audit", 1, 0).await;
        assert!(bench.words(&["why", &id]).contains("after a person had it tried again"));
        stop(workers).await;
    }
}
