//! What is risky about a server although it works.

use std::collections::HashMap;

use super::connection::{Connection, ask};
use super::settings::RedisSettings;

/// What the server tells about itself, by the names it uses.
type Facts = HashMap<String, String>;

/// Asks the server and judges the answers.
pub(super) async fn ask_all(connection: &Connection, settings: &RedisSettings) -> Vec<String> {
    let info = ask::<String>(connection, &["INFO"]).await.unwrap_or_default();
    let mut facts: Facts = info.lines().filter_map(|line| line.split_once(':')).map(owned).collect();
    let mut silent = false;
    for name in ["appendonly", "appendfsync", "maxmemory-policy"] {
        match ask::<Vec<String>>(connection, &["CONFIG", "GET", name]).await.as_deref() {
            Ok([name, value]) => drop(facts.insert(name.clone(), value.clone())),
            _ => silent = true,
        }
    }
    let mut warnings = judge(&facts, settings);
    if silent {
        warnings
            .push("the server does not tell its settings (CONFIG GET), so durability was not checked".into());
    }
    warnings
}

fn owned((name, value): (&str, &str)) -> (String, String) {
    (name.to_owned(), value.trim().to_owned())
}

fn judge(facts: &Facts, settings: &RedisSettings) -> Vec<String> {
    let fact = |name: &str| facts.get(name).map(String::as_str);
    let mut warnings = Vec::new();
    let mut warn = |sentence: String| warnings.push(sentence);
    if fact("appendonly") == Some("no") {
        warn("appendonly is off: what was acknowledged is lost when the server ends; turn it on".into());
    } else if fact("appendfsync").is_some_and(|when| when != "always") {
        let when = fact("appendfsync").unwrap_or_default();
        warn(format!(
            "appendfsync is {when}: what was acknowledged last is lost when the machine fails; only `always` keeps it"
        ));
    }
    if let Some(policy) = fact("maxmemory-policy").filter(|policy| *policy != "noeviction") {
        let limit = fact("maxmemory").filter(|limit| *limit != "0");
        let when = limit.map_or("if it gets a memory limit".to_owned(), |limit| format!("at {limit} bytes"));
        warn(format!(
            "maxmemory-policy is {policy}: {when} the server deletes whole streams; choose noeviction"
        ));
    }
    if fact("role") == Some("slave") {
        warn("this server is a replica and takes no events; give the address of the primary".into());
    }
    if let Some(limit) = settings.max_length {
        let entries = limit.entries;
        warn(format!(
            "max_length is {entries}: older entries are deleted whether somebody has read them or not"
        ));
    }
    if let Some(version) = fact("redis_version").filter(|version| is_old(version)) {
        warn(format!("Redis {version} is no longer maintained; move to a version that is"));
    }
    warnings
}

fn is_old(version: &str) -> bool {
    let mut numbers = version.split('.').map(|number| number.parse::<u32>().unwrap_or(0));
    (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0)) < (6, 2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::RedisMaxLength;
    use crate::template::Template;

    #[test]
    fn each_risk_has_its_sentence() {
        let mut settings = RedisSettings::new("localhost", 1, Template::literal("orders"));
        let safe = [
            ("appendonly", "yes"),
            ("appendfsync", "always"),
            ("maxmemory-policy", "noeviction"),
            ("maxmemory", "0"),
            ("role", "master"),
            ("redis_version", "7.0.15"),
        ];
        let with = |name: &str, value: &str| {
            let mut facts: Facts = safe.iter().map(|fact| owned(*fact)).collect();
            facts.insert(name.to_owned(), value.to_owned());
            facts
        };
        assert!(judge(&with("role", "master"), &settings).is_empty());
        for (name, value, words) in [
            ("appendonly", "no", "appendonly is off"),
            ("appendfsync", "everysec", "appendfsync is everysec"),
            ("maxmemory-policy", "allkeys-lru", "deletes whole streams"),
            ("role", "slave", "is a replica"),
            ("redis_version", "5.0.7", "Redis 5.0.7"),
        ] {
            let warnings = judge(&with(name, value), &settings);
            assert!(matches!(&warnings[..], [one] if one.contains(words)), "{name}: {warnings:?}");
        }
        settings.max_length = Some(RedisMaxLength { entries: 5, exact: true });
        assert!(judge(&with("role", "master"), &settings)[0].contains("max_length is 5"));
    }
}
