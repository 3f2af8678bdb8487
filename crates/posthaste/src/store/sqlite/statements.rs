//! The catalogue of SQL statements. One file each; fragments that several share are filled in here and nowhere else.

use std::sync::{Arc, LazyLock};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

macro_rules! catalogue {
    ($($(#[$cfg:meta])? $name:ident = $file:literal),+ $(,)?) => {
        /// Every statement, with its fragments filled in.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $($(#[$cfg])? pub(crate) $name: SqlStr),+
        }

        impl Statements {
            fn compile() -> Self {
                Self { $($(#[$cfg])? $name: fill(include_str!(concat!("sql/", $file)))),+ }
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
    enqueue = "enqueue.sql",
    reserve_dedupe_key = "reserve_dedupe_key.sql",
    dedupe_lookup = "dedupe_lookup.sql",
    declared = "declared.sql",
    insert_subscription = "insert_subscription.sql",
    update_subscription = "update_subscription.sql",
    reader = "reader.sql",
    readers = "readers.sql",
    filter = "filter.sql",
    insert_filter = "insert_filter.sql",
    enforce_filter = "enforce_filter.sql",
    insert_lanes = "insert_lanes.sql",
    stop_lanes = "stop_lanes.sql",
    record_lanes = "record_lanes.sql",
    newest_generation = "newest_generation.sql",
    open_lane = "open_lane.sql",
    last_seq = "last_seq.sql",
    seq_at_time = "seq_at_time.sql",
    event_by_id = "event_by_id.sql",
    progress = "progress.sql",
    look = "look.sql",
    page = "page.sql",
    page_plain = "page_plain.sql",
    payload = "payload.sql",
    insert_batch = "insert_batch.sql",
    free_lane = "free_lane.sql",
    claim_lane = "claim_lane.sql",
    take_over_batches = "take_over_batches.sql",
    expired_batch = "expired_batch.sql",
    reclaim_batch = "reclaim_batch.sql",
    finish_batch = "finish_batch.sql",
    hold_batch = "hold_batch.sql",
    record_batch = "record_batch.sql",
    finish_lane = "finish_lane.sql",
    release_lane = "release_lane.sql",
    release_lane_batches = "release_lane_batches.sql",
    blocked_keys = "blocked_keys.sql",
    insert_deliveries = "insert_deliveries.sql",
    expire_deliveries = "expire_deliveries.sql",
    bury_exhausted = "bury_exhausted.sql",
    claim_deliveries = "claim_deliveries.sql",
    claimed_deliveries = "claimed_deliveries.sql",
    delete_deliveries = "delete_deliveries.sql",
    update_deliveries = "update_deliveries.sql",
    promote_keys = "promote_keys.sql",
    renew_lanes = "renew_lanes.sql",
    renew_batches = "renew_batches.sql",
    renew_deliveries = "renew_deliveries.sql",
    announce_worker = "announce_worker.sql",
    forget_workers = "forget_workers.sql",
    count_workers = "count_workers.sql",
    dismiss_worker = "dismiss_worker.sql",
    release_heads = "release_heads.sql",
    release_parked = "release_parked.sql",
    next_due = "next_due.sql",
    admin_blocked_keys = "admin/blocked_keys.sql",
    admin_count_deliveries = "admin/count_deliveries.sql",
    admin_count_range = "admin/count_range.sql",
    admin_counts = "admin/counts.sql",
    admin_dead_of_key = "admin/dead_of_key.sql",
    admin_delete_subscription = "admin/delete_subscription.sql",
    admin_delivery_of = "admin/delivery_of.sql",
    admin_event_from = "admin/event_from.sql",
    admin_finish_batches = "admin/finish_batches.sql",
    admin_free_deliveries = "admin/free_deliveries.sql",
    admin_free_lanes = "admin/free_lanes.sql",
    admin_held_by_deliveries = "admin/held_by_deliveries.sql",
    admin_held_by_lanes = "admin/held_by_lanes.sql",
    admin_lanes = "admin/lanes.sql",
    admin_look_at_events = "admin/look_at_events.sql",
    admin_match_deliveries = "admin/match_deliveries.sql",
    admin_move_lane = "admin/move_lane.sql",
    admin_move_start = "admin/move_start.sql",
    admin_names = "admin/names.sql",
    admin_newest_span = "admin/newest_span.sql",
    admin_oldest_span = "admin/oldest_span.sql",
    admin_open_batches = "admin/open_batches.sql",
    admin_operations = "admin/operations.sql",
    admin_operations_on = "admin/operations_on.sql",
    admin_positions = "admin/positions.sql",
    admin_readings = "admin/readings.sql",
    admin_record = "admin/record.sql",
    admin_record_event = "admin/record_event.sql",
    admin_record_deliveries = "admin/record_deliveries.sql",
    admin_remove_deliveries = "admin/remove_deliveries.sql",
    admin_remove_events = "admin/remove_events.sql",
    admin_repark_keys = "admin/repark_keys.sql",
    admin_reset_steps = "admin/reset_steps.sql",
    admin_retain_batches = "admin/retain_batches.sql",
    admin_retain_dedupe_keys = "admin/retain_dedupe_keys.sql",
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
    testing_not_delivered = "testing/not_delivered.sql",
}

/// No name is ever filled in, so one copy serves every database.
pub(crate) static SQL: LazyLock<Statements> = LazyLock::new(Statements::compile);

/// Fragments, outer ones first: `free` contains `now`.
const FRAGMENTS: &[(&str, &str)] = &[
    ("{free}", include_str!("sql/fragments/free.sql")),
    ("{chosen}", include_str!("sql/fragments/chosen.sql")),
    ("{columns}", include_str!("sql/fragments/columns.sql")),
    ("{matching}", include_str!("sql/fragments/matching.sql")),
    ("{state}", include_str!("sql/fragments/state.sql")),
    ("{wanted}", include_str!("sql/fragments/wanted.sql")),
    ("{at}", include_str!("sql/fragments/at.sql")),
    ("{now}", include_str!("sql/fragments/now.sql")),
];

fn fill(text: &str) -> SqlStr {
    let filled =
        FRAGMENTS.iter().fold(text.to_owned(), |text, (name, fragment)| text.replace(name, fragment.trim()));
    AssertSqlSafe(Arc::<str>::from(filled)).into_sql_str()
}
