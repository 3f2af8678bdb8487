//! `posthaste retain`: removes what nobody needs, or tells what would go and who holds the rest.

use std::collections::BTreeMap;
use std::time::Duration;

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
    lines.extend(reasons(&report.held_back));
    lines
}

/// Why older events stay, reason by reason, and under each whose they are and what to type.
fn reasons(held_back: &[HeldBack]) -> Vec<String> {
    if held_back.is_empty() {
        return Vec::new();
    }
    let mut held: Vec<&HeldBack> = held_back.iter().collect();
    held.sort_by_key(|held| age(held));
    let mut lines = vec![String::new(), "Older events stay, because".to_owned()];
    for reason in Reason::ALL {
        // Of several lanes the one with the oldest event comes last, and speaks for all.
        let whose: BTreeMap<&str, String> = held.iter().filter_map(|held| reason.of(held)).collect();
        if !whose.is_empty() {
            lines.push(format!("  {}:", reason.told()));
        }
        for (subscription, fact) in whose {
            lines.push(format!("    {subscription}: {fact}"));
            lines.push(format!("      -> {}", reason.next(subscription)));
        }
    }
    lines
}

fn age(held: &HeldBack) -> Duration {
    match held {
        HeldBack::Lane { oldest_age, .. } => *oldest_age,
        _ => Duration::ZERO,
    }
}

#[derive(Debug, Clone, Copy)]
enum Reason {
    Paused,
    Unread,
    Dead,
    Open,
}

impl Reason {
    const ALL: [Self; 4] = [Self::Paused, Self::Unread, Self::Dead, Self::Open];

    fn told(self) -> &'static str {
        match self {
            Self::Paused => "a paused subscription has not read them",
            Self::Unread => "a subscription has not read them yet; its worker is away or slow",
            Self::Dead => "they are dead letters, and wait for a person",
            Self::Open => "they are being delivered or retried, or wait behind one that is",
        }
    }

    /// The subscription and how much it is, if it holds something back for this reason.
    fn of(self, held: &HeldBack) -> Option<(&str, String)> {
        match (self, held) {
            (Self::Paused, HeldBack::Lane { subscription, oldest_age, paused: true, .. })
            | (Self::Unread, HeldBack::Lane { subscription, oldest_age, paused: false, .. }) => {
                Some((subscription, format!("the oldest is {} old", span(*oldest_age))))
            }
            (Self::Dead, HeldBack::Deliveries { subscription, dead: count @ 1.., .. })
            | (Self::Open, HeldBack::Deliveries { subscription, waiting: count @ 1.., .. }) => {
                Some((subscription, plural(*count, "event", "events")))
            }
            _ => None,
        }
    }

    fn next(self, subscription: &str) -> String {
        match self {
            Self::Paused => format!("posthaste subscriptions resume {subscription}"),
            Self::Unread => format!("posthaste status {subscription}"),
            Self::Dead => format!("posthaste dead list --subscription {subscription}"),
            Self::Open => {
                format!("posthaste events list --subscription {subscription} --status pending --oldest-first")
            }
        }
    }
}
