//! `posthaste retain`: removes what nobody needs, or tells what would go and who holds the rest.

use posthaste::admin::{HeldBack, RetentionPolicy, RetentionReport};
use serde_json::{Value, json};

use crate::cli::operate::RetainOptions;
use crate::context::Context;
use crate::failure::Failure;
use crate::talk::out::{self, plural};
use crate::talk::shape;
use crate::talk::table::wrapped;
use crate::talk::time::span;

pub(crate) async fn run(context: &Context, options: &RetainOptions) -> Result<(), Failure> {
    let policy = RetentionPolicy::new(|policy| {
        policy.events_older_than = options.older_than;
        policy.journal_older_than = options.journal_older_than;
    });
    let admin = context.admin();
    let report = match options.dry_run {
        true => admin.preview_retention(&policy).await?,
        false => admin.retain(&policy).await?,
    };
    match context.json {
        true => out::line(report_json(&report, options.dry_run).to_string()),
        false => out::lines(told(&report, options)),
    }
}

fn report_json(report: &RetentionReport, dry_run: bool) -> Value {
    // A dry run counts events only; null says that the rest was not looked at.
    let counted = |number: u64| (!dry_run).then_some(number);
    json!({
        "dry_run": dry_run,
        "events": report.events,
        "dedupe_keys": counted(report.dedupe_keys),
        "batches": counted(report.batches),
        "operations": counted(report.operations),
        "held_back": report.held_back.iter().map(held_json).collect::<Vec<_>>(),
    })
}

fn held_json(held: &HeldBack) -> Value {
    match held {
        HeldBack::Lane { subscription, lane, oldest_seq, oldest_age, paused } => json!({
            "by": "unread",
            "subscription": subscription,
            "lane": lane,
            "oldest_seq": oldest_seq,
            "oldest_seconds": shape::seconds(Some(*oldest_age)),
            "paused": paused,
        }),
        HeldBack::Deliveries { subscription, dead, waiting } => json!({
            "by": "deliveries",
            "subscription": subscription,
            "dead": dead,
            "waiting": waiting,
        }),
        other => json!({"by": other.to_string()}),
    }
}

fn told(report: &RetentionReport, options: &RetainOptions) -> Vec<String> {
    let (events, age) = (plural(report.events, "event", "events"), span(options.older_than));
    let mut lines = match options.dry_run {
        true => vec![
            format!("{events} older than {age} would go. Nothing was changed."),
            "Expired dedupe keys and old lines of the journal would go as well; they are not counted here."
                .to_owned(),
        ],
        false => wrapped(
            &format!(
                "Removed {events} older than {age}, {}, {} of the journal and {} of the record.",
                plural(report.dedupe_keys, "expired dedupe key", "expired dedupe keys"),
                plural(report.batches, "line", "lines"),
                plural(report.operations, "line", "lines"),
            ),
            0,
        ),
    };
    if !report.held_back.is_empty() {
        lines.push(String::new());
        lines.push("Older events that stay, and why:".to_owned());
        lines.extend(report.held_back.iter().flat_map(held_told));
    }
    lines
}

fn held_told(held: &HeldBack) -> Vec<String> {
    match held {
        HeldBack::Lane { subscription, oldest_age, paused, .. } => {
            let (why, next) = match paused {
                true => ("it is paused", format!("posthaste subscriptions resume {subscription}")),
                false => ("its worker is away or slow", format!("posthaste status {subscription}")),
            };
            let age = span(*oldest_age);
            vec![
                format!("  {subscription} has not read events that are {age} old: {why}"),
                format!("    -> {next}"),
            ]
        }
        HeldBack::Deliveries { subscription, dead, waiting } => {
            let dead = plural(*dead, "dead letter", "dead letters");
            vec![
                format!("  {subscription} has {dead} and {waiting} waiting deliveries among them"),
                format!("    -> posthaste dead list --subscription {subscription}"),
            ]
        }
        other => vec![format!("  {other}")],
    }
}
