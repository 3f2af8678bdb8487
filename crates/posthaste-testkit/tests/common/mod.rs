//! What the tests of the kit share.

use std::panic::{AssertUnwindSafe, catch_unwind};

use posthaste_testkit::suite::Backend;
use posthaste_testkit::{Kit, SqliteDatabase, TestDatabase, servers};

/// The words of the panic.
pub(crate) fn complaint(asserts: impl FnOnce()) -> String {
    words(catch_unwind(AssertUnwindSafe(asserts)).expect_err("it must not pass"))
}

/// The words of a panic that was caught.
pub(crate) fn words(panic: Box<dyn std::any::Any + Send>) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).expect("a panic with words")
}

pub(crate) async fn postgres() -> Vec<TestDatabase> {
    let mut databases = Vec::new();
    for server in servers() {
        databases.push(TestDatabase::on(&server).await);
    }
    databases
}

pub(crate) fn kit(db: &impl Backend) -> Kit {
    Kit::of(db.posthaste())
}

pub(crate) async fn sqlite() -> SqliteDatabase {
    SqliteDatabase::new().await
}
