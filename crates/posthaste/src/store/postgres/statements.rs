//! The catalogue of SQL statements. One file each; this is the only place that puts a name into a statement.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::id::SchemaName;

macro_rules! catalogue {
    ($($name:ident = $file:literal),+ $(,)?) => {
        /// Every statement, with the schema's name filled in.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: SqlStr),+
        }

        impl Statements {
            pub(crate) fn compile(schema: &SchemaName) -> Self {
                Self { $($name: fill(include_str!(concat!("sql/", $file)), schema)),+ }
            }

            #[cfg(test)]
            /// Name and text of each, for tests that prepare and explain them.
            pub(crate) fn all(&self) -> Vec<(&'static str, &str)> {
                vec![$((stringify!($name), self.$name.as_str())),+]
            }
        }
    };
}

catalogue! {
    enqueue_one = "enqueue_one.sql",
    enqueue_many = "enqueue_many.sql",
    enqueue_deduped = "enqueue_deduped.sql",
    dedupe_lookup = "dedupe_lookup.sql",
    dedupe_renew = "dedupe_renew.sql",
    declare = "declare.sql",
    reader = "reader.sql",
    insert_mark = "insert_mark.sql",
    filter = "filter.sql",
    insert_filter = "insert_filter.sql",
    load_mark = "load_mark.sql",
    open_lane = "open_lane.sql",
    insert_lanes = "insert_lanes.sql",
    stop_lanes = "stop_lanes.sql",
    lock_batches = "lock_batches.sql",
    lock_lanes = "lock_lanes.sql",
    newest_batches = "newest_batches.sql",
    lane_owned = "lane_owned.sql",
    take_mark = "take_mark.sql",
    progress = "progress.sql",
    look = "look.sql",
    look_far = "look_far.sql",
    page = "page.sql",
    page_far = "page_far.sql",
    insert_batch_owned = "insert_batch_owned.sql",
    insert_batch_free = "insert_batch_free.sql",
    free_lane = "free_lane.sql",
    claim_lane = "claim_lane.sql",
    take_over_batches = "take_over_batches.sql",
    expired_batch = "expired_batch.sql",
    reclaim_batch = "reclaim_batch.sql",
    finish_batch = "finish_batch.sql",
    hold_batch = "hold_batch.sql",
    finish_lane = "finish_lane.sql",
    release_lane = "release_lane.sql",
    lock_subscription = "lock_subscription.sql",
    blocked_keys = "blocked_keys.sql",
    insert_deliveries = "insert_deliveries.sql",
    expire_deliveries = "expire_deliveries.sql",
    bury_exhausted = "bury_exhausted.sql",
    claim_deliveries = "claim_deliveries.sql",
    delete_deliveries = "delete_deliveries.sql",
    update_deliveries = "update_deliveries.sql",
    promote_keys = "promote_keys.sql",
    renew = "renew.sql",
    announce_worker = "announce_worker.sql",
    next_due = "next_due.sql",
    put_up_sign = "put_up_sign.sql",
    ring = "ring.sql",
    newest_xid = "newest_xid.sql",
    all_ended = "all_ended.sql",
    event_by_id = "event_by_id.sql",
    seq_at_time = "seq_at_time.sql",
}

/// Fragments that several statements share, so that they cannot drift apart.
const COLUMNS: &str = include_str!("sql/fragments/columns.sql");
const WANTED: &str = include_str!("sql/fragments/wanted.sql");

fn fill(text: &str, schema: &SchemaName) -> SqlStr {
    let text = text.replace("{columns}", COLUMNS.trim()).replace("{wanted}", WANTED.trim());
    AssertSqlSafe(text.replace("{schema}", schema.as_str())).into_sql_str()
}
