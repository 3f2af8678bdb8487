//! A schema of its own in a server of the user's: usable at once, alone, and gone afterwards.

use posthaste::{NewEvent, Subscription};
use posthaste_testkit::{PostgresSchema, Recorder, servers};
use sqlx::{Connection, Executor, PgConnection};

async fn schemas(url: &str, name: &str) -> i64 {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let count = "select count(*) from pg_namespace where nspname like $1 || '%'";
    sqlx::query_scalar(count).bind(name).fetch_one(&mut conn).await.unwrap()
}

async fn roles(url: &str, name: &str) -> i64 {
    let mut conn = PgConnection::connect(url).await.unwrap();
    let count = "select count(*) from pg_roles where rolname like $1 || '%'";
    sqlx::query_scalar(count).bind(name).fetch_one(&mut conn).await.unwrap()
}

#[tokio::test]
async fn two_tests_in_one_server_do_not_see_each_other_and_leave_nothing() {
    for server in servers() {
        let (one, two) = (PostgresSchema::new(&server.url).await, PostgresSchema::new(&server.url).await);
        let mut tx = one.pool.begin().await.unwrap();
        tx.execute("create table orders (id bigint)").await.unwrap();
        one.posthaste.enqueue(&mut tx, NewEvent::bytes("orders", "x")).await.unwrap();
        tx.commit().await.unwrap();
        assert!(two.pool.execute("select * from orders").await.is_err());
        for (database, expected) in [(&one, 1), (&two, 0)] {
            let worker = database.posthaste.handler(Subscription::new("s").unwrap(), Recorder::accepting());
            assert_eq!(database.kit().run_until_idle(worker).await.delivered, expected);
        }
        let name = one.schema.clone();
        assert_eq!((schemas(&server.url, &name).await, roles(&server.url, &name).await), (2, 3));
        // An open transaction, as a test leaves it that failed.
        let mut open = one.pool.begin().await.unwrap();
        open.execute("insert into orders values (1)").await.unwrap();
        drop(one);
        assert_eq!((schemas(&server.url, &name).await, roles(&server.url, &name).await), (0, 0));
        drop(open);
    }
}
