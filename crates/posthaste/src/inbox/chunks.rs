//! Removing many rows with short statements: nobody waits for a lock for long.

use crate::error::Result;

/// Rows that go with one statement.
const CHUNK: i64 = 1000;

/// Calls `remove` with how many rows may go, until fewer went. Returns how many went in all.
pub(super) async fn in_chunks<R>(remove: impl Fn(i64) -> R) -> Result<u64>
where
    R: Future<Output = Result<u64>>,
{
    let mut gone = 0;
    loop {
        let removed = remove(CHUNK).await?;
        gone += removed;
        if removed < CHUNK.unsigned_abs() {
            return Ok(gone);
        }
    }
}
