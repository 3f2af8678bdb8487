//! `posthaste init`: a configuration file with comments, ready to be edited.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Path, PathBuf};

use posthaste_sinks::{SinkSettings, nearest};
use serde_json::json;

use crate::cli::{GlobalOptions, InitOptions};
use crate::config::{USUAL_FILE, USUAL_LOG_FILTER};
use crate::failure::Failure;

/// Everything but the subscription. `{log_filter}` stands for what is usual.
const HEAD: &str = include_str!("init.toml");

/// An example for each sink. They stand in the documentation, where people look for them, and are checked by a test.
const EXAMPLES: [(&str, &str); 11] = [
    ("stdout", include_str!("../../../../docs/examples/stdout.toml")),
    ("file", include_str!("../../../../docs/examples/file.toml")),
    ("kafka", include_str!("../../../../docs/examples/kafka.toml")),
    ("pubsub", include_str!("../../../../docs/examples/pubsub.toml")),
    ("nats", include_str!("../../../../docs/examples/nats.toml")),
    ("rabbitmq", include_str!("../../../../docs/examples/rabbitmq.toml")),
    ("redis", include_str!("../../../../docs/examples/redis.toml")),
    ("sqs", include_str!("../../../../docs/examples/sqs.toml")),
    ("webhook", include_str!("../../../../docs/examples/webhook.toml")),
    ("event_store", include_str!("../../../../docs/examples/event_store.toml")),
    ("steps", include_str!("../../../../docs/examples/steps.toml")),
];

pub(crate) fn run(global: &GlobalOptions, options: &InitOptions) -> Result<(), Failure> {
    let path = options.file.clone().unwrap_or_else(|| PathBuf::from(USUAL_FILE));
    let head = HEAD.replace("{log_filter}", USUAL_LOG_FILTER);
    let text = format!("{head}\n{}", subscription(example(&options.sink)?));
    write(&path, &text, options.force)?;
    let mut out = std::io::stdout();
    match global.json {
        true => writeln!(out, "{}", json!({ "file": path, "sink": options.sink }))?,
        false => writeln!(out, "wrote {}", path.display())?,
    }
    say_what_next(&path, &options.sink);
    Ok(())
}

fn example(sink: &str) -> Result<&'static str, Failure> {
    let found = EXAMPLES.iter().find(|(name, _)| *name == sink);
    found.map(|(_, text)| *text).ok_or_else(|| {
        let names = EXAMPLES.map(|(name, _)| name);
        Failure::usage(match nearest(sink, &names) {
            Some(near) => format!("there is no sink `{sink}`; did you mean `{near}`?"),
            None => format!("there is no sink `{sink}`; there are {}", names.join(", ")),
        })
    })
}

/// The part of an example that begins with its subscription; the rest is in the head.
fn subscription(example: &str) -> &str {
    example.find("[subscriptions.").map_or(example, |begin| &example[begin..])
}

fn write(path: &Path, text: &str, force: bool) -> Result<(), Failure> {
    let mut options = OpenOptions::new();
    match force {
        true => options.write(true).create(true).truncate(true),
        false => options.write(true).create_new(true),
    };
    let shown = path.display();
    let mut file = options.open(path).map_err(|error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::sentence(format!(
            "{shown} is there already; --force overwrites it, or name another file"
        )),
        _ => Failure::sentence(format!("could not write {shown}: {error}")),
    })?;
    file.write_all(text.as_bytes())
        .map_err(|error| Failure::sentence(format!("could not write {shown}: {error}")))
}

fn say_what_next(path: &Path, sink: &str) {
    let config = match path == Path::new(USUAL_FILE) {
        true => String::new(),
        false => format!(" --config {}", path.display()),
    };
    if sink != "steps" && !SinkSettings::kinds().any(|kind| kind == sink) {
        eprintln!("This program was built without {sink}; `posthaste version` tells which sinks it has.");
    }
    eprintln!(
        "Next: edit it, then `posthaste check{config}`, `posthaste migrate{config}`, `posthaste relay{config}`."
    );
}
