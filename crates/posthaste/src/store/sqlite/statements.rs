//! The catalogue of SQL statements. One file each; fragments that several share are filled in here and nowhere else.

use std::sync::{Arc, LazyLock};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

macro_rules! catalogue {
    ($($name:ident),+ $(,)?) => {
        /// Every statement, with its fragments filled in.
        #[derive(Debug)]
        pub(crate) struct Statements {
            $(pub(crate) $name: SqlStr),+
        }

        impl Statements {
            fn compile() -> Self {
                Self { $($name: fill(include_str!(concat!("sql/", stringify!($name), ".sql")))),+ }
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
    enqueue,
    reserve_dedupe_key,
    dedupe_lookup,
    declared,
    insert_subscription,
    update_subscription,
    reader,
    filter,
    insert_filter,
    enforce_filter,
    insert_lanes,
    stop_lanes,
    record_lanes,
    newest_generation,
    open_lane,
    last_seq,
    seq_at_time,
    event_by_id,
    progress,
    look,
    page,
    insert_batch,
    free_lane,
    claim_lane,
    take_over_batches,
    expired_batch,
    reclaim_batch,
    finish_batch,
    hold_batch,
    finish_lane,
    release_lane,
    release_lane_batches,
    blocked_keys,
    insert_deliveries,
    expire_deliveries,
    bury_exhausted,
    claim_deliveries,
    claimed_deliveries,
    delete_deliveries,
    update_deliveries,
    promote_keys,
    renew_lanes,
    renew_batches,
    renew_deliveries,
    announce_worker,
    forget_workers,
    count_workers,
    next_due,
}

/// No name is ever filled in, so one copy serves every database.
pub(crate) static SQL: LazyLock<Statements> = LazyLock::new(Statements::compile);

/// Fragments, outer ones first: `free` contains `now`.
const FRAGMENTS: &[(&str, &str)] = &[
    ("{free}", include_str!("sql/fragments/free.sql")),
    ("{columns}", include_str!("sql/fragments/columns.sql")),
    ("{wanted}", include_str!("sql/fragments/wanted.sql")),
    ("{at}", include_str!("sql/fragments/at.sql")),
    ("{now}", include_str!("sql/fragments/now.sql")),
];

fn fill(text: &str) -> SqlStr {
    let filled =
        FRAGMENTS.iter().fold(text.to_owned(), |text, (name, fragment)| text.replace(name, fragment.trim()));
    AssertSqlSafe(Arc::<str>::from(filled)).into_sql_str()
}
