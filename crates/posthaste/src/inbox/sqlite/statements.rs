//! The catalogue of the inbox's SQL statements. One file each; this is the only place that fills anything in.

use std::sync::{Arc, LazyLock};

use sqlx::{AssertSqlSafe, SqlSafeStr, SqlStr};

/// The database's clock, in microseconds.
const NOW: &str = "cast(unixepoch('subsec') * 1000000 as integer)";

macro_rules! catalogue {
    ($($name:ident = $file:literal),+ $(,)?) => {
        /// Every statement, with the clock filled in.
        #[derive(Debug)]
        pub(super) struct Statements {
            $(pub(super) $name: SqlStr),+
        }

        impl Statements {
            fn compile() -> Self {
                Self { $($name: fill(include_str!(concat!("sql/", $file)))),+ }
            }

            #[cfg(test)]
            /// Name and text of each, for tests that prepare and explain them.
            pub(super) fn all(&self) -> Vec<(&'static str, &str)> {
                vec![$((stringify!($name), self.$name.as_str())),+]
            }
        }
    };
}

catalogue! {
    mark = "mark.sql",
    is_marked = "is_marked.sql",
    forget = "forget.sql",
    clean_marks = "clean_marks.sql",
    clean_letters = "clean_letters.sql",
    give_up = "give_up.sql",
    list_letters = "list_letters.sql",
    get_letter = "get_letter.sql",
    discard_letter = "discard_letter.sql",
    lock_letter = "lock_letter.sql",
    resent_letter = "resent_letter.sql",
    let_in = "let_in.sql",
    note_resent = "note_resent.sql",
    holds_letter = "holds_letter.sql",
}

/// No name is ever filled in, so one copy serves every database.
pub(super) static SQL: LazyLock<Statements> = LazyLock::new(Statements::compile);

fn fill(text: &str) -> SqlStr {
    AssertSqlSafe(Arc::<str>::from(text.replace("{now}", NOW))).into_sql_str()
}
