//! Many consumers of one queue on Redis, killed at random: every event is handled, none is acknowledged before that, and
//! an effect is repeated only after a kill or a lost lease.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use posthaste::inbox::{Fence, Once, OnceError, RedisInbox};

use super::bench::{RedisBench, bounded};

const EVENTS: usize = 150;
const CONSUMERS: usize = 8;
const KILLS: usize = 400;

/// What the broker, the receiver of the effects and the test know of an event.
#[derive(Debug, Default, Clone)]
struct Known {
    acknowledged: bool,
    effects: usize,
    /// Copies that were broken off: killed, or their lease was lost.
    broken: usize,
    /// The receiver takes no fence below the highest it has seen.
    highest: Option<Fence>,
}

type World = Arc<Mutex<HashMap<usize, Known>>>;

/// Takes one event and handles it.
async fn handle(inbox: RedisInbox, world: World, event: usize) {
    let effect = async |fence: Fence| {
        pause().await;
        let mut world = world.lock().unwrap();
        let known = world.get_mut(&event).unwrap();
        if known.highest.is_some_and(|highest| highest > fence) {
            return Err("an old fence");
        }
        known.highest = Some(fence);
        known.effects += 1;
        drop(world);
        Ok(())
    };
    // Killed between the effect and the mark as well.
    let answer = inbox.once(&format!("e-{event}"), effect).await;
    let mut world = world.lock().unwrap();
    let known = world.get_mut(&event).unwrap();
    match answer {
        Ok(Once::Done(()) | Once::Duplicate) => {
            assert!(known.effects > 0, "acknowledged without an effect");
            known.acknowledged = true;
        }
        Ok(Once::Busy { .. }) => {}
        Err(OnceError::Inbox(_) | OnceError::Effect(_)) => known.broken += 1,
    }
}

async fn pause() {
    for _ in 0..fastrand::u8(..4) {
        tokio::time::sleep(Duration::from_millis(fastrand::u64(..4))).await;
    }
}

/// Handles events that are not acknowledged, in any order, until there is none; is killed now and then.
async fn consume(inbox: RedisInbox, world: World, kills: Arc<Mutex<usize>>) {
    loop {
        let open: Vec<usize> = {
            let world = world.lock().unwrap();
            world.iter().filter(|(_, known)| !known.acknowledged).map(|(event, _)| *event).collect()
        };
        let Some(event) = fastrand::choice(open) else { return };
        let task = tokio::spawn(handle(inbox.clone(), world.clone(), event));
        let kill = {
            let mut kills = kills.lock().unwrap();
            let kill = *kills > 0 && fastrand::u8(..4) > 0;
            *kills -= usize::from(kill);
            kill
        };
        if kill {
            tokio::time::sleep(Duration::from_micros(fastrand::u64(..15_000))).await;
            task.abort();
        }
        match task.await {
            Err(died) if died.is_cancelled() => world.lock().unwrap().get_mut(&event).unwrap().broken += 1,
            Err(failed) => panic!("{failed}"),
            Ok(()) => {}
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_killed_at_random_lose_nothing_and_repeat_only_what_was_broken_off() {
    let bench = RedisBench::new().await;
    let inbox = bench.inbox("billing").lease(Duration::from_millis(300));
    let world: World = Arc::new(Mutex::new((0..EVENTS).map(|event| (event, Known::default())).collect()));
    let kills = Arc::new(Mutex::new(KILLS));
    let consumers =
        (0..CONSUMERS).map(|_| tokio::spawn(consume(inbox.clone(), world.clone(), kills.clone())));
    for consumer in bounded(futures::future::join_all(consumers)).await {
        consumer.unwrap();
    }
    let world = world.lock().unwrap();
    let (mut broken, mut repeated) = (0, 0);
    for (event, known) in world.iter() {
        assert!(known.acknowledged && known.effects >= 1, "event {event}: {known:?}");
        assert!(known.effects <= 1 + known.broken, "event {event} was repeated without a reason: {known:?}");
        broken += known.broken;
        repeated += known.effects - 1;
    }
    assert!(broken > 0, "some were killed");
    println!("{EVENTS} events, {broken} copies broken off, {repeated} effects repeated");
}
