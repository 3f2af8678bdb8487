//! The roles that `migrate` creates: what each may do, to the last column, and that they come about whoever migrates, whenever,
//! and however many do it at once. That a producer and a relay may do all they must is shown by the whole store suite, which
//! runs as a member of both, and statement by statement in the library.

use std::collections::BTreeSet;

use posthaste::{Posthaste, SchemaName};
use posthaste_testkit::suite::{Backend, event};
use posthaste_testkit::{Server, TestDatabase, servers};
use sqlx::postgres::PgPoolOptions;
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};

const ROLES: [&str; 3] = ["producer", "relay", "viewer"];

/// The code of the error that a statement met; whatever it did is undone.
async fn refusal(conn: &mut PgConnection, statement: &str) -> Option<String> {
    let mut tx = conn.begin().await.unwrap();
    let outcome = tx.execute(AssertSqlSafe(statement.to_owned())).await;
    tx.rollback().await.unwrap();
    let error = outcome.err()?;
    Some(error.as_database_error().and_then(|error| error.code().map(String::from)).unwrap_or_default())
}

/// Whether the right to it is missing, be it good otherwise or not. Nobody at all may set an identity column.
async fn is_denied(conn: &mut PgConnection, statement: &str) -> bool {
    matches!(refusal(conn, statement).await.as_deref(), Some("42501" | "428C9"))
}

async fn names(pool: &PgPool, question: &'static str) -> Vec<String> {
    let names: Vec<String> = sqlx::query_scalar(question).fetch_all(pool).await.unwrap();
    assert!(!names.is_empty(), "{question}");
    names
}

/// Everything that can be done to everything in the schema, as (what, statement).
async fn deeds(db: &TestDatabase) -> Vec<(String, String)> {
    let mut deeds = Vec::new();
    let mut add = |what: String, statement: String| deeds.push((what, statement));
    for name in names(&db.pool, RELATIONS).await {
        add(format!("select {name}"), format!("select * from posthaste.{name}"));
    }
    for name in names(&db.pool, TABLES).await {
        add(format!("insert {name}"), format!("insert into posthaste.{name} default values"));
        add(format!("delete {name}"), format!("delete from posthaste.{name}"));
        add(format!("truncate {name}"), format!("truncate posthaste.{name} cascade"));
        add(format!("lock {name}"), format!("lock table posthaste.{name} in access exclusive mode"));
        add(format!("alter {name}"), format!("alter table posthaste.{name} add column more integer"));
        add(format!("drop {name}"), format!("drop table posthaste.{name} cascade"));
    }
    for name in names(&db.pool, COLUMNS).await {
        let (table, column) = name.split_once('.').unwrap();
        add(format!("update {name}"), format!("update posthaste.{table} set {column} = default"));
    }
    for column in names(&db.pool, COLUMNS).await.iter().filter_map(|name| name.strip_prefix("events.")) {
        add(format!("give {column}"), format!("insert into posthaste.events ({column}) values (null)"));
    }
    for name in names(&db.pool, SEQUENCES).await {
        add(format!("read {name}"), format!("select last_value from posthaste.{name}"));
        add(format!("draw {name}"), format!("select nextval('posthaste.{name}')"));
        add(format!("set {name}"), format!("select setval('posthaste.{name}', 1)"));
    }
    for name in names(&db.pool, FUNCTIONS).await {
        let call = format!("select has_function_privilege(to_regproc('posthaste.{name}'), 'execute')");
        let raise = format!("do $$ begin if not ({call}) then raise insufficient_privilege; end if; end $$");
        add(format!("call {name}"), raise);
    }
    add("create a table".into(), "create table posthaste.mine (n integer)".into());
    add("create a role".into(), "create role somebody_else".into());
    add("drop the schema".into(), "drop schema posthaste cascade".into());
    deeds
}

const RELATIONS: &str = "select relname::text from pg_class where relnamespace = 'posthaste'::regnamespace and relkind in ('r', 'v')";
const TABLES: &str =
    "select relname::text from pg_class where relnamespace = 'posthaste'::regnamespace and relkind = 'r'";
const SEQUENCES: &str =
    "select relname::text from pg_class where relnamespace = 'posthaste'::regnamespace and relkind = 'S'";
const COLUMNS: &str = "select c.relname || '.' || a.attname from pg_attribute a join pg_class c on c.oid = a.attrelid \
    where c.relnamespace = 'posthaste'::regnamespace and c.relkind = 'r' and a.attnum > 0 and not a.attisdropped";
const FUNCTIONS: &str = "select proname::text from pg_proc where pronamespace = 'posthaste'::regnamespace";

/// Everything that this role may do.
async fn rights(db: &TestDatabase, role: &str, deeds: &[(String, String)]) -> BTreeSet<String> {
    let mut conn = PgConnection::connect_with(&db.as_member_of(&[role]).await.options).await.unwrap();
    let mut rights = BTreeSet::new();
    for (what, statement) in deeds {
        if !is_denied(&mut conn, statement).await {
            rights.insert(what.clone());
        }
    }
    rights
}

fn listed(verb: &str, names: &str) -> Vec<String> {
    names.split(' ').map(|name| format!("{verb} {name}")).collect()
}

/// Plain functions of the schema, which everybody may call who may use the schema.
const HARMLESS: &str = "ring_needed new_event_id lane_of unseen_after behind readable";

fn producers_rights() -> BTreeSet<String> {
    let given = "available_at id tenant_id namespace topic event_type key aggregate_type aggregate_id dedupe_key \
                 content_type headers payload";
    [
        listed("insert", "events dedupe_keys"),
        listed("give", given),
        listed("select", "dedupe_keys"),
        listed("update", "dedupe_keys.event_id dedupe_keys.expires_at"),
        listed("read", "next_ring"),
        listed("call", "enqueue ring"),
        listed("call", HARMLESS),
    ]
    .concat()
    .into_iter()
    .collect()
}

fn may_view(deed: &str) -> bool {
    let (verb, name) = deed.split_once(' ').unwrap();
    match verb {
        "select" => true,
        "read" => ["event_seq", "doorbell", "next_ring"].contains(&name),
        "call" => HARMLESS.split(' ').any(|harmless| harmless == name),
        _ => false,
    }
}

fn may_relay(deed: &str) -> bool {
    const KEPT: [&str; 5] = ["events", "dedupe_keys", "meta", "filters", "lanes"];
    let (verb, name) = deed.split_once(' ').unwrap();
    let table = name.split('.').next().unwrap();
    match verb {
        "insert" => !["events", "dedupe_keys", "meta"].contains(&table),
        "delete" => table == "events" || table == "dedupe_keys" || !KEPT.contains(&table),
        "update" => {
            let rewritten = ["dedupe_keys", "subscriptions", "lanes", "batches", "deliveries", "workers"];
            rewritten.contains(&table) || name == "meta.retained_to"
        }
        "set" | "draw" => name == "doorbell" || name == "next_ring",
        "call" => ["take_mark", "ring"].contains(&name) || may_view(deed),
        // Whoever may delete from a table may lock it.
        "lock" => may_relay(&format!("delete {name}")) || may_relay(&format!("update {name}.")),
        _ => may_view(deed),
    }
}

#[tokio::test]
async fn each_role_may_do_its_part_and_nothing_else() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        let deeds = deeds(&db).await;
        let mut owner = db.pool.acquire().await.unwrap();
        for (what, statement) in &deeds {
            let code = refusal(&mut owner, statement).await;
            assert_ne!(code.as_deref(), Some("42501"), "the owner may do everything: {what}");
            assert_ne!(code.as_deref(), Some("42601"), "and it is SQL: {statement}");
        }
        let those = |may: fn(&str) -> bool| {
            deeds.iter().map(|(what, _)| what.clone()).filter(|what| may(what)).collect()
        };
        assert_eq!(rights(&db, "producer", &deeds).await, producers_rights(), "{}", server.name);
        assert_eq!(rights(&db, "viewer", &deeds).await, those(may_view), "{}", server.name);
        assert_eq!(rights(&db, "relay", &deeds).await, those(may_relay), "{}", server.name);
    }
}

#[tokio::test]
async fn a_producer_enqueues_one_and_many_and_by_the_function() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        let producer = db.as_member_of(&["producer"]).await;
        producer.commit(vec![event("k", "1")]).await;
        producer
            .commit((2..50).map(|n| event("k", &n.to_string()).dedupe_key(n.to_string())).collect())
            .await;
        let again = producer.commit(vec![event("k", "2").dedupe_key("2")]).await;
        assert!(again[0].duplicate, "it is told that the key is taken");
        let call = "select posthaste.enqueue(topic => 't', payload => '{}', dedupe_key => 'd')";
        producer.pool.execute(call).await.unwrap();
        assert_eq!(db.count_events().await, 50);
    }
}

/// A schema of its own in a database, opened by this user. Its roles have names that no other test knows.
async fn opened_by(db: &TestDatabase, user: &str, schema: &str) -> (Posthaste, PgPool) {
    let options = db.options.clone().username(user);
    let pool = PgPoolOptions::new().max_connections(5).connect_with(options).await.unwrap();
    (Posthaste::postgres_in(pool.clone(), SchemaName::parse(schema).unwrap()), pool)
}

fn a_name() -> String {
    format!("log_{:016x}", fastrand::u64(..))
}

/// Which of the roles are there, and which of them may use the schema.
async fn state(pool: &PgPool, schema: &str) -> (i64, i64) {
    let question = "select count(*), count(*) filter (where has_schema_privilege(oid, $1, 'usage')) from pg_roles \
                    where rolname = any ($2)";
    let names = ROLES.map(|role| format!("{schema}_{role}"));
    sqlx::query_as(question).bind(schema).bind(&names[..]).fetch_one(pool).await.unwrap()
}

async fn remove_roles(pool: &PgPool, schema: &str) {
    let names = ROLES.map(|role| format!("{schema}_{role}")).join(", ");
    let remove = format!("drop schema {schema} cascade; drop role {names}");
    sqlx::raw_sql(AssertSqlSafe(remove)).execute(pool).await.unwrap();
}

#[tokio::test]
async fn who_may_not_create_roles_migrates_all_the_same_and_gives_rights_to_those_that_an_administrator_made()
{
    for server in servers() {
        let (db, schema, user) = (TestDatabase::empty_on(&server).await, a_name(), a_name());
        let database = db.options.get_database().unwrap();
        let admit = format!("create role {user} login; grant create on database {database} to {user}");
        sqlx::raw_sql(AssertSqlSafe(admit)).execute(&db.pool).await.unwrap();
        let (posthaste, pool) = opened_by(&db, &user, &schema).await;
        posthaste.migrate().await.expect("without the roles");
        assert_eq!(state(&db.pool, &schema).await, (0, 0));
        posthaste.enqueue(&mut pool.acquire().await.unwrap(), event("k", "1")).await.expect("it is usable");
        for role in ROLES {
            db.pool.execute(AssertSqlSafe(format!("create role {schema}_{role} nologin"))).await.unwrap();
        }
        posthaste.migrate().await.expect("the owner may grant, whoever made the roles");
        assert_eq!(state(&db.pool, &schema).await, (3, 3));
        pool.close().await;
        remove_roles(&db.pool, &schema).await;
        let dismiss = format!("drop owned by {user}; drop role {user}");
        sqlx::raw_sql(AssertSqlSafe(dismiss)).execute(&db.pool).await.unwrap();
    }
}

async fn empty_databases(server: &Server, count: usize) -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for _ in 0..count {
        databases.push(TestDatabase::empty_on(server).await);
    }
    databases
}

#[tokio::test(flavor = "multi_thread")]
async fn databases_of_one_cluster_are_migrated_at_once() {
    for server in servers() {
        for _ in 0..5 {
            let (databases, schema) = (empty_databases(&server, 4).await, a_name());
            let migrations = databases.iter().map(async |db| {
                let (posthaste, _pool) = opened_by(db, "postgres", &schema).await;
                posthaste.migrate().await
            });
            for migrated in futures::future::join_all(migrations).await {
                migrated.expect("whoever was faster made the roles");
            }
            for db in &databases {
                assert_eq!(state(&db.pool, &schema).await, (3, 3), "each database gives the rights");
                sqlx::raw_sql(AssertSqlSafe(format!("drop schema {schema} cascade")))
                    .execute(&db.pool)
                    .await
                    .unwrap();
            }
            let pool = &databases[0].pool;
            pool.execute(AssertSqlSafe(format!("create schema {schema}"))).await.unwrap();
            remove_roles(pool, &schema).await;
        }
    }
}

/// Every row of the catalogue that carries rights, as (name, the transaction that wrote it, the rights).
async fn catalogue(db: &TestDatabase) -> Vec<(String, String, Option<String>)> {
    let question = "select relname::text, xmin::text, relacl::text from pg_class where relnamespace = 'posthaste'::regnamespace \
        union all select proname::text, xmin::text, proacl::text from pg_proc where pronamespace = 'posthaste'::regnamespace \
        union all select nspname::text, xmin::text, nspacl::text from pg_namespace where nspname = 'posthaste' order by 1";
    sqlx::query_as(question).fetch_all(&db.pool).await.unwrap()
}

#[tokio::test]
async fn a_migrate_that_finds_nothing_missing_writes_nothing_and_one_that_does_gives_it_back() {
    for server in servers() {
        let db = TestDatabase::on(&server).await;
        let (before, deeds) = (catalogue(&db).await, deeds(&db).await);
        db.posthaste.migrate().await.unwrap();
        assert_eq!(catalogue(&db).await, before);
        let rights_before = rights(&db, "relay", &deeds).await;
        // As if these tables had come with a later version.
        let take = "revoke all on posthaste.batches, posthaste.lanes from posthaste_relay, posthaste_viewer; \
                    revoke usage on schema posthaste from posthaste_producer";
        sqlx::raw_sql(take).execute(&db.pool).await.unwrap();
        assert_ne!(catalogue(&db).await, before, "control: it is seen");
        assert_ne!(rights(&db, "relay", &deeds).await, rights_before);
        let relay = db.as_member_of(&["relay"]).await;
        relay.posthaste.migrate().await.expect("whoever may give nothing is not in the way");
        assert_ne!(rights(&db, "relay", &deeds).await, rights_before);
        db.posthaste.migrate().await.unwrap();
        assert_eq!(rights(&db, "relay", &deeds).await, rights_before);
        relay
            .posthaste
            .migrate()
            .await
            .expect("a relay may migrate at its start where there is nothing to do");
    }
}
