//! The catalogue of SQL statements. One file each; this is the only place that puts a name into a statement.

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

use crate::id::SchemaName;

macro_rules! catalogue {
    ($($(#[$cfg:meta])? $name:ident = $file:literal),+ $(,)?) => {
        /// Every statement, with the schema's name filled in.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(#[$cfg])? pub(crate) $name: SqlStr),+
        }

        impl Statements {
            pub(crate) fn compile(schema: &SchemaName) -> Self {
                Self { $($(#[$cfg])? $name: fill(include_str!(concat!("sql/", $file)), schema)),+ }
            }

            #[cfg(test)]
            /// Name and text of each, for tests that prepare and explain them.
            pub(crate) fn all(&self) -> Vec<(&'static str, &str)> {
                [$($(#[$cfg])? (stringify!($name), self.$name.as_str())),+].to_vec()
            }
        }
    };
}

catalogue! {
    enqueue_usual = "enqueue_usual.sql",
    enqueue_one = "enqueue_one.sql",
    enqueue_many = "enqueue_many.sql",
    enqueue_deduped = "enqueue_deduped.sql",
    dedupe_lookup = "dedupe_lookup.sql",
    dedupe_renew = "dedupe_renew.sql",
    declare = "declare.sql",
    reader = "reader.sql",
    readers = "readers.sql",
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
    page_plain = "page_plain.sql",
    page = "page.sql",
    page_far = "page_far.sql",
    claim_window = "claim_window.sql",
    insert_batch_owned = "insert_batch_owned.sql",
    insert_batch_free = "insert_batch_free.sql",
    free_lane = "free_lane.sql",
    claim_lane = "claim_lane.sql",
    take_over_batches = "take_over_batches.sql",
    held_batches = "held_batches.sql",
    release_heads = "release_heads.sql",
    expired_batch = "expired_batch.sql",
    reclaim_batch = "reclaim_batch.sql",
    finish_batch = "finish_batch.sql",
    hold_batch = "hold_batch.sql",
    record_batch = "record_batch.sql",
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
    dismiss_worker = "dismiss_worker.sql",
    release_parked = "release_parked.sql",
    next_due = "next_due.sql",
    put_up_sign = "put_up_sign.sql",
    ring = "ring.sql",
    newest_xid = "newest_xid.sql",
    last_seq = "last_seq.sql",
    all_ended = "all_ended.sql",
    event_by_id = "event_by_id.sql",
    seq_at_time = "seq_at_time.sql",
    stay_retention = "stay_retention.sql",
    lane_stands = "lane_stands.sql",
    admin_cluster_moved = "admin/cluster_moved.sql",
    admin_count_late = "admin/count_late.sql",
    admin_blocked_keys = "admin/blocked_keys.sql",
    admin_count_deliveries = "admin/count_deliveries.sql",
    admin_count_range = "admin/count_range.sql",
    admin_counts = "admin/counts.sql",
    admin_delete_subscription = "admin/delete_subscription.sql",
    admin_delivery_of = "admin/delivery_of.sql",
    admin_finish_batches = "admin/finish_batches.sql",
    admin_free_dead_of_key = "admin/free_dead_of_key.sql",
    admin_free_lanes = "admin/free_lanes.sql",
    admin_held_by_deliveries = "admin/held_by_deliveries.sql",
    admin_held_by_lanes = "admin/held_by_lanes.sql",
    admin_keep_cluster = "admin/keep_cluster.sql",
    admin_lanes = "admin/lanes.sql",
    admin_lock_meta = "admin/lock_meta.sql",
    admin_lock_open_batches = "admin/lock_open_batches.sql",
    admin_match_deliveries = "admin/match_deliveries.sql",
    admin_move_lane = "admin/move_lane.sql",
    admin_move_start = "admin/move_start.sql",
    admin_names = "admin/names.sql",
    admin_newest_span = "admin/newest_span.sql",
    admin_oldest_span = "admin/oldest_span.sql",
    admin_open_batches = "admin/open_batches.sql",
    admin_operations = "admin/operations.sql",
    admin_operations_on = "admin/operations_on.sql",
    admin_preview_events = "admin/preview_events.sql",
    admin_positions = "admin/positions.sql",
    admin_rebase_events = "admin/rebase_events.sql",
    admin_rebase_lanes = "admin/rebase_lanes.sql",
    admin_rebase_start = "admin/rebase_start.sql",
    admin_readings = "admin/readings.sql",
    admin_record = "admin/record.sql",
    admin_record_event = "admin/record_event.sql",
    admin_remove_deliveries = "admin/remove_deliveries.sql",
    admin_repark_keys = "admin/repark_keys.sql",
    admin_reset_steps = "admin/reset_steps.sql",
    admin_retain_batches = "admin/retain_batches.sql",
    admin_retain_dedupe_keys = "admin/retain_dedupe_keys.sql",
    admin_retain_events = "admin/retain_events.sql",
    admin_retain_marks = "admin/retain_marks.sql",
    admin_retain_operations = "admin/retain_operations.sql",
    admin_retention_bounds = "admin/retention_bounds.sql",
    admin_revive_deliveries = "admin/revive_deliveries.sql",
    admin_search = "admin/search.sql",
    admin_search_dead = "admin/search_dead.sql",
    admin_search_status = "admin/search_status.sql",
    admin_set_overrides = "admin/set_overrides.sql",
    admin_set_paused = "admin/set_paused.sql",
    admin_set_retained_to = "admin/set_retained_to.sql",
    admin_states_of = "admin/states_of.sql",
    admin_stored_settings = "admin/stored_settings.sql",
    admin_subscription = "admin/subscription.sql",
    admin_unseen_events = "admin/unseen_events.sql",
    admin_workers = "admin/workers.sql",
    #[cfg(feature = "testing")]
    testing_advance_batches = "testing/advance_batches.sql",
    #[cfg(feature = "testing")]
    testing_advance_dedupe_keys = "testing/advance_dedupe_keys.sql",
    #[cfg(feature = "testing")]
    testing_advance_deliveries = "testing/advance_deliveries.sql",
    #[cfg(feature = "testing")]
    testing_advance_events = "testing/advance_events.sql",
    #[cfg(feature = "testing")]
    testing_enqueued_since = "testing/enqueued_since.sql",
    #[cfg(feature = "testing")]
    testing_event_mark = "testing/event_mark.sql",
    #[cfg(feature = "testing")]
    testing_not_delivered = "testing/not_delivered.sql",
    #[cfg(feature = "testing")]
    testing_plan_quickly = "testing/plan_quickly.sql",
}

/// Fragments that several statements share, so that they cannot drift apart.
const COLUMNS: &str = include_str!("sql/fragments/columns.sql");
pub(super) const WANTED: &str = include_str!("sql/fragments/wanted.sql");
const MATCHING: &str = include_str!("sql/fragments/matching.sql");
const CHOSEN: &str = include_str!("sql/fragments/chosen.sql");

/// The most events of a page, as statements have it: no page may be asked for that is larger, or it would seem to be the last one.
pub(super) const MOST_EVENTS: i64 = 10_000;

fn fill(text: &str, schema: &SchemaName) -> SqlStr {
    let most = MOST_EVENTS.to_string();
    let fragments = [
        ("{columns}", COLUMNS),
        ("{wanted}", WANTED),
        ("{matching}", MATCHING),
        ("{chosen}", CHOSEN),
        ("{most}", &most),
    ];
    let text = fragments.iter().fold(text.to_owned(), |text, (name, part)| text.replace(name, part.trim()));
    AssertSqlSafe(text.replace("{schema}", schema.as_str())).into_sql_str()
}
