//! Rows about the answers of receivers: lost ones, and what receivers refuse.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use posthaste::inbox::{Once, PostgresInbox};
use sqlx::{Executor, PgConnection};

use super::brokers;
use crate::collector::Answer;
use crate::finding::{Finding, Result};
use crate::log;
use crate::programs::{self, Program};
use crate::relay::Plan;
use crate::stage::Stage;
use crate::trial::Trial;
use crate::writer::Habits;

/// Every so many acceptances, the answer is lost.
const EVERY: usize = 10;

/// The receiver has accepted, but the connection breaks before it can say so: that event is sent again, and no other.
pub(crate) async fn dropped(stage: &Stage) -> Result<Vec<Finding>> {
    let seconds = stage.size(6, 60);
    let mut trial = Trial::prepare(stage, Plan::default()).await?;
    log::note_attempts(&trial.pool).await?;
    let (accepted, dropped) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    trial.start_relays(2)?;
    // Few: after every lost answer a relay waits a moment, then asks with one event whether the receiver is there.
    let few = Habits { connections: 2, pause: Duration::from_millis(60), ..Habits::default() };
    trial.start_writers(2, few).await?;
    trial.until_delivering().await?;
    let drops = dropped.clone();
    trial.collector.answer(move |_| match accepted.fetch_add(1, Ordering::Relaxed) % EVERY {
        0 => (drops.fetch_add(1, Ordering::Relaxed), Answer::AcceptAndHangUp).1,
        _ => Answer::Accept,
    });
    tokio::time::sleep(Duration::from_secs(seconds)).await;
    trial.collector.answer(|_| Answer::Accept);
    let recovery = trial.until_delivering().await?;
    let dropped = dropped.load(Ordering::Relaxed);
    let finding = trial.finding("acknowledgements are lost", dropped).await?;
    let attempts = log::attempts(&trial.pool).await?.len();
    let again = effects_again(&trial).await?;
    let mut findings = vec![
        finding
            .fact("answers lost", dropped, dropped > 0)
            .fact("effects that a consumer with an inbox had twice", again, again == 0)
            .told("bound of duplicates", "one for each lost answer")
            .told("attempts that counted", attempts)
            .how(format!("the connection breaks after every {EVERY}th acceptance for {seconds} s, 2 relays"))
            .recovery(recovery),
    ];
    findings.extend(brokers::unheard(stage).await?);
    Ok(findings)
}

/// Hands every delivery, copies included, to a consumer with an inbox, and counts the effects beyond one of each event.
async fn effects_again(trial: &Trial) -> Result<i64> {
    trial.pool.execute("create table effects (id text)").await?;
    let inbox = PostgresInbox::new(trial.pool.clone(), "consumer")?;
    inbox.migrate().await?;
    for delivery in trial.collector.deliveries() {
        let id = delivery.accepted.id.to_string();
        let effect = async |tx: &mut PgConnection| {
            sqlx::query("insert into effects values ($1)").bind(&id).execute(tx).await.map(drop)
        };
        match inbox.once(&id, effect).await? {
            Once::Done(()) | Once::Duplicate => {}
            Once::Busy { .. } => return Err("nobody else marks events".into()),
        }
    }
    let again = "select count(*) - count(distinct id) from effects";
    Ok(sqlx::query_scalar(again).fetch_one(&trial.pool).await?)
}

/// A page of which the receiver takes a part.
pub(crate) async fn partial(stage: &Stage) -> Result<Vec<Finding>> {
    let sqs = sinks(
        "sqs",
        &[
            "what_is_marked_delivered_is_exactly_what_was_accepted",
            "whatever_part_of_a_page_is_refused_exactly_the_accepted_ones_are_delivered",
            "no_call_has_two_events_of_a_key_and_nothing_follows_a_failure",
            "a_call_that_is_refused_for_one_message_is_sent_again_one_by_one",
        ],
    );
    let kafka = sinks(
        "kafka",
        &[
            "no_event_overtakes_an_earlier_one_of_its_key_whatever_fails",
            "what_is_said_to_be_delivered_is_there",
            "a_refused_batch_does_not_kill_the_neighbours",
        ],
    );
    let how = "random parts of SQS calls fail, 16 errors at changing places of Kafka requests; what is marked delivered is what \
               was accepted";
    Ok(vec![programs::run(stage, "a page is accepted in part", how, &[sqs, kafka]).await?])
}

/// Events that are too large for their broker.
pub(crate) async fn oversize(stage: &Stage) -> Result<Vec<Finding>> {
    const SUITE: &str = "a_refused_event_is_dead_and_the_others_go_on";
    let programs = [
        sinks("nats", &[SUITE, "an_oversize_event_does_not_cost_the_connection"]),
        sinks("rabbitmq", &[SUITE, "what_only_the_server_finds_too_large_is_dead_and_the_others_go_on"]),
        sinks("redis", &[SUITE, "an_event_that_is_too_long_is_dead_and_keeps_the_connection"]),
        sinks("kafka", &[SUITE, "a_record_that_is_refused_alone_is_dead"]),
        sinks("sqs", &[SUITE, "what_only_the_queue_finds_too_large_is_dead_and_the_others_go_on"]),
        sinks("pubsub", &[SUITE]),
        sinks("webhook", &[SUITE]),
    ];
    let how = "one event in ten is too large for NATS, RabbitMQ, Redis, Kafka, SQS, Pub/Sub, a webhook: dead at the first \
               attempt with its reason, its neighbours accepted, no connection lost";
    Ok(vec![programs::run(stage, "events that are too large", how, &programs).await?])
}

/// Destinations that are not there, and every answer that HTTP knows.
pub(crate) async fn unroutable(stage: &Stage) -> Result<Vec<Finding>> {
    const SUITE: &str = "an_unknown_destination_loses_nothing";
    let brokers = [
        sinks(
            "nats",
            &[
                SUITE,
                "a_subject_without_a_stream_stops_all_only_if_all_go_there",
                "another_stream_than_the_named_one_is_no_destination",
                "a_listener_is_not_taken_for_a_stream",
            ],
        ),
        sinks(
            "rabbitmq",
            &[
                SUITE,
                "among_many_exactly_the_unroutable_ones_are_retried",
                "a_fixed_address_that_leads_nowhere_is_waited_for",
                "an_exchange_that_is_not_there_costs_only_its_own_event",
            ],
        ),
        sinks("kafka", &[SUITE, "trouble_with_a_topic_stops_only_what_needs_that_topic"]),
        sinks("sqs", &[SUITE, "refused_calls_are_told_apart", "a_queue_that_is_not_for_us"]),
        sinks(
            "pubsub",
            &[SUITE, "a_missing_topic_is_waited_for_if_it_is_the_only_one_and_retried_otherwise"],
        ),
    ];
    let webhook = sinks(
        "webhook",
        &[
            SUITE,
            "every_status_has_its_outcome",
            "a_redirect_is_not_followed",
            "a_receiver_that_asks_for_a_rest_gets_it",
            "after_its_rest_a_receiver_is_asked_again",
            "a_receiver_that_is_gone_is_left_alone_and_loses_nothing",
            "one_event_waits_as_long_as_its_answer_says",
        ],
    );
    let how = "exchanges, queues, streams, subjects and topics that are missing: nothing is marked delivered";
    let missing = programs::run(stage, "destinations that are not there", how, &brokers).await?;
    let how = "38 statuses from 200 to 599, redirects, 410, 429 and 503 with Retry-After; each has the outcome of the table";
    let table = programs::run(stage, "answers of webhooks", how, &[webhook]).await?;
    Ok(vec![missing, table])
}

/// Tests of a sink.
pub(super) const fn sinks(name: &'static str, tests: &'static [&'static str]) -> Program {
    Program { package: "posthaste-sinks", name, tests }
}
