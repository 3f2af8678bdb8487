//! Hostile names on the command line: each command works or is refused with its exit code; none panics, none injects.

#[expect(dead_code, reason = "shared by several test programs; this one uses its part")]
mod operate_common;

use operate_common::{Bench, answered};
use posthaste::NewEvent;
use posthaste_testkit::hostile_name;

/// The subscription that must still be there in the end. No hostile name is this one: whoever removes it by its name gets what he
/// asked for.
const WATCHED: &str = "watched";

/// Exit codes that scripts are promised.
const CODES: [i32; 9] = [0, 1, 2, 3, 4, 64, 69, 77, 78];

fn names() -> usize {
    match std::env::var("POSTHASTE_FAULTS").as_deref() {
        Ok("full") => 2_000,
        _ => 150,
    }
}

/// A NUL cannot stand in an argument.
fn hostile(random: &mut fastrand::Rng) -> String {
    hostile_name(random).replace('\0', "")
}

/// Every place for a name, by turns. `=` keeps a name that begins with a dash from being taken for a flag.
fn command(turn: usize, name: &str) -> Vec<String> {
    let words: &[&str] = match turn % 18 {
        0 => &["status", "--", "NAME"],
        1 => &["subscriptions", "show", "--", "NAME"],
        2 => &["subscriptions", "pause", "--", "NAME"],
        3 => &["subscriptions", "resume", "--", "NAME"],
        4 => &["subscriptions", "remove", "--yes", "--", "NAME"],
        5 => &["subscriptions", "set", "--rate=5", "--", "NAME"],
        6 => &["events", "list", "--topic=NAME", "--key=NAME", "--namespace=NAME", "--type=NAME"],
        7 => &["events", "list", "--aggregate-type=NAME", "--aggregate-id=NAME", "--text=NAME"],
        8 => &["events", "list", "--subscription=NAME", "--error=NAME"],
        9 => &["events", "enqueue", "--key=NAME", "--type=NAME", "--namespace=NAME", "--", "NAME", "{}"],
        10 => &[
            "events",
            "enqueue",
            "--dedupe-key=NAME",
            "--header=a=NAME",
            "--content-type=NAME",
            "--",
            "orders",
            "NAME",
        ],
        11 => &["events", "list", "--subscription=watched", "--error=NAME", "--text=NAME"],
        12 => &["dead", "list", "--subscription=watched", "--topic=NAME", "--key=NAME", "--error=NAME"],
        13 => &["dead", "retry", "--yes", "--subscription=watched", "--topic=NAME", "--error=NAME"],
        14 => &["keys", "blocked", "--", "NAME"],
        15 => &["keys", "release", "--", "watched", "NAME"],
        16 => &["replay", "--from=beginning", "--no-watch", "--yes", "--", "NAME"],
        _ => &["replay", "--from=NAME", "--no-watch", "--yes", "watched"],
    };
    words.iter().map(|word| word.replace("NAME", name)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_on_the_command_line_injects_or_panics() {
    for bench in Bench::everywhere().await {
        let worker = bench.worker(operate_common::quick(WATCHED)).await;
        bench.enqueue(vec![NewEvent::bytes("orders", "bad").key("k")]).await;
        bench.settled(WATCHED, 1, 0).await;
        worker.stop().await;
        bench.execute("create table canary (n integer)").await;
        let mut random = fastrand::Rng::new();
        let mut ended = std::collections::BTreeMap::<i32, usize>::new();
        for turn in 0..names() / 3 {
            let name = hostile(&mut random);
            let arguments = command(turn, &name);
            let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
            let answer = bench.run(&arguments);
            assert!(CODES.contains(&answer.code), "{arguments:?}: {answer:?}");
            *ended.entry(answer.code).or_default() += 1;
        }
        // In the place of a schema: the only text that ever becomes part of a statement.
        for _ in 0..names() / 30 {
            let mut command = bench.command(&["status"]);
            command.env("POSTHASTE_DATABASE__SCHEMA", hostile(&mut random));
            let answer = answered(command.spawn().expect("it runs"));
            assert!(CODES.contains(&answer.code) && !answer.stderr.contains("panicked"), "{answer:?}");
            *ended.entry(answer.code).or_default() += 1;
        }
        bench.execute("insert into canary values (1)").await;
        let state = bench.posthaste.admin().subscription(WATCHED).await.expect("it is still there");
        println!("commands by exit code: {ended:?}; the canary lives, {:?} is still there", state.name);
        assert!(ended.len() > 1 && ended.contains_key(&0), "the names are too much alike: {ended:?}");
    }
}

/// The control: what would happen to the canary if a name ever became part of a statement.
#[tokio::test]
async fn the_canary_dies_of_a_name_that_becomes_sql() {
    for bench in Bench::everywhere().await {
        bench.execute("create table canary (n integer)").await;
        bench.execute(&format!("select 1 where 'x' = '{}", "'; drop table canary; --")).await;
        let alive = bench.try_execute("insert into canary values (1)").await;
        println!(
            "control, a name pasted into a statement: the canary is {}",
            if alive { "alive" } else { "dead" }
        );
        assert!(!alive);
    }
}
