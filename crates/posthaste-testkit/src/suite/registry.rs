//! The registry: refused at enqueue, dead at delivery, and nobody else is held up.

use async_trait::async_trait;
use posthaste::{ClaimBy, NewEvent, Order, Outcome, Page, Registry, Sink, Start};
use serde_json::{Value, json};

use super::{Backend, Script, quick, until};

fn registry() -> Registry {
    Registry::new().register::<Vec<u32>>("counted", "orders", "order")
}

fn counted(id: &str, payload: &Value) -> NewEvent {
    let event = NewEvent::json("orders", payload).expect("JSON");
    event.event_type("counted").aggregate("order", id)
}

/// Accepts whatever it is handed.
struct Accepting(Script);

#[async_trait]
impl Sink for Accepting {
    async fn deliver(&self, page: &mut Page) {
        for index in 0..page.events().len() {
            let outcome = self.0.attempt(&page.events()[index].clone());
            page.mark(index, outcome);
        }
    }
}

/// What does not fit is refused before any SQL, and the caller's transaction goes on.
pub async fn a_misfit_is_refused_at_enqueue_and_the_transaction_commits(db: &impl Backend) {
    let checked = db.posthaste().clone().with_registry(registry());
    let before = db.count_events().await;
    for (event, field) in [
        (counted("1", &json!([1])).event_type("other"), "event_type"),
        (counted("1", &json!(null)), "payload"),
        (counted("1", &json!(["x"])), "payload: [0]"),
        (counted("", &json!([1])), "aggregate_id"),
        (
            NewEvent::json("orders", &[1]).expect("JSON").event_type("counted").aggregate("user", "1"),
            "aggregate_type",
        ),
    ] {
        let refused = db.enqueue_with(&checked, vec![event]).await.expect_err("a misfit");
        assert!(refused.to_string().contains(field), "{refused}");
    }
    db.enqueue_with(&checked, vec![counted("1", &json!([1]))]).await.expect("it fits");
    assert_eq!(db.count_events().await, before + 1);
}

/// Events of producers that nobody checked: misfits are dead at the first attempt, with the field in the reason; the
/// others arrive, in order within their key.
pub async fn a_misfit_is_dead_at_delivery_and_the_others_go_on(db: &impl Backend) {
    let ways = [
        (Order::Key, ClaimBy::Batch),
        (Order::Key, ClaimBy::Event),
        (Order::None, ClaimBy::Batch),
        (Order::Strict, ClaimBy::Batch),
    ];
    for (order, claim_by) in ways {
        let name = format!("{}-{}", order.as_str(), claim_by.as_str());
        let script = Script::new(|_, _| Outcome::Delivered);
        let sink = registry().checked(Accepting(script.clone()), order);
        let subscription = quick(&name).order(order).claim_by(claim_by).start(Start::Now);
        let worker = db.posthaste().sink(subscription, sink).start().await.expect("start");
        let payload = |n: u32| if n % 4 == 1 { json!({ "n": n }) } else { json!([n]) };
        db.commit((0..20).map(|n| counted(&format!("o-{}", n % 3), &payload(n))).collect()).await;
        script.accepted.wait_for(15).await;
        until("five are dead", async || db.deliveries(&name).await.len() == 5).await;
        let retried = worker.counters().retried();
        worker.stop().await;
        assert_eq!(retried, 0, "{name}: a misfit is never tried again");
        for row in db.deliveries(&name).await {
            assert_eq!(row.status, "dead");
            assert!(
                row.last_error
                    .as_deref()
                    .is_some_and(|error| error.starts_with("payload: invalid type: map")),
                "{row:?}"
            );
        }
        assert_in_order(&script, order);
    }
}

fn assert_in_order(script: &Script, order: Order) {
    let accepted = script.accepted.accepted();
    let number = |payload: &[u8]| serde_json::from_slice::<[u32; 1]>(payload).expect("a number")[0];
    for key in 0..3 {
        let of_key = accepted.iter().filter(|accepted| accepted.key.as_deref() == Some(&format!("o-{key}")));
        let numbers: Vec<u32> = of_key.map(|accepted| number(&accepted.payload)).collect();
        assert!(order == Order::None || numbers.is_sorted(), "{numbers:?}");
    }
}
