//! What a lost worker leaves is taken over, and at last isolated.

use super::*;

#[tokio::test]
async fn a_takeover_fences_the_former_owner_and_keeps_the_order_of_batches() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription().settings(|s| s.batch_size = 2)).await;
    bench.enqueue_keys(&["a", "b", "c"]).await;
    let (a, b) = (holder("a", SHORT), holder("b", LONG));
    let first = bench.claim(&reader, &a).await;
    let second = batch(bench.fresh(&reader, first.lane, Some(first.token), &a).await);
    outlast(SHORT).await;
    let taken = bench.store.claim_lane(&reader, &b).await.unwrap().unwrap();
    let pages: Vec<_> = taken.unfinished.iter().map(|batch| (seqs(&batch.events), batch.claims)).collect();
    assert_eq!(pages, [(vec![1, 2], 2), (vec![3], 2)]);
    for late in [&first, &second] {
        assert!(!bench.store.settle_batch(&reader, reference(late), &[], &a).await.unwrap());
    }
    assert!(matches!(bench.fresh(&reader, first.lane, Some(first.token), &a).await, Fresh::LaneLost));
    for batch in &taken.unfinished {
        assert!(bench.store.settle_batch(&reader, reference(batch), &[], &b).await.unwrap());
    }
}

#[tokio::test]
async fn a_batch_lost_twice_becomes_deliveries_that_are_claimed_one_at_a_time() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    bench.enqueue_keys(&["a", "b", "a", "c"]).await;
    bench.claim(&reader, &holder("w1", SHORT)).await;
    for (worker, left) in [("w2", 1), ("w3", 0)] {
        outlast(SHORT).await;
        let taken = bench.store.claim_lane(&reader, &holder(worker, SHORT)).await.unwrap().unwrap();
        assert_eq!(taken.unfinished.len(), left);
    }
    assert_eq!(bench.statuses("billing").await, ["pending"; 4]);
    assert_eq!(
        (bench.delivery(3, "parked").await, bench.delivery(3, "attempts").await),
        ("1".into(), "0".into())
    );
    let worker = holder("w4", LONG);
    assert!(bench.store.claim_deliveries(&reader, &worker, 100, false).await.unwrap().is_empty());
    let alone = bench.due(&reader, &worker).await;
    assert_eq!((alone.len(), alone[0].solo, alone[0].attempts), (1, true, 1));
}

#[tokio::test]
async fn a_released_lane_is_free_at_once_and_its_claim_is_not_held_against_it() {
    let bench = Bench::new().await;
    let reader = bench.subscribe(subscription()).await;
    bench.enqueue_keys(&["a"]).await;
    let worker = holder("w", LONG);
    let mut batch = bench.claim(&reader, &worker).await;
    for _ in 0..4 {
        bench.store.release_lane(&reader, batch.lane, batch.token).await.unwrap();
        let mut taken = bench.store.claim_lane(&reader, &worker).await.unwrap().unwrap();
        batch = taken.unfinished.remove(0);
        assert_eq!(batch.claims, 1);
    }
}

#[tokio::test]
async fn without_order_batches_are_claimed_side_by_side_and_reclaimed_alone() {
    let bench = Bench::new().await;
    let none = subscription().order(Order::None).settings(|s| s.batch_size = 1);
    let reader = bench.subscribe(none).await;
    bench.enqueue_keys(&["a", "a"]).await;
    let lane = bench.store.open_lane(&reader).await.unwrap();
    let (a, b) = (holder("a", SHORT), holder("b", LONG));
    let first = batch(bench.fresh(&reader, lane, None, &a).await);
    let second = batch(bench.fresh(&reader, lane, None, &b).await);
    assert_eq!((seqs(&first.events), seqs(&second.events)), (vec![1], vec![2]));
    outlast(SHORT).await;
    let again = bench.store.reclaim_batch(&reader, &a).await.unwrap().unwrap();
    assert_eq!((seqs(&again.events), again.claims), (vec![1], 2));
    assert!(!bench.store.settle_batch(&reader, reference(&first), &[], &a).await.unwrap());
    assert!(bench.store.settle_batch(&reader, reference(&second), &[], &b).await.unwrap());
    outlast(SHORT).await;
    assert!(bench.store.reclaim_batch(&reader, &b).await.unwrap().is_none(), "it was materialised");
    let isolated = bench.due(&reader, &b).await;
    assert_eq!((claimed_seqs(&isolated), isolated[0].solo), (vec![1], true));
}
