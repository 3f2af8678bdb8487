//! The rows of the scorecard, in the order in which they run. Each brings one kind of fault.

mod order;
mod relays;
mod writers;
mod connections;
mod waking;
mod held;
mod server;
mod network;
mod access;
mod outage;
mod brokers;
mod answers;
mod turns;
mod poison;
mod webhooks;
mod inputs;
mod fences;
mod clocks;
mod versions;
pub(crate) mod sqlite;

use futures::future::BoxFuture;

use crate::finding::{Finding, Result};
use crate::stage::Stage;

/// One row.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// Its numbers in the list of faults that the field knows.
    pub(crate) numbers: &'static str,
    pub(crate) about: &'static str,
    pub(crate) run: for<'a> fn(&'a Stage) -> BoxFuture<'a, Result<Vec<Finding>>>,
}

macro_rules! rows {
    ($($name:literal $numbers:literal $about:literal $run:path;)+) => {
        /// All rows.
        pub(crate) const ROWS: &[Row] = &[$(Row {
            name: $name,
            numbers: $numbers,
            about: $about,
            run: |stage| Box::pin($run(stage)),
        }),+];
    };
}

rows! {
    "commit-order" "1" "transactions that commit in another order than they began" order::commit_order;
    "hot-keys" "2" "many writers of few keys" order::hot_keys;
    "kill" "3" "kill -9 of relays in the middle of their batches" relays::kill;
    "stop" "5" "SIGSTOP of a relay for three leases" relays::stop;
    "rolling" "29" "rolling restarts by SIGTERM" relays::rolling;
    "writers-killed" "8" "kill -9 of writers in their transactions" writers::killed;
    "sessions-ended" "9" "every session of the relays ended by the server, again and again" connections::ended;
    "wake-ups" "14" "wake-ups that do not come" waking::lost;
    "open-transactions" "16, 17" "transactions that others leave open" held::open_transactions;
    "crash" "10" "PostgreSQL crashes and is started again" server::crash;
    "silence" "11" "a silent cut of the network to PostgreSQL" network::silence;
    "network" "11" "connections to PostgreSQL that break in every other way" network::broken;
    "promotion" "12" "promotion of an asynchronous replica that lacks the last commits" server::promotion;
    "restore" "13" "dump and restore into a new cluster" server::restore;
    "pooler" "19" "a pooler in transaction mode" network::pooler;
    "disk" "30" "a full disk" server::disk_full;
    "access" "31" "passwords that are changed, certificates that prove nothing" access::refused;
    "brokers-killed" "20" "kill -9 of brokers, again and again" brokers::killed;
    "receiver-away" "21" "a receiver that is away for long" outage::away;
    "answers-lost" "22" "acknowledgements that are lost" answers::dropped;
    "partial" "23" "pages that are accepted in part" answers::partial;
    "first-attempts" "24" "first attempts that fail" poison::first_attempts;
    "poison" "25" "a key and events that are always refused" poison::poison;
    "oversize" "26" "events that are too large for their receiver" answers::oversize;
    "unroutable" "27" "destinations that are not there, and every answer of webhooks" answers::unroutable;
    "inside" "34" "webhooks that point to the relay's own network" webhooks::inside;
    "signatures" "35" "forged and repeated webhooks" webhooks::signatures;
    "failpoints" "4" "kill at each step between claim and settle" fences::failpoints;
    "claimed-again" "6" "claims that outlive their lease" fences::claimed_again;
    "clocks" "7" "the clocks of the application and of the database differ, and step" clocks::steps;
    "payloads" "28" "hostile events" inputs::payloads;
    "retention" "32" "retention beside readers that are paused, slow, new, or failing" inputs::retention;
    "names" "33" "hostile names and requests" inputs::names;
    "versions" "39" "program and tables of different versions" versions::versions;
    "model" "41" "the model, and broken variants of it" fences::model;
    "sqlite" "43" "SQLite: killed processes and busy writers" sqlite::kill;
}
