//! Rebase on PostgreSQL. A restore into another cluster is simulated: every transaction id that is stored is shifted, so
//! that this cluster's ids are small and new, and another system identifier is recorded.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
#[expect(unused_macros, reason = "its scenarios are for one database")]
mod admin_common;

use admin_common::*;
use posthaste::admin::EventStatus;
use posthaste::{Error, Order, Outcome, Start};
use posthaste_testkit::{Ledger, TestDatabase, servers};

/// Makes what is stored look as if it had come from a cluster that was far ahead.
async fn restored_elsewhere(db: &TestDatabase) {
    db.run("update posthaste.events set xid = ((xid::text)::bigint + 4000000000)::text::xid8").await;
    db.run("update posthaste.marks set
           floor_xid = ((floor_xid::text)::bigint + 4000000000)::text::xid8,
           snapshot = (((pg_snapshot_xmin(snapshot)::text)::bigint + 4000000000)::text || ':' ||
             ((pg_snapshot_xmax(snapshot)::text)::bigint + 4000000000)::text || ':' ||
             coalesce((select string_agg(((x::text)::bigint + 4000000000)::text, ',' order by (x::text)::bigint)
               from pg_snapshot_xip(snapshot) x), ''))::pg_snapshot,
           steps = (select coalesce(array_agg(case when i % 2 = 1 then steps[i] + 4000000000 else steps[i] end
             order by i), '{}') from generate_subscripts(steps, 1) i)",
    )
    .await;
    db.run("update posthaste.meta set system_identifier = 1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restore_nothing_is_delivered_until_the_rebase_and_then_all_of_it_once() {
    for server in servers() {
        for order in [Order::Key, Order::None, Order::Strict] {
            let db = TestDatabase::on(&server).await;
            let admin = db.posthaste.admin();
            let ledger = Ledger::default();
            let subscription = || quick("s").order(order).settings(|s| s.batch_size = 3);
            // Open while the others are read, and committed before the dump.
            let mut late = db.pool.begin().await.unwrap();
            db.posthaste.enqueue(&mut late, event("late", "late")).await.unwrap();
            let worker = accepting(&db, subscription(), &ledger).await;
            let ids = enqueue_numbered(&db, "k", 1..=8).await;
            ledger.wait_for(8).await;
            until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
            worker.stop().await;
            late.commit().await.unwrap();
            enqueue_numbered(&db, "k", 9..=12).await;
            restored_elsewhere(&db).await;
            enqueue_numbered(&db, "k", 13..=16).await;
            let refused = db.posthaste.claims(&quick("other")).await.unwrap_err();
            assert!(matches!(refused, Error::ClusterChanged { .. }), "{refused}");
            let report = admin.rebase().await.unwrap();
            assert_eq!((report.events, report.lanes, report.deliveries), (17, 1, 1), "{order:?}");
            assert_eq!(status(&admin, ids[0], "s").await, Some(EventStatus::Delivered), "{order:?}");
            assert_eq!(admin.subscription("s").await.unwrap().lag.exact(), Some(9), "{order:?}");
            let worker = accepting(&db, subscription(), &ledger).await;
            ledger.wait_for(17).await;
            enqueue_numbered(&db, "k", 17..=18).await;
            ledger.wait_for(19).await;
            until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
            worker.stop().await;
            let texts = ledger.texts();
            assert_eq!(texts.len(), 19, "{order:?}: lost or repeated: {texts:?}");
            let keyed: Vec<_> = texts.iter().filter(|text| *text != "late").collect();
            assert_eq!(keyed.len(), 18, "{order:?}: {texts:?}");
            assert!(order == Order::None || keyed.is_sorted(), "{order:?}: {texts:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebase_in_the_middle_of_windows_batches_and_deliveries_loses_and_repeats_nothing() {
    let db = TestDatabase::new().await;
    let admin = db.posthaste.admin();
    let mut early = db.pool.begin().await.unwrap();
    db.posthaste.enqueue(&mut early, event("late", "early")).await.unwrap();
    let mut half = db.posthaste.claims(&quick("half")).await.unwrap();
    let mut none = db.posthaste.claims(&quick("untouched")).await.unwrap();
    db.posthaste.claims(&quick("from-now").start(Start::Now)).await.unwrap();
    let bodies: Vec<_> = (1..=9).map(|n| event(&format!("k{}", n % 3), &format!("n{n}"))).collect();
    enqueue(&db, bodies).await;
    enqueue(&db, vec![event("bad", "bad"), event("z", "later"), event("z", "z2")]).await;
    for claimed in half.claim(5).await.unwrap() {
        half.settle(claimed, Outcome::Delivered).await.unwrap();
    }
    assert_eq!(
        db.scalar("select count(*) from posthaste.progress where hi is not null").await,
        1,
        "a window is open"
    );
    early.commit().await.unwrap();
    restored_elsewhere(&db).await;
    enqueue(&db, vec![event("k0", "n10")]).await;
    assert!(matches!(half_refused(&db).await, Error::ClusterChanged { .. }));
    let report = admin.rebase().await.unwrap();
    assert_eq!(report.lanes, 3);
    let mut delivered = drain(&mut half).await;
    delivered.sort();
    assert_eq!(delivered, ["early", "n10", "n6", "n7", "n8", "n9"], "n1 to n5 were delivered before");
    let mut delivered = drain(&mut none).await;
    delivered.sort();
    assert_eq!(delivered, ["early", "n1", "n10", "n2", "n3", "n4", "n5", "n6", "n7", "n8", "n9"]);
    let mut now = db.posthaste.claims(&quick("from-now")).await.unwrap();
    let mut delivered = drain(&mut now).await;
    delivered.sort();
    assert_eq!(delivered.len(), 11, "{delivered:?}: all that committed after its start");
    assert_eq!(admin.subscription("half").await.unwrap().dead.exact(), Some(1));
    assert_eq!(admin.subscription("half").await.unwrap().parked.exact(), Some(1));
}

async fn half_refused(db: &TestDatabase) -> Error {
    db.posthaste.claims(&quick("half")).await.unwrap_err()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_lay_before_a_start_stays_before_it() {
    let db = TestDatabase::new().await;
    let admin = db.posthaste.admin();
    let before = enqueue_numbered(&db, "k", 1..=3).await;
    let mut claims = db.posthaste.claims(&quick("s").start(Start::Now)).await.unwrap();
    let after = enqueue_numbered(&db, "k", 4..=5).await;
    restored_elsewhere(&db).await;
    admin.rebase().await.unwrap();
    assert_eq!(drain(&mut claims).await, ["k004", "k005"]);
    assert_eq!(status(&admin, before[2], "s").await, None);
    assert_eq!(status(&admin, after[0], "s").await, Some(EventStatus::Delivered));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rebase_while_lanes_are_split_reaches_every_key() {
    let db = TestDatabase::new().await;
    let admin = db.posthaste.admin();
    let ledger = Ledger::default();
    let keys: Vec<String> = (0..12).map(|n| format!("k{n}")).collect();
    let of = |round: u32| keys.iter().map(|key| event(key, &format!("{key}-{round}"))).collect::<Vec<_>>();
    let worker = accepting(&db, quick("s").lanes(2), &ledger).await;
    enqueue(&db, of(1)).await;
    ledger.wait_for(12).await;
    until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
    worker.stop().await;
    enqueue(&db, of(2)).await;
    drop(db.posthaste.claims(&quick("s").lanes(3)).await.unwrap());
    enqueue(&db, of(3)).await;
    restored_elsewhere(&db).await;
    enqueue(&db, of(4)).await;
    admin.rebase().await.unwrap();
    let worker = accepting(&db, quick("s").lanes(3), &ledger).await;
    ledger.wait_for(48).await;
    until("settled", async || admin.subscription("s").await.unwrap().lag.is_zero()).await;
    worker.stop().await;
    let texts = ledger.texts();
    assert_eq!(texts.len(), 48, "{texts:?}");
    for key in &keys {
        let of_key: Vec<_> = texts.iter().filter(|text| text.starts_with(&format!("{key}-"))).collect();
        assert!(of_key.len() == 4 && of_key.is_sorted(), "{of_key:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn after_pg_upgrade_keep_is_enough_and_a_rebase_at_home_is_refused() {
    let db = TestDatabase::new().await;
    let admin = db.posthaste.admin();
    let mut claims = db.posthaste.claims(&quick("s")).await.unwrap();
    enqueue_numbered(&db, "k", 1..=3).await;
    assert_eq!(drain(&mut claims).await.len(), 3);
    assert!(admin.rebase().await.is_err(), "nothing has moved");
    db.run("update posthaste.meta set system_identifier = 1").await;
    enqueue_numbered(&db, "k", 4..=5).await;
    assert!(matches!(db.posthaste.claims(&quick("s")).await, Err(Error::ClusterChanged { .. })));
    admin.keep().await.unwrap();
    let mut claims = db.posthaste.claims(&quick("s")).await.unwrap();
    db.run("update posthaste.lanes set token = null").await;
    assert_eq!(drain(&mut claims).await, ["k004", "k005"]);
}
