//! The SQL function `enqueue`: what the library's enqueue does, for producers in any language.

use posthaste::{EventId, NewEvent};
use posthaste_testkit::suite::{Backend, Script, event, quick, until};
use posthaste_testkit::{TestDatabase, servers};
use sqlx::{PgConnection, Row};
use uuid::Uuid;

async fn databases() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await);
    }
    databases
}

async fn call(conn: &mut PgConnection, arguments: &str) -> sqlx::Result<(Uuid, bool)> {
    let statement = format!("select id, duplicate from posthaste.enqueue({arguments})");
    let row = sqlx::query(sqlx::AssertSqlSafe(statement)).fetch_one(conn).await?;
    Ok((row.get("id"), row.get("duplicate")))
}

#[tokio::test]
async fn every_named_argument_arrives_as_given() {
    for db in databases().await {
        let tenant = Uuid::now_v7();
        let mut conn = db.pool.acquire().await.unwrap();
        let (full, duplicate) = call(
            &mut conn,
            &format!(
                "namespace => 'shop', topic => 'orders', event_type => 'order.created', key => 'k1', \
                 aggregate_type => 'order', aggregate_id => 'o-1', tenant_id => '{tenant}', \
                 dedupe_key => '{tenant}/1', payload => '{{ \"b\": 1, \"a\": \"\\u0000\", \"a\": 2.50 }}', \
                 content_type => 'application/vnd.order+json', headers => '{{\"Trace\": \"abc\", \"x\": \"λ\"}}', \
                 available_at => now() - interval '1 s'"
            ),
        )
        .await
        .unwrap();
        assert!(!duplicate);
        let (bytes, _) = call(&mut conn, "topic => 'raw', payload_bytes => '\\x00ff10', aggregate_id => 'a'")
            .await
            .unwrap();
        let (json, _) = call(&mut conn, "topic => 'plain', payload => '[1, 2]'").await.unwrap();
        drop(conn);
        let mut claims = db.posthaste.claims(&quick("s")).await.unwrap();
        let claimed = claims.claim(10).await.unwrap();
        let events: Vec<_> = claimed.iter().map(|claimed| claimed.event().clone()).collect();
        assert_eq!(events.iter().map(|event| event.id).collect::<Vec<_>>(), [full, bytes, json].map(EventId));
        assert!(events.iter().all(|event| event.id.0.get_version_num() == 7));
        let [first, second, third] = &events[..] else { panic!("three") };
        assert_eq!(first.text(), Some(r#"{ "b": 1, "a": "\u0000", "a": 2.50 }"#), "to the byte");
        assert_eq!((first.namespace.as_str(), first.topic.as_str()), ("shop", "orders"));
        assert_eq!((first.event_type.as_deref(), first.key.as_deref()), (Some("order.created"), Some("k1")));
        assert_eq!(
            (first.aggregate_type.as_deref(), first.aggregate_id.as_deref()),
            (Some("order"), Some("o-1"))
        );
        assert_eq!((first.tenant_id, first.dedupe_key.clone()), (Some(tenant), Some(format!("{tenant}/1"))));
        assert_eq!(first.content_type, "application/vnd.order+json");
        assert_eq!(first.headers.iter().collect::<Vec<_>>(), [("trace", "abc"), ("x", "λ")]);
        assert!(first.available_at.is_some());
        assert_eq!(
            (second.payload.as_slice(), second.content_type.as_str()),
            (&[0, 255, 16][..], "application/octet-stream")
        );
        assert_eq!((second.key.as_deref(), second.namespace.as_str()), (Some("a"), "default"));
        assert_eq!(
            (third.content_type.as_str(), third.key.as_deref(), third.headers.len()),
            ("application/json", None, 0)
        );
    }
}

#[tokio::test]
async fn bad_arguments_are_refused_with_a_sentence() {
    for db in databases().await {
        let mut conn = db.pool.acquire().await.unwrap();
        let tenant = Uuid::now_v7();
        let cases = [
            ("topic => '', payload => '{}'".to_owned(), "topic must not be empty"),
            ("topic => null, payload => '{}'".to_owned(), "topic must not be empty"),
            ("topic => 't'".to_owned(), "exactly one"),
            ("topic => 't', payload => '{}', payload_bytes => '\\x00'".to_owned(), "exactly one"),
            ("topic => 't', payload => '{not json'".to_owned(), "json"),
            ("topic => 't', payload => '{}', key => ''".to_owned(), "null rather than empty"),
            ("topic => E't\\n', payload => '{}'".to_owned(), "control characters"),
            ("topic => repeat('t', 256), payload => '{}'".to_owned(), "255 bytes"),
            ("topic => 't', payload_bytes => decode(repeat('00', 1048577), 'hex')".to_owned(), "1048576"),
            (
                format!("topic => 't', payload => '{{}}', tenant_id => '{tenant}', dedupe_key => 'x/1'"),
                "tenant",
            ),
            (
                format!("topic => 't', payload => '{{}}', tenant_id => '{tenant}', dedupe_key => '{tenant}'"),
                "tenant",
            ),
            ("topic => 't', payload => '{}', headers => '[1]'".to_owned(), "object"),
            ("topic => 't', payload => '{}', headers => '{\"a\": 1}'".to_owned(), "text"),
            (
                "topic => 't', payload => '{}', headers => '{\"a\": \"x\\r\\ny: z\"}'".to_owned(),
                "line breaks",
            ),
            ("topic => 't', payload => '{}', headers => '{\"a b\": \"x\"}'".to_owned(), "header name"),
            ("topic => 't', payload => '{}', headers => '{\"A\": \"1\", \"a\": \"2\"}'".to_owned(), "twice"),
        ];
        for (arguments, expected) in cases {
            let refused = call(&mut conn, &arguments).await.expect_err(&arguments);
            assert!(refused.to_string().contains(expected), "{arguments}: {refused}");
        }
        for form in [tenant.to_string(), tenant.simple().to_string()] {
            let arguments =
                format!("topic => 't', payload => '{{}}', tenant_id => '{tenant}', dedupe_key => '{form}/1'");
            call(&mut conn, &arguments).await.unwrap();
        }
        assert_eq!(db.count_events().await, 2);
    }
}

#[tokio::test]
async fn a_duplicate_is_an_answer_shared_with_the_library() {
    for db in databases().await {
        let mut conn = db.pool.acquire().await.unwrap();
        let arguments = "topic => 'orders', payload => '{}', dedupe_key => 'd'";
        let (first, _) = call(&mut conn, arguments).await.unwrap();
        assert_eq!(call(&mut conn, arguments).await.unwrap(), (first, true));
        let by_library =
            db.commit(vec![event("k", "x").dedupe_key("d"), event("k", "x").dedupe_key("e")]).await;
        assert_eq!((by_library[0].id, by_library[0].duplicate), (EventId(first), true));
        let other = call(&mut conn, "topic => 'orders', payload => '{}', dedupe_key => 'e'").await.unwrap();
        assert_eq!(other, (by_library[1].id.0, true));
        let brief =
            "topic => 'orders', payload => '{}', dedupe_key => 'brief', dedupe_for => interval '100 ms'";
        let (brief_id, _) = call(&mut conn, brief).await.unwrap();
        let mut again = (brief_id, true);
        until("its time is over", async || {
            again = call(&mut conn, brief).await.unwrap();
            !again.1
        })
        .await;
        assert_ne!(again.0, brief_id);
    }
}

#[tokio::test]
async fn two_racing_producers_enqueue_one_event_and_nobody_fails() {
    for db in databases().await {
        for (round, first_commits) in [true, false].into_iter().enumerate() {
            let arguments = format!("topic => 'orders', payload => '{{}}', dedupe_key => 'race-{round}'");
            let mut first = db.pool.begin().await.unwrap();
            let winner = call(&mut first, &arguments).await.unwrap();
            let mut second = db.pool.begin().await.unwrap();
            let racing = tokio::spawn(async move {
                let answer = call(&mut second, &arguments).await;
                second.commit().await.unwrap();
                answer
            });
            until("the second waits", async || {
                let waiting: i64 = sqlx::query_scalar(
                    "select count(*) from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'",
                )
                .fetch_one(&db.pool)
                .await
                .unwrap();
                waiting == 1
            })
            .await;
            if first_commits {
                first.commit().await.unwrap()
            } else {
                first.rollback().await.unwrap()
            }
            let answer = racing.await.unwrap().expect("nobody fails");
            assert_eq!((answer.0 == winner.0, answer.1), (first_commits, first_commits));
            assert_eq!(db.count_events().await, round as u64 + 1);
        }
    }
}

#[tokio::test]
async fn events_of_both_kinds_of_producers_are_delivered_in_one_order() {
    for db in databases().await {
        let script = Script::accepting();
        let patient = quick("s").settings(|s| s.poll_interval = std::time::Duration::from_secs(600));
        let other = TestDatabase::another(&db).await;
        let worker = other.handler(patient, script.clone()).start().await.unwrap();
        let mut conn = db.pool.acquire().await.unwrap();
        for n in 0..40 {
            let text = format!("{n:03}");
            if n % 2 == 0 {
                let new = NewEvent::bytes("orders", format!("\"{text}\"")).key("k");
                db.posthaste.enqueue(&mut conn, new).await.unwrap();
            } else {
                let arguments = format!("topic => 'orders', payload => '\"{text}\"', key => 'k'");
                call(&mut conn, &arguments).await.unwrap();
            }
        }
        script.accepted.wait_for(40).await;
        // The function rings too: a worker that sleeps is woken.
        tokio::time::sleep(std::time::Duration::from_millis(600)).await;
        call(&mut conn, "topic => 'orders', payload => '\"999\"', key => 'k'").await.unwrap();
        let arrival = tokio::time::timeout(std::time::Duration::from_secs(7), script.accepted.wait_for(41));
        arrival.await.expect("it rang");
        worker.stop().await;
        assert!(script.accepted.texts().is_sorted());
    }
}
