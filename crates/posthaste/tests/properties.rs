//! Properties: the backoff's bounds, the lifecycle of a delivery, and a real store that follows it step by step.

use std::time::Duration;

use posthaste::{
    Claims, DeliveryStatus, NewEvent, Order, Outcome, Posthaste, RetryPolicy, Standing, Step, Subscription,
};
use posthaste_testkit::sqlite_file;
use proptest::prelude::*;
use sqlx::{Row, SqlitePool};

fn policy() -> impl Strategy<Value = RetryPolicy> {
    (1_u32..1000, 1_u64..10_000_000, 0_u64..100_000_000).prop_map(|(max_attempts, base, more)| RetryPolicy {
        max_attempts,
        base_delay: Duration::from_micros(base),
        max_delay: Duration::from_micros(base + more),
    })
}

fn step() -> impl Strategy<Value = Step> {
    use Step::{Claim, Deliver, Expire, Fail, GiveBack, Reject, Revive};
    prop::sample::select(vec![Claim, Deliver, Fail, Reject, GiveBack, Expire, Revive])
}

proptest! {
    #[test]
    fn a_delay_doubles_until_it_meets_its_bound(policy in policy(), attempts in 1_u32..200) {
        let delay = policy.delay(attempts);
        let doubled = policy.base_delay.as_micros().checked_shl(attempts - 1).filter(|_| attempts < 64);
        let expected = doubled.map_or(policy.max_delay.as_micros(), |d| d.min(policy.max_delay.as_micros()));
        prop_assert_eq!(delay.as_micros(), expected);
        prop_assert!(policy.delay(attempts + 1) >= delay);
    }

    #[test]
    fn jitter_stays_between_half_the_delay_and_the_delay(policy in policy(), attempts in 1_u32..200) {
        let (delay, jittered) = (policy.delay(attempts), policy.jittered(attempts));
        prop_assert!(jittered >= delay / 2 && jittered <= delay, "{jittered:?} is not in [{:?}, {delay:?}]", delay / 2);
    }

    #[test]
    fn no_sequence_of_steps_leaves_the_lifecycle(steps in prop::collection::vec(step(), 0..60), max in 1_u32..6) {
        let mut standing = Standing::Row(DeliveryStatus::Pending, 0);
        for step in steps {
            let Some(next) = standing.after(step, max) else { continue };
            prop_assert_ne!(standing, Standing::Gone, "nothing follows delivered");
            if let Standing::Row(DeliveryStatus::Dead, _) = standing {
                prop_assert_eq!(step, Step::Revive, "only a person revives the dead");
            }
            if let Standing::Row(_, attempts) = next {
                prop_assert!(attempts <= max, "{attempts} attempts of {max}");
            }
            standing = next;
        }
        if let Standing::Row(DeliveryStatus::Processing, _) = standing {
            prop_assert!(standing.after(Step::Expire, max).is_some(), "none stays processing for ever");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    #[test]
    fn a_store_follows_the_lifecycle_step_by_step(steps in prop::collection::vec(step(), 1..25), max in 1_u32..4) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(follow(steps, max))?;
    }
}

/// Drives one event through a SQLite store and through the table of the lifecycle, and compares after every step.
async fn follow(steps: Vec<Step>, max: u32) -> Result<(), TestCaseError> {
    let (_folder, path) = sqlite_file();
    let pool = SqlitePool::connect_with(posthaste::sqlite_options(&path)).await.unwrap();
    let posthaste = Posthaste::sqlite(pool.clone());
    posthaste.migrate().await.unwrap();
    let mut tx = pool.begin().await.unwrap();
    posthaste.enqueue(&mut tx, NewEvent::bytes("t", b"x".to_vec())).await.unwrap();
    tx.commit().await.unwrap();
    let subscription = Subscription::new("s").unwrap().order(Order::None).settings(|s| {
        s.max_attempts = max;
        s.base_delay = Duration::from_millis(1);
        s.max_delay = Duration::from_millis(1);
    });
    let mut claims = posthaste.claims(&subscription).await.unwrap();
    let mut standing = Standing::Row(DeliveryStatus::Pending, 0);
    let mut held = None;
    for step in steps {
        let Some(next) = standing.after(step, max) else { continue };
        match (step, held.take()) {
            (Step::Claim, None) => held = claim(&mut claims).await,
            (Step::Deliver, Some(claimed)) => claims.settle(claimed, Outcome::Delivered).await.unwrap(),
            (Step::Fail, Some(claimed)) => {
                claims.settle(claimed, Outcome::retry_after(Duration::ZERO, "no")).await.unwrap();
            }
            (Step::Reject, Some(claimed)) => claims.settle(claimed, Outcome::dead("never")).await.unwrap(),
            (Step::GiveBack, Some(claimed)) => claims.release(claimed).await.unwrap(),
            // Expiry takes real time, and reviving a person: other tests do both.
            (_, kept) => {
                held = kept;
                continue;
            }
        }
        standing = next;
        prop_assert_eq!(stored(&pool).await, standing, "after {:?}", step);
    }
    Ok(())
}

async fn claim(claims: &mut Claims) -> Option<posthaste::Claimed> {
    let deadline = std::time::Instant::now() + Duration::from_secs(10);
    loop {
        if let Some(claimed) = claims.claim(1).await.unwrap().pop() {
            return Some(claimed);
        }
        assert!(std::time::Instant::now() < deadline, "a pending event must become claimable");
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Where the event stands according to the view people look at.
async fn stored(pool: &SqlitePool) -> Standing {
    let row =
        sqlx::query("select status, attempts from posthaste_event_status").fetch_one(pool).await.unwrap();
    let attempts = u32::try_from(row.get::<i64, _>("attempts")).unwrap();
    match row.get::<String, _>("status").as_str() {
        "pending" => Standing::Row(DeliveryStatus::Pending, attempts),
        "processing" => Standing::Row(DeliveryStatus::Processing, attempts),
        "dead" => Standing::Row(DeliveryStatus::Dead, attempts),
        _ => Standing::Gone,
    }
}
