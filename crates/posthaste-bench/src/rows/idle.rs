//! A relay with nothing to do: its memory, and how often it asks.

use std::path::Path;
use std::time::Duration;

use tokio::process::Command;

use crate::bench::Bench;
use crate::cluster::{forget_statements, statements};
use crate::measure::{Figure, Result, Role};
use crate::ours;

const SUBSCRIPTIONS: usize = 10;
const DATABASE: &str = "idle";

/// Long enough for whoever asks every 15 seconds to be seen.
const WATCHED: Duration = Duration::from_secs(30);

pub(crate) async fn idle(bench: &Bench) -> Result<Vec<Figure>> {
    let memory = Figure::counted(
        "idle memory",
        format!("Memory of an idle relay with {SUBSCRIPTIONS} subscriptions"),
        "MiB",
    );
    let mut memory = memory.demand("posthaste relay", None, 40.0);
    let asks = Figure::counted("idle statements", "Statements of an idle relay per subscription", "1/s");
    let mut asks = asks.demand("posthaste relay", None, 2.0);
    let Some(program) = &bench.relay else {
        memory.skip("posthaste relay", "no --relay program was given".to_owned());
        return Ok(vec![memory]);
    };
    let (pool, _) = ours::create(&bench.cluster, DATABASE).await?;
    let folder = tempfile::tempdir()?;
    let config = folder.path().join("posthaste.toml");
    std::fs::write(&config, configuration(&bench.cluster.url_of(DATABASE)?, folder.path()))?;
    let mut relay = Command::new(program);
    relay.arg("relay").arg("--config").arg(&config).kill_on_drop(true);
    relay.stdout(std::process::Stdio::null()).stderr(std::process::Stdio::null());
    let mut relay = relay.spawn()?;
    tokio::time::sleep(Duration::from_secs(5)).await;
    for _ in 0..bench.rounds {
        forget_statements(&pool).await?;
        tokio::time::sleep(WATCHED).await;
        let calls = statements(&pool).await?.calls;
        asks.add("posthaste relay", Role::Ours, calls / WATCHED.as_secs_f64() / SUBSCRIPTIONS as f64);
        let process = relay.id().ok_or("the relay has ended")?;
        memory.add("posthaste relay", Role::Ours, resident(process)? as f64 / 1024.0);
    }
    relay.kill().await?;
    Ok(vec![memory, asks])
}

fn configuration(url: &str, folder: &Path) -> String {
    let mut text = format!("[database]\nurl = {url:?}\n[relay]\nlisten = \"off\"\n");
    for number in 0..SUBSCRIPTIONS {
        let file = folder.join(format!("{number}.jsonl"));
        text.push_str(&format!(
            "[subscriptions.s{number}]\ntopics = [\"orders\"]\nsink = {{ type = \"file\", path = {file:?} }}\n"
        ));
    }
    text
}

/// What the process has in memory now, in KiB.
fn resident(process: u32) -> Result<u64> {
    let status = std::fs::read_to_string(format!("/proc/{process}/status"))?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).ok_or("no VmRSS here")?;
    Ok(line.trim().trim_end_matches(" kB").parse()?)
}
