//! `posthaste doctor`: about twenty checks, each with a verdict and, if need be, a remedy.

use crate::log;
use crate::support::Folder;

#[tokio::test]
async fn a_sound_log_has_no_failure_and_every_check_says_something() {
    for log in log::all(&Folder::new()).await {
        let folder = Folder::with("[subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n");
        let ended = folder.run(&["doctor", "--json", "--database", &log.url]);
        let report = ended.json();
        let checks = report["checks"].as_array().expect("a list");
        let expected = if log.name == "sqlite" { 9 } else { 21 };
        assert!(checks.len() >= expected, "{} {checks:?}", log.name);
        for check in checks {
            assert!(!check["sentence"].as_str().expect("a text").is_empty(), "{check}");
            let (verdict, remedy) = (check["verdict"].as_str(), check["remedy"].as_str());
            assert!(verdict == Some("ok") || remedy != Some(""), "{check}");
            assert!(!check["sentence"].to_string().contains("could not be found out"), "{check}");
        }
        let named = |name: &str| {
            checks.iter().find(|check| check["check"] == name).map(|check| check["verdict"].clone())
        };
        assert_eq!(named("sink of orders"), Some("ok".into()), "{checks:?}");
        assert_eq!(named("tables"), Some("ok".into()), "{checks:?}");
        if log.name != "sqlite" {
            for check in ["server version", "primary", "privileges", "wake-up by LISTEN", "clock"] {
                assert_eq!(named(check), Some("ok".into()), "{check} {checks:?}");
            }
        }
        let words = folder.run(&["doctor", "--database", &log.url]);
        assert!(words.stdout.contains(" checks: "), "{words:?}");
    }
}

#[tokio::test]
async fn a_missing_database_and_missing_tables_are_failures_with_exit_code_78() {
    let folder = Folder::with("[subscriptions.orders.sink]\ntype = \"file\"\npath = \"out.jsonl\"\n");
    let ended = folder.run(&["doctor", "--database", "sqlite:shop.db"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(
        ended.stdout.contains("FAIL  database") && ended.stdout.contains("posthaste migrate"),
        "{ended:?}"
    );
    let log = log::Log::sqlite(&folder).await;
    log.execute("drop view posthaste_event_status; drop table posthaste_meta").await;
    let ended = folder.run(&["doctor", "--database", "sqlite:shop.db"]);
    assert_eq!(ended.code, Some(78), "{ended:?}");
    assert!(ended.stdout.contains("FAIL  tables"), "{ended:?}");
}
