//! The operator's commands by members of the roles that `migrate` creates: a viewer may ask everything and change nothing, a
//! relay may do both.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use operate_common::{Answer, Bench, answered, command, order, quick};
use posthaste_testkit::{TestDatabase, servers};
use sqlx::{AssertSqlSafe, ConnectOptions};

/// What only looks. `ID` stands for a dead letter.
const ASKING: [&[&str]; 13] = [
    &["status"],
    &["status", "--json"],
    &["subscriptions", "list"],
    &["subscriptions", "show", "billing"],
    &["events", "list"],
    &["events", "list", "--subscription", "billing"],
    &["events", "show", "ID"],
    &["dead", "list"],
    &["dead", "show", "ID"],
    &["keys", "blocked"],
    &["why", "ID"],
    &["retain", "--older-than", "1d", "--dry-run"],
    &["migrate"],
];

/// What changes something, in an order in which each of them has something to change.
const CHANGING: [&[&str]; 9] = [
    &["subscriptions", "pause", "billing"],
    &["subscriptions", "resume", "billing"],
    &["subscriptions", "set", "billing", "--batch-size", "7"],
    &["dead", "retry", "ID", "--yes"],
    &["dead", "discard", "ID", "--yes"],
    &["replay", "billing", "--from", "beginning", "--no-watch", "--yes"],
    &["subscriptions", "rewind", "billing", "--to", "beginning", "--yes"],
    &["retain", "--older-than", "1d"],
    &["subscriptions", "remove", "billing", "--yes"],
];

fn run(database: &TestDatabase, arguments: &[&str], id: &str) -> Answer {
    let arguments: Vec<&str> = arguments.iter().map(|word| if *word == "ID" { id } else { word }).collect();
    answered(command(database.options.to_url_lossy().as_str(), &arguments).spawn().expect("the binary runs"))
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_asks_everything_and_changes_nothing_and_a_relay_may_do_both() {
    for server in servers() {
        let database = TestDatabase::on(&server).await;
        let bench = Bench::on(&database);
        let id = bench.enqueue(vec![order("k", "bad"), order("k", "good")]).await[0].to_string();
        let worker = bench.worker(quick("billing")).await;
        bench.settled("billing", 1, 0).await;
        worker.stop().await;
        let (viewer, relay) =
            (database.as_member_of(&["viewer"]).await, database.as_member_of(&["relay"]).await);
        for arguments in ASKING {
            for role in [&viewer, &relay] {
                let answer = run(role, arguments, &id);
                // 4: there is a dead letter.
                assert!(matches!(answer.code, 0 | 4), "{arguments:?}: {answer:?}");
                assert!(!format!("{answer:?}").contains("permission denied"), "{answer:?}");
            }
        }
        for arguments in CHANGING {
            let refused = run(&viewer, arguments, &id);
            assert_eq!(refused.code, 77, "{arguments:?}: {refused:?}");
            assert!(refused.stderr.contains("permission denied"), "{refused:?}");
        }
        let state = bench.posthaste.admin().subscription("billing").await.expect("it is there");
        assert_eq!(state.dead.exact(), Some(1), "and nothing was changed");
        for arguments in CHANGING {
            let done = run(&relay, arguments, &id);
            // The letter is no longer dead once it is retried: then there is none to discard.
            let expected = if arguments[..2] == ["dead", "discard"] { vec![0, 3] } else { vec![0] };
            assert!(expected.contains(&done.code), "{arguments:?}: {done:?}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_create_roles_is_told_what_an_administrator_can_run() {
    for server in servers() {
        let (database, user) =
            (TestDatabase::empty_on(&server).await, format!("plain_{:08x}", fastrand::u32(..)));
        let name = database.options.get_database().expect("a name");
        let admit = format!("create role {user} login; grant create on database {name} to {user}");
        sqlx::raw_sql(AssertSqlSafe(admit)).execute(&database.pool).await.expect("a user");
        let url = database.options.clone().username(&user).to_url_lossy();
        let migrate = |json: &'static [&'static str]| {
            let mut command = command(url.as_str(), &[&["migrate"], json].concat());
            // The roles of the usual schema are there already.
            command.env("POSTHASTE_DATABASE__SCHEMA", &user).env("POSTHASTE_DATABASE__URL", url.as_str());
            answered(command.spawn().expect("the binary runs"))
        };
        let answer = migrate(&[]);
        assert_eq!(answer.code, 0, "{answer:?}");
        let wanted = format!("create role {user}_producer nologin; create role {user}_relay nologin;");
        assert!(answer.stdout.contains(&wanted), "{answer:?}");
        assert!(migrate(&["--json"]).stdout.contains(&format!("{user}_viewer")), "also for scripts");
        for role in ["producer", "relay", "viewer"] {
            let create = format!("create role {user}_{role} nologin");
            sqlx::raw_sql(AssertSqlSafe(create)).execute(&database.pool).await.expect("a role");
        }
        assert!(!migrate(&[]).stdout.contains("create role"), "then it has nothing more to say");
    }
}
