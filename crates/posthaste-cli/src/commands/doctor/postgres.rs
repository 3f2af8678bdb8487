//! Questions to PostgreSQL, each one query and a judgement of its answer.

use std::time::Duration;

use sqlx::postgres::{PgListener, PgRow};
use sqlx::{AssertSqlSafe, PgPool, Row};

use super::finding::Finding;

/// One question. `{schema}` in the query stands for Posthaste's schema as a quoted literal.
struct Question {
    name: &'static str,
    sql: &'static str,
    judge: fn(&PgRow, &'static str) -> sqlx::Result<Finding>,
}

const QUESTIONS: &[Question] = &[
    Question {
        name: "server version",
        sql: "select current_setting('server_version_num')::int as number, current_setting('server_version') as text",
        judge: |row, name| {
            let (number, text): (i32, String) = (row.try_get("number")?, row.try_get("text")?);
            Ok(match number {
                ..130_000 => Finding::bad(name, format!("PostgreSQL {text}"), "upgrade to PostgreSQL 13 or newer"),
                _ => Finding::good(name, format!("PostgreSQL {text}")),
            })
        },
    },
    Question {
        name: "primary",
        sql: "select pg_is_in_recovery() as replica, current_setting('transaction_read_only') = 'on' as read_only",
        judge: |row, name| {
            Ok(match (row.try_get("replica")?, row.try_get("read_only")?) {
                (true, _) => Finding::bad(name, "this server is a replica", "give the address of the primary"),
                (_, true) => Finding::bad(
                    name,
                    "connections are read-only",
                    "set default_transaction_read_only = off for this role or database",
                ),
                _ => Finding::good(name, "this server takes writes"),
            })
        },
    },
    Question {
        name: "privileges",
        sql: "select count(*) as tables,
                     count(*) filter (where not (has_table_privilege(c.oid, 'select') and has_table_privilege(c.oid, 'insert')
                         and has_table_privilege(c.oid, 'update') and has_table_privilege(c.oid, 'delete'))) as denied,
                     coalesce(bool_and(has_table_privilege(c.oid, 'select')), false) and exists (
                         select 1 from pg_roles r where r.rolname = {schema} || '_relay' and pg_has_role(r.oid, 'usage')) as relay
              from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where n.nspname = {schema} and c.relkind in ('r', 'p')",
        judge: |row, name| {
            let (denied, tables): (i64, i64) = (row.try_get("denied")?, row.try_get("tables")?);
            Ok(match (tables, denied, row.try_get("relay")?) {
                (0, ..) => Finding::bad(name, "no table is visible", "run posthaste migrate, or grant usage on the schema"),
                (_, 0, _) => Finding::good(name, format!("this role may read and write all {tables} tables")),
                (.., true) => Finding::good(name, "this role may do what a relay must, and no more"),
                _ => Finding::bad(
                    name,
                    format!("this role may not write {denied} of {tables} tables"),
                    "make it a member of the relay's role (posthaste_relay, after the schema's name), or use the role that ran migrate",
                ),
            })
        },
    },
    Question {
        name: "roles",
        sql: "select string_agg(name, ', ' order by name) as missing,
                     string_agg('create role ' || name || ' nologin;', ' ' order by name) as remedy
              from unnest(array['producer', 'relay', 'viewer']) as short, concat({schema}, '_', short) as name
              where to_regrole(name) is null",
        judge: |row, name| {
            Ok(match (row.try_get::<Option<String>, _>("missing")?, row.try_get::<Option<String>, _>("remedy")?) {
                (Some(missing), Some(remedy)) => Finding::warning(
                    name,
                    format!("there is no {missing}: whoever uses the log needs the rights of its owner"),
                    format!("let an administrator run `{remedy}`, then run posthaste migrate"),
                ),
                _ => Finding::good(name, "those of producers, relays and viewers are there"),
            })
        },
    },
    Question {
        name: "clock",
        sql: "select extract(epoch from clock_timestamp())::float8 as now",
        judge: |row, name| {
            let database: f64 = row.try_get("now")?;
            let here = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0.0, |now| now.as_secs_f64());
            let skew = (database - here).abs();
            Ok(match skew {
                2.0.. => Finding::warning(
                    name,
                    format!("this machine and the database differ by {skew:.1} s"),
                    "set both clocks by NTP; leases use the database's clock only, but times in logs will confuse",
                ),
                _ => Finding::good(name, "this machine and the database agree within 2 s"),
            })
        },
    },
    Question {
        name: "long transactions",
        sql: "select coalesce(max(extract(epoch from now() - xact_start)), 0)::float8 as age,
                     (array_agg(coalesce(nullif(application_name, ''), usename) || ', process ' || pid order by xact_start))[1] as who
              from pg_stat_activity where xact_start is not null and pid <> pg_backend_pid() and backend_type = 'client backend'",
        judge: |row, name| {
            let (age, who): (f64, Option<String>) = (row.try_get("age")?, row.try_get("who")?);
            let who = who.unwrap_or_default();
            Ok(match age {
                3600.0.. => Finding::warning(
                    name,
                    format!("a transaction is {} minutes old ({who})", (age / 60.0) as u64),
                    "end it: it keeps vacuum from cleaning and retention from deleting",
                ),
                _ => Finding::good(name, "no transaction is older than an hour"),
            })
        },
    },
    Question {
        name: "prepared transactions",
        sql: "select count(*) as waiting from pg_prepared_xacts where prepared < now() - interval '10 minutes'",
        judge: |row, name| {
            Ok(match row.try_get::<i64, _>("waiting")? {
                0 => Finding::good(name, "none is older than ten minutes"),
                n => Finding::warning(
                    name,
                    format!("{n} prepared transactions wait for their commit since more than ten minutes"),
                    "commit or roll them back: what they enqueued is not visible, and vacuum waits for them",
                ),
            })
        },
    },
    Question {
        name: "replication slots",
        sql: "select count(*) as stale from pg_replication_slots where not active and (xmin is not null or catalog_xmin is not null)",
        judge: |row, name| {
            Ok(match row.try_get::<i64, _>("stale")? {
                0 => Finding::good(name, "no abandoned slot holds old rows"),
                n => Finding::warning(
                    name,
                    format!("{n} inactive replication slots hold old rows and WAL"),
                    "drop those nobody needs with pg_drop_replication_slot",
                ),
            })
        },
    },
    Question {
        name: "bloat",
        sql: "select coalesce(sum(n_dead_tup), 0)::bigint as dead, coalesce(sum(n_live_tup), 0)::bigint as live
              from pg_stat_user_tables where schemaname = {schema}",
        judge: |row, name| {
            let (dead, live): (i64, i64) = (row.try_get("dead")?, row.try_get("live")?);
            Ok(match dead {
                dead if dead > 50_000 && dead > live => Finding::warning(
                    name,
                    format!("{dead} dead rows beside {live} live ones"),
                    "look for what holds back vacuum (long transactions, slots), then vacuum the schema's tables",
                ),
                _ => Finding::good(name, format!("{dead} dead rows beside {live} live ones")),
            })
        },
    },
    Question {
        name: "autovacuum",
        sql: "select current_setting('autovacuum') = 'on' and current_setting('track_counts') = 'on' as works",
        judge: |row, name| {
            Ok(match row.try_get("works")? {
                true => Finding::good(name, "on"),
                false => Finding::warning(name, "off", "set autovacuum = on and track_counts = on"),
            })
        },
    },
    Question {
        name: "notification queue",
        sql: "select pg_notification_queue_usage() as used",
        judge: |row, name| {
            let used: f64 = row.try_get("used")?;
            Ok(match used {
                0.25.. => Finding::warning(
                    name,
                    format!("{:.0} % full", used * 100.0),
                    "find the session that listens inside a long transaction; when the queue is full, commits fail",
                ),
                _ => Finding::good(name, format!("{:.0} % full", used * 100.0)),
            })
        },
    },
    Question {
        name: "connections",
        sql: "select count(*) as used, current_setting('max_connections')::bigint
                     - current_setting('superuser_reserved_connections')::bigint as most
              from pg_stat_activity where backend_type = 'client backend'",
        judge: |row, name| {
            let (used, most): (i64, i64) = (row.try_get("used")?, row.try_get("most")?);
            Ok(match most - used {
                ..10 => Finding::warning(
                    name,
                    format!("{used} of {most} connections are in use"),
                    "raise max_connections, or use a pooler for the application",
                ),
                _ => Finding::good(name, format!("{used} of {most} are in use")),
            })
        },
    },
    Question {
        name: "durability",
        sql: "select current_setting('fsync') = 'on' as fsync, current_setting('full_page_writes') = 'on' as pages,
                     current_setting('synchronous_commit') as commits",
        judge: |row, name| {
            let commits: String = row.try_get("commits")?;
            Ok(match (row.try_get("fsync")?, row.try_get("pages")?, commits.as_str()) {
                (false, ..) | (_, false, _) => Finding::bad(
                    name,
                    "fsync or full_page_writes is off: a power failure may destroy the log",
                    "switch both on",
                ),
                (.., "off") => Finding::warning(
                    name,
                    "synchronous_commit is off: a crash may forget commits of the last moments",
                    "set synchronous_commit = on",
                ),
                _ => Finding::good(name, format!("fsync is on, synchronous_commit is {commits}")),
            })
        },
    },
    Question {
        name: "standby",
        sql: "select count(*) as standbys, count(*) filter (where sync_state in ('sync', 'quorum')) as synchronous
              from pg_stat_replication",
        judge: |row, name| {
            let (standbys, synchronous): (i64, i64) = (row.try_get("standbys")?, row.try_get("synchronous")?);
            Ok(match (standbys, synchronous) {
                (0, _) => Finding::good(name, "no standby is visible to this role"),
                (_, 0) => Finding::warning(
                    name,
                    format!("{standbys} standbys, all asynchronous: a fail-over may forget the last commits"),
                    "make one of them synchronous if the last second of events matters",
                ),
                _ => Finding::good(name, format!("{synchronous} of {standbys} standbys are synchronous")),
            })
        },
    },
    Question {
        name: "idle transactions",
        sql: "select current_setting('idle_in_transaction_session_timeout') as timeout",
        judge: |row, name| {
            let timeout: String = row.try_get("timeout")?;
            Ok(match timeout.as_str() {
                "0" => Finding::warning(
                    name,
                    "an application that forgets a transaction keeps it open for ever",
                    "set idle_in_transaction_session_timeout, for example to 10min",
                ),
                timeout => Finding::good(name, format!("forgotten transactions end after {timeout}")),
            })
        },
    },
    Question {
        name: "encryption",
        sql: "select coalesce((select ssl from pg_stat_ssl where pid = pg_backend_pid()), false) as encrypted,
                     inet_server_addr() is null or inet_server_addr() <<= '127.0.0.0/8' or inet_server_addr() = '::1' as here",
        judge: |row, name| {
            Ok(match (row.try_get("encrypted")?, row.try_get("here")?) {
                (true, _) => Finding::good(name, "the connection is encrypted"),
                (_, true) => Finding::good(name, "the connection stays on this machine"),
                _ => Finding::warning(
                    name,
                    "the connection is not encrypted",
                    "add sslmode=verify-full to the database URL (a build with the feature `tls` does so by itself)",
                ),
            })
        },
    },
    Question {
        name: "size",
        sql: "select coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint as bytes
              from pg_class c join pg_namespace n on n.oid = c.relnamespace
              where n.nspname = {schema} and c.relkind in ('r', 'p', 'm')",
        judge: |row, name| {
            let bytes: i64 = row.try_get("bytes")?;
            Ok(Finding::good(name, format!("the log takes {} MiB", bytes / (1024 * 1024))))
        },
    },
];

/// Asks everything. A question that fails is a finding itself.
pub(crate) async fn examine(pool: &PgPool, schema: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for question in QUESTIONS {
        findings.push(ask(pool, schema, question).await);
    }
    findings.push(listen(pool).await);
    findings
}

async fn ask(pool: &PgPool, schema: &str, question: &Question) -> Finding {
    let literal = format!("'{}'", schema.replace('\'', "''"));
    let sql = question.sql.replace("{schema}", &literal);
    // In a transaction and not prepared: a pooler may stand in between.
    let asking = async {
        let mut tx = pool.begin().await?;
        sqlx::query(AssertSqlSafe(sql)).persistent(false).fetch_one(&mut *tx).await
    };
    let answer = asking.await;
    answer.and_then(|row| (question.judge)(&row, question.name)).unwrap_or_else(|error| {
        Finding::warning(
            question.name,
            format!("could not be found out: {error}"),
            "ask as a role that may see it",
        )
    })
}

/// Rings our own bell. Behind a transaction pooler nobody hears it.
async fn listen(pool: &PgPool) -> Finding {
    let name = "wake-up by LISTEN";
    match tokio::time::timeout(Duration::from_secs(3), ring(pool)).await {
        Ok(Ok(())) => Finding::good(name, "a notification came through"),
        Ok(Err(error)) => Finding::warning(name, format!("LISTEN failed: {error}"), POLLING),
        Err(_) => Finding::warning(
            name,
            "a notification did not come through; is this a transaction pooler?",
            POLLING,
        ),
    }
}

const POLLING: &str = "give the relay a direct connection; through the pooler it works too, but finds new events only by polling";

async fn ring(pool: &PgPool) -> sqlx::Result<()> {
    let channel = format!("posthaste_doctor_{}", std::process::id());
    let mut listener = PgListener::connect_with(pool).await?;
    listener.listen(&channel).await?;
    let mut tx = pool.begin().await?;
    sqlx::query("select pg_notify($1, '')").bind(&channel).persistent(false).execute(&mut *tx).await?;
    tx.commit().await?;
    listener.recv().await.map(drop)
}
