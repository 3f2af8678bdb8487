//! `cargo xtask captures`: runs the built command on a small scene and writes what it printed into docs/guide/screens.md.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::thread;
use std::time::Duration;

use crate::guard::{self, Ending, Guarded};
use crate::{Result, machine, target_folder, without_arguments, workspace_root};

/// Two subscriptions: one takes everything, one checks the events first and finds one that does not fit.
const CONFIG: &str = r#"[database]
url = "sqlite:shop.db"

[relay]
name = "relay-1"
listen = "127.0.0.1:0"
log = "pretty"

[registry.order_created]
topic = "orders"
aggregate_type = "order"
schema = "order_created.json"

[subscriptions.audit]
registry = false
[subscriptions.audit.sink]
type = "file"
path = "audit.jsonl"

[subscriptions.shipping]
topics = ["orders"]
[subscriptions.shipping.sink]
type = "file"
path = "shipping.jsonl"
"#;

const SCHEMA: &str = r#"{"type":"object","required":["cents"],"properties":{"cents":{"type":"integer"}}}"#;

/// Good ones, and one with a mistake.
const PAYLOADS: [&str; 4] =
    [r#"{"cents":1250}"#, r#"{"cents":"a lot"}"#, r#"{"cents":99}"#, r#"{"cents":700}"#];

pub(crate) fn run(args: &[OsString]) -> Result<ExitCode> {
    without_arguments(args, || {
        let workspace = workspace_root()?;
        let folder = machine::temporary_folder("posthaste-captures", None)?;
        let written = capture(&workspace, &folder);
        fs::remove_dir_all(&folder).ok();
        written.map(|()| ExitCode::SUCCESS)
    })
}

fn capture(workspace: &Path, folder: &Path) -> Result<()> {
    let scene = Scene { program: build(workspace)?, folder };
    scene.write("posthaste.toml", CONFIG)?;
    scene.write("order_created.json", SCHEMA)?;
    let mut page = String::from(
        "# What it looks like\n\nMade by `cargo xtask captures`: a relay with two subscriptions on SQLite, four orders, one of them \
         with a mistake.\n",
    );
    page.push_str(&scene.show(&["migrate"])?);
    let mut misfit = String::new();
    for payload in PAYLOADS {
        let enqueue = ["events", "enqueue", "orders", payload, "--type", "order_created", "--key", "order-7"];
        let answer = scene.run(
            &[&enqueue[..], &["--aggregate-type", "order", "--aggregate-id", "order-7", "--json"]].concat(),
        )?;
        if payload == PAYLOADS[1] {
            misfit = id_of(&answer)?;
        }
    }
    page.push_str(&scene.relay()?);
    for command in [&["status"][..], &["why", &misfit], &["dead", "list"], &["doctor"]] {
        page.push_str(&scene.show(command)?);
    }
    let path = workspace.join("docs/guide/screens.md");
    fs::write(&path, page).map_err(|error| format!("{}: {error}", path.display()))?;
    eprintln!("xtask: wrote {}", path.display());
    Ok(())
}

fn build(workspace: &Path) -> Result<PathBuf> {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let built = Command::new(cargo).args(["build", "-p", "posthaste-cli"]).current_dir(workspace).status();
    match built {
        Ok(status) if status.success() => {
            let target = target_folder(workspace);
            Ok(target.join("debug/posthaste"))
        }
        _ => Err("the command could not be built".to_owned()),
    }
}

fn id_of(answer: &str) -> Result<String> {
    let answer: serde_json::Value = serde_json::from_str(answer).map_err(|error| error.to_string())?;
    answer["id"].as_str().map(str::to_owned).ok_or_else(|| "enqueue answered without an id".to_owned())
}

struct Scene<'f> {
    program: PathBuf,
    folder: &'f Path,
}

impl Scene<'_> {
    fn write(&self, name: &str, text: &str) -> Result<()> {
        fs::write(self.folder.join(name), text).map_err(|error| format!("{name}: {error}"))
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(args).current_dir(self.folder).env_clear().env("USER", "ada").stdin(Stdio::null());
        command
    }

    /// What a command prints, to both streams.
    fn run(&self, args: &[&str]) -> Result<String> {
        let output = self.command(args).output().map_err(|error| format!("{args:?}: {error}"))?;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(text(&output.stdout) + &text(&output.stderr))
    }

    fn show(&self, args: &[&str]) -> Result<String> {
        Ok(block(&args.join(" "), &self.run(args)?))
    }

    /// A relay for three seconds.
    fn relay(&self) -> Result<String> {
        let log = self.folder.join("relay.log");
        let file = fs::File::create(&log).map_err(|error| error.to_string())?;
        let mut command = guard::command(&self.program, Ending::Terminate, None, None);
        command.arg("relay").current_dir(self.folder).stderr(file);
        let relay = Guarded::start(command)?;
        thread::sleep(Duration::from_secs(3));
        drop(relay);
        let words = fs::read_to_string(&log).map_err(|error| error.to_string())?;
        Ok(block("relay", &words))
    }
}

fn block(command: &str, printed: &str) -> String {
    format!(
        "\n## posthaste {}\n\n```text\n$ posthaste {command}\n{}\n```\n",
        command.split(' ').next().unwrap_or(""),
        printed.trim_end()
    )
}
